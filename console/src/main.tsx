/** Starts the page: exchanges the start link's token for a cookie, then shows the console. */

import { signal } from "@preact/signals";
import { render } from "preact";
import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./style/base.css";
import "./style/frame.css";
import "./style/views.css";
import { post, problemOf, type Problem } from "./api";
import { App } from "./app";
import { showCount } from "./notify";
import { begin, pending } from "./state";
import { loadScreen } from "./views/pane";
import { type Login, Welcome } from "./views/welcome";

type Stage = "starting" | "ready" | Problem;
const stage = signal<Stage>("starting");

/** Signs in and reads the first lists. */
async function enter(login: Login): Promise<void> {
  stage.value = "starting";
  try {
    if (login) await post("/login", login);
    await begin((problem) => (stage.value = problem));
    stage.value = "ready";
    showCount(() => pending.value.length);
    // The terminal's code is most of the page; it is there before the first click.
    setTimeout(() => void loadScreen(), 300);
  } catch (error) {
    stage.value = problemOf(error);
  }
}

/** The token of the start link, which leaves the address bar and the history at once. */
function takeToken(): Login {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return null;
  history.replaceState(null, "", "/#/timeline");
  return { token };
}

function Page() {
  if (stage.value === "ready") return <App />;
  if (stage.value === "starting") return <main class="starting" aria-busy="true" aria-label="Starting" />;
  return <Welcome problem={stage.value} enter={enter} />;
}

addEventListener("hashchange", () => {
  const login = takeToken();
  if (login) void enter(login);
});
render(<Page />, document.getElementById("page") as HTMLElement);
void enter(takeToken());
