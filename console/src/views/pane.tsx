/** A live terminal: output with replay, who drives, take over and give back, find, secrets, exit status. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { at, post, remove } from "../api";
import { bytes, ended, line } from "../format";
import { Failure, Key } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { failed, toast } from "../parts/toast";
import { go } from "../route";
import { can } from "../state";
import * as tab from "../tab";
import { Channel } from "../terminal/channel";
import type { XtermScreen } from "../terminal/screen";
import type { Process } from "../types";
import { FindBar } from "./find";

export const loadScreen = () => import("../terminal/screen");

interface Live {
  channel: Channel;
  screen: XtermScreen;
}

/** Opens screen and channel for a process; both end with the component. */
function useLive(process: Process, onTitle: (text: string) => void, onKey: (event: KeyboardEvent, live: Live) => boolean, reader: boolean) {
  const box = useRef<HTMLDivElement>(null);
  const [live, setLive] = useState<Live | null>(null);
  useEffect(() => {
    let gone = false;
    let made: Live | null = null;
    void loadScreen().then(async ({ XtermScreen }) => {
      if (gone || !box.current) return;
      const screen = await XtermScreen.open(box.current, {
        onData: (data, isTyped) => made?.channel.input(data, isTyped),
        onSize: (rows, cols) => made?.channel.resize(rows, cols),
        onTitle,
        onKey: (event) => made === null || onKey(event, made),
        isMine: () => made !== null && made.channel.mine.value && !made.channel.replaying.value,
        convertEol: process.pty !== true,
        reader,
      });
      if (gone) return screen.dispose();
      const channel = tab.open((number) => new Channel(number, process.environment, process.id, process.pty === true, screen, () => screen.size));
      made = { channel, screen };
      const stop = channel.mine.subscribe((mine) => {
        screen.terminal.options.cursorInactiveStyle = mine ? "outline" : "none";
        if (mine) screen.release();
      });
      screen.onDispose(stop);
      setLive(made);
      if (matchMedia("(pointer: fine)").matches) screen.terminal.focus();
    }, failed);
    return () => {
      gone = true;
      setLive(null);
      if (made) {
        tab.close(made.channel);
        made.screen.dispose();
      }
    };
  }, [process.environment, process.id, reader]);
  return { box, live };
}

export function Pane({ process, compact = false }: { process: Process; compact?: boolean }) {
  const title = useSignal("");
  const find = useSignal(false);
  const dialog = useSignal<"" | "give" | "secret">("");
  const reader = useSignal(localStorage.getItem("screen-reader") === "1");
  const { box, live } = useLive(process, (text) => (title.value = text), onKey, reader.value);

  function onKey(event: KeyboardEvent, { channel }: Live): boolean {
    if (event.type !== "keydown") return true;
    const control = event.ctrlKey && event.shiftKey;
    if (event.key === "Enter" && event.shiftKey) {
      if (channel.mine.value && event.ctrlKey) dialog.value = "give";
      else if (!channel.mine.value && can("drive")) channel.take();
      else return true;
    } else if (control && event.code === "KeyF") {
      find.value = true;
    } else if (event.shiftKey && event.key === "F6") {
      box.current?.closest("section")?.querySelector<HTMLElement>("header button, header a")?.focus();
    } else {
      return true;
    }
    event.preventDefault();
    return false;
  }

  const toggleReader = () => {
    reader.value = !reader.value;
    localStorage.setItem("screen-reader", reader.value ? "1" : "0");
    toast({ text: reader.value ? "Output is read aloud by screen readers" : "Screen reader mode is off" });
  };

  return (
    <section class={compact ? "pane compact" : "pane"} aria-label={`Terminal: ${line(process.command, 80)}`}>
      <header>
        <div class="pane-title">
          <strong class="mono">{title.value || line(process.command, 200) || "shell"}</strong>
          {live && <Driver live={live} process={process} />}
        </div>
        <div class="tools">
          {live && <Control live={live} give={() => (dialog.value = "give")} />}
          {live?.channel.mine.value && (
            <button type="button" class="quiet" title="Type a secret: not logged, not recorded" aria-label="Type a secret" onClick={() => (dialog.value = "secret")}>
              <Icon name="key" />
            </button>
          )}
          <button type="button" class="quiet" title="Find (Ctrl+Shift+F)" aria-label="Find" aria-pressed={find.value} onClick={() => (find.value = !find.value)}>
            <Icon name="search" />
          </button>
          <button type="button" class="quiet wide" title="Screen reader mode" aria-label="Screen reader mode" aria-pressed={reader.value} onClick={toggleReader}>
            <Icon name="reader" />
          </button>
          {can("drive") && !live?.channel.ended.value && <Record process={process} />}
          {process.terminal && can("drive") && <Ends process={process} />}
        </div>
      </header>
      {find.value && live && <FindBar screen={live.screen} close={() => (find.value = false)} />}
      <div class="screen-room" aria-busy={!live || live.channel.replaying.value}>
        <div class="screen" ref={box} data-testid="screen" />
        {live && <Notices live={live} />}
      </div>
      {dialog.value === "give" && live && <Give live={live} close={() => (dialog.value = "")} />}
      {dialog.value === "secret" && live && <Secret live={live} close={() => (dialog.value = "")} />}
    </section>
  );
}

