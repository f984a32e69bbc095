/** Shortcuts of the whole page. They never act while a person types, in a terminal, or behind a dialog. */

import { useEffect } from "preact/hooks";
import { go, href, route } from "./route";

export const SHORTCUTS: [string, string][] = [
  ["/", "search"],
  ["g t", "timeline"],
  ["g s", "terminals"],
  ["g p", "processes"],
  ["g a", "approvals"],
  ["g f", "files"],
  ["g r", "recordings"],
  ["j  k", "next, previous"],
  ["?", "this list"],
];

export const TERMINAL_KEYS: [string, string][] = [
  ["Shift Enter", "take over"],
  ["Ctrl Shift Enter", "give back"],
  ["Ctrl Shift F", "find"],
  ["Shift F6", "to the buttons"],
];

export const APPROVAL_KEYS: [string, string][] = [
  ["y", "allow once"],
  ["s", "allow for this task"],
  ["a", "allow always"],
  ["n", "deny"],
  ["d", "deny with a reason"],
];

const TARGETS: Record<string, string> = { t: "timeline", s: "terminal", p: "processes", a: "approvals", f: "files", r: "recordings" };
const LED = 1500; // ms in which a letter after `g` is a target
let leader = 0;

type Act = (event: KeyboardEvent) => boolean; // false: no key of the view
let ofView: Act | null = null;

/** Keys of the view in sight. They act where those of the page do not, and never right after `g`. */
export function useViewKeys(act: Act): void {
  useEffect(() => {
    ofView = act;
    return () => void (ofView = null);
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) || target.closest(".xterm") !== null);
}

export function onShortcut(event: KeyboardEvent, help: () => void): void {
  if (isTyping(event.target) || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const led = Date.now() - leader < LED;
  leader = 0;
  if (led && TARGETS[event.key]) {
    go(TARGETS[event.key] as string, route.value.environment);
  } else if (event.key === "g") {
    leader = Date.now();
  } else if (event.key === "/") {
    const field = document.getElementById("search");
    if (field && field.offsetParent) field.focus();
    else location.hash = href("search");
  } else if (event.key === "?") {
    help();
  } else if (led || !ofView?.(event)) {
    return;
  }
  event.preventDefault();
}
