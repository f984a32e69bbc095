"""Every public way to start or feed a process, or to write a file, passes one door. A new way fails
here until it is written down with what it does, and driven.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic import blocking
from hermetic.approvals.action import Action
from hermetic.approvals.approvals import Approvals
from hermetic.cli.dispatch import COMMANDS
from hermetic.contract.errors import NotPermitted
from hermetic.contract.tool import Tool
from hermetic.fleet.fleet import Fleet
from hermetic.link.calls import Call
from hermetic.link.link import Link
from hermetic.resident.wire import requests
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.session import Session
from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import Task
from hermetic.tools.process.tool import ACTIONS

# What a request to a resident does. "acts": it starts, feeds or writes, so a decision comes before
# it.
OPERATIONS = {
    "acts": {
        "run",
        "start",
        "write",
        "close_input",
        "write_file",
        "delete_file",
        "move_file",
        "change_files",
    },
    # For an act that was decided on; they start nothing themselves.
    "carries": {"blob", "bridge", "modules", "say", "askpass", "answer"},
    "looks": {
        "hello",
        "info",
        "list",
        "status",
        "wait",
        "read",
        "follow",
        "events",
        "sessions",
        "state",
        "definitions",
        "ping",
        "readers",
        "usage",
        "tree",
        "read_file",
        "read_lines",
        "file_status",
        "list_names",
        "search_files",
        "inputs",
        "since",
    },
    "ends or keeps": {
        "kill",
        "signal",
        "forget",
        "end_session",
        "lease",
        "shutdown",
        "tag",
        "claim",
        "drop_blob",
        "resize",
        "freeze",
        "thaw",
        "drive",
        "give",
    },
}

BAD = "rm -rf /srv/data"
HOME = str(Path.home())
BAD_FILE = "/etc/hermetic-test"


async def typed(
    env: Environment, act: Callable[[Process], Awaitable[object]], *, pty: bool = False
) -> None:
    """Types into a shell that runs already."""
    process = await env.start("exec bash --norc", pty=pty)
    try:
        if pty:
            await process.wait_for("bash-", timeout=10)
        await act(process)
    finally:
        await process.kill()


async def closed(process: Process) -> None:
    """A line without its end is one when the input ends."""
    await process.write(BAD)
    await process.close_input()


Drive = Callable[[Environment], Awaitable[object]]

# Public name → how it is driven to do something dangerous; None: it starts, feeds and writes
# nothing.
SESSION: dict[str, Drive | None] = {
    "run": lambda env: env.run(BAD),
    "start": lambda env: env.start(BAD),
    "write_file": lambda env: env.write_file(BAD_FILE, "x"),
    "delete_file": lambda env: env.delete_file(BAD_FILE),
    "move_file": lambda env: env.move_file("/tmp/x", BAD_FILE),
    "patch": lambda env: env.patch("/etc/hostname", "a", "b"),
    "upload": lambda env: env.upload("/etc/hostname", BAD_FILE),
    **dict.fromkeys(
        (
            "close",
            "download",
            "file_status",
            "list_names",
            "name",
            "process",
            "read_bytes",
            "read_content",
            "read_file",
            "read_lines",
            "reset",
            "search_files",
            "state",
        )
    ),
}
ENVIRONMENT: dict[str, Drive | None] = {
    **SESSION,
    "session": lambda env: env.session("b").run(BAD),
    **dict.fromkeys(
        (
            "events",
            "follow_log",
            "id",
            "info",
            "isolation",
            "kind",
            "processes",
            "read_log",
            "task",
            "snapshot",
        )
    ),
}
PROCESS: dict[str, Drive | None] = {
    "write": lambda env: typed(env, lambda process: process.write(f"{BAD}\n")),
    "submit": lambda env: typed(env, lambda process: process.submit(BAD)),
    "write_secret": lambda env: typed(env, lambda process: process.write_secret(BAD)),
    "keys": lambda env: typed(env, lambda process: process.keys("r m up enter"), pty=True),
    "close_input": lambda env: typed(env, closed),
    **dict.fromkeys(
        (
            "id",
            "info",
            "kill",
            "pid",
            "read",
            "resize",
            "screen",
            "set_tag",
            "shown",
            "signal",
            "status",
            "swap_tag",
            "claim",
            "wait",
            "wait_for",
            "inputs",
        )
    ),
}
# What a method of a toolbox does: only `call` starts anything, by the tools below.
TOOLBOX = {
    "approvals",
    "call",
    "close",
    "fleet",
    "forget_reads",
    "interrupt",
    "kill_all",
    "notices",
    "recover",
    "register",
    "running",
    "schemas",
}
TOOLS: dict[str, list[dict[str, Any]] | None] = {
    "terminal": [
        {"command": BAD},
        {"command": BAD, "background": True},
        {"command": BAD, "pty": True},
        {"command": "bash", "stdin": BAD},
        {"command": "ls", "environment": {"LD_PRELOAD": "./x.so"}},
        {"command": "rm -rf data", "workdir": "/srv"},
        {"command": BAD, "outside": True},
    ],
    "execute_code": [{"code": "import shutil\nshutil.rmtree('/srv/data')"}],
    "write_file": [{"path": BAD_FILE, "content": "x"}],
    "patch": [{"path": "/etc/hostname", "old_string": "a", "new_string": "b"}],
    "process": None,  # by its actions, below
    "read_file": None,
    "search_files": None,
    "request_approval": None,  # asks, and does nothing
    "web_search": None,
    "web_extract": None,
}
TYPING = {"write": f"{BAD}\n", "submit": BAD, "keys": "r m up enter", "close": None}
NOT_TYPING = {"poll", "log", "wait", "wait_for", "kill", "screen", "resize", "list"}
# Commands of the command line that start or feed nothing; the others are driven in
# test_one_door_cli.py.
CLI_LOOKS = {
    "ps",
    "top",
    "logs",
    "wait",
    "kill",
    "envs",
    "inspect",
    "events",
    "rm",
    "gc",
    "policy",
    "config",
    "doctor",
    "completion",
    "runtime",
    "version",
    "approvals",
    "port",
    "stop",
    "release",
    "play",
}
CLI_ACTS = {
    "run",
    "record",
    "shell",
    "code",
    "fleet",
    "attach",
    "secret",
    "cp",
    "mcp",
    "serve",
    "demo",
}
# What a tool gets of its task: ways into places, which are judged, and nothing that acts itself.
TASK = {
    "id",
    "caller",
    "is_scripted",
    "gate",
    "notices",
    "show",
    "limits",
    "interrupted",
    "environment",
    "goes_on",
    "decide",
    "outside",
    "history",
    "interruptible",
    "alive",
    "script_tools",
}
# What the package offers besides values and errors. Environments of a fleet and those that are
# opened without a policy are for callers that are trusted.
FUNCTIONS = {"assess", "attach", "open"}
CLASSES = {"Environment", "Fleet", "Process", "Session", "Toolbox"}
FLEET = {
    "clear_override",
    "close",
    "close_task",
    "gc",
    "get",
    "info",
    "kind",
    "map",
    "override",
    "tasks",
    "use",
    "warm",
}


class Watching:
    """Decisions and requests, in the order in which they come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        decide, send = Approvals.decide, Link.send

        async def decided(approvals: Approvals, action: Action) -> None:
            self.seen.append("decision")
            await decide(approvals, action)

        def sent(link: Link, call: Call[Any]) -> Any:
            self.seen.append(str(call.fields["op"]))
            return send(link, call)

        monkeypatch.setattr(Approvals, "decide", decided)
        monkeypatch.setattr(Link, "send", sent)

    def acts(self) -> list[str]:
        """Requests that act, each of which was sent, since it was cleared."""
        return [seen for seen in self.seen if seen in OPERATIONS["acts"]]

    def undecided(self) -> list[str]:
        """Requests that act for which there was no decision."""
        left, found = 0, []
        for seen in self.seen:
            if seen == "decision":
                left += 1
            elif seen in OPERATIONS["acts"] and not left:
                found.append(seen)
        return found


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Watching:
    return Watching(monkeypatch)


