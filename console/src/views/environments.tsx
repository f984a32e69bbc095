/** Environments: kind, isolation, age, load. Beside every view, and a view of its own on a phone. */

import { age, bytes, line, now } from "../format";
import { Empty } from "../parts/basics";
import { Sparkline } from "../parts/sparkline";
import { href, route } from "../route";
import { environments, loads, nameOf, pending, running, tick } from "../state";
import type { Environment, Isolation } from "../types";

const WITH_ENVIRONMENT = ["timeline", "terminal", "processes", "files"];

export function Environments({ side = false }: { side?: boolean }) {
  const { view, environment: chosen } = route.value;
  const target = WITH_ENVIRONMENT.includes(view) ? view : "timeline";
  const list = environments.value;
  return (
    <div class={side ? "environments" : "view environments"}>
      {side ? <h2 class="side-title">Environments</h2> : <div class="head"><h1>Environments</h1></div>}
      <ul>
        <li>
          <a class="environment all" href={href(target)} aria-current={!chosen && side ? "true" : undefined}>
            <span>All environments</span> <span class="muted">{list.length}</span>
          </a>
        </li>
        {list.map((each) => (
          <li key={each.id}>
            <EnvironmentCard environment={each} target={target} side={side} />
          </li>
        ))}
      </ul>
      {list.length === 0 && (side ? <p class="side-note">Environments that agents open appear here.</p> : <NoEnvironments />)}
    </div>
  );
}

function EnvironmentCard({ environment: each, target, side }: { environment: Environment; target: string; side: boolean }) {
  const load = loads.value[each.id];
  const cpu = load?.cpu.at(-1);
  const memory = load?.memory.at(-1) ?? each.memory_bytes ?? each.rss;
  const asking = pending.value.some((approval) => approval.where?.environment === each.id);
  const runs = running.value.filter((process) => process.environment === each.id).length;
  const isWell = each.state === "alive" || each.state === "connecting";
  const state = !isWell ? each.state : each.held ? "held" : asking ? "asking" : each.state;
  tick.value; // the age moves on
  return (
    <a class="environment" href={href(target, each.id)} aria-current={side && each.id === route.value.environment ? "true" : undefined}>
      <span class={`dot ${state}`} title={STATES[state] ?? state} role="img" aria-label={STATES[state] ?? state} />
      <span class="environment-name">{nameOf(each)}</span>
      <span class="kind">{each.kind}</span>
      {isWell ? (
        <span class="environment-facts">
          <span title={isolationText(each.isolation)}>{isolationWord(each.isolation)}</span>
          <span>{age(now() - each.created)}</span>
          <span>{runs > 0 ? `${runs} running` : "idle"}</span>
        </span>
      ) : (
        <span class="environment-facts bad" title={line(each.problem ?? "", 400)}>{STATES[each.state] ?? each.state}</span>
      )}
      {!isWell && !side && each.problem && <span class="environment-problem muted">{line(each.problem, 400)}</span>}
      <span class="environment-load">
        <Sparkline values={load?.cpu ?? []} top={1} label={`CPU ${percent(cpu)}`} />
        <span class="figure">{percent(cpu)}</span>
        <Sparkline values={load?.memory ?? []} label={`Memory ${memory ? bytes(memory) : "unknown"}`} />
        <span class="figure">{memory ? bytes(memory) : "–"}</span>
      </span>
    </a>
  );
}

const STATES: Record<string, string> = {
  alive: "Running", connecting: "Is being reached", held: "Stopped by a person", asking: "Waits for an approval",
  stalled: "Does not answer", broken: "Cannot be reached", full: "Has too many clients", busy: "Cannot be reached now", damaged: "Its record is damaged", gone: "Gone",
};
const percent = (share: number | undefined) => (share === undefined ? "–" : `${Math.round(share * 100)} %`);

/** One word for the whole; the title has the parts. */
function isolationWord(isolation: Isolation | null | undefined): string {
  if (!isolation) return "isolation unknown";
  const parts = [isolation.separate_files, isolation.separate_processes, isolation.separate_user, isolation.separate_network].filter(Boolean).length;
  return parts === 0 ? "not isolated" : parts === 4 ? "isolated" : `${parts} of 4 isolated`;
}

export function isolationText(isolation: Isolation | null | undefined): string {
  if (!isolation) return "";
  const words: [boolean | undefined, string][] = [
    [isolation.separate_files, "files"],
    [isolation.separate_processes, "processes"],
    [isolation.separate_user, "user"],
    [isolation.separate_network, "network"],
  ];
  const names = (wanted: boolean) => words.filter(([has]) => !!has === wanted).map(([, name]) => name).join(", ");
  return [names(true) && `Separate: ${names(true)}.`, names(false) && `Shared: ${names(false)}.`, ...(isolation.notes ?? [])].filter(Boolean).join(" ");
}

export function NoEnvironments() {
  return (
    <Empty icon="environments" title="No environment is open">
      <p>An environment is where an agent's commands run: this machine, a sandbox, a container, a host over ssh. Open one:</p>
      <pre class="sample">hermetic run --task demo -- pwd</pre>
    </Empty>
  );
}
