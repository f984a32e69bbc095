/** xterm.js as a Screen: fonts, themes, search, links, clipboard rules. Loaded when a terminal is first shown. */

import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { effect } from "@preact/signals";
import { title } from "../format";
import { toast } from "../parts/toast";
import { TERMINAL, theme } from "../theme";
import type { Screen } from "./channel";
import { adoptStyles } from "./styles";

const FONT = '"JetBrains Mono Variable", ui-monospace, "DejaVu Sans Mono", monospace';
const FONT_SIZE = 13;
const SMALLEST = 8;
const CLIPBOARD_LIMIT = 100_000;

adoptStyles();

export interface Options {
  onData(data: Uint8Array, isTyped: boolean): void; // not typed: the terminal's own replies to programs
  onSize(rows: number, cols: number): void;
  onTitle(text: string): void;
  onKey(event: KeyboardEvent): boolean; // false: not for the terminal
  isMine(): boolean; // this tab drives and nothing is being replayed
  convertEol: boolean;
  reader: boolean; // screen reader mode
}

export class XtermScreen implements Screen {
  readonly terminal: Terminal;
  readonly search = new SearchAddon();
  private readonly fit = new FitAddon();
  private readonly stops: (() => void)[] = [];
  private fixed: { rows: number; cols: number } | null = null; // the driver's size, when that is another
  private readonly encoder = new TextEncoder();

  private constructor(
    private readonly element: HTMLElement,
    private readonly options: Options,
  ) {
    this.terminal = new Terminal({
      allowProposedApi: true,
      convertEol: options.convertEol,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      fontFamily: FONT,
      fontSize: FONT_SIZE,
      lineHeight: 1.2,
      linkHandler: { activate: (_, target) => openLink(target), hover: (_, target) => (element.title = target), leave: () => (element.title = "") },
      minimumContrastRatio: 4.5,
      screenReaderMode: options.reader,
      scrollback: 10_000,
      theme: TERMINAL[theme.value],
    });
    for (const addon of [this.fit, this.search, new Unicode11Addon(), new WebLinksAddon((_, target) => openLink(target))]) this.terminal.loadAddon(addon);
    this.terminal.unicode.activeVersion = "11";
    this.listen();
    this.terminal.open(element);
    this.watchSize();
    this.stops.push(effect(() => void (this.terminal.options.theme = TERMINAL[theme.value])));
    void this.useGpu();
  }

  static async open(element: HTMLElement, options: Options): Promise<XtermScreen> {
    // xterm measures its font once; it has to be there.
    await document.fonts.load(`${FONT_SIZE}px "JetBrains Mono Variable"`).catch(() => []);
    return new XtermScreen(element, options);
  }

  private listen(): void {
    const { terminal, options, encoder } = this;
    terminal.onData((text) => options.onData(encoder.encode(text), isTyping()));
    terminal.onBinary((text) => options.onData(Uint8Array.from(text, (each) => each.charCodeAt(0)), false));
    terminal.onTitleChange((text) => options.onTitle(title(text)));
    terminal.onResize(({ rows, cols }) => !this.fixed && options.onSize(rows, cols));
    terminal.attachCustomKeyEventHandler((event) => options.onKey(event));
    terminal.parser.registerOscHandler(52, (data) => this.onClipboard(data));
  }

  /** OSC 52: programs never read the clipboard, and write it only when the person clicks. */
  private onClipboard(data: string): boolean {
    const encoded = data.slice(data.indexOf(";") + 1);
    if (encoded === "?" || encoded.length > CLIPBOARD_LIMIT || !this.options.isMine()) return true;
    try {
      const text = new TextDecoder().decode(Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0)));
      toast({ text: `A program wants to copy ${text.length.toLocaleString()} characters`, advice: title(text), action: { label: "Copy", run: () => void navigator.clipboard.writeText(text) } }, 20);
    } catch {
      // not base64: nothing to copy
    }
    return true;
  }

  /** WebGL on a real graphics processor; software rendering is slower than the DOM. */
  private async useGpu(): Promise<void> {
    const context = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
    const names = context?.getExtension("WEBGL_debug_renderer_info");
    const name = context && names ? String(context.getParameter(names.UNMASKED_RENDERER_WEBGL)) : "software";
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    if (/software|swiftshader|llvmpipe|softpipe/i.test(name)) return;
    const { WebglAddon } = await import("@xterm/addon-webgl");
    const addon = new WebglAddon();
    addon.onContextLoss(() => addon.dispose());
    this.terminal.loadAddon(addon);
  }

  private watchSize(): void {
    const observer = new ResizeObserver(() => this.adapt());
    observer.observe(this.element);
    this.stops.push(() => observer.disconnect());
    this.adapt();
  }

  /** Fits the grid to the element, or the font to the driver's grid. */
  private adapt(): void {
    if (this.element.clientWidth === 0) return;
    if (!this.fixed) {
      this.terminal.options.fontSize = FONT_SIZE;
      this.fit.fit();
      return;
    }
    const { rows, cols } = this.fixed;
    this.terminal.options.fontSize = FONT_SIZE;
    const room = this.fit.proposeDimensions();
    if (room) {
      const share = Math.min(1, room.cols / cols, room.rows / rows);
      this.terminal.options.fontSize = Math.max(SMALLEST, Math.floor(FONT_SIZE * share * 2) / 2);
    }
    this.terminal.resize(cols, rows);
  }

  get size(): { rows: number; cols: number } {
    return { rows: this.terminal.rows, cols: this.terminal.cols };
  }

  write(data: Uint8Array | string, parsed: () => void): void {
    this.terminal.write(data, parsed);
  }

  reset(): void {
    this.terminal.reset();
  }

  resize(rows: number, cols: number): void {
    this.fixed = { rows, cols };
    this.adapt();
  }

  /** This tab drives: its own size rules. */
  release(): void {
    this.fixed = null;
    this.adapt();
    this.options.onSize(this.terminal.rows, this.terminal.cols);
  }

  onDispose(stop: () => void): void {
    this.stops.push(stop);
  }

  dispose(): void {
    for (const stop of this.stops) stop();
    this.terminal.dispose();
  }
}

/** Whether a key or a paste is being handled: output is parsed in timers and in messages of the socket. */
function isTyping(): boolean {
  const handled = window.event;
  return handled instanceof KeyboardEvent || handled instanceof InputEvent || handled instanceof ClipboardEvent;
}

function openLink(target: string): void {
  if (/^https?:\/\//i.test(target)) window.open(target, "_blank", "noopener,noreferrer");
}
