/** HTTP calls. Every failure is a Problem that says what happened and what to do. */

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly advice: string,
    readonly body: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

const BASE = "/api/v1";
const OFFLINE = new Problem(0, "unreachable", "The server does not answer.", "Is `hermetic serve` still running? The page tries again by itself.");

export async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const init: RequestInit = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(BASE + path, init);
  } catch {
    throw OFFLINE;
  }
  if (!response.ok) throw await problem(response);
  return response;
}

async function problem(response: Response): Promise<Problem> {
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const error = (body.error ?? {}) as Record<string, string>;
  return new Problem(
    response.status,
    error.code ?? `http_${response.status}`,
    error.message ?? `The server answered ${response.status}.`,
    error.advice ?? "Try again; the server's output may say more.",
    body,
  );
}

async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(method, path, body);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export const get = <T>(path: string) => json<T>("GET", path);
export const post = <T>(path: string, body: unknown = {}) => json<T>("POST", path, body);
export const remove = <T>(path: string) => json<T>("DELETE", path);

/** A path with its parts escaped: at`/environments/${id}/file?path=${path}`. */
export function at(texts: TemplateStringsArray, ...values: (string | number)[]): string {
  return texts.reduce((path, text, index) => path + encodeURIComponent(String(values[index - 1])) + text);
}

export const problemOf = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, "page", String((error as Error)?.message ?? error), "Reload the page; report this if it comes back.");
