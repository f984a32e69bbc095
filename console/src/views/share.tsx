/** Links for others: made with a scope and an expiry, shown once, listed, revoked. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, get, post, remove } from "../api";
import { age, line, now } from "../format";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { failed } from "../parts/toast";
import type { Share } from "../types";

const SCOPES: { scope: string; label: string; means: string }[] = [
  { scope: "view", label: "Watch", means: "see commands, output, files and questions" },
  { scope: "approve", label: "Answer", means: "watch, and answer the agents' questions" },
  { scope: "drive", label: "Drive", means: "watch, type into terminals, run and end commands" },
];
const EXPIRIES: [string, number][] = [["1 hour", 3600], ["8 hours", 8 * 3600], ["1 day", 86400], ["7 days", 7 * 86400]];
const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

const left = (share: Share) => age(share.expires - now() + 30); // 8 h is not 7 h at once

export function ShareDialog({ close }: { close: () => void }) {
  const shares = useSignal<Share[]>([]);
  const made = useSignal<Share | null>(null);
  const read = () => get<{ shares: Share[] }>("/shares").then((found) => (shares.value = found.shares), failed);
  useEffect(() => void read(), []);
  const make = (event: Event & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const wanted = { scope: String(given.get("scope")), expires: Number(given.get("expires")), name: String(given.get("name")).trim() || "guest" };
    post<Share>("/shares", wanted).then((share) => {
      made.value = share;
      void read();
    }, failed);
  };
  const revoke = (share: Share) =>
    remove(at`/shares/${share.id}`).then(() => {
      if (made.value?.id === share.id) made.value = null;
      void read();
    }, failed);
  return (
    <Dialog title="Share this console" close={close}>
      {made.value ? <Made share={made.value} again={() => (made.value = null)} /> : <NewLink make={make} />}
      {shares.value.length > 0 && <Links shares={shares.value} revoke={revoke} />}
      <p class="buttons"><button type="button" onClick={close}>Close</button></p>
    </Dialog>
  );
}

function NewLink({ make }: { make: (event: Event & { currentTarget: HTMLFormElement }) => void }) {
  return (
    <form onSubmit={make}>
      <fieldset class="scopes">
        <legend>What the link allows</legend>
        {SCOPES.map(({ scope, label, means }, index) => (
          <label key={scope} class="scope">
            <input type="radio" name="scope" value={scope} defaultChecked={index === 0} />
            <span><strong>{label}</strong> {means}</span>
          </label>
        ))}
      </fieldset>
      <div class="pair">
        <label>
          For whom
          <input name="name" type="text" maxLength={40} placeholder="guest" autocomplete="off" />
        </label>
        <label>
          Valid for
          <select name="expires">
            {EXPIRIES.map(([label, seconds]) => <option key={seconds} value={String(seconds)} selected={seconds === 28800}>{label}</option>)}
          </select>
        </label>
      </div>
      <p class="buttons"><button type="submit" class="primary"><Icon name="link" /> Make a link</button></p>
    </form>
  );
}

/** The new link. Its secret is not kept, so this is the only time it can be seen. */
function Made({ share, again }: { share: Share; again: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const copied = useSignal(false);
  useEffect(() => field.current?.select(), []);
  const copy = () => navigator.clipboard.writeText(share.url ?? "").then(() => (copied.value = true), () => field.current?.select());
  return (
    <div class="made" role="group" aria-label="New link">
      <p>A link for <strong>{line(share.name, 40)}</strong> ({share.scopes.join(", ")}), valid for {left(share)}. It is shown this once. Everyone who has it gets in.</p>
      <div class="copy">
        <input ref={field} type="text" class="mono" aria-label="Link" readOnly value={share.url ?? ""} onFocus={(event) => event.currentTarget.select()} />
        <button type="button" class="primary" onClick={copy}><Icon name="copy" /> {copied.value ? "Copied" : "Copy"}</button>
      </div>
      {LOOPBACK.includes(location.hostname) && <p class="muted">This console listens on this machine alone. Another machine needs a tunnel first: <code>ssh -L {location.port}:127.0.0.1:{location.port} HOST</code></p>}
      <p><button type="button" onClick={again}>Make another</button></p>
    </div>
  );
}

function Links({ shares, revoke }: { shares: Share[]; revoke: (share: Share) => void }) {
  return (
    <section>
      <h3>Links</h3>
      <ul class="links">
        {shares.map((share) => (
          <li key={share.id}>
            <span class="clip">{line(share.name, 40)}</span>
            <span class="kind">{share.scopes.join(", ")}</span>
            <span class="muted number">{left(share)} left</span>
            <button type="button" class="danger" aria-label={`Revoke the link of ${line(share.name, 40)}`} onClick={() => revoke(share)}>Revoke</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
