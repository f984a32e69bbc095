/** What needs a person now: questions, what runs. Beside the view on wide screens. */

import { age, line, now } from "../format";
import { Outcome, Ports } from "../parts/basics";
import { href, route } from "../route";
import { approvals, environment, nameOf, running, tick } from "../state";
import { ApprovalCard } from "./approvals";

const SHOWN = 12;

export function Now() {
  const { view, environment: chosen } = route.value;
  if (view === "approvals") return null;
  const processes = running.value.filter((process) => !chosen || process.environment === chosen).sort((a, b) => b.started - a.started);
  tick.value;
  return (
    <aside class="now" aria-label="Now">
      <h2 class="side-title">Needs you</h2>
      {approvals.value.length === 0 && <p class="side-note">Nothing waits for an answer. When an agent wants to run something dangerous, the question appears here.</p>}
      {approvals.value.map((approval) => <ApprovalCard key={approval.id} approval={approval} small />)}
      <h2 class="side-title">Running</h2>
      {processes.length === 0 && <p class="side-note">Nothing runs right now.</p>}
      <ul class="running">
        {processes.slice(0, SHOWN).map((process) => (
          <li key={`${process.environment}/${process.id}`}>
            <a href={href("terminal", process.environment, process.id)}>
              <Outcome process={process} />
              <span class="mono clip">{line(process.command, 120) || "shell"}</span>
              <Ports process={process} />
              <span class="muted age">{age(now() - process.started)}</span>
              {!chosen && <span class="muted clip">{nameOf(environment(process.environment), process.environment)}</span>}
            </a>
          </li>
        ))}
      </ul>
    </aside>
  );
}
