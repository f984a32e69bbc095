/** Questions of agents: what exactly would run, why it is asked, what each answer grants. */

import { computed, effect, signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, get, post, problemOf } from "../api";
import { clock, line, now, plain } from "../format";
import { useViewKeys } from "../keys";
import { Empty, Key } from "../parts/basics";
import { Command } from "../parts/command";
import { Icon } from "../parts/icons";
import { failed } from "../parts/toast";
import { allowNotifications, permission } from "../notify";
import { route } from "../route";
import { answers, approvals, can, close, pending, tick } from "../state";
import type { Answer, Approval, Decision } from "../types";

const CHOICES: { answer: Answer; key: string; label: string; fallback: string }[] = [
  { answer: "once", key: "y", label: "Allow once", fallback: "this text, this time" },
  { answer: "session", key: "s", label: "Allow for this task", fallback: "" },
  { answer: "always", key: "a", label: "Always allow", fallback: "" },
];
const SETTLE = 500; // ms; a question that appears, or moves up, under a person's fingers takes no key yet

// Cards that have just come, gone or moved take no click: it was meant for what stood there before.
const ids = computed(() => approvals.value.map((each) => each.id).join());
const isStill = signal(false);
effect(() => {
  ids.value;
  isStill.value = false;
  const timer = setTimeout(() => (isStill.value = true), SETTLE);
  return () => clearTimeout(timer);
});

export async function answer(approval: Approval, chosen: Answer, reason = ""): Promise<void> {
  try {
    await post(at`/approvals/${approval.id}`, reason ? { answer: chosen, reason } : { answer: chosen });
    close(approval.id, { answer: chosen, by: "you", change: "answered" });
  } catch (error) {
    const problem = problemOf(error);
    const other = problem.body.answered as { answer: string; by?: string } | undefined;
    if (problem.status === 409 && other) close(approval.id, { ...other, change: "answered" });
    else failed(error);
  }
}

const offered = (approval: Approval) => CHOICES.filter(({ answer: each, fallback }) => approval.scope?.[each] || fallback);

export function Approvals() {
  const selected = useSignal("");
  const denying = useSignal("");
  const list = approvals.value;
  const waiting = pending.value;
  const current = waiting.find((each) => each.id === selected.value) ?? waiting[0];
  const settled = useSettled(current?.id ?? "");

  const select = (step: number) => {
    const next = waiting[waiting.indexOf(current as Approval) + step];
    if (!next) return;
    selected.value = settled.value = next.id; // chosen by the person: it takes keys at once
    document.getElementById(`approval-${next.id}`)?.scrollIntoView({ block: "nearest" });
  };
  useViewKeys((event) => {
    const step = { j: 1, k: -1 }[event.key];
    const choice = current && offered(current).find(({ key }) => key === event.key);
    if (step) select(step);
    else if (!current || !can("approve") || settled.value !== current.id || event.repeat) return false;
    else if (event.key === "n") void answer(current, "deny");
    else if (event.key === "d") denying.value = current.id;
    else if (choice) void answer(current, choice.answer);
    else return false;
    return true;
  });

  const wanted = route.value.options.get("ask") ?? "";
  const isThere = list.some((each) => each.id === wanted);
  useEffect(() => {
    if (!isThere) return;
    selected.value = wanted;
    document.getElementById(`approval-${wanted}`)?.focus();
  }, [wanted, isThere]);

  return (
    <div class="view approvals">
      <div class="head">
        <h1>Approvals</h1>
        {permission.value === "default" && <button type="button" onClick={() => void allowNotifications()}><Icon name="bell" /> Notify me</button>}
      </div>
      {list.length === 0 && (
        <Empty icon="approvals" title="Nothing waits for an answer">
          <p>When an agent wants to run something dangerous, it stops and asks. The question appears here, on every open console, and in <code>hermetic approvals</code>.</p>
        </Empty>
      )}
      {list.map((approval) => (
        <ApprovalCard key={approval.id} approval={approval} selected={approval === current} settled={settled.value === approval.id} denying={denying.value === approval.id} onDeny={(open) => (denying.value = open ? approval.id : "")} />
      ))}
      <History />
    </div>
  );
}

/** The question that takes keys: the current one, once it has been so for a moment. */
function useSettled(current: string) {
  const settled = useSignal("");
  useEffect(() => {
    const timer = setTimeout(() => (settled.value = current), SETTLE);
    return () => clearTimeout(timer);
  }, [current]);
  return settled;
}

interface CardProps {
  approval: Approval;
  small?: boolean;
  selected?: boolean;
  settled?: boolean; // keys act on it
  denying?: boolean;
  onDeny?: (open: boolean) => void;
}

export function ApprovalCard({ approval, small = false, selected = false, settled = false, denying = false, onDeny }: CardProps) {
  const own = useSignal(false);
  const open = onDeny ? denying : own.value;
  const setOpen = onDeny ?? ((value: boolean) => (own.value = value));
  const done = answers.value[approval.id];
  const name = line(approval.task, 60);
  return (
    <article id={small ? undefined : `approval-${approval.id}`} tabIndex={-1} class={`approval ${small ? "small" : ""} ${selected ? "selected" : ""} ${settled ? "settled" : ""} ${done ? "done" : ""}`} aria-label={`Question of ${name}`}>
      <header>
        <strong>{name || "an agent"}</strong> <span class="kind">{approval.environment}</span>
        <span class="muted clip">{[approval.where?.program && line(approval.where.program, 60), approval.where?.pid && `pid ${approval.where.pid}`].filter(Boolean).join(" · ")}</span>
        <Expiry approval={approval} />
      </header>
      <Command approval={approval} />
      {approval.where?.inside && <p class="warning">The question comes from a process inside an environment: an agent may have made it up.</p>}
      <Reasons approval={approval} small={small} />
      {done ? <p class="answered" role="status">{answeredText(done)}</p> : can("approve") ? <Choices approval={approval} small={small} deny={() => setOpen(true)} /> : <p class="muted">This link cannot answer.</p>}
      {open && !done && <DenyForm approval={approval} close={() => setOpen(false)} />}
    </article>
  );
}

