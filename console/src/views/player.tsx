/** Plays a recording: play and pause, seek, speed, jump to commands. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, problemOf, request, type Problem } from "../api";
import { line } from "../format";
import { Failure } from "../parts/basics";
import { Icon } from "../parts/icons";
import { type Cast, parse } from "../terminal/cast";
import type { XtermScreen } from "../terminal/screen";
import { loadScreen } from "./pane";

const SPEEDS = [1, 2, 4, 8];

/** Feeds a cast's events to a screen as time goes on. */
class Playback {
  time = 0;
  private next = 0;

  constructor(
    readonly cast: Cast,
    private readonly screen: XtermScreen,
  ) {
    this.rewind();
  }

  private rewind(): void {
    this.screen.write("\x1bc", () => {}); // a reset in its place behind what is not parsed yet
    this.resize(this.cast.rows, this.cast.cols);
    this.next = 0;
  }

  seek(time: number): void {
    if (time < this.time) this.rewind();
    this.time = Math.min(time, this.cast.length);
    for (let event = this.cast.events[this.next]; event && event.time <= this.time; event = this.cast.events[++this.next]) {
      if (event.code === "o") this.screen.write(event.data, () => {});
      else if (event.code === "r") {
        const [cols, rows] = event.data.split("x").map(Number);
        if (rows && cols) this.resize(rows, cols);
      }
    }
  }

  private resize(rows: number, cols: number): void {
    this.screen.write("", () => this.screen.resize(rows, cols));
  }
}

export function Player({ id }: { id: string }) {
  const box = useRef<HTMLDivElement>(null);
  const playback = useRef<Playback | null>(null);
  const cast = useSignal<Cast | null>(null);
  const problem = useSignal<Problem | null>(null);
  const time = useSignal(0);
  const playing = useSignal(false);
  const speed = useSignal(1);

  useEffect(() => {
    let screen: XtermScreen | null = null;
    let gone = false;
    Promise.all([request("GET", at`/recordings/${id}`).then((response) => response.text()), loadScreen()])
      .then(async ([text, { XtermScreen }]) => {
        const found = parse(text);
        if (gone || !box.current) return;
        const made = await XtermScreen.open(box.current, { onData: () => {}, onSize: () => {}, onTitle: () => {}, onKey: () => false, isMine: () => false, convertEol: false, reader: false });
        if (gone) return made.dispose();
        screen = made;
        playback.current = new Playback(found, screen);
        cast.value = found;
        playing.value = true;
      })
      .catch((error) => gone || (problem.value = problemOf(error)));
    return () => {
      gone = true;
      screen?.dispose();
    };
  }, [id]);

  const playingNow = playing.value;
  useEffect(() => {
    if (!playingNow) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(stamp) {
      seek(time.value + ((stamp - last) / 1000) * speed.value);
      last = stamp;
      if (cast.value && time.value >= cast.value.length) playing.value = false;
      else frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [playingNow]);

  const seek = (to: number) => {
    playback.current?.seek(to);
    time.value = playback.current?.time ?? 0;
  };
  const toggle = () => {
    if (!playing.value && cast.value && time.value >= cast.value.length) seek(0);
    playing.value = !playing.value;
  };
  if (problem.value) return <Failure problem={problem.value} />;
  const length = cast.value?.length ?? 0;
  return (
    <section class="player" aria-label="Player">
      <div class="screen-room"><div class="screen" ref={box} data-testid="screen" /></div>
      <div class="player-bar">
        <button type="button" class="primary" aria-label={playingNow ? "Pause" : "Play"} onClick={toggle}><Icon name={playingNow ? "pause" : "play"} /></button>
        <input type="range" aria-label="Position" min={0} max={length} step="any" value={time.value} onInput={(event) => seek(Number(event.currentTarget.value))} />
        <span class="muted figure">{time.value.toFixed(1)} / {length.toFixed(1)} s</span>
        <select aria-label="Speed" value={String(speed.value)} onChange={(event) => (speed.value = Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => <option key={each} value={String(each)}>{each}×</option>)}
        </select>
        <a class="button" href={`/api/v1${at`/recordings/${id}`}`} download={`${id}.cast`}>Save</a>
      </div>
      {cast.value && cast.value.marks.length > 0 && (
        <ol class="marks" aria-label="Commands">
          {cast.value.marks.map((mark, index) => <li key={index}><button type="button" class="quiet" onClick={() => seek(mark.time)}><span class="muted figure">{mark.time.toFixed(1)} s</span> <span class="mono clip">{line(mark.label, 200)}</span></button></li>)}
        </ol>
      )}
    </section>
  );
}
