/** A command's text with its dangerous parts marked. */

import type { Approval } from "../types";

interface Span {
  start: number;
  end: number;
}

/** Spans of the dangerous parts, in characters, without overlaps. */
export function dangers({ command, verdict }: Approval): Span[] {
  const characters = [...command];
  const length = characters.length;
  const found = (verdict.parts ?? []).filter((part) => part.label === "dangerous");
  const spans = (found.length > 0 ? found : [verdict]).map(({ start, end }) => {
    let last = Math.min(end, length);
    while (last > start && /\s/.test(characters[last - 1] ?? "")) last--; // blanks are not dangerous
    return { start: Math.max(0, start), end: last };
  });
  const merged: Span[] = [];
  for (const span of spans.filter(({ start, end }) => end > start).sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else merged.push({ ...span });
  }
  return merged;
}

// Characters that would look like nothing, or turn the text around.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const visible = (text: string) => text.replace(HIDDEN, (found) => `⟨U+${found.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

export function Command({ approval }: { approval: Approval }) {
  const characters = [...approval.command];
  const pieces = [];
  let done = 0;
  for (const { start, end } of dangers(approval)) {
    pieces.push(visible(characters.slice(done, start).join("")));
    pieces.push(<mark>{visible(characters.slice(start, end).join(""))}</mark>);
    done = end;
  }
  pieces.push(visible(characters.slice(done).join("")));
  return (
    <pre class="command" tabIndex={0} aria-label="Command">
      {pieces}
    </pre>
  );
}
