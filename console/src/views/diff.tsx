/** Changed files with their differences, line by line. */

import { useSignal } from "@preact/signals";
import { exact, line } from "../format";
import { Icon } from "../parts/icons";
import type { Change } from "../types";

const OPEN_BY_DEFAULT = 10; // files
const LINES = 400; // of one file, until a person wants all

export function Changes({ base, files }: { base: string; files: Change[] }) {
  const sum = (field: "added" | "removed") => files.reduce((total, file) => total + (file[field] ?? 0), 0);
  return (
    <>
      <p class="changes-sum">
        {files.length} {files.length === 1 ? "file" : "files"} against {base === "HEAD" ? "the last commit" : "the state at opening"}
        <span class="plus">+{sum("added")}</span> <span class="minus">−{sum("removed")}</span>
      </p>
      {files.map((file, index) => <FileDiff key={file.path} file={file} first={index < OPEN_BY_DEFAULT} />)}
    </>
  );
}

function FileDiff({ file, first }: { file: Change; first: boolean }) {
  const open = useSignal(first);
  const whole = useSignal(false);
  const lines = open.value ? (file.diff ?? "").replace(/\n$/, "").split("\n").filter((each) => !/^(diff |index |--- |\+\+\+ )/.test(each)) : [];
  const shown = whole.value ? lines : lines.slice(0, LINES);
  return (
    <section class="diff">
      <h2>
        <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          <Icon name="chevron" />
          <span class="mono clip">{line(file.path, 400)}</span>
          <span class="muted">{file.status}</span>
          <span class="plus">+{file.added ?? 0}</span> <span class="minus">−{file.removed ?? 0}</span>
        </button>
      </h2>
      {open.value && (file.diff ? <DiffText lines={shown} /> : <p class="muted diff-note">No text to compare.</p>)}
      {shown.length < lines.length && <p class="diff-note"><button type="button" onClick={() => (whole.value = true)}>All {lines.length.toLocaleString()} lines</button></p>}
    </section>
  );
}

const CLASSES: Record<string, string> = { "+": "added", "-": "removed", "@": "place" };

function DiffText({ lines }: { lines: string[] }) {
  return (
    <pre class="diff-text" tabIndex={0} aria-label="Differences">
      {lines.map((each, index) => <div key={index} class={CLASSES[each[0] ?? ""] ?? ""}>{exact(each) || " "}</div>)}
    </pre>
  );
}
