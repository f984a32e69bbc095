/** One command of the timeline. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, problemOf, request } from "../api";
import { bytes, clock, duration, ended, line, now, outcome, plain } from "../format";
import { Outcome, Ports } from "../parts/basics";
import { Icon } from "../parts/icons";
import { href } from "../route";
import { environment, nameOf, tick } from "../state";
import type { Block } from "../types";

const SHOWN = 64 * 1024; // bytes of output in the timeline; the terminal view has all of it

export function BlockRow({ block, open, mixed }: { block: Block; open: boolean; mixed: boolean }) {
  const unfolded = useSignal(open);
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    if (open) element.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  const how = outcome(block);
  const running = how === "running" && !block.ending;
  const seconds = running ? (tick.value, Math.max(0, now() - block.started)) : block.duration;
  const name = nameOf(environment(block.environment), block.environment);
  return (
    <article ref={element} class={`block ${how}`} id={`block-${block.id}`}>
      <button type="button" class="block-head" aria-expanded={unfolded.value} onClick={() => (unfolded.value = !unfolded.value)}>
        <Outcome process={block} />
        <time dateTime={new Date(block.started * 1000).toISOString()}>{clock(block.started)}</time>
        <span class="block-command mono">{line(block.command) || "shell"}</span>
        <span class="block-facts">
          <Ports process={block} />
          {how === "failed" && <span class="bad">{ended(block.ending)}</span>}
          <span class="block-time">{duration(seconds)}</span>
        </span>
        <span class="block-where">
          {mixed && <span class="place clip">{name}</span>}
          <Who process={block} />
          <span class="path">{line(block.cwd, 200)}</span>
          {block.verdict && block.verdict.label !== "safe" && <span class={`verdict ${block.verdict.label}`} title={block.verdict.reason}>{block.verdict.label}</span>}
        </span>
        <Icon name="chevron" />
      </button>
      {unfolded.value ? <Unfolded block={block} /> : <Tail block={block} />}
    </article>
  );
}

/** Who ran it. */
function Who({ process: { who, driver } }: { process: Block }) {
  if (who !== "person") return <span class="who"><Icon name="agent" size={12} /> agent</span>;
  return <span class="who person"><Icon name="person" size={12} /> {driver ? line(driver.name, 40) : "person"}</span>;
}

/** The last lines of what failed or still runs, without rules of dashes at their start; the rest is folded. */
function Tail({ block }: { block: Block }) {
  const how = outcome(block);
  if ((how !== "failed" && how !== "running") || !block.tail?.trim()) return null;
  const lines = plain(block.tail).trimEnd().split("\n").slice(how === "failed" ? -5 : -2);
  return <pre class="tail">{lines.join("\n").replace(/^(?:[^\p{L}\p{N}\n]*\n)+/u, "")}</pre>;
}

function Unfolded({ block }: { block: Block }) {
  const text = useSignal<string | null>(null);
  const trouble = useSignal("");
  const start = Math.max(0, block.out - SHOWN);
  useEffect(() => {
    let gone = false;
    request("GET", at`/environments/${block.environment}/processes/${block.id}/output?offset=${start}&limit=${SHOWN}`)
      .then((response) => response.arrayBuffer())
      .then(
        (data) => gone || ((text.value = plain(new TextDecoder().decode(data))), (trouble.value = "")),
        (error) => gone || (trouble.value = problemOf(error).message),
      );
    return () => void (gone = true);
  }, [block.out, block.state]);
  const here = href("timeline", block.environment, block.id);
  return (
    <div class="unfolded">
      {block.command.includes("\n") && <pre class="whole">{plain(block.command)}</pre>}
      {block.verdict && block.verdict.label !== "safe" && <p class={`verdict-line ${block.verdict.label}`}>{block.verdict.label}: {block.verdict.reason}</p>}
      {start > 0 && <p class="muted">The last {bytes(SHOWN)} of {bytes(block.out)}.</p>}
      <pre class="output" tabIndex={0} aria-label="Output">{trouble.value || (text.value === null ? block.tail && plain(block.tail) : text.value || "(no output)")}</pre>
      <p class="block-links">
        <a href={href("terminal", block.environment, block.id)}><Icon name="terminal" /> {block.state === "running" ? "Watch live" : "Open in a terminal"}</a>
        <a href={here}><Icon name="link" /> Link to this command</a>
        <span class="muted">{ended(block.ending)} · {bytes(block.out)} of output · session {block.session || "main"} · {block.id}</span>
      </p>
    </div>
  );
}