def public(face: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(face) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("face", "known"),
    [
        (Session, SESSION),
        (Environment, ENVIRONMENT),
        (Process, PROCESS),
        (Fleet, FLEET),
        (Toolbox, TOOLBOX),
        (blocking.Session, SESSION),
        (blocking.Environment, ENVIRONMENT),
        (blocking.Process, PROCESS),
        (blocking.Fleet, FLEET),
        (blocking.Toolbox, TOOLBOX),
    ],
    ids=lambda one: f"{one.__module__}.{one.__name__}" if isinstance(one, type) else "",
)
def test_every_public_name_is_in_the_table(face: type, known: Collection[str]) -> None:
    assert public(face) - set(known) == set(), (
        "say here what it does, and drive it if it starts, feeds or writes"
    )


def test_so_is_what_a_tool_gets_and_what_the_package_offers() -> None:
    task = Toolbox()._make().task("t")
    assert public(Task) | {name for name in vars(task) if not name.startswith("_")} == TASK
    offered = {name: getattr(hermetic, name) for name in hermetic.__all__ if name != "blocking"}
    assert {name for name, one in offered.items() if inspect.isfunction(one)} == FUNCTIONS
    classes = {name: one for name, one in offered.items() if isinstance(one, type)}
    values = {
        name
        for name, one in classes.items()
        if issubclass(one, msgspec.Struct | Exception) or one is Tool
    }
    assert classes.keys() - values == CLASSES


