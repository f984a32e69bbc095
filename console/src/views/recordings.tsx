/** Recordings of terminals and processes. */

import { remove, at } from "../api";
import { bytes, clock, day, duration, line } from "../format";
import { Empty, Failure, Waiting } from "../parts/basics";
import { Icon } from "../parts/icons";
import { failed } from "../parts/toast";
import { href, route } from "../route";
import { can, changed, environment, nameOf } from "../state";
import { useGet } from "./files";
import { Player } from "./player";

interface Recording {
  id: string;
  environment?: string;
  process?: string;
  command?: string;
  title?: string;
  started?: number;
  duration?: number;
  size?: number;
  is_running?: boolean;
}

export function Recordings() {
  const chosen = route.value.options.get("play") ?? "";
  const { data, problem } = useGet<{ recordings: Recording[] }>("/recordings", changed.value);
  const list = data.value?.recordings ?? [];
  const missing = problem.value?.status === 404;
  return (
    <div class="view recordings">
      <div class="head"><h1>Recordings</h1></div>
      {problem.value && !missing && <Failure problem={problem.value} />}
      {!data.value && !problem.value && <Waiting />}
      {chosen && <Player key={chosen} id={chosen} />}
      {(missing || (data.value && list.length === 0)) && (
        <Empty icon="recordings" title="No recordings yet">
          <p>A recording keeps what a terminal showed, with its timing, and plays here or in asciinema. Secrets are redacted. Record a command:</p>
          <pre class="sample">hermetic record --task demo -- 'make test'</pre>
        </Empty>
      )}
      <ul class="recording-list">
        {list.map((each) => <Row key={each.id} recording={each} chosen={each.id === chosen} />)}
      </ul>
    </div>
  );
}

function Row({ recording: each, chosen }: { recording: Recording; chosen: boolean }) {
  const drop = () => remove(at`/recordings/${each.id}`).then(() => changed.value++, failed);
  return (
    <li class={chosen ? "chosen" : ""}>
      <a href={href("recordings", "", "", { play: each.id })} aria-current={chosen ? "true" : undefined}>
        <Icon name="play" />
        <span class="mono clip">{line(each.command || each.title || each.id, 200)}</span>
        <span class="muted">{each.is_running && <span class="badge on-air">recording</span>} {each.environment ? nameOf(environment(each.environment), each.environment) : ""}</span>
        <span class="muted number">{each.started ? `${day(each.started)} ${clock(each.started)}` : ""}</span>
        <span class="muted number">{each.duration ? duration(each.duration) : ""}</span>
        <span class="muted number">{each.size ? bytes(each.size) : ""}</span>
      </a>
      {can("drive") && <button type="button" class="quiet" aria-label="Delete this recording" onClick={drop}><Icon name="close" /></button>}
    </li>
  );
}
