/** Where the page is: #/VIEW/ENVIRONMENT/ID?option=value. */

import { signal } from "@preact/signals";

export interface Route {
  view: string;
  environment: string;
  id: string;
  options: URLSearchParams;
}

export const VIEWS = ["timeline", "terminal", "processes", "approvals", "files", "search", "recordings", "environments"];

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", environment = "", id = ""] = path.split("/").map(decode);
  return { view: VIEWS.includes(view) ? view : "timeline", environment, id, options: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

export function href(view: string, environment = "", id = "", options: Record<string, string> = {}): string {
  const path = [view, environment, id].filter(Boolean).map(encodeURIComponent).join("/");
  const query = new URLSearchParams(Object.entries(options).filter(([, value]) => value)).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

export function go(...to: Parameters<typeof href>): void {
  location.hash = href(...to);
}
