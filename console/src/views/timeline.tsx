/** Every command as a block: who ran it, how it ended, how long it took, its output on demand. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, get, post, problemOf, type Problem } from "../api";
import { clock, day, outcome } from "../format";
import { useViewKeys } from "../keys";
import { Empty, Failure, Key, Waiting } from "../parts/basics";
import { failed } from "../parts/toast";
import { Unanswered } from "../parts/unanswered";
import { href, route } from "../route";
import { can, changed, environment, lastChange, nameOf } from "../state";
import type { Block } from "../types";
import { BlockRow } from "./block";
import { useProcess } from "./terminals";

const PAGE = 50;
const REPEATS = 3; // of one command are shown as one
const PAUSE = 400; // between two looks at the newest page, ms
const keyOf = (block: Block) => `${block.environment}/${block.id}`;

/** Newest first; older pages on demand; the newest page is read again after changes, not more often than PAUSE. */
function useBlocks(chosen: string, state: string) {
  const blocks = useSignal<Block[] | null>(null);
  const unanswered = useSignal<string[]>([]); // environments whose commands are missing
  const problem = useSignal<Problem | null>(null);
  const more = useSignal(false);
  const timer = useRef(0);
  const reads = useRef({ list: 0, last: 0, shown: 0 }); // numbers of lists and reads: answers may overtake each other
  const seen = useRef(changed.value);
  const path = (before?: number) => `/timeline?limit=${PAGE}` + (chosen && at`&environment=${chosen}`) + (state && at`&state=${state}`) + (before ? `&before=${before}` : "");

  const read = async (before?: number) => {
    const { list } = reads.current;
    const number = ++reads.current.last;
    const isLate = () => list !== reads.current.list || (!before && number < reads.current.shown);
    try {
      const found = await get<{ blocks: Block[]; unanswered?: string[] }>(path(before));
      if (isLate()) return;
      if (!before) reads.current.shown = number;
      const page = found.blocks;
      const known = new Set(page.map(keyOf));
      const others = (blocks.value ?? []).filter((block) => !known.has(keyOf(block)));
      const fits = (block: Block) => !state || block.state === "running" || state !== "running";
      blocks.value = [...page, ...others.filter(fits)].sort((a, b) => b.started - a.started);
      unanswered.value = found.unanswered ?? [];
      if (before || others.length === 0) more.value = page.length === PAGE;
      problem.value = null;
    } catch (error) {
      if (!isLate()) problem.value = problemOf(error);
    }
  };

  useEffect(() => {
    blocks.value = null;
    problem.value = null;
    void read();
    return () => {
      clearTimeout(timer.current);
      timer.current = 0;
      reads.current.list++;
    };
  }, [chosen, state]);

  const version = changed.value;
  useEffect(() => {
    if (version === seen.current || timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      seen.current = changed.value;
      void read();
    }, PAUSE);
  }, [version, chosen, state]);

  useEffect(() => lastChange.subscribe((event) => event && blocks.value && merge(event.environment, event.process)), []);
  const merge = (where: string, process: Block) => {
    blocks.value = (blocks.value ?? []).map((block) => (block.id === process.id && block.environment === where ? { ...block, ...process, environment: where } : block));
  };
  return { blocks, unanswered, problem, more, read };
}

const FILTERS: [string, string][] = [["", "All"], ["running", "Running"], ["failed", "Failed"]];

export function Timeline() {
  const { environment: chosen, id, options } = route.value;
  const state = options.get("state") ?? "";
  const { blocks, unanswered, problem, more, read } = useBlocks(chosen, state);
  const list = blocks.value;
  useViewKeys(walk);
  return (
    <div class="view timeline">
      <div class="head">
        <h1>{chosen ? nameOf(environment(chosen), chosen) : "All environments"}</h1>
        <nav class="filters" aria-label="Filter">
          {FILTERS.map(([value, label]) => (
            <a key={value} href={href("timeline", chosen, "", { state: value })} aria-current={value === state ? "true" : undefined}>
              {label}
            </a>
          ))}
        </nav>
      </div>
      {chosen && can("drive") && environment(chosen) && <RunLine id={chosen} />}
      {problem.value && <Failure problem={problem.value} again={() => void read()} />}
      {list === null && !problem.value && <Waiting />}
      {list && unanswered.value.length > 0 && <Unanswered ids={unanswered.value}>The commands appear here as soon as</Unanswered>}
      {list?.length === 0 && unanswered.value.length === 0 && <NoBlocks state={state} />}
      {list && id && !list.some((block) => block.id === id) && <Linked environment={chosen} id={id} />}
      <Blocks list={list ?? []} open={id} mixed={!chosen} />
      {more.value && (
        <p class="more">
          <button type="button" onClick={() => void read(list?.at(-1)?.started)}>
            Older commands
          </button>
        </p>
      )}
    </div>
  );
}

