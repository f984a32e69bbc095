"""What to tell a model about a command that it waits for and that will not end, or that leaves something running."""

import itertools
import re
from collections.abc import Iterator, Sequence

from hermetic.tools.terminal.invocations import Invocation, Statement, statements

# A program and the words that must follow it somewhere, in this order: it then runs until somebody ends it.
SERVERS: tuple[tuple[str, ...], ...] = (
    *((manager, "run", script) for manager in ("npm", "pnpm", "yarn", "bun") for script in ("dev", "serve", "watch")),
    *((manager, "start") for manager in ("npm", "pnpm", "yarn")),
    *((manager, script) for manager in ("pnpm", "yarn") for script in ("dev", "serve", "watch")),
    ("vite",), ("vite", "dev"), ("vite", "preview"), ("next", "dev"), ("next", "start"), ("nuxt", "dev"),
    ("astro", "dev"), ("remix", "dev"), ("ng", "serve"), ("gatsby", "develop"), ("webpack", "serve"),
    ("webpack-dev-server",), ("nodemon",), ("live-server",), ("http-server",), ("json-server",),
    ("python", "-m", "http.server"), ("flask", "run"), ("uvicorn",), ("gunicorn",), ("hypercorn",), ("daphne",),
    ("waitress-serve",), ("fastapi", "dev"), ("fastapi", "run"), ("manage.py", "runserver"), ("streamlit", "run"),
    ("jupyter", "notebook"), ("jupyter", "lab"), ("celery", "worker"), ("tensorboard",), ("mlflow", "ui"),
    ("rails", "server"), ("rails", "s"), ("puma",), ("php", "-S"), ("artisan", "serve"), ("mix", "phx.server"),
    ("hugo", "server"), ("jekyll", "serve"), ("mkdocs", "serve"), ("caddy", "run"), ("redis-server",), ("mongod",),
    ("kubectl", "port-forward"), ("ngrok",), ("cloudflared", "tunnel"), ("cargo", "watch"), ("watch",),
    ("docker", "compose", "up"), ("docker-compose", "up"), ("podman", "compose", "up"),
)  # fmt: skip
FOLLOWERS: tuple[tuple[str, ...], ...] = (
    ("tail", "-f"), ("tail", "-F"), ("tail", "--follow"), ("journalctl", "-f"), ("journalctl", "--follow"),
    ("kubectl", "logs", "-f"), ("docker", "logs", "-f"), ("tsc", "--watch"), ("tsc", "-w"), ("jest", "--watch"),
    ("dmesg", "-w"), ("dmesg", "--follow"), ("inotifywait", "-m"),
)  # fmt: skip

_ENDLESS = {  # program → its shapes
    program: [shape for shape in (*SERVERS, *FOLLOWERS) if shape[0] == program]
    for program, *_ in (*SERVERS, *FOLLOWERS)
}
_QUESTIONS = frozenset({"--help", "-h", "-help", "help", "--version", "-V", "version", "-version"})
_DETACHED = frozenset({"-d", "--detach", "-D", "--daemon", "--daemonize", "--background"})
# Only followed by one of these does the program's bare name not mean its server.
_ONE_SHOT = {"vite": frozenset({"build", "optimize"}), "redis-server": frozenset({"--test-memory"})}
_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx", "poetry", "uv", "pdm", "hatch", "bundle"})

BACKGROUND = "start it with background=true: it gets a session_id, and its output, input and end are the process tool's"

_DENIED = re.compile(
    r"Permission denied|Operation not permitted|Read-only file system|Network is unreachable|Could not resolve host"
    r"|Temporary failure in name resolution|Connection refused|Name or service not known"
)
SANDBOXED = (
    "the sandbox seems to have denied it something; if it has to reach the machine itself, call again with "
    "outside=true, and the user is asked"
)


def foreground_hint(command: str) -> str | None:
    """Advice on a command that is run in the foreground; None when there is none. It is never a reason to refuse."""
    found = statements(command)
    calls = [call for statement in found for call in statement.invocations]
    hints = [_on_jobs(found, calls), _on_detaching(calls), _on_servers(found)]
    return " ".join(hint for hint in hints if hint) or None


def _on_jobs(found: Sequence[Statement], calls: Sequence[Invocation]) -> str | None:
    """About `&`, unless the command itself waits for its jobs."""
    if all(statement.operator != "&" for statement in found) or any(call.name == "wait" for call in calls):
        return None
    said = f"`&` leaves a job behind that nobody waits for; to follow or end it, {BACKGROUND}."
    if any(before.operator == "&&" and after.operator == "&" for before, after in itertools.pairwise(found)):
        said += " In `A && B &` the whole chain is the job, A included: a `cd` in it does not change the session."
    return said


def _on_detaching(calls: Sequence[Invocation]) -> str | None:
    for call in calls:
        for name in (*call.wrappers, call.name):
            if name in ("nohup", "setsid", "disown") and not _is_question(call):
                return f"`{name}` is not needed here: nothing is ended when a call returns. Without it, {BACKGROUND}."
    return None


def _on_servers(found: Sequence[Statement]) -> str | None:
    for statement in found:
        if statement.operator == "&":
            continue
        for call in statement.invocations:
            if not _is_question(call) and (name := _endless(call)):
                return (
                    f"`{name}` runs until somebody ends it, and this call waits until its time is over; {BACKGROUND}."
                )
    return None


def _endless(call: Invocation) -> str | None:
    """What of this runs for ever, as a person would name it; None when it ends by itself."""
    words = [call.name, *call.arguments]
    while len(words) > 1 and (words[0] in _RUNNERS or words[0] == "run"):
        words = [word for word in words[1:] if word not in ("run", "exec", "-y", "--yes", "--")]
    if words[0].startswith("python") and len(words) > 1 and words[1].endswith(".py"):
        words = words[1:]
    words[0] = "python" if words[0].startswith("python") else words[0].rsplit("/", 1)[-1]
    if words[0] == "python" and words[1:2] == ["-m"] and len(words) > 2 and words[2] != "http.server":
        words = words[2:]
    if words[0] == "php" and words[1:2] == ["artisan"]:
        words = words[1:]
    if _DETACHED & set(words) or _ONE_SHOT.get(words[0], frozenset()) & set(words):
        return None
    return next((" ".join(shape) for shape in _ENDLESS.get(words[0], ()) if _fits(shape, words)), None)


def _fits(shape: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a shape's words follow the program's name in order."""
    rest = iter(words[1:])
    return all(_leads_to(part, rest) for part in shape[1:])


def _leads_to(part: str, rest: Iterator[str]) -> bool:
    if part.startswith("-") and not part.startswith("--") and len(part) == 2:
        return any(word.startswith("-") and not word.startswith("--") and part[1] in word for word in rest)
    return any(word == part for word in rest)


def _is_question(call: Invocation) -> bool:
    return bool(_QUESTIONS & set(call.arguments))


def sandbox_hint(exit_code: int | None, output: str) -> str | None:
    """What to do about a command that failed because of its sandbox, as far as what it printed tells."""
    return SANDBOXED if exit_code and _DENIED.search(output[-4000:]) else None
