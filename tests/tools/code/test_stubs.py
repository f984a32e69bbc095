"""The functions that scripts call, as they are written from schemas, and what a model is told of
them.
"""

import ast
import asyncio
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.tool import Fields, Tool
from hermetic.session.callbacks import answer_of
from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import Task
from hermetic.tools.code.arguments import CodeLimits, CodeOptions, description
from hermetic.tools.code.stubs import ScriptModules, identifier, module_source, stub_of, stubs_of
from tests.tools.code.scripted import here, scripting

INSIDE = Path(__file__).parents[3] / "src" / "hermetic" / "tools" / "code" / "inside"


class Many(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of every kind."""

    wanted: Annotated[str, msgspec.Meta(description='Say "it" \\ and more.')]
    number: int = 3
    share: float | None = None
    flag: bool = False
    names: list[str] = []
    table: dict[str, int] | None = None
    choice: Literal["a", "b"] = "b"


class Named(
    msgspec.Struct, frozen=True, kw_only=True, rename={"lambda_": "lambda", "dash": "with-dash"}
):
    """Arguments that Python cannot have as names."""

    lambda_: str
    dash: int = 1


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """No arguments."""


# Keys that say what applies to one answer alone.
UNTOLD = {"is_binary", "is_image", "strategy", "lines", "exit_code_meaning", "status"}


async def nothing(task: Task, asked: Any) -> Fields:
    return {}


@pytest.mark.parametrize("path", sorted(INSIDE.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_inside_parses_as_python_3_8(path: Path) -> None:
    ast.parse(path.read_bytes(), filename=str(path), feature_version=(3, 8))


def test_a_stub_has_the_tools_types_defaults_and_words() -> None:
    stub = stub_of(Tool("many", "Does many things.\n\nWell.", Many, nothing))
    assert stub.signature == (
        "many(wanted: str, number: int = 3, share: float | None = None, flag: bool = False, names: list[str] = [], "
        "table: dict | None = None, choice: str = 'b') -> dict"
    )
    called: list[tuple[str, dict[str, Any]]] = []
    space: dict[str, Any] = {
        "_tool": lambda stub: stub,
        "_call": lambda tool, given: called.append((tool, given)),
    }
    exec(stub.source, space)
    space["many"]("x", flag=True)
    assert called[0][0] == "many"
    assert called[0][1]["wanted"] == "x"
    assert called[0][1]["flag"] is True
    assert space["many"].__doc__.startswith("Does many things.\n")
    assert 'wanted: Say "it" \\ and more.' in space["many"].__doc__


async def test_arguments_stand_in_the_order_that_scripts_are_used_to() -> None:
    toolbox = Toolbox()
    try:
        described = {schema["name"]: schema["description"] for schema in toolbox.schemas("mcp")}[
            "execute_code"
        ]
    finally:
        await toolbox.close()
    for signature in (
        "read_file(path: str, offset: int = 1, limit: int = 500) -> dict",
        "write_file(path: str, content: str) -> dict",
        "search_files(pattern: str, target: str = 'content', path: str = '.', file_glob: str | None = None, "
        "limit: int = 50, offset: int = 0, output_mode: str = 'content', context: int = 0) -> dict",
        "patch(path: str | None = None, old_string: str | None = None, new_string: str | None = None, "
        "replace_all: bool = False, mode: str = 'replace', patch: str | None = None) -> dict",
        "terminal(command: str, timeout: float | None = None, workdir: str | None = None, *,",
    ):
        assert signature in described


def test_names_that_python_cannot_have_are_changed() -> None:
    stub = stub_of(Tool("import", "Imports.", Named, nothing))
    assert stub.signature == "import_(lambda_: str, with_dash: int = 1) -> dict"
    called: list[dict[str, Any]] = []
    space: dict[str, Any] = {
        "_tool": lambda stub: stub,
        "_call": lambda tool, given: called.append(given),
    }
    exec(stub.source, space)
    space["import_"]("x")
    assert called == [{"lambda": "x", "with-dash": 1}]
    assert (identifier("2-fold"), identifier("a.b")) == ("_2_fold", "a_b")


class Doubled(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that become one name, or are in the way of what a function is written with."""

    one: int = msgspec.field(name="a-b", default=1)
    other: int = msgspec.field(name="a_b", default=2)
    locals: int = 3
    power: int = msgspec.field(name="x²", default=4)


def test_names_never_meet() -> None:
    names = ["a-b", "a_b", "open", "os", "progress", "_call", "class", "range"]
    stubs = stubs_of(Tool(name, "Does it.", Doubled, nothing) for name in names)
    assert [stub.name for stub in stubs.values()] == [
        "a_b",
        "a_b_",
        "open_",
        "os_",
        "progress_",
        "_call_",
        "class_",
        "range_",
    ]
    called: list[dict[str, Any]] = []
    space: dict[str, Any] = {
        "_tool": lambda stub: stub,
        "_call": lambda tool, given: called.append(given),
    }
    exec(stubs["open"].source, space)
    space["open_"](a_b_=5, locals_=6)
    assert called == [{"a-b": 1, "a_b": 5, "locals": 6, "x²": 4}]


def test_a_tool_takes_its_arguments_by_the_names_in_its_schema() -> None:
    tool = Tool("named", "Does it.", Doubled, nothing)
    assert tool.read({"a-b": 7, "x²": 8}) == Doubled(one=7, power=8)
    with pytest.raises(InvalidArgument, match="it takes a-b, a_b, locals"):
        tool.read({"one": 1})


def test_a_module_of_no_tools_is_a_module() -> None:
    assert "_TOOLS = b'\\x80'" in module_source([])
    assert (
        ScriptModules(module_source([])).name
        == ScriptModules(module_source([])).name
        != ScriptModules("x = 1").name
    )


def test_the_description_lists_the_tools_that_there_are() -> None:
    stubs = [
        stub_of(Tool(name, f"Does {name}.", Many, nothing))
        for name in ("alpha", "beta", "web_search")
    ]
    text = description(stubs, CodeLimits(time=30, calls=7))
    assert "from hermetic_tools import web_search, alpha" in text
    assert "  beta(wanted: str" in text
    assert "Does beta." in text
    assert "Limits: 30 s, 7 calls, 50,000 bytes" in text
    assert "foreground" not in text
    for helper in (
        "json_parse",
        "shell_quote",
        "retry",
        "progress",
        "attach",
        "keep",
        "recall",
        "search_tools",
    ):
        assert helper in text
    assert "three or more calls" in text
    assert "import hermetic_tools" in description([], CodeLimits())


async def test_the_schema_has_one_required_text_and_follows_the_toolbox() -> None:
    toolbox = Toolbox(code=CodeOptions(tools=("terminal", "late")))
    try:
        shown = {schema["name"]: schema for schema in toolbox.schemas("mcp")}["execute_code"]
        assert shown["inputSchema"]["required"] == ["code"]
        assert "terminal(command: str, timeout" in shown["description"]
        assert "foreground only" in shown["description"]
        assert "process(" not in shown["description"]
        toolbox.register(Tool("late", "Came late.", Many, nothing))
        (again,) = [schema for schema in toolbox.schemas("mcp") if schema["name"] == "execute_code"]
        assert again["description"].index("  late(") < again["description"].index("  terminal(")
    finally:
        await toolbox.close()


async def test_the_answers_of_tools_have_the_shape_that_stubs_tell(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with scripting(here(tmp_path)) as box:
        code = {tool["name"]: tool["description"] for tool in box.toolbox.schemas("mcp")}[
            "execute_code"
        ]
        for name, given in (
            ("terminal", {"command": "echo hi"}),
            ("read_file", {"path": "a.txt"}),
            ("write_file", {"path": "b.txt", "content": "x"}),
            ("patch", {"path": "a.txt", "old_string": "one", "new_string": "1"}),
            ("search_files", {"pattern": "two"}),
            ("process", {"action": "list"}),
        ):
            shape = code.partition(f"  {name}(")[2].partition("answers {")[2].partition("\n")[0]
            keys = dict(re.findall(r"(\w+)(\??): ", re.sub(r"\[\{.*?\}\]", "[dict]", shape)))
            answer = await box.call(name, **given)
            assert keys, name
            assert {key for key, mark in keys.items() if not mark} <= answer.keys(), (name, answer)
            assert answer.keys() - keys.keys() <= UNTOLD, (name, answer)
        described = await box.code(
            "from hermetic_tools import describe_tool as d, terminal as t\n"
            "print(d('terminal')['answers'], t.__doc__)"
        )
        assert described["output"].count("{output: str, exit_code") == 2


async def test_what_a_handler_prints_is_dropped_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started, printed = asyncio.Event(), asyncio.Event()

    async def chatty(task: Task, asked: Nothing) -> Fields:
        print("from the handler")
        await answer_of(lambda: print("from the caller's own function"))
        await asyncio.to_thread(print, "from its thread")
        started.set()
        await printed.wait()
        return {"said": "so"}

    async with scripting(here(tmp_path)) as box:
        box.toolbox.register(Tool("chatty", "Prints.", Nothing, chatty))
        running = asyncio.create_task(
            box.code("from hermetic_tools import chatty\nprint(chatty()['said'])")
        )
        async with asyncio.timeout(20):
            await started.wait()
        print("from the program")
        printed.set()
        assert (await running)["output"] == "so\n"
        print("afterwards")
        assert (
            capsys.readouterr().out
            == "from the caller's own function\nfrom the program\nafterwards\n"
        )
