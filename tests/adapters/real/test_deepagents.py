"""deepagents with a scripted model. Run in an environment that has `deepagents`."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from hermetic.adapters.deepagents import HermeticBackend
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", "")},
    "docker without Python": {"image": os.environ.get("IMAGE_NOPYTHON", "")},
}


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> "ScriptedModel":
        return self


def scripted(*calls: tuple[str, dict[str, Any]], end: str = "done") -> ScriptedModel:
    """A model that calls these tools one after the other."""
    turns = [
        AIMessage(
            content="",
            tool_calls=[{"name": name, "args": arguments, "id": f"c{at}", "type": "tool_call"}],
        )
        for at, (name, arguments) in enumerate(calls)
    ]
    return ScriptedModel(messages=iter([*turns, AIMessage(content=end)]))


@pytest.fixture(params=sorted(KINDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HermeticBackend]:
    kind = request.param.partition(" ")[0]
    options = {"cwd": str(tmp_path)} if kind == "local" else {}
    with HermeticBackend(kind, **KINDS[request.param], **options) as backend:
        yield backend


@pytest.fixture
def root(backend: HermeticBackend) -> str:
    """A directory to work in."""
    made = backend.execute("mkdir -p work && cd work && pwd")
    assert made.exit_code == 0
    return made.output.strip()


def test_the_example_of_the_docs_runs() -> None:
    run_example(
        "deepagents", model=scripted(("execute", {"command": "echo $((6 * 7))"}), end="It is 42.")
    )


async def test_a_model_uses_the_tools(backend: HermeticBackend, root: str) -> None:
    file = f"{root}/src/a.py"
    model = scripted(
        ("write_file", {"file_path": file, "content": "one = 1\ntwo = 2\n"}),
        ("edit_file", {"file_path": file, "old_string": "two = 2", "new_string": "two = 22"}),
        ("read_file", {"file_path": file}),
        ("ls", {"path": f"{root}/src"}),
        ("grep", {"pattern": "two =", "path": root, "output_mode": "content"}),
        ("glob", {"pattern": "**/*.py", "path": root}),
        ("execute", {"command": "cat a.py; cd src; echo $PWD; (exit 3)"}),
        ("execute", {"command": "pwd"}),
    )
    agent = create_deep_agent(model=model, backend=backend)
    result = await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]})
    said = [message.text for message in result["messages"] if isinstance(message, ToolMessage)]
    assert "two = 22" in said[2]
    assert file in said[3]
    assert backend.ls(root).entries == [{"path": f"{root}/src", "is_dir": True}]
    assert "two = 22" in said[4]
    assert file in said[5]
    assert f"{root}/src" in said[6]
    assert "exit code 3" in said[6]
    assert f"{root}/src" in said[7]  # the session keeps its directory
    assert result["messages"][-1].text == "done"


def test_results_are_values(backend: HermeticBackend, root: str) -> None:
    assert backend.read(f"{root}/missing").error == f"File '{root}/missing': file_not_found"
    assert "file_not_found" in str(backend.ls(f"{root}/missing").error)
    assert "file_not_found" in str(backend.edit(f"{root}/missing", "a", "b").error)
    assert backend.download_files([root])[0].error == "is_directory"
    assert backend.glob("../*").error is not None
    late = backend.execute("echo begun; sleep 60", timeout=1)
    assert (late.exit_code, late.output) == (124, "begun\n\n[timed out after 1 s]")


def test_pages_of_a_file_fit_the_protocol(backend: HermeticBackend, root: str) -> None:
    file = f"{root}/lines"
    backend.upload_files([(file, b"a\r\nb\r\nc\r\n")])
    page = backend.read(file, offset=1, limit=1)
    assert page.file_data is not None
    assert page.file_data["content"] == "b"
    assert (page.start_line, page.end_line, page.next_offset, page.total_lines) == (2, 2, 2, 3)
    assert "exceeds" in str(backend.read(file, offset=3).error)
    assert backend.read(file, limit=0).no_lines_requested
    assert backend.edit(file, "a\nb", "x\ny").occurrences == 1
    assert backend.download_files([file])[0].content == b"x\r\ny\r\nc\r\n"
    assert "appears" in str(backend.edit(file, "\r\n", "").error)
    backend.upload_files([(f"{root}/data.bin", b"\0\xff")])
    binary = backend.read(f"{root}/data.bin").file_data
    assert binary is not None
    assert binary == {"content": "AP8=", "encoding": "base64"}


async def test_cancelling_ends_the_process_tree(backend: HermeticBackend, root: str) -> None:
    running = asyncio.create_task(
        backend.aexecute(f"sh -c 'echo $$ > {root}/pid; exec sleep 61.5'")
    )
    pid = (
        await backend.aexecute(f"until [ -s {root}/pid ]; do sleep 0.1; done; cat {root}/pid")
    ).output.strip()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert backend.execute(f"kill -0 {pid}").exit_code != 0