const NOT_KEPT = { message: "The linked command is not kept any more.", advice: "Search for its text, or choose another one below." };

/** The command of a link that is older than the newest page. */
function Linked({ environment: chosen, id }: { environment: string; id: string }) {
  const [found, trouble] = useProcess(chosen, id);
  if (trouble) return <Failure problem={trouble.status === 404 ? NOT_KEPT : trouble} />;
  if (!found) return <Waiting rows={1} />;
  return (
    <section class="linked" aria-label="Linked command">
      <h2 class="day">Linked command</h2>
      <BlockRow block={found} open mixed={false} />
    </section>
  );
}

function Blocks({ list, open, mixed }: { list: Block[]; open: string; mixed: boolean }) {
  const unfolded = useSignal<string[]>([]); // repeats, by their oldest block, which stays the same
  let last = "";
  return (
    <ol class="blocks">
      {repeats(list).map((run) => {
        const [newest, oldest] = [run[0] as Block, run.at(-1) as Block];
        const today = day(newest.started);
        const first = today !== last;
        last = today;
        const folded = run.length >= REPEATS && !unfolded.value.includes(keyOf(oldest)) && !run.some((block) => block.id === open);
        return (
          <li key={keyOf(oldest)}>
            {first && <h2 class="day">{today}</h2>}
            {(folded ? [newest] : run).map((block) => <BlockRow key={keyOf(block)} block={block} open={block.id === open} mixed={mixed} />)}
            {folded && (
              <button type="button" class="repeats" onClick={() => (unfolded.value = [...unfolded.value, keyOf(oldest)])}>
                {run.length - 1} more of the same, since {clock(oldest.started)}
              </button>
            )}
          </li>
        );
      })}
    </ol>
  );
}

/** The list in runs of the same command that succeeded again and again; everything else alone. */
function repeats(list: Block[]): Block[][] {
  const runs: Block[][] = [];
  for (const block of list) {
    const before = runs.at(-1)?.[0];
    if (before && isRepeat(before, block)) runs.at(-1)?.push(block);
    else runs.push([block]);
  }
  return runs;
}

const isRepeat = (one: Block, other: Block) =>
  [one, other].every((block) => block.kind === "command" && outcome(block) === "ok") &&
  (["environment", "command", "cwd", "who"] as const).every((name) => one[name] === other[name]) &&
  day(one.started) === day(other.started);

/** j and k walk through the blocks, from the first one on; among them the arrows do too. */
function walk(event: KeyboardEvent): boolean {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  const heads = [...document.querySelectorAll<HTMLElement>(".blocks .block-head")];
  const at = heads.indexOf(event.target as HTMLElement);
  if (!step || (at < 0 && event.key !== "j")) return false;
  heads[at + step]?.focus();
  return true;
}

function NoBlocks({ state }: { state: string }) {
  if (state === "failed") return <Empty icon="timeline" title="No command has failed">Commands that exit with another code than 0, time out or are killed appear here.</Empty>;
  if (state === "running") return <Empty icon="timeline" title="Nothing runs right now">Running commands and background processes appear here the moment they start.</Empty>;
  return (
    <Empty icon="timeline" title="No commands yet">
      <p>Every command that an agent runs appears here the moment it starts. Try one:</p>
      <pre class="sample">hermetic run --task demo -- 'echo hello; sleep 5'</pre>
    </Empty>
  );
}

function RunLine({ id }: { id: string }) {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const command = field.current?.value.trim();
    if (!command || !field.current) return;
    field.current.value = "";
    post(at`/environments/${id}/run`, { command }).catch(failed);
  };
  return (
    <form class="run" onSubmit={submit}>
      <span aria-hidden="true">$</span>
      <input ref={field} type="text" class="mono" aria-label="Run a command here" placeholder="Run a command here" autocomplete="off" spellcheck={false} />
      <Key>⏎</Key>
    </form>
  );
}
