/** What the page knows: lists from HTTP, kept current by the tab's events. */

import { batch, computed, signal } from "@preact/signals";
import { at, get, problemOf, type Problem } from "./api";
import { line } from "./format";
import { onAsked } from "./notify";
import { type Event, start } from "./tab";
import type { Approval, Environment, Me, Process } from "./types";

export interface Load {
  cpu: number[]; // share of one processor
  memory: number[];
}

export const me = signal<Me | null>(null);
export const loaded = signal(false);
export const problem = signal<Problem | null>(null);
export const environments = signal<Environment[]>([]);
export const allHeld = signal(false); // new calls of every agent wait, also in environments to come
export const approvals = signal<Approval[]>([]);
export const answers = signal<Record<string, { answer: string; by?: string; change: string }>>({}); // of closed requests
export const running = signal<Process[]>([]);
export const loads = signal<Record<string, Load>>({});
export const changed = signal(0); // counts changes of environments and processes: what was listed may be out of date
export const lastChange = signal<Event | null>(null);
export const tick = signal(Date.now() / 1000); // now, once a second

export const pending = computed(() => approvals.value.filter((each) => !answers.value[each.id]));
export const can = (scope: string) => me.value !== null && (me.value.scopes.includes(scope) || me.value.scopes.includes("admin"));
export const environment = (id: string) => environments.value.find((each) => each.id === id);
export const nameOf = (each: Environment | undefined, id = "") => line(each?.task || (each?.id ?? id).slice(0, 8), 60);

const PORTS_OF = 20; // running processes whose ports are read at once
const PORTS_AFTER = 2000; // ms; a server needs a moment to listen
const POINTS = 60; // of a sparkline, 2 s each
const totals = new Map<string, { at: number; cpu: number }>(); // CPU seconds so far, and when they were read

setInterval(() => (tick.value = Date.now() / 1000), 1000);

/** Reads what this login may see, and follows it. `out` is called when the login ends. */
export async function begin(out: (problem: Problem) => void): Promise<void> {
  me.value = await get<Me>("/me");
  start((event) => (event.event === "out" ? out(event.problem) : onEvent(event)));
  await reload();
}

let reading: Promise<void> | null = null;
let isStale = false; // another reload has to follow the one in progress
const followers = new Set<Event[]>(); // events that came while a list is being read

/** Reads all lists anew: at the start, once events are subscribed to, and when some were missed. */
export function reload(): Promise<void> {
  isStale = reading !== null;
  reading ??= readAll().finally(() => {
    reading = null;
    if (isStale) void reload();
  });
  return reading;
}

async function readAll(): Promise<void> {
  const lists = Promise.all([
    get<{ environments: Environment[]; held?: boolean }>("/environments"),
    get<{ approvals: Approval[] }>("/approvals").catch(() => ({ approvals: [] })),
  ]);
  try {
    await snapshot(lists, ([found, asked]) => {
      environments.value = sorted(found.environments);
      allHeld.value = found.held === true;
      approvals.value = asked.approvals;
      running.value = running.value.filter((process) => environment(process.environment));
      problem.value = null;
      loaded.value = true;
      changed.value++;
    });
    await Promise.all(environments.value.map((each) => readRunning(each.id)));
    for (const process of running.value.slice(0, PORTS_OF)) void readPorts(process);
  } catch (error) {
    problem.value = problemOf(error);
  }
}

/** Uses a list once it is there, then the events that came meanwhile once more: the list may be older than they are. */
async function snapshot<T>(list: Promise<T>, use: (list: T) => void): Promise<void> {
  const came: Event[] = [];
  followers.add(came);
  try {
    const found = await list;
    batch(() => {
      use(found);
      came.forEach(apply);
    });
  } finally {
    followers.delete(came);
  }
}