def test_so_is_every_tool_action_command_and_request() -> None:
    assert set(Toolbox()._make().tools) - TOOLS.keys() == set()
    assert set(ACTIONS) - TYPING.keys() - NOT_TYPING == set()
    assert set(COMMANDS) == CLI_LOOKS | CLI_ACTS
    assert set(requests.OPERATIONS) - set().union(*OPERATIONS.values()) == set()


@asynccontextmanager
async def careful(directory: Path, mode: Any = "deny") -> AsyncIterator[Environment]:
    async with (
        asyncio.timeout(60),
        hermetic.open("local", cwd=str(directory), login=False, policy=mode) as env,
    ):
        yield env


async def test_what_a_python_caller_does_behind_a_policy_is_decided_first(
    tmp_path: Path, watching: Watching
) -> None:
    tables = {"session": SESSION, "environment": ENVIRONMENT, "process": PROCESS}
    ways = {
        f"{kind}.{name}": drive for kind, table in tables.items() for name, drive in table.items()
    }
    async with careful(tmp_path) as env:
        for name, drive in ways.items():
            if drive is None:
                continue
            watching.seen.clear()
            with pytest.raises(NotPermitted):
                await drive(env)
            assert watching.undecided() == [], name
            # the shell, and half a line
            assert watching.acts() in ([], ["start"], ["start", "write"]), name


async def test_and_in_every_mode_no_request_that_acts_goes_out_undecided(
    tmp_path: Path, watching: Watching
) -> None:
    (tmp_path / "a.txt").write_text("a")
    async with careful(tmp_path, "allow") as env:
        for work in (
            env.run("true"),
            env.start("true"),
            env.session("b").run(["true"]),
            env.write_file("b.txt", "b"),
            env.move_file("b.txt", "c.txt"),
            env.delete_file("c.txt"),
            env.patch("a.txt", "a", "b"),
            env.upload(str(tmp_path / "a.txt"), "d.txt"),
        ):
            watching.seen.clear()
            await work
            assert watching.acts(), work
            assert watching.undecided() == []


async def test_what_tools_do_is_decided_before_anything_is_opened(
    tmp_path: Path, watching: Watching
) -> None:
    toolbox = Toolbox(options={"cwd": str(tmp_path), "login": False})
    try:
        for tool, calls in TOOLS.items():
            for given in calls or ():
                watching.seen.clear()
                answer = json.loads(await toolbox.call(tool, given, task_id="t"))
                assert (
                    answer.get("status") in ("blocked", "error") or answer.get("success") is False
                ), (given, answer)
                assert watching.acts() == [], given
                assert toolbox.fleet.tasks == [], given
    finally:
        await toolbox.close(remove=True)


async def test_what_is_typed_by_tools_is_decided_first(tmp_path: Path, watching: Watching) -> None:
    toolbox = Toolbox(options={"cwd": str(tmp_path), "login": False})

    async def process(**given: Any) -> Any:
        return json.loads(await toolbox.call("process", given, task_id="t"))

    try:
        for action, data in TYPING.items():
            given = {"command": "exec bash --norc", "background": True, "pty": action == "keys"}
            id = json.loads(await toolbox.call("terminal", given, task_id="t"))["session_id"]
            if action == "close":
                # half a line
                assert (await process(action="write", session_id=id, data=BAD))["status"] == "ok"
            if action == "keys":
                assert (await process(action="wait_for", session_id=id, data="bash-"))[
                    "status"
                ] == "matched"
            watching.seen.clear()
            answer = await process(action=action, session_id=id, **({"data": data} if data else {}))
            assert answer["status"] == "blocked", (action, answer)
            assert watching.acts() == [], action
            await process(action="kill", session_id=id)
    finally:
        await toolbox.close(remove=True)
