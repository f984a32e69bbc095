/** Stop everything: freeze or end an agent's processes and hold its new calls until released. */

import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { post } from "../api";
import { line } from "../format";
import { Dialog } from "../parts/dialog";
import { failed, toast } from "../parts/toast";
import { route } from "../route";
import { allHeld, can, environments, nameOf, reload, running } from "../state";

export function StopDialog({ close }: { close: () => void }) {
  const target = useSignal(route.value.environment);
  const concerned = running.value.filter((process) => process.who !== "person" && (!target.value || process.environment === target.value));
  const stop = (mode: "freeze" | "end") => {
    post("/stop", { environment: target.value || null, mode }).then(() => {
      toast({ text: mode === "freeze" ? "Frozen. New calls wait until you release." : "Ended. New calls wait until you release." });
      void reload();
    }, failed);
    close();
  };
  return (
    <Dialog title="Stop" close={close}>
      <label>
        Where
        <select value={target.value} onChange={(event) => (target.value = event.currentTarget.value)}>
          <option value="">All environments</option>
          {environments.value.map((each) => <option key={each.id} value={each.id}>{`${nameOf(each)} · ${each.kind}`}</option>)}
        </select>
      </label>
      <p>{concerned.length === 0 ? "Agents run nothing there now." : `Agents run ${concerned.length} there:`}</p>
      {concerned.length > 0 && <ul class="stop-list">{concerned.slice(0, 8).map((process) => <li key={process.id} class="mono clip">{line(process.command, 100) || "shell"}</li>)}</ul>}
      <p class="muted">Freeze pauses the processes; release lets them go on. End kills them. Either way the agents' new calls wait until you release. Terminals of people stay.</p>
      <p class="buttons">
        <button type="button" onClick={close}>Cancel</button>
        <button type="button" class="danger" onClick={() => stop("end")}>End</button>
        <button type="button" class="primary" onClick={() => stop("freeze")}>Freeze</button>
      </p>
    </Dialog>
  );
}

/** What is stopped now, over every view, and how to release it. */
export function Holds() {
  const { environment: chosen } = route.value;
  const held = environments.value.filter((each) => each.held && (!allHeld.value || each.id === chosen));
  return (
    <>
      {allHeld.value && <Hold id={null}><strong>Every agent</strong> is stopped, also those that start later. Their calls wait.</Hold>}
      {held.map((each) => <Hold key={each.id} id={each.id}><strong>{nameOf(each)}</strong> is stopped; its agent's calls wait.</Hold>)}
    </>
  );
}

function Hold({ id, children }: { id: string | null; children: ComponentChildren }) {
  const release = () => post("/release", { environment: id }).then(() => reload(), failed);
  return (
    <div class="hold" role="status">
      <span>{children}</span>
      {can("drive") && <button type="button" onClick={release}>{id === null ? "Release all" : "Release"}</button>}
    </div>
  );
}