async function readRunning(id: string): Promise<void> {
  const list = get<{ processes: Process[] }>(at`/environments/${id}/processes`).catch(() => ({ processes: [] }));
  await snapshot(list, ({ processes }) => {
    const others = running.value.filter((process) => process.environment !== id);
    running.value = [...others, ...processes.filter((process) => process.state === "running").map((process) => ({ ...process, environment: id }))];
  });
}

/** Adds the ports that a running process listens on; lists have none. */
async function readPorts({ environment: where, id }: Process): Promise<void> {
  const { ports } = await get<Process>(at`/environments/${where}/processes/${id}`).catch(() => ({ ports: [] }));
  if (ports?.length) running.value = running.value.map((each) => (each.id === id && each.environment === where ? { ...each, ports } : each));
}

/** Ports of a process as far as they are known. */
export const portsOf = ({ environment: where, id, ports }: Process) =>
  ports?.length ? ports : (running.value.find((each) => each.id === id && each.environment === where)?.ports ?? []);

const sorted = (list: Environment[]) => [...list].sort((a, b) => b.created - a.created);

function onEvent(event: Event): void {
  if (event.event === "watching" || event.event === "missed") return void reload();
  for (const came of followers) came.push(event);
  const before = event.event === "environment" ? environment(event.environment.id)?.state : "";
  apply(event);
  if (event.event === "environment" && event.environment.state === "alive" && before !== "alive") void readRunning(event.environment.id);
  if (event.event === "approval" && event.change === "asked") onAsked(event.approval);
  if (event.event === "process" && event.change === "started" && event.process.kind === "process") {
    setTimeout(() => void readPorts({ ...event.process, environment: event.environment }), PORTS_AFTER);
  }
}

/** Brings the lists up to date with an event; twice does no harm. */
function apply(event: Event): void {
  switch (event.event) {
    case "environment":
      return onEnvironment(event.change, event.environment);
    case "process":
      return onProcess(event);
    case "held":
      return void (allHeld.value = event.all);
    case "approval":
      return onApproval(event);
    case "stats":
      return onStats(event);
  }
}

function onEnvironment(change: string, found: Environment): void {
  const others = environments.value.filter((each) => each.id !== found.id);
  batch(() => {
    environments.value = change === "gone" ? others : sorted([...others, { ...environment(found.id), ...found }]);
    if (change === "gone") running.value = running.value.filter((process) => process.environment !== found.id);
    changed.value++; // its commands can be listed now, or no longer
  });
}

function onProcess(event: Event): void {
  const process: Process = { ...event.process, environment: event.environment };
  const others = running.value.filter((each) => each.id !== process.id || each.environment !== process.environment);
  batch(() => {
    running.value = event.change === "ended" ? others : [...others, process];
    lastChange.value = event;
    changed.value++;
  });
}

function onApproval(event: Event): void {
  const asked: Approval = event.approval;
  if (event.change === "asked") approvals.value = [...approvals.value.filter((each) => each.id !== asked.id), asked];
  else close(asked.id, { answer: "", ...event.answered, change: event.change });
}

/** Marks a request as closed. It stays in view for a moment, so that the page does not jump under a finger. */
export function close(id: string, how: { answer: string; by?: string; change: string }): void {
  if (answers.value[id]) return;
  answers.value = { ...answers.value, [id]: how };
  setTimeout(() => {
    approvals.value = approvals.value.filter((each) => each.id !== id);
    const { [id]: _, ...others } = answers.value;
    answers.value = others;
  }, 4000);
}

function onStats(event: Event): void {
  const moment: number = event.time;
  const last = totals.get(event.environment);
  if (last && moment <= last.at) return;
  totals.set(event.environment, { at: moment, cpu: event.cpu });
  const share = last ? Math.max(0, (event.cpu - last.cpu) / (moment - last.at)) : null;
  const before = loads.value[event.environment] ?? { cpu: [], memory: [] };
  const cpu = share === null ? before.cpu : [...before.cpu, share].slice(-POINTS);
  loads.value = { ...loads.value, [event.environment]: { cpu, memory: [...before.memory, event.memory ?? 0].slice(-POINTS) } };
}
