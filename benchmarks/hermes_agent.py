"""One scripted task of the real Hermes Agent, with its own tools and with Hermetic's: outcomes and
times side by side.

Run it with a Python that has `hermes-agent` and this package: `python -m benchmarks.hermes_agent
--help`. A local server plays the model, so no network and no key is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Fields = dict[str, Any]
Step = tuple[str, str, Callable[[list[Fields]], Fields]]  # name, tool, results so far → arguments

SIDES = ("hermes", "hermetic")
TURN_SECONDS = 120.0
INTERRUPT_AFTER = 5.0  # long after its command has printed
PROGRAM = "import sys\n\n\ndef answer():\n    return 41\n\n\nprint(answer())\nsys.exit(3)\n"
SCRIPT = """\
from hermes_tools import read_file, terminal, write_file
lines = read_file("{0}/notes/b.py")["content"].count("return")
said = terminal("{1} {0}/notes/b.py")
write_file("{0}/notes/count.txt", str(lines))
print(lines, said["output"].strip(), said["exit_code"])
"""


def steps(directory: str, python: str = "python3") -> list[Step]:
    """The task: 16 calls of tools, by name, tool and arguments."""
    return [
        (
            "foreground",
            "terminal",
            lambda got: {"command": "mkdir -p notes && echo hello | tee notes/a.txt"},
        ),
        ("exit code", "terminal", lambda got: {"command": "echo out; echo err >&2; exit 4"}),
        ("state: set", "terminal", lambda got: {"command": "export STAGE=test; cd notes"}),
        ("state: read", "terminal", lambda got: {"command": "echo $STAGE; basename $PWD; cd .."}),
        (
            "write_file",
            "write_file",
            lambda got: {"path": f"{directory}/notes/b.py", "content": PROGRAM},
        ),
        ("read_file", "read_file", lambda got: {"path": f"{directory}/notes/b.py"}),
        (
            "patch",
            "patch",
            lambda got: {
                "mode": "replace",
                "path": f"{directory}/notes/b.py",
                "old_string": "return 41",
                "new_string": "return 42",
            },
        ),
        (
            "search_files",
            "search_files",
            lambda got: {"pattern": "return 4", "path": f"{directory}/notes"},
        ),
        ("run it", "terminal", lambda got: {"command": f"{python} notes/b.py"}),
        ("execute_code", "execute_code", lambda got: {"code": SCRIPT.format(directory, python)}),
        ("approval: yes", "terminal", lambda got: {"command": "git push --force origin approved"}),
        ("approval: no", "terminal", lambda got: {"command": "git push --force origin denied"}),
        (
            "background",
            "terminal",
            lambda got: {
                "command": "sleep 5; echo built; exit 6",
                "background": True,
                "notify_on_complete": True,
            },
        ),
        (
            "process poll",
            "process",
            lambda got: {"action": "poll", "session_id": got[-1].get("session_id")},
        ),
        ("timeout", "terminal", lambda got: {"command": "echo before; sleep 600", "timeout": 2}),
        ("interrupt", "terminal", lambda got: {"command": "echo before; sleep 600"}),
    ]


def outcome(name: str, answer: Fields) -> Any:
    """What both sides should agree on."""
    output = str(answer.get("output", "")).strip()
    if name in ("write_file", "patch"):
        return "done" if not answer.get("error") else answer["error"]
    if name == "read_file":
        return "return 41" in str(answer.get("content"))
    if name == "search_files":
        return "return 42" in json.dumps(answer)
    if name == "execute_code":
        return [answer.get("status"), output, answer.get("tool_calls_made")]
    if name.startswith("approval"):
        return answer.get("status") or answer.get("exit_code")
    if name == "background":
        return [answer.get("exit_code"), str(answer.get("session_id"))[:5]]
    if name == "process poll":
        return answer.get("status")
    if name in ("timeout", "interrupt"):
        return [answer.get("exit_code") or answer.get("status"), output.splitlines()[:1]]
    return [answer.get("exit_code"), sorted(output.splitlines())]  # two streams have no order


# -- the model
class Model(ThreadingHTTPServer):
    """Plays the model: asks for one step after the other, and says "done" after the last one."""

    daemon_threads = True

    def __init__(self, script: Sequence[Step]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.at = 0
        self.until = 0  # steps that the present turn may take
        self.results: list[tuple[str, Fields]] = []
        self.pending = ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def reply(self, messages: list[Fields]) -> Fields:
        """The message of the model for these messages."""
        if self.pending and messages[-1].get("role") == "tool":
            self.results.append((self.pending, _read(messages[-1]["content"])))
            self.pending = ""
        if self.at >= self.until or self.pending:
            return {"role": "assistant", "content": "done"}
        name, tool, arguments = self.script[self.at]
        self.at += 1
        self.pending = name
        given = json.dumps(arguments([answer for _, answer in self.results]))
        call = {
            "index": 0,
            "id": f"call_{self.at}",
            "type": "function",
            "function": {"name": tool, "arguments": given},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def _read(content: Any) -> Fields:
    text = content if isinstance(content, str) else json.dumps(content)
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
        except ValueError:
            return {"error": text}
    return found if isinstance(found, dict) else {"result": found}


class Handler(BaseHTTPRequestHandler):
    """The OpenAI-compatible interface of the model."""

    server: Model

    def do_GET(self) -> None:
        self._send(
            json.dumps(
                {"object": "list", "data": [{"id": "fake", "context_length": 200_000}]}
            ).encode()
        )

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if not self.path.endswith("/chat/completions"):
            self._send(b"{}")
            return
        message = (
            self.server.reply(asked["messages"])
            if asked.get("tools")
            else {"role": "assistant", "content": "t"}
        )
        why = "tool_calls" if message.get("tool_calls") else "stop"
        if not asked.get("stream"):
            self._send(
                json.dumps(
                    _completion({"message": message, "finish_reason": why}, "chat.completion")
                ).encode()
            )
            return
        chunks: list[Fields] = [
            {"delta": message, "finish_reason": None},
            {"delta": {}, "finish_reason": why},
        ]
        lines = [
            f"data: {json.dumps(_completion(chunk, 'chat.completion.chunk'))}\n\n"
            for chunk in chunks
        ]
        self._send(("".join(lines) + "data: [DONE]\n\n").encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _completion(choice: Fields, kind: str) -> Fields:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "1",
        "object": kind,
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, **choice}],
        "usage": usage,
    }


# -- the agent, in a process of its own
def drive(arguments: argparse.Namespace) -> None:
    """Runs the task with the real agent; prints outcomes and times as JSON."""
    home, work = Path(arguments.home), arguments.work
    inside = work if arguments.kind == "local" else "/workspace"
    # The first python3 on PATH is not the same on both sides.
    model = Model(steps(inside, sys.executable if arguments.kind == "local" else "python3"))
    home.mkdir(parents=True, exist_ok=True)
    config: Fields = {
        "model": {
            "default": "fake",
            "provider": "custom",
            "base_url": model.url,
            "api_key": "none",
        },
        "approvals": {"mode": "manual"},
        "plugins": {"enabled": [], "entries": {}},
    }
    if arguments.side == "hermetic":
        config["plugins"] = {"enabled": ["hermetic"]}
        if not arguments.forbidden:
            config["plugins"]["entries"] = {"hermetic": {"allow_tool_override": True}}
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    os.environ |= {
        "HERMES_HOME": str(home),
        "HERMES_INTERACTIVE": "1",
        "TERMINAL_ENV": arguments.kind,
    }
    os.environ |= {"TERMINAL_CWD": inside, "TERMINAL_LIFETIME_SECONDS": "60"}
    if arguments.kind == "docker":
        os.environ |= {
            "TERMINAL_DOCKER_IMAGE": arguments.image,
            "TERMINAL_DOCKER_VOLUMES": json.dumps([f"{work}:/workspace"]),
            "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES": "false",
            "TERMINAL_CONTAINER_PERSISTENT": "false",
        }
    os.chdir(work)
    found = _converse(model, arguments.only)
    print(json.dumps(found), file=sys.__stdout__, flush=True)


def _converse(model: Model, only: int) -> Fields:
    from hermes_cli.plugins import discover_plugins
    from run_agent import AIAgent
    from tools.process_registry import process_registry
    from tools.registry import registry
    from tools.terminal_tool import set_approval_callback

    discover_plugins()
    asked: list[str] = []

    def approve(command: str, description: str, **_: Any) -> str:
        asked.append(f"{command} {description}")
        return "once" if "origin approved" in asked[-1] else "deny"

    times: list[float] = []
    dispatch = registry.dispatch

    def timed(name: str, args: Fields, **more: Any) -> Any:
        began = time.perf_counter()
        depth.append(name)
        try:
            return dispatch(name, args, **more)
        finally:
            depth.pop()
            if not depth:  # calls of a script count with the script
                times.append(time.perf_counter() - began)

    depth: list[str] = []
    registry.dispatch = timed
    set_approval_callback(approve)
    agent = AIAgent(
        base_url=model.url,
        api_key="none",
        provider="custom",
        model="fake",
        quiet_mode=True,
        tool_delay=0.0,
        enabled_toolsets=["terminal", "file", "code_execution"],
        skip_memory=True,
        skip_context_files=True,
    )
    total = len(model.script)
    model.until = min(only, total) if only else total - 2
    agent.run_conversation("go")
    notice = ""
    if not only:
        event = process_registry.completion_queue.get(timeout=TURN_SECONDS)
        process_registry.completion_queue.put(event)
        notice = "".join(text for _, text in process_registry.drain_notifications())
        model.until = total - 1
        agent.run_conversation(notice or "the process has ended")
        model.until = total
        threading.Timer(INTERRUPT_AFTER, agent.interrupt).start()
        agent.run_conversation("one more")
    set_approval_callback(None)
    if model.pending:  # an interrupted turn ends without another request
        model.results.append((model.pending, _read(_last_tool_message(agent))))
    agent.close()
    offered = registry.get_entry("terminal")
    blocked = [0.0] * len(model.results)  # calls that no tool was asked for
    return {
        "steps": [
            {
                "step": name,
                "outcome": outcome(name, answer),
                "ms": round(seconds * 1000, 2),
                "answer": answer,
            }
            for (name, answer), seconds in zip(model.results, [*times, *blocked], strict=False)
        ],
        "asked": asked,
        "notice": notice,
        "toolset": "" if offered is None else offered.toolset,
    }


def _last_tool_message(agent: Any) -> Any:
    messages = getattr(agent, "_session_messages", None) or getattr(agent, "messages", None) or []
    return next((one["content"] for one in reversed(messages) if one.get("role") == "tool"), "{}")


# -- both, side by side
def run_side(
    side: str, kind: str, *, image: str = "", only: int = 0, forbidden: bool = False
) -> Fields:
    """The task on one side; its directories are removed."""
    base = Path(tempfile.mkdtemp(prefix="hermes-side-"))
    try:
        work = base / "work"
        work.mkdir(mode=0o777)
        work.chmod(0o777)
        words = [
            "--drive",
            "--side",
            side,
            "--kinds",
            kind,
            "--home",
            str(base / "home"),
            "--work",
            str(work),
        ]
        words += ["--image", image, "--only", str(only), *(["--forbidden"] if forbidden else [])]
        root = Path(__file__).parents[1]
        environ = {**os.environ, "PYTHONPATH": str(root), "HOME": str(base), "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.hermes_agent", *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            logs = base / "home" / "logs" / "agent.log"
            log = logs.read_text(errors="replace")[-3000:] if logs.exists() else ""
            raise RuntimeError(
                f"{side} on {kind} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}\n{log}"
            )
        found: Fields = json.loads(lines[-1])
        return found | {"files": sorted(path.name for path in work.rglob("*"))}
    finally:
        shutil.rmtree(base, ignore_errors=True)


def table(kinds: Sequence[str], image: str, runs: int) -> str:
    """Times per call of both sides as a table for people, with the outcomes that differ below."""
    columns, differing = {}, []
    for kind in kinds:
        for side in SIDES:
            found = [run_side(side, kind, image=image) for _ in range(runs)]
            columns[side, kind] = found
        for ours, theirs in zip(
            columns["hermetic", kind][0]["steps"], columns["hermes", kind][0]["steps"], strict=True
        ):
            if ours["outcome"] != theirs["outcome"]:
                differing.append(
                    f"{kind}, {ours['step']}: Hermes {theirs['outcome']}, Hermetic {ours['outcome']}"
                )
    heads = [f"{kind}: {side}" for kind in kinds for side in ("Hermes alone", "with Hermetic")]
    rows = [f"| call | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    names = [step["step"] for step in next(iter(columns.values()))[0]["steps"]]
    for at, name in enumerate(names):
        cells = []
        for kind in kinds:
            for side in SIDES:
                cells.append(
                    f"{statistics.median(one['steps'][at]['ms'] for one in columns[side, kind]):,.1f} ms"
                )
        rows.append(f"| {name} | {' | '.join(cells)} |")
    agreed = f"{len(names) * len(kinds) - len(differing)} of {len(names) * len(kinds)} outcomes are the same."
    return "\n".join([*rows, "", agreed, *differing])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hermes_agent", description=__doc__)
    parser.add_argument(
        "--kinds", default="local,docker", help="kinds of environment, with commas (local,docker)"
    )
    parser.add_argument(
        "--image", default=os.environ.get("IMAGE_TOOLS", "python:3.12"), help="image for docker"
    )
    parser.add_argument(
        "--runs", type=int, default=1, help="runs of each side; the table has medians"
    )
    for name in ("--side", "--home", "--work"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--only", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--forbidden", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        arguments.kind = arguments.kinds
        drive(arguments)
    else:
        print(table(arguments.kinds.split(","), arguments.image, arguments.runs))


if __name__ == "__main__":
    main()
