"""The OpenAI Agents SDK with a scripted model. Run in an environment that has `openai-agents`."""

import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, ShellTool, set_tracing_disabled
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTimeoutError,
    InvalidManifestPathError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session import SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall, ResponseFunctionShellToolCall

import hermetic
from hermetic.adapters.openai_agents import (
    HermeticSandboxClient,
    HermeticSandboxClientOptions,
    HermeticSandboxSessionState,
    shell_executor,
)
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "sandbox": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", "")},
}
set_tracing_disabled(True)


@pytest.fixture(params=sorted(KINDS))
def client(request: pytest.FixtureRequest) -> HermeticSandboxClient:
    return HermeticSandboxClient(request.param, **KINDS[request.param])


@pytest.fixture
async def session(client: HermeticSandboxClient) -> AsyncIterator[SandboxSession]:
    manifest = Manifest(entries={"notes/data.txt": File(content=b"six times seven\n")})
    session = await client.create(manifest=manifest)
    try:
        await session.start()
        yield session
    finally:
        await client.delete(session)


def outputs(result: Any) -> list[str]:
    """What the tools answered."""
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def test_the_example_of_the_docs_runs() -> None:
    script = [
        [function_call("exec_command", {"cmd": "echo $((6 * 7))"}, call_id="c1")],
        [assistant_message("It is 42.")],
    ]
    run_example("OpenAI Agents", model=ScriptedModel(script))


async def test_a_model_uses_the_sandbox_tools(client: HermeticSandboxClient) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+patched\n*** End Patch"
    script = [
        [function_call("exec_command", {"cmd": "cat data.txt; pwd; exit 3"}, call_id="c1")],
        [
            function_call(
                "exec_command",
                {"cmd": "read -r x; echo got $x", "tty": True, "yield_time_ms": 250},
                call_id="c2",
            )
        ],
        [
            ResponseCustomToolCall(
                type="custom_tool_call", name="apply_patch", call_id="c3", input=patch
            )
        ],
        [function_call("exec_command", {"cmd": "cat made.txt"}, call_id="c4")],
        [assistant_message("done")],
    ]
    agent = SandboxAgent(
        name="coder",
        model=ScriptedModel(script),
        default_manifest=Manifest(entries={"data.txt": File(content=b"six times seven\n")}),
    )
    result = await Runner.run(
        agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client))
    )
    said = outputs(result)
    assert "exited with code 3" in said[0]
    assert "six times seven\n/" in said[0]
    assert "running with session ID" in said[1]
    assert "patched" in said[-1]
    assert result.final_output == "done"


async def test_a_terminal_is_written_to_and_read_on(session: SandboxSession) -> None:
    started = await session.pty_exec_start(
        "read -r x; echo got $x; exit 4", tty=True, yield_time_s=0.25
    )
    assert started.exit_code is None
    assert started.process_id is not None
    text = ""
    update = await session.pty_write_stdin(
        session_id=started.process_id, chars="seven\n", yield_time_s=20
    )
    text += update.output.decode()
    assert "got seven" in text
    assert (update.exit_code, update.process_id) == (4, None)


async def test_a_timeout_ends_the_tree(session: SandboxSession) -> None:
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 61.5 & sleep 61.5", timeout=1)
    left = await session.exec("ps -eo args | grep '[s]leep 61.5' || true")
    assert left.stdout == b""


async def test_files_stay_in_the_workspace(session: SandboxSession) -> None:
    await session.write(Path("new/file.bin"), io.BytesIO(b"\0\xff"))
    assert (await session.read(Path("new/file.bin"))).read() == b"\0\xff"
    assert (await session.exec("cat", "notes/data.txt", shell=False)).stdout == b"six times seven\n"
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("missing"))
    await session.exec("ln -s /etc out")
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("out/hostname"))
    with pytest.raises(InvalidManifestPathError):
        await session.write(Path("/etc/hermetic-test"), io.BytesIO(b""))


async def test_a_workspace_is_packed_and_unpacked(session: SandboxSession) -> None:
    await session.exec("printf one > a; mkdir -p d; printf two > d/b; chmod 755 a")
    archive = await session.persist_workspace()
    await session.exec("rm -r a d")
    await session.hydrate_workspace(archive)
    assert (await session.exec("cat a d/b; test -x a && echo x")).stdout == b"onetwox\n"
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    evil.seek(0)
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.hydrate_workspace(evil)


async def test_a_session_is_resumed_in_its_environment_and_ends_when_deleted(
    client: HermeticSandboxClient,
) -> None:
    first = await client.create()
    await first.start()
    await first.exec("echo kept > file")
    stored = client.serialize_session_state(first.state)
    await first.shutdown()
    second = await client.resume(client.deserialize_session_state(stored))
    try:
        await second.start()
        assert (await second.exec("cat file")).stdout == b"kept\n"
    finally:
        await client.delete(second)
    state = second.state
    assert isinstance(state, HermeticSandboxSessionState)
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.attach(state.task)
    if state.own:
        assert os.path.basename(state.own) not in os.listdir(os.path.dirname(state.own))


async def test_a_run_chooses_its_own_options(client: HermeticSandboxClient) -> None:
    options = HermeticSandboxClientOptions(kind="local", options={"env": {"WHICH": "ours"}})
    session = await client.create(options=options)
    try:
        await session.start()
        assert (await session.exec("echo $WHICH")).stdout == b"ours\n"
    finally:
        await client.delete(session)


async def test_the_shell_tool_runs_commands_in_one_session(tmp_path: Path) -> None:
    def call(
        id: str, *commands: str, timeout_ms: int | None = None
    ) -> ResponseFunctionShellToolCall:
        action = {"commands": list(commands), "timeout_ms": timeout_ms}
        return ResponseFunctionShellToolCall.model_validate(
            {"id": id, "call_id": id, "type": "shell_call", "status": "completed", "action": action}
        )

    async with hermetic.open("local", policy="deny", cwd=str(tmp_path)) as environment:
        script = [
            [call("c1", "mkdir d; cd d", "pwd; echo late >&2; false")],
            [call("c2", "sleep 60", "echo never", timeout_ms=500)],
            [call("c3", "rm -rf /")],
            [assistant_message("done")],
        ]
        tools = [ShellTool(executor=shell_executor(environment))]
        result = await Runner.run(Agent(name="a", model=ScriptedModel(script), tools=tools), "go")
    said = outputs(result)
    assert f"{tmp_path}/d" in said[0]
    assert "late" in said[0]
    assert "never" not in said[1]
    assert "not permitted" in said[2]
