/** Small parts that every view uses. */

import type { ComponentChildren } from "preact";
import type { Problem } from "../api";
import { ended, outcome } from "../format";
import { environment, nameOf, portsOf } from "../state";
import type { Process } from "../types";
import { Icon, type IconName } from "./icons";

export function Empty({ icon, title, children }: { icon: IconName; title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <h2>{title}</h2>
      <div class="empty-text">{children}</div>
    </div>
  );
}

export function Failure({ problem, again }: { problem: Problem | { message: string; advice: string }; again?: () => void }) {
  return (
    <div class="failure" role="alert">
      <strong>{problem.message}</strong>
      <span>{problem.advice}</span>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** How a process is or ended, as a symbol with words for screen readers. */
export function Outcome({ process }: { process: Pick<Process, "state" | "ending" | "left"> }) {
  const how = outcome(process);
  return (
    <span class={`outcome ${how}`} title={ended(process.ending)}>
      {how === "running" ? <span class="pulse" aria-hidden="true" /> : <Icon name={how} size={14} />}
      <span class="unseen">{ended(process.ending)}</span>
    </span>
  );
}

/** The environment that a view is of, beside its heading: nothing else names it on a phone. */
export function Of({ id }: { id: string }) {
  return <span class="of clip">{nameOf(environment(id), id)}</span>;
}

export function Key({ children }: { children: ComponentChildren }) {
  return <kbd>{children}</kbd>;
}

export function Waiting({ rows = 4 }: { rows?: number }) {
  return (
    <div class="waiting" aria-label="Loading" role="status">
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} />
      ))}
    </div>
  );
}

export function Ports({ process }: { process: Process }) {
  return (
    <>
      {portsOf(process).map((port) => (
        <span key={port} class="port">
          :{port}
        </span>
      ))}
    </>
  );
}
