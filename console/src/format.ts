/** Times, sizes and text for people. */

import type { Ending, Process } from "./types";

export function duration(seconds: number): string {
  if (seconds < 0.00995) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** One unit, for narrow places. */
export function age(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} kB`;
  if (count < 1e9) return `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} MB`;
  return `${(count / 1e9).toFixed(1)} GB`;
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function day(seconds: number): string {
  const then = new Date(seconds * 1000);
  if (then.toDateString() === new Date().toDateString()) return "Today";
  return then.toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
}

export const now = () => Date.now() / 1000;

const SIGNALS: Record<number, string> = { 1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM" };

export type Outcome = "running" | "ok" | "failed" | "stopped";

export function outcome(process: Pick<Process, "state" | "ending" | "left">): Outcome {
  const ending = process.ending;
  if (!ending) return process.state === "running" ? "running" : "stopped";
  if (ending[0] === "exited") return ending[1] === 0 ? "ok" : "failed";
  if (ending[0] === "yielded") return "running";
  return ending[0] === "cancelled" ? "stopped" : "failed";
}

export function ended(ending: Ending | null | undefined): string {
  if (!ending) return "running";
  const [tag, value] = ending;
  switch (tag) {
    case "exited":
      return `exit ${value}`;
    case "signalled":
      return SIGNALS[value as number] ?? `signal ${value}`;
    case "timed_out":
      return `timed out after ${duration(value as number)}`;
    case "cancelled":
      return "cancelled";
    case "yielded":
      return "in the background";
    case "oom":
      return "out of memory";
    default:
      return value === undefined ? tag : `${tag}: ${value}`;
  }
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// CSI, OSC (and other strings up to their terminator), then two-character escapes.
const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]/g;

/** Text of an environment for one line: control and direction characters are visible, never effective. */
export function line(text: string, limit = 2000): string {
  return exact(text.slice(0, limit).replace(/[\t\n]/g, (found) => (found === "\t" ? " " : "⏎ ")));
}

/** Text of a file: every character is kept or visible. */
export function exact(text: string): string {
  return text
    .replace(/\r\n/g, "\n")
    .replace(CONTROL, (found) => String.fromCodePoint(found < " " ? 0x2400 + found.charCodeAt(0) : 0xfffd))
    .replace(DIRECTION, "\ufffd");
}

/** Text of an environment for several lines, without the escape sequences of terminals. */
export function plain(text: string): string {
  return text
    .replace(ESCAPES, "")
    .replace(/\r\n/g, "\n")
    .replace(/^.*\r(?=[^\n])/gm, "")
    .replace(CONTROL, "")
    .replace(DIRECTION, "\ufffd");
}

/** The window title that a program asked for: one short line. */
export const title = (text: string) => plain(text).replace(/\s+/g, " ").trim().slice(0, 120);
