/** Find in a terminal's output. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../parts/icons";
import { FOUND, theme } from "../theme";
import type { XtermScreen } from "../terminal/screen";


export function FindBar({ screen, close }: { screen: XtermScreen; close: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const found = useSignal("");
  useEffect(() => {
    field.current?.focus();
    const listening = screen.search.onDidChangeResults(({ resultIndex, resultCount }) => {
      found.value = resultCount > 0 ? `${resultIndex + 1} of ${resultCount}` : field.current?.value ? "Nothing found" : "";
    });
    return () => {
      listening.dispose();
      screen.search.clearDecorations();
      screen.terminal.focus();
    };
  }, []);
  const options = () => ({ decorations: FOUND[theme.value] });
  const next = () => screen.search.findNext(field.current?.value ?? "", options());
  const previous = () => screen.search.findPrevious(field.current?.value ?? "", options());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter") (event.shiftKey ? previous : next)();
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  };
  return (
    <div class="find" role="search" aria-label="Find in this terminal">
      <input ref={field} type="text" aria-label="Find in output" placeholder="Find in output" onInput={next} onKeyDown={onKeyDown} />
      <span class="muted" role="status">{found}</span>
      <button type="button" class="quiet" aria-label="Previous match" onClick={previous}><Icon name="up" /></button>
      <button type="button" class="quiet" aria-label="Next match" onClick={next}><Icon name="down" /></button>
      <button type="button" class="quiet" aria-label="Close find" onClick={close}><Icon name="close" /></button>
    </div>
  );
}
