/** The frame around the views: bar, environments, main view, what needs attention now. */

import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { onShortcut } from "./keys";
import { Failure, Waiting } from "./parts/basics";
import { Icon, type IconName } from "./parts/icons";
import { Mark } from "./parts/mark";
import { Toasts } from "./parts/toast";
import { go, href, route } from "./route";
import { announced } from "./notify";
import { can, loaded, pending, problem, reload } from "./state";
import { connection, retry } from "./tab";
import { theme, toggleTheme } from "./theme";
import { Approvals } from "./views/approvals";
import { Environments } from "./views/environments";
import { Files } from "./views/files";
import { Help } from "./views/help";
import { Now } from "./views/now";
import { Processes } from "./views/processes";
import { Recordings } from "./views/recordings";
import { Search } from "./views/search";
import { ShareDialog } from "./views/share";
import { Holds, StopDialog } from "./views/stop";
import { Terminals } from "./views/terminals";
import { Timeline } from "./views/timeline";

type Item = { view: string; label: string; icon: IconName };

const ITEMS: Item[] = [
  { view: "timeline", label: "Timeline", icon: "timeline" },
  { view: "terminal", label: "Terminals", icon: "terminal" },
  { view: "processes", label: "Processes", icon: "processes" },
  { view: "files", label: "Files", icon: "files" },
  { view: "recordings", label: "Recordings", icon: "recordings" },
  { view: "approvals", label: "Approvals", icon: "approvals" },
];
/** Views that are for all environments. */
const GLOBAL = new Set(["approvals", "recordings", "environments", "search"]);
/** On a phone the first five are in sight, the others are a swipe away. */
const PHONE_ITEMS: Item[] = [
  { view: "environments", label: "Environments", icon: "environments" },
  ...["timeline", "approvals", "terminal"].map((view) => ITEMS.find((item) => item.view === view)!),
  { view: "search", label: "Search", icon: "search" },
  ...ITEMS.filter((item) => ["processes", "files", "recordings"].includes(item.view)),
];

const SHOWS: Record<string, () => ComponentChildren> = {
  timeline: () => <Timeline />,
  terminal: () => <Terminals />,
  processes: () => <Processes />,
  approvals: () => <Approvals />,
  files: () => <Files />,
  search: () => <Search />,
  recordings: () => <Recordings />,
  environments: () => <Environments />,
};

export function App() {
  const dialog = useSignal<"" | "stop" | "share" | "help">("");
  useEffect(() => {
    const listen = (event: KeyboardEvent) => onShortcut(event, () => (dialog.value = "help"));
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  const view = route.value.view;
  const shut = (name: string) => () => void (dialog.value === name && (dialog.value = "")); // the next one may be open already
  const skip = (event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  };
  return (
    <div class={`frame on-${view}`}>
      <a class="skip" href="#main" onClick={skip}>Skip to the view</a>
      <Bar open={(name) => (dialog.value = name)} />
      <nav class="side" aria-label="Environments"><Environments side /></nav>
      <main id="main" tabIndex={-1}>
        <Holds />
        {problem.value && <Failure problem={problem.value} again={() => void reload()} />}
        {loaded.value ? SHOWS[view]?.() : !problem.value && <Waiting />}
      </main>
      <Now />
      <PhoneTabs />
      <Toasts />
      <p class="unseen" role="alert">{announced.value}</p>
      {dialog.value === "stop" && <StopDialog close={shut("stop")} />}
      {dialog.value === "share" && <ShareDialog close={shut("share")} />}
      {dialog.value === "help" && <Help close={shut("help")} />}
    </div>
  );
}

function Bar({ open }: { open: (dialog: "stop" | "share" | "help") => void }) {
  const { view, environment } = route.value;
  return (
    <header class="bar">
      <a class="brand" href={href("timeline")}><Mark /> <span>Hermetic</span></a>
      <nav class="views" aria-label="Views">
        {ITEMS.map(({ view: each, label, icon }) => (
          <a key={each} href={href(each, GLOBAL.has(each) ? "" : environment)} aria-current={each === view ? "page" : undefined}>
            <Icon name={icon} /> {label} {each === "approvals" && <Count />}
          </a>
        ))}
      </nav>
      <SearchField />
      <a class="button quiet search-link" href={href("search")} aria-label="Search" title="Search (/)"><Icon name="search" /></a>
      <Connection />
      <div class="tools">
        {can("admin") && <button type="button" class="quiet" aria-label="Share" title="Share this console" onClick={() => open("share")}><Icon name="share" /></button>}
        <button type="button" class="quiet" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => open("help")}><Icon name="keyboard" /></button>
        <button type="button" class="quiet" aria-label={`Use the ${theme.value === "dark" ? "light" : "dark"} theme`} title="Theme" onClick={toggleTheme}>
          <Icon name={theme.value === "dark" ? "sun" : "moon"} />
        </button>
        {can("drive") && <button type="button" class="danger" onClick={() => open("stop")}><Icon name="stop" /> Stop…</button>}
      </div>
    </header>
  );
}

function Count() {
  const count = pending.value.length;
  return count > 0 ? <span class="count" aria-label={`${count} waiting`}>{count}</span> : null;
}

function SearchField() {
  const submit = (event: Event & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("q") ?? "").trim();
    if (text) go("search", "", "", { q: text });
  };
  return (
    <form class="search-field" role="search" aria-label="Search everywhere" onSubmit={submit}>
      <Icon name="search" />
      <input id="search" name="q" type="search" aria-label="Search commands and output" placeholder="Search" autocomplete="off" />
      <kbd>/</kbd>
    </form>
  );
}

function Connection() {
  const now = connection.value;
  const label = { open: "Live", connecting: "Connecting", lost: "Offline" }[now];
  return (
    <button type="button" class={`connection ${now}`} title={now === "lost" ? "Try again now" : "Connection to the server"} onClick={retry}>
      <span class="dot" aria-hidden="true" /> <span role="status">{label}</span>
    </button>
  );
}

function PhoneTabs() {
  const { view, environment } = route.value;
  const tabs = useRef<HTMLElement>(null);
  useEffect(() => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }), [view]);
  return (
    <nav class="tabs" aria-label="Views on a phone" ref={tabs}>
      {PHONE_ITEMS.map(({ view: each, label, icon }) => (
        <a key={each} href={href(each, GLOBAL.has(each) ? "" : environment)} aria-current={each === view ? "page" : undefined}>
          <Icon name={icon} size={20} /> {label} {each === "approvals" && <Count />}
        </a>
      ))}
    </nav>
  );
}
