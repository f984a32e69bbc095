/** Shapes of the server's answers and events, as its OpenAPI document describes them. */

export interface Isolation {
  kind: string;
  separate_files?: boolean;
  separate_processes?: boolean;
  separate_user?: boolean;
  separate_network?: boolean;
  shared_paths?: string[];
  notes?: string[];
}

export interface Environment {
  id: string;
  kind: string;
  task: string | null;
  state: string;
  problem?: string;
  created: number;
  uptime?: number | null;
  isolation?: Isolation | null;
  image?: string | null;
  cwd?: string | null;
  rss?: number | null;
  cpu_seconds?: number | null;
  memory_bytes?: number | null;
  clients?: number | null;
  processes?: number | null;
  notes?: string[];
  held?: boolean;
}

/** A tag and its values: ["exited", 0], ["signalled", 15], ["timed_out", 2.5] … */
export type Ending = [string, ...(string | number)[]];

export interface Driver {
  name: string;
  since: number;
  you?: boolean;
  tab?: string;
}

export interface TreeNode {
  pid: number;
  parent?: number;
  command: string;
  rss?: number;
  cpu_seconds?: number;
}

export interface Process {
  id: string;
  environment: string;
  kind: "process" | "command";
  session: string;
  command: string;
  pid: number | null;
  pty?: boolean;
  rows?: number;
  cols?: number;
  cwd: string;
  started: number;
  duration: number;
  state: "running" | "ended";
  ending?: Ending | null;
  out: number;
  left?: number;
  tag?: string;
  who?: "agent" | "person";
  recording?: string | null;
  terminal?: boolean;
  driver?: Driver | null;
  ports?: number[];
  tree?: TreeNode[];
}

export interface Block extends Process {
  task?: string | null;
  tail?: string;
  verdict?: { label: string; reason: string } | null;
}

export interface Part {
  label: string;
  category: string;
  rule: string;
  reason: string;
  start: number;
  end: number;
  decoded: string;
}

export interface Need {
  decoded: string;
  reason: string;
  category: string;
  rule: string;
  argv?: string[];
  path?: string;
}

export type Answer = "once" | "session" | "always" | "deny";

export interface Approval {
  id: string;
  subject: string;
  command: string;
  verdict: { label: string; reason: string; start: number; end: number; decoded: string; effects?: string[]; parts?: Part[] };
  task: string;
  environment: string;
  needs?: Need[];
  scope?: Partial<Record<Answer, string>>;
  reason?: string;
  asked: number;
  expires: number;
  circumstances?: Record<string, string>;
  where?: { pid: number; program: string; environment?: string; inside?: boolean };
}

/** A line of the journal. */
export interface Decision {
  time: number;
  decision: "allowed" | "refused";
  by: string;
  task: string;
  label: string;
  command?: string;
  answer?: string;
  request?: string;
  comment?: string;
}

export interface Entry {
  name: string;
  type: string;
  size?: number | null;
  modified?: number | null;
}

export interface Change {
  path: string;
  status: string;
  added?: number | null;
  removed?: number | null;
  diff?: string | null;
}

export interface Hit {
  environment: string;
  process: string;
  command: string;
  line: string;
  offset: number;
}

/** A link for others; the answer to making one has its address, once. */
export interface Share {
  id: string;
  name: string;
  scopes: string[];
  expires: number;
  url?: string | null;
}

export interface Me {
  scopes: string[];
  name: string;
  version: string;
  can_terminal?: boolean;
}
