/** The tab's one WebSocket: events for lists, channels for terminals, and its own reconnection. */

import { signal } from "@preact/signals";
import { post, problemOf } from "./api";
import type { Channel } from "./terminal/channel";
import { decode } from "./terminal/frames";

export type Connection = "connecting" | "open" | "lost";
export const connection = signal<Connection>("connecting");
export const retryAt = signal(0);

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- an event's fields depend on its name
export type Event = { event: string; seq: number; channel?: number } & Record<string, any>;

const FIRST_RETRY = 300;
const LAST_RETRY = 8000;
const SILENCE = 12_000; // ms without a message, of which the server sends one every 2 s, before the connection counts as lost

let socket: WebSocket | null = null;
let delay = FIRST_RETRY;
let timer = 0;
let heard = 0; // when the last message came
let listener: (event: Event) => void = () => {};
const channels = new Map<number, Channel>();
let lastChannel = 0;

addEventListener("online", retry);
setInterval(() => connection.value === "open" && Date.now() - heard > SILENCE && drop(), 1000);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && retry());

/** Connects until the login ends; `listen` gets every event, {event: "watching"} first after each connection, {event: "out"} at the end. */
export function start(listen: (event: Event) => void): void {
  listener = listen;
  void connect();
}

/** Tries again now instead of later. */
export function retry(): void {
  if (connection.value !== "lost") return;
  clearTimeout(timer);
  void connect();
}

async function connect(): Promise<void> {
  connection.value = "connecting";
  try {
    const { ticket } = await post<{ ticket: string }>("/ticket");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const made = new WebSocket(`${scheme}://${location.host}/api/v1/tab`, "hermetic.tab.1");
    socket?.close();
    socket = made;
    made.binaryType = "arraybuffer";
    made.onopen = () => made.send(JSON.stringify({ op: "hello", ticket }));
    made.onmessage = ({ data }) => {
      if (made !== socket) return;
      heard = Date.now();
      if (typeof data === "string") onEvent(JSON.parse(data) as Event);
      else onFrame(data as ArrayBuffer);
    };
    made.onclose = () => made === socket && lose();
  } catch (error) {
    const problem = problemOf(error);
    if (problem.status === 401) listener({ event: "out", seq: 0, problem });
    else lose();
  }
}

/** Gives a silent connection up: a network that is gone closes nothing. */
function drop(): void {
  const silent = socket;
  lose();
  silent?.close();
}

function lose(): void {
  socket = null;
  connection.value = "lost";
  for (const channel of channels.values()) channel.onLost();
  retryAt.value = Date.now() + delay;
  timer = window.setTimeout(() => void connect(), delay);
  delay = Math.min(delay * 2, LAST_RETRY);
}

function onEvent(event: Event): void {
  if (event.event === "hello") {
    connection.value = "open";
    delay = FIRST_RETRY;
    send({ op: "watch" });
    for (const channel of channels.values()) channel.attach();
    return;
  }
  if (event.channel !== undefined && channels.has(event.channel)) channels.get(event.channel)?.onEvent(event);
  listener(event);
}

function onFrame(data: ArrayBuffer): void {
  const frame = decode(data);
  channels.get(frame.channel)?.onFrame(frame);
}

export function send(message: Record<string, unknown> | Uint8Array<ArrayBuffer>): boolean {
  if (connection.value !== "open" || socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(message instanceof Uint8Array ? message : JSON.stringify(message));
  return true;
}

export function open(make: (number: number) => Channel): Channel {
  const channel = make(++lastChannel);
  channels.set(lastChannel, channel);
  if (connection.value === "open") channel.attach();
  return channel;
}

export function close(channel: Channel): void {
  channels.delete(channel.number);
  send({ op: "detach", channel: channel.number });
}