function answeredText({ answer: given, by, change }: { answer: string; by?: string; change: string }): string {
  if (change === "expired") return "Expired without an answer; the command did not run.";
  if (change === "withdrawn") return "Withdrawn: the agent no longer asks.";
  return `${given === "deny" ? "Denied" : "Allowed"} by ${line(by || "another person", 60)}.`;
}

function Expiry({ approval }: { approval: Approval }) {
  tick.value;
  const left = Math.max(0, approval.expires - now());
  if (!approval.expires) return null;
  const text = left >= 60 ? `${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")}` : `${Math.floor(left)} s`;
  const share = left / Math.max(1, approval.expires - approval.asked);
  return (
    <span class={left < 30 ? "expiry soon" : "expiry"} title="Time left to answer">
      {text}
      <span class="expiry-bar" aria-hidden="true"><span style={{ width: `${Math.min(100, share * 100)}%` }} /></span>
    </span>
  );
}

function Reasons({ approval, small }: { approval: Approval; small: boolean }) {
  const needs = approval.needs?.length ? approval.needs : [{ decoded: approval.verdict.decoded, reason: approval.verdict.reason, rule: "", category: "" }];
  const around = Object.entries(approval.circumstances ?? {});
  return (
    <dl class="reasons">
      {needs.slice(0, small ? 1 : 20).map((need, index) => (
        <div key={index}>
          <dt>{need.rule ? <code>{line(need.rule, 60)}</code> : "Why"}</dt>
          <dd>
            {plain(need.reason || approval.reason || "")}
            {need.decoded && need.decoded.trim() !== approval.command.trim() && <code class="decoded">{line(need.decoded, 1000)}</code>}
          </dd>
        </div>
      ))}
      {small && needs.length > 1 && <div><dt /><dd class="muted">and {needs.length - 1} more</dd></div>}
      {around.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd><code>{line(value, 400)}</code></dd></div>
      ))}
    </dl>
  );
}

function Choices({ approval, small, deny }: { approval: Approval; small: boolean; deny: () => void }) {
  return (
    <div class="choices">
      {offered(approval).filter((_, index) => !small || index === 0).map(({ answer: each, key, label, fallback }) => (
        <Choice key={each} small={small} style={each === "once" ? "primary" : ""} letter={key} label={label} scope={approval.scope?.[each] ?? fallback} choose={() => void answer(approval, each)} />
      ))}
      <Choice small={small} style="deny" letter="n" label="Deny" scope="nothing runs; the agent sees the refusal" choose={() => void answer(approval, "deny")} />
      <Choice small={small} style="deny" letter="d" label={small ? "With a reason…" : "Deny with a reason"} scope="nothing runs; the agent reads your reason" choose={deny} />
    </div>
  );
}

interface ChoiceProps {
  small: boolean;
  style: string;
  letter: string;
  label: string;
  scope: string;
  choose: () => void;
}

function Choice({ small, style, letter, label, scope, choose }: ChoiceProps) {
  return (
    <button type="button" class={`choice ${style}`} title={small ? `${label}: ${scope}` : undefined} aria-disabled={!isStill.value} onClick={() => isStill.value && choose()}>
      {!small && <Key>{letter}</Key>}
      <span>{label}</span>
      {!small && <small title={line(scope, 1000)}>{line(datesIn(scope), 300)}</small>}
    </button>
  );
}

/** A file's number and its change time in nanoseconds, as a date; the title has both in full. */
const datesIn = (scope: string) =>
  scope.replace(/\(file \d+ as of (\d{10})\d{9}\)/g, (_, seconds) => `(unchanged since ${new Date(Number(seconds) * 1000).toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })})`);

function DenyForm({ approval, close: shut }: { approval: Approval; close: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    void answer(approval, "deny", field.current?.value.trim());
    shut();
  };
  return (
    <form class="deny-form" onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && shut()}>
      <label>
        Reason for the agent
        <input ref={field} type="text" maxLength={1000} placeholder="Push a branch instead" />
      </label>
      <button type="submit" class="danger">Deny</button>
      <button type="button" onClick={shut}>Back</button>
    </form>
  );
}

/** Decisions of persons, from the journal. */
function History() {
  const list = useSignal<Decision[]>([]);
  const closed = Object.keys(answers.value).length;
  useEffect(() => {
    let gone = false;
    get<{ decisions: Decision[] }>("/approvals/history").then(({ decisions }) => gone || (list.value = decisions.filter((each) => each.request).slice(0, 50)), () => {});
    return () => void (gone = true);
  }, [closed]);
  if (list.value.length === 0) return null;
  return (
    <section class="history">
      <h2>Earlier</h2>
      <ul>
        {list.value.map((past, index) => (
          <li key={index}>
            <time>{clock(past.time)}</time>
            <span class="mono clip">{line(past.command ?? "", 200)}</span>
            <span class={past.decision === "refused" ? "bad" : "muted"} title={past.comment}>
              {past.decision === "refused" ? "denied" : (ANSWERED[past.answer ?? ""] ?? "allowed")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const ANSWERED: Record<string, string> = { once: "allowed once", session: "allowed for its task", always: "always allowed" };
