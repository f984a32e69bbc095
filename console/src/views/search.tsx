/** Search over commands and kept output. */

import { at, type Problem } from "../api";
import { line } from "../format";
import { Empty, Failure, Waiting } from "../parts/basics";
import { Unanswered } from "../parts/unanswered";
import { go, href, route } from "../route";
import { environment, nameOf } from "../state";
import type { Hit } from "../types";
import { useGet } from "./files";

export function Search() {
  const text = route.value.options.get("q") ?? "";
  const chosen = route.value.environment;
  const submit = (event: Event & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    go("search", chosen, "", { q: String(new FormData(event.currentTarget).get("q") ?? "").trim() });
  };
  return (
    <div class="view search">
      <div class="head"><h1>Search</h1></div>
      <form class="search-form" role="search" aria-label="Search" onSubmit={submit}>
        <input key={text} name="q" type="search" aria-label="Search for" placeholder="Commands and output" defaultValue={text} autocomplete="off" />
        <button type="submit" class="primary">Search</button>
      </form>
      {text ? <Hits text={text} chosen={chosen} /> : <Empty icon="search" title="Search everything that ran"><p>Commands and the output that is still kept, in all environments. Try an error message or a file name.</p></Empty>}
    </div>
  );
}

function Hits({ text, chosen }: { text: string; chosen: string }) {
  const { data, problem } = useGet<{ hits: Hit[]; truncated?: boolean; unanswered?: string[] }>(at`/search?q=${text}` + (chosen && at`&environment=${chosen}`));
  if (problem.value) return <Failure problem={problem.value as Problem} />;
  if (!data.value) return <Waiting />;
  const groups = new Map<string, Hit[]>();
  for (const hit of data.value.hits) {
    const key = `${hit.environment}/${hit.process}`;
    groups.set(key, [...(groups.get(key) ?? []), hit]);
  }
  const missing = data.value.unanswered ?? [];
  return (
    <>
      {missing.length > 0 && <Unanswered ids={missing}>Search again as soon as</Unanswered>}
      {groups.size === 0 && <Empty icon="search" title="Nothing found"><p>No command and no kept output has “{line(text, 100)}”. Output of ended environments is not searched.</p></Empty>}
      <Groups groups={[...groups.values()]} text={text} />
    </>
  );
}

function Groups({ groups, text }: { groups: Hit[][]; text: string }) {
  return (
    <ol class="hits">
      {groups.map((hits) => {
        const first = hits[0] as Hit;
        return (
          <li key={`${first.environment}/${first.process}`}>
            <a href={href("timeline", first.environment, first.process)}>
              <span class="mono clip"><Marked text={line(first.command, 300)} wanted={text} /></span>
              <span class="muted">{nameOf(environment(first.environment), first.environment)}</span>
            </a>
            <pre>{hits.filter((hit) => hit.line && hit.line !== hit.command).slice(0, 5).map((hit, index) => <div key={index}><Marked text={line(hit.line, 400)} wanted={text} /></div>)}</pre>
          </li>
        );
      })}
    </ol>
  );
}

function Marked({ text, wanted }: { text: string; wanted: string }) {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return <>{text}</>;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + wanted.length)}</mark>{text.slice(at + wanted.length)}</>;
}
