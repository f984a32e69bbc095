"""SWE-ReX on Hermetic. Run in an environment that has `swe-rex`."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

from hermetic.adapters.swerex import HermeticDeployment, HermeticRuntime
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", "")},
}


@pytest.fixture(params=sorted(KINDS))
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[HermeticRuntime]:
    deployment = HermeticDeployment(request.param, **KINDS[request.param])
    await deployment.start()
    try:
        await deployment.runtime.create_session(CreateBashSessionRequest())
        yield deployment.runtime
    finally:
        await deployment.stop()
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()


def test_the_example_of_the_docs_runs() -> None:
    run_example("SWE-ReX")


async def test_a_session_keeps_its_state_and_checks_its_commands(runtime: HermeticRuntime) -> None:
    assert await runtime.is_alive()
    await runtime.run_in_session(BashAction(command="cd /tmp; A=1"))
    seen = await runtime.run_in_session(BashAction(command="pwd; echo $A; false", check="silent"))
    assert (seen.output, seen.exit_code) == ("/tmp\n1\n", 1)
    assert (
        await runtime.run_in_session(BashAction(command="false", check="ignore"))
    ).exit_code is None
    with pytest.raises(NonZeroExitCodeError, match="no luck"):
        await runtime.run_in_session(BashAction(command="false", error_msg="no luck"))
    with pytest.raises(BashIncorrectSyntaxError):
        await runtime.run_in_session(BashAction(command="if then"))
    with pytest.raises(CommandTimeoutError):
        await runtime.run_in_session(BashAction(command="sleep 60", timeout=0.5))
    await runtime.run_in_session(BashInterruptAction())
    assert (await runtime.run_in_session(BashAction(command="pwd"))).output == "/tmp\n"


async def test_sessions_are_apart_and_known_by_name(
    runtime: HermeticRuntime, tmp_path: Path
) -> None:
    await runtime.write_file(
        WriteFileRequest(path="/tmp/rex/start.sh", content="B=2\necho ready\n")
    )
    other = CreateBashSessionRequest(session="other", startup_source=["/tmp/rex/start.sh"])
    assert (await runtime.create_session(other)).output == "ready\n"
    with pytest.raises(SessionExistsError):
        await runtime.create_session(other)
    assert (
        await runtime.run_in_session(BashAction(command="echo $B", session="other"))
    ).output == "2\n"
    assert (await runtime.run_in_session(BashAction(command="echo $B"))).output == "\n"
    await runtime.close_session(CloseBashSessionRequest(session="other"))
    with pytest.raises(SessionDoesNotExistError):
        await runtime.run_in_session(BashAction(command="true", session="other"))
    await runtime.execute(Command(command=["rm", "-r", "/tmp/rex"]))


async def test_an_interactive_program_is_typed_to_interrupted_and_quit(
    runtime: HermeticRuntime,
) -> None:
    async def say(command: str, **more: Any) -> Any:
        return await runtime.run_in_session(
            BashAction(command=command, is_interactive_command=True, timeout=60, **more)
        )

    started = await say("python3 -q", expect=[">>> "])
    assert started.expect_string == ">>> "
    assert (await say("print(6 * 7)", expect=[">>> "])).output == "42"
    with pytest.raises(CommandTimeoutError):
        await runtime.run_in_session(
            BashAction(
                command="import time; time.sleep(60)",
                is_interactive_command=True,
                timeout=1,
                expect=[">>> "],
            )
        )
    interrupted = await runtime.run_in_session(BashInterruptAction(expect=[">>> "], timeout=20))
    assert "KeyboardInterrupt" in interrupted.output
    await runtime.run_in_session(BashAction(command="exit()", is_interactive_quit=True, timeout=60))
    assert (await runtime.run_in_session(BashAction(command="echo back"))).output == "back\n"


async def test_commands_and_files_of_their_own(runtime: HermeticRuntime, tmp_path: Path) -> None:
    done = await runtime.execute(Command(command="echo out; echo err >&2; exit 3", shell=True))
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
    merged = await runtime.execute(
        Command(command=["sh", "-c", "echo a; echo b >&2"], merge_output_streams=True)
    )
    assert (merged.stdout, merged.stderr) == ("a\nb\n", "")
    with pytest.raises(NonZeroExitCodeError):
        await runtime.execute(Command(command=["false"], check=True))
    with pytest.raises(CommandTimeoutError):
        await runtime.execute(Command(command=["sleep", "60"], timeout=0.5))
    (tmp_path / "tree" / "d").mkdir(parents=True)
    (tmp_path / "tree" / "d" / "file").write_text("inside")
    await runtime.upload(
        UploadRequest(source_path=str(tmp_path / "tree"), target_path="/tmp/rex-up")
    )
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/rex-up/d/file"))).content == "inside"
    await runtime.upload(
        UploadRequest(source_path=str(tmp_path / "tree/d/file"), target_path="/tmp/rex-up/f")
    )
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/rex-up/f"))).content == "inside"
    await runtime.execute(Command(command=["rm", "-r", "/tmp/rex-up"]))