function Driver({ live: { channel }, process }: { live: Live; process: Process }) {
  const driver = channel.driver.value;
  const finished = channel.ended.value;
  if (finished) return <span class="badge">{ended(finished.ending)}</span>;
  if (channel.mine.value) return <span class="badge you">You drive</span>;
  return <span class="badge">{driver ? `${line(driver.name, 40)} drives` : process.who === "person" ? "No driver" : "The agent drives"}</span>;
}

function Control({ live: { channel, screen }, give }: { live: Live; give: () => void }) {
  if (!can("drive") || channel.ended.value || !channel.live.value) return null;
  if (channel.mine.value) {
    return (
      <button type="button" onClick={give}>
        Give back <Key>Ctrl ⇧ ⏎</Key>
      </button>
    );
  }
  const take = () => {
    channel.take();
    screen.terminal.focus();
  };
  return (
    <button type="button" class="primary" onClick={take}>
      Take over <Key>⇧ ⏎</Key>
    </button>
  );
}

/** What the person has to know about the connection, over the screen, so that nothing moves. */
function Notices({ live: { channel } }: { live: Live }) {
  const finished = channel.ended.value;
  const trouble = channel.trouble.value;
  if (trouble) return <div class="over"><Failure problem={trouble} /></div>;
  if (finished) {
    return (
      <div class="over foot" role="status">
        Ended: {ended(finished.ending)}
        {finished.left > 0 && ` · ${finished.left} of its processes still run`}
      </div>
    );
  }
  if (tab.connection.value !== "open") return <div class="over foot" role="status">Connection lost: what you type is not sent. Reconnecting …</div>;
  if (channel.pending.value > 64 * 1024) return <div class="over foot" role="status">Pasting: {bytes(channel.pending.value)} to go</div>;
  return null;
}

/** Starts and ends a recording of what the terminal shows. */
function Record({ process }: { process: Process }) {
  const id = useSignal(process.recording ?? "");
  const start = () => post<{ id: string }>("/recordings", { environment: process.environment, process: process.id }).then((made) => (id.value = made.id), failed);
  const stop = () =>
    post(at`/recordings/${id.value}/stop`).then(() => {
      const kept = id.value;
      id.value = "";
      toast({ text: "The recording is kept", action: { label: "Play", run: () => go("recordings", "", "", { play: kept }) } });
    }, failed);
  return (
    <button type="button" class={id.value ? "quiet wide on-air" : "quiet wide"} aria-label="Record" aria-pressed={id.value !== ""} title={id.value ? "End the recording" : "Record"} onClick={id.value ? stop : start}>
      <Icon name="record" />
    </button>
  );
}

function Ends({ process }: { process: Process }) {
  const base = at`/environments/${process.environment}/terminals/${process.id}`;
  const restart = () => post<Process>(`${base}/restart`).then((made) => go("terminal", process.environment, made.id), failed);
  const close = () =>
    remove<{ ended?: string[] }>(base).then(({ ended: names = [] }) => {
      toast({ text: names.length > 0 ? `Terminal closed. Ended with it: ${line(names.join(", "), 200)}` : "Terminal closed" });
      go("terminal", process.environment);
    }, failed);
  return (
    <>
      <button type="button" class="wide" onClick={restart}>
        Restart
      </button>
      <button type="button" class="quiet" title="Close the terminal and end its processes" aria-label="Close the terminal" onClick={close}>
        <Icon name="close" />
      </button>
    </>
  );
}

function Give({ live: { channel, screen }, close }: { live: Live; close: () => void }) {
  const note = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const sent = channel.give(note.current?.value ?? "");
    if (!sent) toast({ text: "Not given back: there is no connection", advice: "Try again once the terminal is live.", bad: true });
    close();
    screen.terminal.focus();
  };
  return (
    <Dialog title="Give the terminal back to the agent" close={close}>
      <form onSubmit={submit}>
        <label>
          Note for the agent (optional)
          <input ref={note} type="text" maxLength={2000} placeholder="I fixed the merge conflict in app.py" />
        </label>
        <p class="buttons">
          <button type="button" onClick={close}>Keep driving</button>
          <button type="submit" class="primary">Give back <Key>⏎</Key></button>
        </p>
      </form>
    </Dialog>
  );
}

function Secret({ live: { channel, screen }, close }: { live: Live; close: () => void }) {
  const text = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const sent = channel.secret(text.current?.value ?? "");
    if (!sent) toast({ text: "The secret was not typed: there is no connection", advice: "Type it again once the terminal is live.", bad: true });
    close();
    screen.terminal.focus();
  };
  return (
    <Dialog title="Type a secret" close={close}>
      <form onSubmit={submit}>
        <label>
          It is typed into the terminal, followed by Enter. It stays out of logs, recordings and the agent's view.
          <input ref={text} type="password" autocomplete="off" />
        </label>
        <p class="buttons">
          <button type="button" onClick={close}>Cancel</button>
          <button type="submit" class="primary">Type it <Key>⏎</Key></button>
        </p>
      </form>
    </Dialog>
  );
}
