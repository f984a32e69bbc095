/** What reaches a person who looks elsewhere: the tab's title and icon, and browser notifications for approvals. */

import { effect, signal } from "@preact/signals";
import { line } from "./format";
import { go } from "./route";
import type { Approval } from "./types";

export const permission = signal<NotificationPermission | "unsupported">("Notification" in window ? Notification.permission : "unsupported");

export async function allowNotifications(): Promise<void> {
  permission.value = await Notification.requestPermission();
}

/** What a screen reader says at once. */
export const announced = signal("");

export function onAsked(approval: Approval): void {
  announced.value = `${line(approval.task, 60) || "An agent"} asks for approval: ${line(approval.command, 160)}`;
  if (permission.value !== "granted" || document.visibilityState === "visible") return;
  const notice = new Notification("An agent asks for approval", { body: line(approval.command, 160), tag: approval.id, icon: "/icon.svg" });
  notice.onclick = () => {
    window.focus();
    go("approvals", "", "", { ask: approval.id });
    notice.close();
  };
}

/** Keeps title and icon in step with the number of questions. */
export function showCount(count: () => number): void {
  effect(() => {
    const waiting = count();
    document.title = waiting > 0 ? `(${waiting}) Hermetic` : "Hermetic";
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (icon) icon.href = waiting > 0 ? "/icon-asking.svg" : "/icon.svg";
  });
}
