"""What runs inside an environment neither sees nor answers approval requests of the host."""

import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.approvals import exchange
from hermetic.approvals.exchange import SharedRequest
from hermetic.approvals.watching import ApprovalWatch
from tests.approvals.asking import asking, pending
from tests.environments.engines import need_engine
from tests.programs import need, need_variable

# Connects to every socket of a directory, tries to answer, and prints all that it gets.
ANSWERING = """
import glob, json, os, socket, sys
if sys.argv[3:] and os.fork():
    sys.exit(os.wait()[1] >> 8)
if sys.argv[3:]:
    os.setsid()
    if pid := os.fork():
        os._exit(os.waitpid(pid, 0)[1] >> 8)
for path in glob.glob(sys.argv[1] + "/ask-*"):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(path)
    give = {"type": "give", "id": sys.argv[2], "answer": "once", "token": "x"}
    try:
        stream.sendall(json.dumps(give).encode() + b"\\n")
    except OSError:
        pass
    with stream.makefile("rb") as lines:
        print(lines.readline().decode(), flush=True)
print("done", flush=True)
"""


@asynccontextmanager
async def pending_question(directory: Path) -> AsyncIterator[tuple[ApprovalWatch, SharedRequest]]:
    """A request of another process, which must still be pending after the block; then it is denied."""
    async with ApprovalWatch("test") as watch, asking(directory) as asker:
        request = await pending(watch)
        yield watch, request
        assert [one.id for one in watch.pending()] == [request.id]
        await watch.answer(request.id, "deny")
        assert (await asker.result())["refused_by"] == "user"


def answering(directory: str, id: str, *more: str, python: str = "python3") -> str:
    return shlex.join([python, "-c", ANSWERING, directory, id, *more])


@pytest.mark.parametrize(
    "more", [(), ("forked twice",)], ids=["as a child", "as an orphan in its own session"]
)
async def test_on_local_a_command_gets_no_request_and_its_answer_is_refused(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    async with (
        pending_question(tmp_path) as (_, request),
        hermetic.open("local", login=False) as env,
    ):
        command = answering(str(exchange.exchange_path()), request.id, *more, python=sys.executable)
        result = await env.run(command, timeout=60)
        assert '"refused"' in result.output, result
        assert "runs inside an environment" in result.output
        assert request.id not in result.output


async def test_on_local_a_command_with_an_empty_environment_is_refused_too(tmp_path: Path) -> None:
    async with (
        pending_question(tmp_path) as (_, request),
        hermetic.open("local", login=False) as env,
    ):
        command = answering(str(exchange.exchange_path()), request.id, python=sys.executable)
        result = await env.run(f"env -i {command}", timeout=60)
        assert "runs inside an environment" in result.output, result


async def test_on_local_our_own_command_line_answers_nothing(tmp_path: Path) -> None:
    async with (
        pending_question(tmp_path) as (_, request),
        hermetic.open("local", login=False) as env,
    ):
        variables = {"HERMETIC_RUNTIME_DIR": str(exchange.exchange_path().parent)}
        for words in (("list",), ("answer", request.id, "once")):
            command = shlex.join([sys.executable, "-m", "hermetic", "approvals", *words])
            result = await env.run(command, env=variables, timeout=60)
            assert result.exit_code == 1
            assert "inside an environment" in result.output, result
            assert "rm -rf" not in result.output


async def test_on_local_a_console_inside_does_not_count_as_one(tmp_path: Path) -> None:
    code = "from hermetic.approvals import exchange; exchange.hold('attend-'); print('held', flush=True); input()"
    async with hermetic.open("local", login=False) as env, ApprovalWatch("test") as watch:
        variables = {"HERMETIC_RUNTIME_DIR": str(exchange.exchange_path().parent)}
        process = await env.start([sys.executable, "-c", code], env=variables)
        await process.wait_for("held", timeout=60)
        assert not exchange.is_attended()
        with watch.attend():
            assert exchange.is_attended()
        await process.kill()
    assert exchange.names() == []


def options_of(kind: str, directory: Path) -> dict[str, Any]:
    if kind == "sandbox":
        need("bwrap")
        return {"workspace": str(directory)}
    if kind == "apptainer":
        return {"image": need_variable("IMAGE_TOOLS_SIF")}
    need_engine(kind)
    return {"image": need_variable("IMAGE_TOOLS")}


@pytest.mark.parametrize("kind", ["sandbox", "docker", "podman", "apptainer"])
async def test_an_isolated_environment_does_not_even_see_the_directory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(kind, tmp_path)
    if kind == "apptainer":
        monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
        monkeypatch.setenv("HERMETIC_SCRATCH_DIR", str(tmp_path))
    async with pending_question(tmp_path) as (_, request), hermetic.open(kind, **options) as env:
        directory = exchange.exchange_path()
        seen = await env.run(
            f"ls -a {directory} {directory.parent}; find / -name 'ask-*' -type s 2>/dev/null; true"
        )
        assert "ask-" not in seen.output, seen
        assert "approvals" not in seen.output.replace(str(directory), ""), seen
        result = await env.run(answering(str(directory), request.id), timeout=60)
        assert result.output.strip() == "done", result


async def test_a_container_with_the_directory_mounted_into_it_is_refused(tmp_path: Path) -> None:
    need_engine("docker")
    async with pending_question(tmp_path) as (_, request):
        directory = exchange.exchange_path()
        options: dict[str, Any] = {
            "image": need_variable("IMAGE_TOOLS"),
            "volumes": [f"{directory}:/asks"],
        }
        async with hermetic.open("docker", **options) as env:
            result = await env.run(answering("/asks", request.id), timeout=60)
            assert request.id not in result.output
            assert '"listed"' not in result.output, result


async def test_a_request_that_was_made_up_inside_is_marked(tmp_path: Path) -> None:
    """A command can put a socket there on `local`; consoles show that it is from inside."""
    program = (
        "import asyncio, hermetic\n"
        "async def main():\n"
        "    async def approver(request):\n"
        "        await asyncio.Event().wait()\n"
        "    async with hermetic.Toolbox(approver=approver) as toolbox:\n"
        "        await toolbox.call('terminal', {'command': 'rm -rf /srv/hermetic-no-such'})\n"
        "asyncio.run(main())\n"
    )
    async with hermetic.open("local", login=False) as env, ApprovalWatch("test") as watch:
        variables = {"HERMETIC_RUNTIME_DIR": str(exchange.exchange_path().parent)}
        process = await env.start([sys.executable, "-c", program], env=variables)
        request = await pending(watch)
        assert request.where.inside
        await watch.answer(request.id, "deny")
        await process.wait(60)
