/** Environments that a list could not ask. */

import type { ComponentChildren } from "preact";
import { environment, nameOf } from "../state";

export function Unanswered({ ids, children }: { ids: string[]; children: ComponentChildren }) {
  const many = ids.length > 1;
  const names = ids.map((id) => nameOf(environment(id), id)).join(", ");
  return (
    <p class="unanswered" role="status">
      <strong>{names}</strong> {many ? "do" : "does"} not answer right now. {children} {many ? "they do" : "it does"}.
    </p>
  );
}
