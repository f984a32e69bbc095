/** What a visitor without a valid link sees. */

import { useRef } from "preact/hooks";
import type { Problem } from "../api";
import { Mark } from "../parts/mark";

export type Login = { token: string } | { password: string } | null; // null: the cookie from before

export function Welcome({ problem, enter }: { problem: Problem; enter: (login: Login) => Promise<void> }) {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    const [, token] = text.split("#token=");
    void enter(token ? { token } : text ? { password: text } : null);
  };
  const unreachable = problem.status === 0;
  return (
    <main class="welcome">
      <Mark size={40} />
      <h1>{unreachable ? "The console is not running" : "Open the console with its link"}</h1>
      {unreachable ? (
        <p>{problem.message} {problem.advice}</p>
      ) : (
        <>
          <p>A link works once, within ten minutes. Run this on the machine of the console, and open the address it prints:</p>
          <pre class="sample">hermetic serve url</pre>
          {problem.status !== 401 && <p role="alert">{problem.message} {problem.advice}</p>}
        </>
      )}
      <form onSubmit={submit}>
        <label>
          Or paste the link, or type the console's password
          <input ref={field} type="password" autocomplete="current-password" />
        </label>
        <button type="submit" class="primary">{unreachable ? "Try again" : "Open"}</button>
      </form>
    </main>
  );
}
