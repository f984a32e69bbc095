/** asciicast, versions 2 and 3, as events with absolute times. Long pauses are shortened. */

export interface Cast {
  rows: number;
  cols: number;
  events: { time: number; code: string; data: string }[];
  marks: { time: number; label: string }[];
  length: number;
}

const LONGEST_PAUSE = 2; // seconds

export function parse(text: string): Cast {
  const lines = text.split("\n").filter((each) => each && !each.startsWith("#"));
  const header = JSON.parse(lines[0] ?? "{}") as { version?: number; width?: number; height?: number; term?: { cols: number; rows: number } };
  if (header.version !== 2 && header.version !== 3) throw new Error(`asciicast version ${header.version} is not known here`);
  const cast: Cast = { rows: header.term?.rows ?? header.height ?? 24, cols: header.term?.cols ?? header.width ?? 80, events: [], marks: [], length: 0 };
  let last = 0;
  for (const each of lines.slice(1)) {
    const event = parseEvent(each);
    if (!event) break; // the end of a recording that was cut off
    const [stamp, code, data] = event;
    const pause = header.version === 3 ? stamp : stamp - last;
    last = stamp;
    cast.length += Math.min(Math.max(0, pause), LONGEST_PAUSE);
    cast.events.push({ time: cast.length, code, data });
    if (code === "m") cast.marks.push({ time: cast.length, label: data });
  }
  return cast;
}

function parseEvent(text: string): [number, string, string] | null {
  try {
    return JSON.parse(text) as [number, string, string];
  } catch {
    return null;
  }
}
