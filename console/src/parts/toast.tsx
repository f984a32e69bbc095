/** Short notices at the page's edge; the list is a live region. */

import { signal } from "@preact/signals";
import { problemOf } from "../api";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  advice?: string;
  bad?: boolean;
  action?: { label: string; run: () => void };
}

const toasts = signal<Toast[]>([]);
let last = 0;

export function toast(made: Omit<Toast, "id">, seconds = 6): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { ...made, id }];
  setTimeout(() => dismiss(id), seconds * 1000);
}

export function failed(error: unknown): void {
  const problem = problemOf(error);
  toast({ text: problem.message, advice: problem.advice, bad: true }, 10);
}

const dismiss = (id: number) => (toasts.value = toasts.value.filter((each) => each.id !== id));

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, advice, bad, action }) => (
        <div key={id} class={bad ? "toast bad" : "toast"}>
          <div>
            <strong>{text}</strong>
            {advice && <p>{advice}</p>}
          </div>
          {action && (
            <button
              type="button"
              onClick={() => {
                action.run();
                dismiss(id);
              }}
            >
              {action.label}
            </button>
          )}
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
