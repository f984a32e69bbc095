/** One attached terminal: offsets, acknowledgements, input in order, and who drives. */

import { signal } from "@preact/signals";
import { toast } from "../parts/toast";
import { type Event, send } from "../tab";
import type { Driver, Ending } from "../types";
import { ACK, encode, type Frame, GAP, INPUT, INPUT_ACK, OUTPUT, REPLAY_BEGIN, REPLAY_END, RESIZE, size } from "./frames";

/** What shows the output. `parsed` callbacks come in order. */
export interface Screen {
  write(data: Uint8Array | string, parsed: () => void): void;
  reset(): void;
  resize(rows: number, cols: number): void;
}

export interface Ended {
  ending: Ending | null;
  left: number;
}

export interface Trouble {
  message: string;
  advice: string;
}

const ACK_EVERY = 64 * 1024;
const PIECE = 32 * 1024; // of a paste
const IN_FLIGHT = 4 * PIECE; // bytes that the server has not acknowledged yet; keys wait for no round trip

export class Channel {
  readonly live = signal(false); // attached over a living connection
  readonly replaying = signal(false);
  readonly driver = signal<Driver | null>(null);
  readonly mine = signal(false); // this tab drives
  readonly ended = signal<Ended | null>(null);
  readonly trouble = signal<Trouble | null>(null);
  readonly pending = signal(0); // bytes of input that wait

  private received: number | null = null; // offset up to which the screen has the output, parsed or not; null: nothing yet
  private acked = 0;
  private inputs = 0;
  private waiting: Uint8Array[] = [];
  private flying = new Map<number, number>(); // id → bytes

  constructor(
    readonly number: number,
    readonly environment: string,
    readonly process: string,
    private readonly isTerminal: boolean, // its size is its driver's; other output has none
    private readonly screen: Screen,
    private readonly proposed: () => { rows: number; cols: number },
  ) {}

  attach(): void {
    const { environment, process, number: channel } = this;
    send({ op: "attach", channel, environment, process, from: this.received, ...this.proposed() });
  }

  take(): void {
    send({ op: "take", channel: this.number });
  }

  /** Gives the keyboard back; false without a connection. */
  give(note = ""): boolean {
    return send({ op: "give", channel: this.number, note });
  }

  /** Types a line that the server neither logs nor records; false without a connection. */
  secret(text: string): boolean {
    return send({ op: "secret", channel: this.number, text });
  }

  resize(rows: number, cols: number): void {
    if (this.mine.value) send(encode(RESIZE, this.number, 0, size(rows, cols)));
  }

  /** Sends input of any size, in order. A viewer types nothing, and the terminal replies to nothing that is replayed. */
  input(data: Uint8Array, isTyped: boolean): void {
    if (!this.live.value || !this.mine.value || (this.replaying.value && !isTyped) || this.ended.value) return;
    for (let start = 0; start < data.length; start += PIECE) this.waiting.push(data.subarray(start, start + PIECE));
    this.pump();
  }

  private pump(): void {
    let flying = [...this.flying.values()].reduce((sum, count) => sum + count, 0);
    while (this.waiting.length > 0 && flying < IN_FLIGHT) {
      const piece = this.waiting.shift() as Uint8Array;
      this.flying.set(++this.inputs, piece.length);
      flying += piece.length;
      send(encode(INPUT, this.number, this.inputs, piece));
    }
    this.pending.value = flying + this.waiting.reduce((sum, piece) => sum + piece.length, 0);
  }

  onFrame({ type, offset, payload }: Frame): void {
    switch (type) {
      case OUTPUT:
        this.received = offset + payload.length;
        this.screen.write(payload, () => this.onParsed(offset + payload.length));
        break;
      case REPLAY_BEGIN: // with the modes that the output before it has set
        this.replaying.value = true;
        this.screen.write(payload, () => {});
        break;
      case REPLAY_END: // behind all output of the replay in the parser's queue
        this.screen.write("", () => (this.replaying.value = false));
        break;
      case GAP:
        this.onGap(offset);
        break;
      case INPUT_ACK:
        for (const id of [...this.flying.keys()]) if (id <= offset) this.flying.delete(id);
        this.pump();
        break;
    }
  }

  private onParsed(offset: number): void {
    if (offset - this.acked < ACK_EVERY) return;
    this.acked = offset;
    send(encode(ACK, this.number, offset));
  }

  private onGap(offset: number): void {
    const skipped = this.received === null ? "Earlier output" : `${(offset - this.received).toLocaleString()} bytes`;
    this.received = offset;
    this.screen.write(`\x1b[0m\r\n\x1b[2m── ${skipped} not shown: more was printed than is kept ──\x1b[0m\r\n`, () => this.onParsed(offset));
  }

  onEvent(event: Event): void {
    switch (event.event) {
      case "attached":
        this.onAttached(event);
        break;
      case "control":
        this.onControl(event);
        break;
      case "ended":
        this.ended.value = { ending: event.ending ?? null, left: event.left ?? 0 };
        this.mine.value = false;
        break;
      case "error":
        if (this.live.value) toast({ text: event.message, advice: event.advice, bad: true });
        else this.trouble.value = { message: event.message, advice: event.advice };
        break;
      case "detached":
        this.live.value = false;
        break;
    }
  }

  private onAttached(event: Event): void {
    this.live.value = true;
    this.trouble.value = null;
    if (this.received === null || event.start > this.received || event.end < this.received) {
      this.screen.reset();
      this.received = null;
    }
    this.acked = event.start;
    this.onControl(event);
  }

  onControl(event: Event): void {
    this.driver.value = event.driver ?? null;
    this.mine.value = event.driver?.you === true;
    if (!this.mine.value && this.isTerminal && event.rows) this.screen.resize(event.rows, event.cols);
  }

  onLost(): void {
    this.live.value = false;
    const lost = this.pending.value;
    this.waiting = [];
    this.flying.clear();
    this.pending.value = 0;
    if (lost > PIECE) {
      this.trouble.value = {
        message: `The connection broke while ${lost.toLocaleString()} bytes of input were on their way.`,
        advice: "Look at what arrived before you send the rest.",
      };
    }
  }
}
