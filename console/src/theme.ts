/** Dark or light: the system's choice until a person makes one. */

import { effect, signal } from "@preact/signals";
import type { ITheme } from "@xterm/xterm";

export type Theme = "dark" | "light";
const system = matchMedia("(prefers-color-scheme: light)");
const stored = localStorage.getItem("theme");

export const theme = signal<Theme>(stored === "dark" || stored === "light" ? stored : system.matches ? "light" : "dark");

system.addEventListener("change", () => {
  if (!localStorage.getItem("theme")) theme.value = system.matches ? "light" : "dark";
});
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme.value);
}

export const TERMINAL: Record<Theme, ITheme> = {
  dark: {
    background: "#0b0d10", foreground: "#dfe3ea", cursor: "#8ab0ff", cursorAccent: "#0b0d10", selectionBackground: "#2c4170",
    black: "#1b1f26", red: "#ff7b72", green: "#5fd08a", yellow: "#e8b44f", blue: "#79a6ff", magenta: "#d2a8ff", cyan: "#56c8d8", white: "#c9d1d9",
    brightBlack: "#858f9f", brightRed: "#ffa198", brightGreen: "#8be3ab", brightYellow: "#f2cc7d", brightBlue: "#a5c3ff", brightMagenta: "#e2c5ff", brightCyan: "#8adfea", brightWhite: "#f3f5f8",
  },
  light: {
    background: "#ffffff", foreground: "#1d2127", cursor: "#2f5be0", cursorAccent: "#ffffff", selectionBackground: "#c9d8ff",
    black: "#1d2127", red: "#b3261e", green: "#13713c", yellow: "#7a5200", blue: "#2450c8", magenta: "#7b3bb5", cyan: "#0b6b7a", white: "#5b6472",
    brightBlack: "#616b7a", brightRed: "#c7372e", brightGreen: "#1a8548", brightYellow: "#8f6100", brightBlue: "#2f5be0", brightMagenta: "#8f4bcb", brightCyan: "#0e7d8f", brightWhite: "#3a414c",
  },
};

/** Colours of what was found in a terminal. */
export const FOUND: Record<Theme, { matchBackground: string; activeMatchBackground: string; matchOverviewRuler: string; activeMatchColorOverviewRuler: string }> = {
  dark: { matchBackground: "#6b5310", activeMatchBackground: "#b98a12", matchOverviewRuler: "#b98a12", activeMatchColorOverviewRuler: "#e8b44f" },
  light: { matchBackground: "#fdeeb8", activeMatchBackground: "#f2c14e", matchOverviewRuler: "#f2c14e", activeMatchColorOverviewRuler: "#b37a00" },
};
