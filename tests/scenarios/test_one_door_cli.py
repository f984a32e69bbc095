"""The command line asks nobody, and what a person's rules deny does not reach a resident by it
either.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

import hermetic
from hermetic.cli.dispatch import COMMANDS, main
from hermetic.link.calls import Call
from hermetic.link.link import Link
from hermetic.registry.records import runtime_path
from hermetic.serve.tokens import FOLDER
from tests.cli.program import hermetic as command_line
from tests.cli.program import running
from tests.cli.test_attach import terminal
from tests.mcp.clients import ERAS, answer, connected
from tests.programs import need
from tests.scenarios.test_one_door import CLI_ACTS, CLI_LOOKS, OPERATIONS
from tests.serve.serving import HttpClient, program

RULES = """\
[approvals]
deny = ["touch *denied*"]
[[approvals.rules]]
decision = "deny"
command = ["truncate"]
matches = ["truncate -s 0 x"]
[[approvals.rules]]
decision = "deny"
path = "copies/denied"
matches = ["touch copies/denied"]
"""
REFUSED = b"not run: "


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with rules of its own."""
    (tmp_path / "hermetic.toml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this process asks residents for that acts."""
    seen: list[str] = []
    send = Link.send

    def sent(link: Link, call: Call[Any]) -> Any:
        if call.fields["op"] in OPERATIONS["acts"]:
            seen.append(str(call.fields["op"]))
        return send(link, call)

    monkeypatch.setattr(Link, "send", sent)
    return seen


@pytest.fixture
def shell(work: Path) -> Iterator["hermetic.blocking.Process"]:
    """A shell that reads lines, started by somebody who is trusted."""
    with hermetic.blocking.open("local", task="one-door", cwd=str(work), login=False) as env:
        process = env.start("exec bash --norc")
        try:
            yield process
        finally:
            env.close(remove=True)


def denied(*words: str, stdin: bytes | None = None) -> bytes:
    """What a command line says that is refused."""
    done = command_line(*words, stdin=stdin)
    assert b"approvals.deny has" in done.stderr + done.stdout, done
    return done.stderr + done.stdout


def reads_on(shell: "hermetic.blocking.Process") -> None:
    """Returns when it has done all that it was given so far."""
    shell.submit("echo do''ne")
    shell.wait_for("done", timeout=20)


# -- what acts
ONE_SHOT: dict[str, tuple[str, ...]] = {
    "run": ("run", "--", "touch denied"),
    "run an argv": ("run", "--", "touch", "denied"),
    "run by a rule": ("run", "--", "truncate -s 0 denied"),
    "run hidden": ("run", "--json", "--", 'X=touch; sh -c "$X denied"'),
    "record": ("record", "-f", "recorded", "--", "touch denied"),
    "run for a task": ("run", "--task", "one-door-2", "--", "touch denied"),
    "run apart": ("run", "--separate", "--", "touch denied"),
    "run elsewhere": ("run", "--env", "sandbox", "--workspace", ".", "--", "touch denied"),
}


@pytest.mark.parametrize("words", ONE_SHOT.values(), ids=ONE_SHOT)
def test_run_opens_nothing_for_what_is_denied(
    work: Path, operations: list[str], words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir(os.environ["HERMETIC_RUNTIME_DIR"]))
    assert main(words) == 125
    assert (
        "approvals.deny has" in (said := capfd.readouterr().err)
        or "your rule denies truncate" in said
    )
    assert operations == []
    assert sorted(os.listdir(os.environ["HERMETIC_RUNTIME_DIR"])) == before
    assert not (work / "denied").exists()


def test_a_batch_with_a_denied_task_begins_nothing(
    work: Path, operations: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    (work / "tasks").write_text('{"command": "true"}\n{"command": ["touch", "denied"]}\n')
    assert main(["fleet", "run", "--tasks", "tasks"]) == 1
    assert "approvals.deny has" in capfd.readouterr().err
    assert operations == []
    assert sorted(os.listdir(work)) == ["hermetic.toml", "tasks"]


def test_run_in_a_living_place_is_judged_by_what_lives_there(
    work: Path, operations: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main(["run", "--task", "one-door-3", "--", "hidden() { touch denied; }"]) == 0
        operations.clear()
        assert main(["run", "--task", "one-door-3", "--", "hidden"]) == 125
        assert operations == []
        assert main(["run", "--task", "one-door-3", "--", "echo fine"]) == 0
    finally:
        main(["rm", "one-door-3"])
    assert not (work / "denied").exists()
    assert "fine" in capfd.readouterr().out


def test_input_that_is_passed_on_to_run_is_judged_too(work: Path) -> None:
    denied("run", "--", "bash", stdin=b"touch denied\n")
    denied("run", "--task", "one-door-4", "--", "bash", stdin=b"touch denied\n")
    command_line("rm", "one-door-4")
    assert not (work / "denied").exists()


@pytest.mark.parametrize("isolated", [(), ("--isolated",)])
@pytest.mark.parametrize(
    "script",
    [
        "import os; os.system('touch denied')",
        "from hermetic_tools import terminal\nprint(terminal('touch denied')['error'])",
    ],
    ids=["itself", "by a tool"],
)
def test_code_is_judged_by_the_rules(work: Path, script: str, isolated: tuple[str, ...]) -> None:
    if isolated:
        need("bwrap")
    (work / "s.py").write_text(script)
    denied("code", *isolated, "s.py")
    assert not (work / "denied").exists()


def test_attach_types_nothing_that_is_denied(
    work: Path, shell: "hermetic.blocking.Process"
) -> None:
    with running("attach", shell.id, stdin=subprocess.PIPE) as attaching:
        assert attaching.stdin is not None
        assert attaching.stderr is not None
        attaching.stdin.write(b"touch denied\n")
        attaching.stdin.flush()
        assert b"not typed: " in attaching.stderr.readline() + attaching.stderr.readline()
    reads_on(shell)
    assert not (work / "denied").exists()


def test_secret_types_nothing_that_is_denied(
    work: Path, shell: "hermetic.blocking.Process"
) -> None:
    denied("secret", shell.id, stdin=b"touch denied\n")
    reads_on(shell)
    assert not (work / "denied").exists()


async def test_shell_types_nothing_that_is_denied(work: Path) -> None:
    try:
        with terminal("shell", "one-door-5") as shown:
            shown.type(b"touch denied\r")
            await shown.until(b"not typed: ")
            shown.type(b"\x15echo do''ne\r")
            await shown.until(b"done")
            shown.type(b"\x1d")
            assert await shown.left() == 0
    finally:
        command_line("rm", "one-door-5")
    assert not (work / "denied").exists()


def test_cp_copies_nothing_to_where_it_is_denied(
    work: Path,
    shell: "hermetic.blocking.Process",
    operations: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    (work / "copies").mkdir()
    (work / "denied").mkdir()
    (work / "denied" / "f").touch()
    for source in ("hermetic.toml", "denied"):
        assert main(["cp", source, f"one-door:{work}/copies/denied"]) != 0
        assert "your rule denies copies/denied" in capfd.readouterr().err
    assert operations == []
    assert main(["cp", "hermetic.toml", f"one-door:{work}/copies/fine"]) == 0
    assert os.listdir(work / "copies") == ["fine"]


def test_the_demo_runs_nothing_that_is_denied(
    work: Path, operations: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    (work / "hermetic.toml").write_text('[approvals]\ndeny = ["*"]\n')
    assert main(["demo", "--no-prompt", "-o", "login=false"]) != 0
    assert "approvals.deny has" in capfd.readouterr().err
    assert operations == []


@pytest.mark.parametrize("era", ERAS)
async def test_mcp_runs_and_types_nothing_that_is_denied(work: Path, era: str) -> None:
    async def user(_: object, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestURLParams)
        async with httpx2.AsyncClient(trust_env=False) as browser:
            await browser.post(params.url, data={"secret": "touch denied"})
        return ElicitResult(action="accept")

    async with connected(era, "--directory", str(work), elicitation_callback=user) as client:
        refused = await answer(client, "terminal", {"command": "touch denied"})
        assert "approvals.deny has" in refused["error"]
        shell = await answer(
            client, "terminal", {"command": "exec bash --norc", "background": True}
        )
        id = shell["session_id"]
        refused = await answer(
            client, "process", {"action": "submit", "session_id": id, "data": "touch denied"}
        )
        assert "approvals.deny has" in refused["error"]
        refused = await answer(client, "type_secret", {"session_id": id, "reason": "so"})
        assert refused["status"] == "blocked"
        assert "denied" not in json.dumps(refused)
        await answer(
            client, "process", {"action": "submit", "session_id": id, "data": "echo do''ne"}
        )
        await answer(client, "process", {"action": "wait_for", "session_id": id, "data": "done"})
    assert not (work / "denied").exists()


async def test_the_console_runs_nothing_that_is_denied(work: Path) -> None:
    async with (
        program("--port", "0") as (_, url),
        hermetic.open("local", cwd=str(work), login=False) as environment,
    ):
        done = await asyncio.to_thread(command_line, "serve", "token", "--scope", "drive")
        client = HttpClient(url, done.stdout.decode().strip())
        for command in ("touch denied", "truncate -s 0 x"):
            refused = await client.post(f"/environments/{environment.id}/run", {"command": command})
            assert (refused.status, refused.code) == (403, "not_permitted")
        fine = await client.post(f"/environments/{environment.id}/run", {"command": "touch fine"})
        await (await environment.process(fine.json["process"]["id"])).wait(20)
    assert sorted(os.listdir(work)) == ["fine", "hermetic.toml"]
    shutil.rmtree(runtime_path() / FOLDER)


def test_all_that_act_are_driven_here() -> None:
    driven = {words[0] for words in ONE_SHOT.values()} | {
        "shell",
        "code",
        "attach",
        "secret",
        "cp",
        "demo",
        "mcp",
    }
    assert driven | {"serve", "fleet"} == CLI_ACTS


# -- what does not
LOOKS: dict[str, Callable[[str], list[str]]] = {
    "ps": lambda id: ["ps"],
    "top": lambda id: ["top"],
    "logs": lambda id: ["logs", id],
    "envs": lambda id: ["envs"],
    "gc": lambda id: ["gc", "one-door"],
    "policy": lambda id: ["policy", "check", "touch denied"],
    "config": lambda id: ["config"],
    "version": lambda id: ["version"],
    "wait": lambda id: ["wait", "--timeout", "0.1", id],
    "inspect": lambda id: ["inspect", id],
    "events": lambda id: ["events", "--in", "no-such-task"],  # any other would last
    "completion": lambda id: ["completion", "bash"],
    "runtime": lambda id: ["runtime", "list"],
    "doctor": lambda id: ["doctor"],
    "approvals": lambda id: ["approvals"],
    # any other would last; it runs a relay of ours alone
    "port": lambda id: ["port", "no-such-task", "8000"],
    "stop": lambda id: ["stop", "no-such-task"],
    "release": lambda id: ["release"],
    "play": lambda id: ["play", "no-such-recording"],
    "kill": lambda id: ["kill", id],
    "rm": lambda id: ["rm", "one-door"],
}


def test_the_others_start_and_feed_nothing(
    shell: "hermetic.blocking.Process", operations: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert LOOKS.keys() == CLI_LOOKS == set(COMMANDS) - CLI_ACTS
    for name, words in LOOKS.items():
        main(words(shell.id))
        # its own `true`, in a place of its own
        assert operations == ["run"] * (name == "doctor"), name
        operations.clear()
    capfd.readouterr()


def test_a_rule_file_that_is_broken_stops_the_command_line(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (work / "hermetic.toml").write_text("[approvals\n")
    assert main(["run", "--", "true"]) == 2
    assert "this is no TOML" in capfd.readouterr().err
