/** Terminals: the open ones as tabs, one of them live, and a way to open another. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { at, get, post, problemOf, type Problem } from "../api";
import { line } from "../format";
import { Empty, Failure, Outcome } from "../parts/basics";
import { Icon } from "../parts/icons";
import { failed } from "../parts/toast";
import { go, href, route } from "../route";
import { can, changed, environment, environments, nameOf } from "../state";
import type { Process } from "../types";
import { Pane } from "./pane";

const GUESS = { rows: 40, cols: 120 }; // until the screen is measured; the driver's size follows at once

let started: Process | null = null; // by this page a moment ago: it is shown without asking for it again

export async function openTerminal(id: string): Promise<void> {
  try {
    started = { ...(await post<Process>(at`/environments/${id}/terminals`, GUESS)), environment: id };
    go("terminal", id, started.id);
  } catch (error) {
    failed(error);
  }
}

export function Terminals() {
  const { environment: chosen, id } = route.value;
  const list = useTerminals();
  const [process, problem, again] = useProcess(chosen, id);
  return (
    <div class="view terminals">
      <h1 class="unseen">Terminals</h1>
      <div class="tabstrip">
        <nav aria-label="Open terminals">
          {list.map((each) => (
            <a key={each.id} href={href("terminal", each.environment, each.id)} aria-current={each.id === id ? "page" : undefined}>
              <Outcome process={each} />
              <span class="mono">{line(each.command, 40) || "shell"}</span>
              <span class="muted">{nameOf(environment(each.environment), each.environment)}</span>
            </a>
          ))}
        </nav>
        {can("drive") && (list.length > 0 || id) && <NewTerminal />}
      </div>
      {problem && <Failure problem={problem} again={again} />}
      {process && <Pane key={`${process.environment}/${process.id}`} process={process} />}
      {!process && !problem && !id && <NoTerminal />}
    </div>
  );
}

function NoTerminal() {
  return (
    <Empty icon="terminal" title="No terminal is open here">
      <p>A terminal is a shell of your own in an environment, beside the agent's. You can also open any running command in the timeline, watch it, and take over.</p>
      {can("drive") ? <NewTerminal large /> : <p>This link may watch only.</p>}
    </Empty>
  );
}

function NewTerminal({ large = false }: { large?: boolean }) {
  const target = route.value.environment || environments.value[0]?.id;
  const choice = useSignal("");
  const list = environments.value;
  const open = () => void openTerminal(choice.value || target || "");
  if (list.length === 0) return large ? <p>First an environment has to be open: <code>hermetic shell --task demo</code>, or any agent that uses Hermetic.</p> : null;
  return (
    <div class="new-terminal">
      {list.length > 1 && (
        <select aria-label="Environment of the new terminal" value={choice.value || target} onChange={(event) => (choice.value = event.currentTarget.value)}>
          {list.map((each) => (
            <option key={each.id} value={each.id}>{`${nameOf(each)} · ${each.kind}`}</option>
          ))}
        </select>
      )}
      <button type="button" class={large ? "primary" : ""} onClick={open}>
        <Icon name="plus" /> New terminal
      </button>
    </div>
  );
}

function useTerminals(): Process[] {
  const [list, setList] = useState<Process[]>([]);
  const version = changed.value;
  useEffect(() => {
    let gone = false;
    get<{ terminals: Process[] }>("/terminals").then(({ terminals }) => gone || setList(terminals), () => {});
    return () => void (gone = true);
  }, [version]);
  return list;
}

/** One process by its id. */
export function useProcess(chosen: string, id: string): [Process | null, Problem | null, () => void] {
  const [process, setProcess] = useState<Process | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [attempt, setAttempt] = useState(0);
  useLayoutEffect(() => {
    let gone = false;
    const known = started?.id === id && started.environment === chosen ? started : null;
    if (known) started = null;
    setProcess((before) => known ?? (before?.id === id && before.environment === chosen ? before : null));
    setProblem(null);
    if (chosen && id && !known) {
      get<Process>(at`/environments/${chosen}/processes/${id}`).then(
        (found) => gone || setProcess({ ...found, environment: chosen }),
        (error) => gone || setProblem(problemOf(error)),
      );
    }
    return () => void (gone = true);
  }, [chosen, id, attempt]);
  return [process, problem, () => setAttempt(attempt + 1)];
}
