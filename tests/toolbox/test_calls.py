"""Calls of any tool: schemas, bad input, registered tools, long answers, settings."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermetic.config import load
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.contract.tool import Fields, Form, Tool
from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import Task
from tests.boxes import Box, on_this_side, opened

BAD_CALLS: list[tuple[str, Any, str]] = [
    ("terminal", {}, "command"),
    ("terminal", {"command": "  "}, "empty"),
    ("terminal", {"command": 5}, "str"),
    ("terminal", {"command": "touch ran\0"}, "NUL"),
    ("terminal", {"command": "touch ran", "timeout": -1}, "above zero"),
    ("terminal", {"command": "true", "workdir": "/does/not/exist"}, "does not exist"),
    ("terminal", {"command": "touch ran", "background": True, "watch_patterns": [""]}, "empty"),
    ("terminal", {"command": "touch ran", "comand": 1}, "it takes command"),
    ("terminal", {"command": "\ud800"}, "Unicode"),
    ("terminal", {"command": "echo " + "x" * 10_000_000}, "128,000"),
    ("terminal", {"command": ["touch", "ran"]}, "str"),
    ("terminal", {"command": "touch ran", "background": "perhaps"}, "bool"),
    ("terminal", {"command": "touch ran", "environment": {"A": 1}}, "str"),
    ("terminal", {"command": "touch ran", "environment": "A=1"}, "object"),
    ("terminal", {"command": "touch ran", "environment": {"A=B": "1"}}, "A=B"),
    ("terminal", {"command": "touch ran", "stdin": "\ud800"}, "Unicode"),
    ("terminal", {"command": "true", "workdir": "/etc/hostname"}, "not a directory"),
    (
        "terminal",
        {"command": "true", "workdir": "/does/not/exist", "background": True},
        "does not exist",
    ),
    ("terminal", {"command": "true", "workdir": "/does/not/exist", "pty": True}, "does not exist"),
    ("terminal", {"command": "touch ran", "timeout": float("nan")}, "above zero"),
    ("terminal", {"command": "touch ran", "timeout": "soon"}, "float"),
    (
        "terminal",
        {"command": "touch ran", "on_timeout": "pray"},
        "'pray' - at `$.on_timeout`; use one of kill, yield",
    ),
    ("terminal", {"command": "touch ran", "background": True, "check_interval": -5}, "above zero"),
    (
        "terminal",
        {"command": "touch ran", "background": True, "watch_patterns": "[" * 100_000},
        "array",
    ),
    (
        "terminal",
        {"command": "touch ran", "background": True, "watch_patterns": ["x" * 3000]},
        "shorter",
    ),
    ("process", {"action": "wait", "session_id": "\ud800"}, "list"),
    ("process", {"action": "poll", "session_id": 5}, "str"),
    ("process", {"action": "poll", "session_id": "x" * 10_000_000}, "list"),
    ("process", {}, "action"),
    ("process", [], "object"),
    (
        "process",
        {"action": "dance"},
        "use one of close, keys, kill, list, log, poll, resize, screen, submit, wait, ",
    ),
    ("process", {"action": "poll"}, "session_id"),
    ("process", {"action": "poll", "session_id": "proc_none"}, "list"),
    ("process", {"action": "poll", "session_id": "not/an id"}, "list"),
    ("nothing", {}, "terminal, process"),
]


@on_this_side
async def test_bad_input_is_a_result_that_says_what_to_do(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        for tool, given, says in BAD_CALLS:
            answer = json.loads(await box.toolbox.call(tool, given, task_id="t"))
            assert says in answer["error"], str((tool, given))[:200]
            assert "Traceback" not in answer["error"]
            assert len(answer["error"]) < 1000
        assert (await box.process("list"))["processes"] == []
        assert os.listdir(tmp_path) == []


async def test_schemas_name_the_tools_in_every_form(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        forms: tuple[Form, ...] = ("openai", "anthropic", "mcp")
        for form in forms:
            assert len(box.toolbox.schemas(form)) >= 4
        with pytest.raises(InvalidArgument, match="openai, anthropic, mcp"):
            box.toolbox.schemas("other")  # type: ignore[arg-type]


async def test_an_unknown_kind_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="local"):
        Toolbox(environment="dokker")


class Nothing(msgspec.Struct):
    """No arguments."""


async def test_a_tool_of_somebody_else_is_offered_checked_and_may_fail(tmp_path: Path) -> None:
    gone: list[str] = []

    async def fail(task: Task, arguments: Nothing) -> Fields:
        raise RuntimeError("broken")

    async with opened(tmp_path) as box:
        box.toolbox.register(
            Tool("mine", "Fails.", Nothing, fail, missing=lambda: gone[0] if gone else None)
        )
        assert [schema["name"] for schema in box.toolbox.schemas("mcp")][-1] == "mine"
        answer = json.loads(await box.toolbox.call("mine", {}))
        assert "RuntimeError: broken" in answer["error"]
        gone.append("no key")
        assert "mine" not in [schema["name"] for schema in box.toolbox.schemas("mcp")]
        answer = json.loads(await box.toolbox.call("mine", {}))
        assert (answer["status"], "no key" in answer["error"]) == ("disabled", True)
        with pytest.raises(ConfigError, match="replace=True"):
            box.toolbox.register(Tool("terminal", "Mine.", Nothing, fail))


@on_this_side
async def test_an_answer_that_is_too_long_is_kept_and_read_on_in_pieces(
    tmp_path: Path, kind: str
) -> None:
    found = {"rows": [f"{number} ß" for number in range(30_000)]}

    async def find(task: Task, arguments: Nothing) -> Fields:
        return found

    async with opened(tmp_path, kind) as box:
        box.toolbox.register(Tool("find", "Finds much.", Nothing, find))
        answer = json.loads(await box.toolbox.call("find", {}, task_id="t"))
        assert answer["preview"].startswith('{"rows":["0 ß","1 ß"')
        assert len(answer["preview"]) == 1500
        text, cursor = "", 0
        while len(text) < answer["total_characters"]:
            piece = await box.process("poll", answer["session_id"], cursor=cursor)
            assert piece["output"]
            text, cursor = text + piece["output"], piece["cursor"]
        assert json.loads(text) == found
        assert (await box.process("list"))["processes"] == []


async def test_an_answer_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    async def find(task: Task, arguments: Nothing) -> Fields:
        return {"text": "x" * 200_000}

    async with opened(tmp_path / "missing") as box:
        box.toolbox.register(Tool("find", "Finds much.", Nothing, find))
        answer = json.loads(await box.toolbox.call("find", {}, task_id="t"))
        assert "could not be kept" in answer["error"]
        assert len(answer["output"]) == 1500


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"policy": "sandbox-frist"}, "policy must be one of 'ask', .*'sandbox-first'"),
        ({"policy": ["ask"]}, "policy must be one of"),
        ({"approver": "once"}, "the approver must be a function, not str"),
        ({"reviewer": 5}, "the reviewer must be a function, not int"),
        ({"on_notice": 5}, "the on_notice must be a function, not int"),
        ({"on_activity": 5}, "the on_activity must be a function, not int"),
        ({"limits": {"output": 5}}, "the limits must be of the type ToolLimits, not dict"),
        ({"code": {"tools": ()}}, "the code must be of the type CodeOptions, not dict"),
        ({"options": 5}, "the options must be of the type Mapping, not int"),
    ],
)
def test_what_would_judge_otherwise_than_its_caller_believes_is_refused(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        Toolbox(**given)


@pytest.mark.parametrize(
    ("name", "description", "arguments"),
    [("a b", "x", Nothing), ("a", " ", Nothing), ("a", "x", dict)],
)
def test_a_tool_that_no_model_could_call_is_refused(
    name: str, description: str, arguments: Any
) -> None:
    async def run(task: Task, arguments: Any) -> Fields:
        return {}

    with pytest.raises(ConfigError):
        Tool(name, description, arguments, run)


@on_this_side
async def test_a_task_has_options_of_its_own(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        box.toolbox.fleet.override("other", cwd="/usr")
        assert (await box.terminal("pwd", task="other"))["output"] == "/usr\n"
        assert (await box.terminal("pwd"))["output"] == f"{tmp_path}\n"


async def test_settings_hold_and_arguments_go_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_NAME", "swordfish-swordfish")
    text = f"[environments.local]\nlogin = false\ncwd = '{tmp_path}'\n[terminal]\ntimeout = 0.3\n"
    (tmp_path / "user.toml").write_text(f"{text}[redaction]\nvariables = ['ODD_NAME']\n")
    settings = load(
        str(tmp_path), environ={**os.environ, "HERMETIC_CONFIG": str(tmp_path / "user.toml")}
    )
    for given, directory in (({}, str(tmp_path)), ({"options": {"cwd": "/usr"}}, "/usr")):
        toolbox = Toolbox(settings=settings, **given)  # type: ignore[arg-type]
        try:
            answer = await Box(toolbox).terminal("pwd; echo swordfish-swordfish; sleep 1000")
            assert answer["status"] == "yielded"
            assert answer["output"] == f"{directory}\n[hidden by hermetic: value of ODD_NAME]\n"
        finally:
            await toolbox.close(remove=True)


async def test_a_known_secret_is_hidden_in_paths_and_errors_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "nQ7zw.Xk41Lm9pRt\\Vb"  # its first letter may stand behind a backslash of JSON
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    folder = tmp_path / f"d_{secret}"
    folder.mkdir()
    (folder / f"f_{secret}").write_text("needle\n")
    (tmp_path / "escaped").write_text(f"\n{secret[1:]}\n")
    async with Toolbox(options={"cwd": str(tmp_path)}, policy="off") as toolbox:
        for name, arguments in (
            ("search_files", {"pattern": "needle"}),
            ("search_files", {"pattern": "f_*", "target": "files"}),
            ("search_files", {"pattern": "needle", "output_mode": "count"}),
            ("read_file", {"path": f"d_{secret[:14]}"}),
        ):
            text = await toolbox.call(name, arguments)
            assert "value of DEPLOY_TOKEN" in json.dumps(json.loads(text)), text
            assert secret not in text
            assert json.dumps(secret)[1:-1] not in text
        whole = json.loads(await toolbox.call("read_file", {"path": "escaped"}))
        assert secret[1:] in whole["content"]
