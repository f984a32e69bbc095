/** Files of an environment's workspace, and what has changed in it. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, get, problemOf, request, type Problem } from "../api";
import { age, bytes, exact, line, now } from "../format";
import { Empty, Failure, Of, Waiting } from "../parts/basics";
import { Icon } from "../parts/icons";
import { href, route } from "../route";
import { changed, environments, nameOf } from "../state";
import type { Change, Entry } from "../types";
import { Changes } from "./diff";
import { NoEnvironments } from "./environments";

const TEXT_LIMIT = 256 * 1024;

/** What a path answers, read again when `version` changes. The old answer stays until the new one is there. */
export function useGet<T>(path: string, version: unknown = 0) {
  const data = useSignal<T | null>(null);
  const problem = useSignal<Problem | null>(null);
  useEffect(() => {
    let gone = false;
    get<T>(path).then(
      (found) => gone || ((data.value = found), (problem.value = null)),
      (error) => gone || (problem.value = problemOf(error)),
    );
    return () => void (gone = true);
  }, [path, version]);
  return { data, problem };
}

export function Files() {
  const { environment: chosen, options } = route.value;
  if (!chosen) return <Choose />;
  const tab = options.get("show") === "files" ? "files" : "changes";
  return (
    <div class="view files">
      <div class="head">
        <h1>Files <Of id={chosen} /></h1>
        <nav class="filters" aria-label="Show">
          <a href={href("files", chosen)} aria-current={tab === "changes" ? "true" : undefined}>Changes</a>
          <a href={href("files", chosen, "", { show: "files" })} aria-current={tab === "files" ? "true" : undefined}>All files</a>
        </nav>
      </div>
      {tab === "changes" ? <ChangesOf id={chosen} /> : <Browser id={chosen} path={options.get("path") ?? ""} file={options.get("file") ?? ""} />}
    </div>
  );
}

function Choose() {
  if (environments.value.length === 0) return <div class="view files"><div class="head"><h1>Files</h1></div><NoEnvironments /></div>;
  return (
    <div class="view files">
      <div class="head"><h1>Files</h1></div>
      <Empty icon="files" title="Whose files?">
        <p>Choose an environment to see its workspace and what has changed in it.</p>
        <ul class="choose">{environments.value.map((each) => <li key={each.id}><a href={href("files", each.id)}>{nameOf(each)} <span class="kind">{each.kind}</span></a></li>)}</ul>
      </Empty>
    </div>
  );
}

function ChangesOf({ id }: { id: string }) {
  const { data, problem } = useGet<{ base: string; files: Change[]; notes?: string[] }>(at`/environments/${id}/changes`, changed.value);
  if (problem.value) return <Failure problem={problem.value} />;
  if (!data.value) return <Waiting />;
  if (data.value.files.length === 0) {
    return (
      <Empty icon="files" title="Nothing has changed">
        <p>Compared with {data.value.base === "HEAD" ? "the last commit" : "the state when the environment was opened"}. Changed files appear here with their differences.</p>
      </Empty>
    );
  }
  return <Changes base={data.value.base} files={data.value.files} />;
}

function Browser({ id, path, file }: { id: string; path: string; file: string }) {
  const { data, problem } = useGet<{ path: string; root: string; entries: Entry[] }>(at`/environments/${id}/files?path=${path || "."}`, changed.value);
  const here = data.value?.path ?? path;
  const to = (next: string) => href("files", id, "", { show: "files", path: next });
  const join = (name: string) => `${here.replace(/\/$/, "")}/${name}`;
  if (problem.value) return <Failure problem={problem.value} />;
  if (!data.value) return <Waiting />;
  const root = data.value.root;
  const steps = here === root ? [] : here.slice(root.length).split("/").filter(Boolean);
  return (
    <div class={file ? "browser with-file" : "browser"}>
      <nav class="crumbs mono" aria-label="Path">
        <a href={to(root)}>{line(root, 200)}</a>
        {steps.map((step, index) => <a key={index} href={to([root, ...steps.slice(0, index + 1)].join("/"))}>{line(step, 100)}</a>)}
      </nav>
      <ul class="entries">
        {data.value.entries.map((entry) => {
          const folder = entry.type === "directory";
          return (
            <li key={entry.name}>
              <a href={folder ? to(join(entry.name)) : href("files", id, "", { show: "files", path: here, file: join(entry.name) })} aria-current={file === join(entry.name) ? "true" : undefined}>
                <Icon name={folder ? "folder" : "files"} />
                <span class="mono clip">{line(entry.name, 255)}</span>
                <span class="muted number">{folder || entry.size == null ? "" : bytes(entry.size)}</span>
                <span class="muted number">{entry.modified ? age(now() - entry.modified) : ""}</span>
              </a>
            </li>
          );
        })}
        {data.value.entries.length === 0 && <li class="muted">This directory is empty.</li>}
      </ul>
      {file && <FileText id={id} path={file} />}
    </div>
  );
}

function FileText({ id, path }: { id: string; path: string }) {
  const text = useSignal<string | null>(null);
  const problem = useSignal<Problem | null>(null);
  useEffect(() => {
    let gone = false;
    problem.value = null;
    request("GET", at`/environments/${id}/file?path=${path}`)
      .then((response) => response.arrayBuffer())
      .then(
        (data) => gone || (text.value = preview(new Uint8Array(data))),
        (error) => gone || (problem.value = problemOf(error)),
      );
    return () => void (gone = true);
  }, [id, path]);
  return (
    <section class="file-text" aria-label={line(path, 200)}>
      <h2 class="mono clip">{line(path, 400)}</h2>
      {problem.value ? <Failure problem={problem.value} /> : text.value === null ? <Waiting /> : <pre class="output" tabIndex={0}>{text.value}</pre>}
    </section>
  );
}

function preview(data: Uint8Array): string {
  const head = data.subarray(0, TEXT_LIMIT);
  if (head.includes(0)) return `Not a text: ${bytes(data.length)} of other data.`;
  const text = exact(new TextDecoder().decode(head));
  return data.length > TEXT_LIMIT ? `${text}\n… ${bytes(data.length - TEXT_LIMIT)} more` : text || "(empty)";
}
