/** Processes of an environment, or of all: what runs, its ports and its tree, and how to end it. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, get, post, problemOf, type Problem } from "../api";
import { age, bytes, ended, line, now } from "../format";
import { Empty, Failure, Of, Outcome, Ports, Waiting } from "../parts/basics";
import { failed, toast } from "../parts/toast";
import { go, href, route } from "../route";
import { can, changed, environment, environments, nameOf, tick } from "../state";
import type { Process, TreeNode } from "../types";
import { Pane } from "./pane";
import { useProcess } from "./terminals";

export function Processes() {
  const { environment: chosen, id, options } = route.value;
  const all = options.get("all") === "1";
  const list = useSignal<Process[] | null>(null);
  const problem = useSignal<Problem | null>(null);
  const version = changed.value;
  useEffect(() => {
    let gone = false;
    const ids = chosen ? [chosen] : environments.value.map((each) => each.id);
    void Promise.allSettled(ids.map((each) => readProcesses(each, all))).then((lists) => {
      if (gone) return;
      const refused = lists.find((each) => each.status === "rejected");
      problem.value = refused ? problemOf(refused.reason) : null;
      const found = lists.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
      list.value = found.sort((a, b) => Number(b.state === "running") - Number(a.state === "running") || b.started - a.started);
    });
    return () => void (gone = true);
  }, [chosen, all, version]);
  return (
    <div class={id ? "view processes with-detail" : "view processes"}>
      <div class="head">
        <h1>Processes {chosen && <Of id={chosen} />}</h1>
        <nav class="filters" aria-label="Filter">
          <a href={href("processes", chosen)} aria-current={all ? undefined : "true"}>Running</a>
          <a href={href("processes", chosen, "", { all: "1" })} aria-current={all ? "true" : undefined}>With ended</a>
        </nav>
      </div>
      {problem.value && <Failure problem={problem.value} />}
      {list.value === null && !problem.value && <Waiting />}
      {list.value?.length === 0 && !problem.value && (
        <Empty icon="processes" title="Nothing runs right now">
          <p>Servers, watchers and other background processes that agents start appear here, with their ports. <a href={href("processes", chosen, "", { all: "1" })}>Show ended ones</a></p>
        </Empty>
      )}
      {list.value && list.value.length > 0 && <Table list={list.value} all={all} id={id} mixed={!chosen} />}
      {id && !problem.value && <Detail key={id} />}
    </div>
  );
}

async function readProcesses(id: string, all: boolean): Promise<Process[]> {
  const found = await get<{ processes: Process[] }>(at`/environments/${id}/processes` + (all ? "?all=1" : ""));
  return found.processes.map((process) => ({ ...process, environment: id })).filter((process) => all || process.state === "running" || (process.left ?? 0) > 0);
}

function Table({ list, all, id, mixed }: { list: Process[]; all: boolean; id: string; mixed: boolean }) {
  tick.value;
  return (
    <table class="table">
      <thead>
        <tr>
          <th scope="col"><span class="unseen">State</span></th>
          <th scope="col">Command</th>
          {mixed && <th scope="col" class="wide">Environment</th>}
          <th scope="col">Ports</th>
          <th scope="col" class="wide">pid</th>
          <th scope="col" class="number wide">Output</th>
          <th scope="col" class="number">Age</th>
        </tr>
      </thead>
      <tbody>
        {list.map((process) => (
          <tr key={`${process.environment}/${process.id}`} class={process.id === id ? "chosen" : ""}>
            <td><Outcome process={process} /></td>
            <td class="grow"><a class="mono clip" href={href("processes", process.environment, process.id, all ? { all: "1" } : {})}>{line(process.command, 300) || "shell"}</a></td>
            {mixed && <td class="wide">{nameOf(environment(process.environment), process.environment)}</td>}
            <td><Ports process={process} /></td>
            <td class="wide mono">{process.pid ?? ""}</td>
            <td class="number wide">{bytes(process.out)}</td>
            <td class="number">{process.state === "running" ? age(now() - process.started) : ended(process.ending)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Detail() {
  const { environment: chosen, id } = route.value;
  const [process, problem, again] = useProcess(chosen, id);
  if (problem) return <Failure problem={problem} again={again} />;
  if (!process) return <Waiting rows={2} />;
  const base = at`/environments/${chosen}/processes/${id}`;
  const kill = () => post(`${base}/kill`, {}).then(() => toast({ text: "Ended with all its processes" }), failed);
  const signal = (name: string) => post(`${base}/signal`, { signal: name }).then(() => toast({ text: `${name} sent` }), failed);
  return (
    <section class="detail" aria-label="Process">
      <div class="detail-head">
        <span class="muted"><Ports process={process} /> in <code>{line(process.cwd, 200)}</code> · session {process.session || "main"}{process.left ? ` · left ${process.left} processes running` : ""}</span>
        {can("drive") && process.state === "running" && (
          <div class="tools">
            <button type="button" onClick={() => signal("SIGINT")}>Interrupt</button>
            <button type="button" class="danger" onClick={kill}>End</button>
          </div>
        )}
        <button type="button" class="quiet" onClick={() => go("processes", chosen)}>Close</button>
      </div>
      {process.tree && process.tree.length > 1 && <Tree nodes={process.tree} />}
      <Pane process={process} compact />
    </section>
  );
}

function Tree({ nodes }: { nodes: TreeNode[] }) {
  const depth = (node: TreeNode, steps = 0): number => {
    const parent = nodes.find((each) => each.pid === node.parent && each !== node);
    return parent && steps < 20 ? depth(parent, steps + 1) + 1 : 0;
  };
  return (
    <ul class="tree" aria-label="Process tree">
      {nodes.map((node) => (
        <li key={node.pid} style={{ paddingLeft: `${depth(node) * 16}px` }}>
          <span class="muted mono">{node.pid}</span> <span class="mono clip">{line(node.command, 300)}</span> <span class="muted">{node.rss ? bytes(node.rss) : ""}</span>
        </li>
      ))}
    </ul>
  );
}
