"""Bare mode: a place with bash and no Python keeps every promise that can be kept there."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import pytest

import hermetic
from hermetic.conformance.observing import alive, eventually, new_mark
from hermetic.registry.records import Records, runtime_root
from tests.environments.plugins import PLAIN, install
from tests.environments.sshd import running
from tests.programs import need, need_variable
from tests.sizes import scale

SECONDS = 60


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind whose way in is bash itself."""
    install(tmp_path, "plain_kind", PLAIN, {"plain": "Plain"}, monkeypatch)
    return "plain"


def way_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> str:
    """A kind whose way in is these words, in front of what is to run."""
    source = PLAIN.replace("list(argv)", f"[*{words!r}, *argv]")
    install(tmp_path, "odd_kind", source, {"plain": "Plain"}, monkeypatch)
    return "plain"


def resident_of(environment: hermetic.Environment) -> int:
    record = Records(runtime_root()).read(environment.id)
    assert record is not None
    return record.pid


async def test_the_place_says_what_it_cannot_do(plain: str) -> None:
    async with hermetic.open(plain) as env:
        info = await env.info()
        assert info.cannot == ("pty", "waiting_for_input", "jobs", "descriptors", "scripts")
        assert any("no python3" in sentence and "install" in sentence for sentence in info.weak)
        with pytest.raises(hermetic.Unsupported, match="without pty") as caught:
            await env.start("true", pty=True)
        assert caught.value.capability == "pty"
        assert await env.processes() == []


async def test_nothing_of_a_command_is_in_anybodys_arguments_or_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = way_in(tmp_path, monkeypatch, ["env", f"TMPDIR={tmp_path}/tmp"])
    (tmp_path / "tmp").mkdir()
    secret = new_mark()
    async with hermetic.open(kind, env={"OPENED": secret}) as env:
        process = await env.start("echo ready; cat", env={"STARTED": secret})
        await process.wait_for("ready", timeout=SECONDS)
        running = asyncio.create_task(env.run(f"echo {secret} >/dev/null; sleep 60", env={"RAN": secret}))
        await eventually(lambda: _runs(env, 2))
        assert not any(secret.encode() in line for line in command_lines())
        assert list((tmp_path / "tmp").rglob("*")) == []
        running.cancel()
        await asyncio.wait([running])


SLOW_CAT = """#!{python} -S
import os, time
while data := os.read(0, 65536):
    time.sleep(0.2)
    os.write(1, data)
"""


async def test_what_a_command_prints_when_told_to_end_is_heard_out(
    tmp_path: Path, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints goes through a `cat` there, which a busy machine may let wait."""
    (tmp_path / "cat").write_text(SLOW_CAT.format(python=sys.executable))
    (tmp_path / "cat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with hermetic.open(plain) as env:
        text = "bash -c 'trap \"echo cleaned; exit\" TERM; echo up; while :; do sleep 0.02; done'"
        result = await env.run(text, timeout=1)
        assert result.output.startswith("up\n")
        assert result.output.endswith("cleaned\n")  # bash may say in between that its `sleep` was ended


async def _runs(env: hermetic.Environment, count: int) -> bool:
    return sum(info.state == "running" and bool(info.pid) for info in await env.processes()) == count


def command_lines() -> list[bytes]:
    """Of everything that runs on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


async def test_states_of_many_commands_are_never_torn(plain: str) -> None:
    async with hermetic.open(plain) as env:
        sessions = [env.session(f"s{number}") for number in range(4)]

        async def count(session: hermetic.Session) -> None:
            for number in range(1, 11):
                result = await session.run("echo $((++n)); echo $n >&2", separate=True)
                assert (result.output, result.stderr, result.notes) == (f"{number}\n", f"{number}\n", ())

        await asyncio.gather(*map(count, sessions))


async def test_a_child_that_prints_while_the_state_is_told_does_not_spoil_it(plain: str) -> None:
    async with hermetic.open(plain) as env:
        for number in range(10):
            flood = f"kept={number}; (for ((i = 0; i < 300; i++)); do echo noise >&2; done) &"
            assert (await env.run(flood, separate=True)).notes == ()
            assert (await env.run("echo $kept")).output == f"{number}\n"


async def test_output_that_looks_like_ours_passes_unchanged(plain: str) -> None:
    data = (b"\xff" + b"0" * 32) * 3 + b"\xff\xff\0\xff"
    async with hermetic.open(plain) as env:
        assert (await env.run("cat", stdin=data)).data == data
        result = await env.run("cat >&2", stdin=data, separate=True)
        assert (result.stderr_data, result.data) == (data, b"")


async def test_a_way_in_that_breaks_off_before_anything_began_is_gone_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = 'echo x >>"$0"; case $(wc -l <"$0") in 4|6) kill -ABRT $$;; esac; exec "$@"'
    kind = way_in(tmp_path, monkeypatch, ["bash", "-c", broken, f"{tmp_path}/times"])
    async with hermetic.open(kind) as env:
        for number in range(4):
            text = f"echo {number} >>{tmp_path}/ran; cat"
            process = await env.start(text)
            await process.submit("typed")
            await process.close_input()
            assert await process.wait(SECONDS) == hermetic.Exited(0)
            assert (await process.read()).data == b"typed\n"
            assert (await env.run(f"echo {number} >>{tmp_path}/ran")).exit_code == 0
    assert (tmp_path / "ran").read_text().split() == [str(number) for number in range(4) for _ in range(2)]


ENDINGS: dict[str, hermetic.Exited | hermetic.Signalled] = {
    "kill -9 $$": hermetic.Signalled(9),
    "kill -9 0": hermetic.Signalled(9),
    "kill $$": hermetic.Signalled(15),
    "kill -INT $$": hermetic.Signalled(2),
    "kill -PIPE $$": hermetic.Signalled(13),
    "sleep 0.05; kill -HUP $$": hermetic.Signalled(1),
    "exit 137": hermetic.Exited(137),
    "exit 143": hermetic.Exited(143),
    "sh -c 'kill -9 $$'; exit $?": hermetic.Exited(137),
    "exec sh -c 'kill -9 $$'": hermetic.Signalled(9),
}


async def test_a_signal_is_told_from_the_code_that_stands_for_it(plain: str) -> None:
    async with hermetic.open(plain) as env:

        async def check(name: str) -> None:
            session = env.session(name)
            for text, ending in ENDINGS.items():
                assert (await session.run(text)).ending == ending, text
                assert await (await session.start(text)).wait(SECONDS) == ending, text

        await asyncio.gather(*(check(f"s{number}") for number in range(scale(40))))


async def test_a_program_gets_no_descriptor_of_ours(plain: str) -> None:
    numbers = ["0", "1", "2"]
    async with hermetic.open(plain) as env:
        for separate in (False, True):
            # The shell's own is closed when it starts a program; the fourth is the directory that is listed.
            told = await env.run("ls /proc/self/fd", separate=separate)
            assert told.output.split() == [*numbers, "3"]
            process = await env.start(["ls", "/proc/self/fd"], separate=separate)
            await process.wait(SECONDS)
            assert (await process.read()).data.decode().split() == [*numbers, "3"]


async def test_every_bash_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A statically linked bash cannot look up its user, which it does where one of these is missing.
    known = ["HOME=/root", "SHELL=/bin/bash"]
    for number, bash in enumerate(need_variable("OTHER_BASHES").split(":")):
        at = tmp_path / str(number)
        at.mkdir()
        (at / "bash").symlink_to(bash)
        kind = way_in(at, monkeypatch, ["env", *known, f"PATH={at}:{os.environ['PATH']}"])
        mark = new_mark()
        async with hermetic.open(kind) as env:
            await env.run("cd /tmp; export E='a b'; f() { echo f; }; alias hi='echo hi'; declare -A m=([x]=1)")
            result = await env.run('pwd; echo "$E ${m[x]}"; f; hi', separate=True)
            assert (result.output, result.stderr) == ("/tmp\na b 1\nf\nhi\n", "")
            assert (await env.run("kill -9 $$")).ending == hermetic.Signalled(9)
            assert (await env.run("(exit 137)")).ending == hermetic.Exited(137)
            assert (await env.run(f"setsid sleep {mark} & sleep {mark}", timeout=1)).exit_code == 124
            assert await alive(env, mark) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [(["no-such-way-in"], "no-such-way-in: command not found"),
     (["sh", "-c", "echo no such place >&2; exit 3"], "no such place"),
     (["env", "-i", "PATH=/nonexistent"], "bash did not start there")],
)  # fmt: skip
async def test_a_way_that_leads_nowhere_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    kind = way_in(tmp_path, monkeypatch, words)
    with pytest.raises(hermetic.EnvironmentUnavailable, match=re.escape(said)):
        await hermetic.open(kind)
    assert Records(runtime_root()).all() == []


async def test_a_directory_that_is_not_there_is_told(plain: str) -> None:
    with pytest.raises(hermetic.EnvironmentUnavailable, match="/no/such/place does not exist there"):
        await hermetic.open(plain, cwd="/no/such/place")


async def test_a_killed_resident_leaves_nothing_running(plain: str) -> None:
    mark = new_mark()
    async with hermetic.open("local") as witness:
        env = await hermetic.open(plain)
        await env.start(f"setsid sleep {mark} & sleep {mark}")
        await eventually(lambda: _lives(witness, mark))
        os.kill(resident_of(env), signal.SIGKILL)
        await eventually(lambda: _lives(witness, mark, expected=False), seconds=SECONDS)
        await env.close()


async def _lives(witness: hermetic.Environment, mark: str, expected: bool = True) -> bool:
    return bool(await alive(witness, mark)) is expected


async def test_a_keeper_that_was_killed_is_replaced_and_the_state_is_kept(plain: str) -> None:
    async with hermetic.open(plain) as env:
        await env.run("kept=1; cd /tmp")
        keeper = next(pid for pid in children(resident_of(env)) if _is_bash(pid))  # the first that was started
        os.kill(keeper, signal.SIGKILL)
        assert (await env.run("echo $kept $PWD")).output == "1 /tmp\n"
        mark = new_mark()
        assert (await env.run(f"setsid sleep {mark} & sleep {mark}", timeout=1)).exit_code == 124
        assert await alive(env, mark) == []


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_bash(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "bash\n"


async def test_a_host_without_python_is_opened_in_bare_mode(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "cat", "sleep", "setsid", "head", "tail", "stat", "mkdir", "chmod", "mv", "rm"):
        (programs / name).symlink_to(need(name))
    with running(tmp_path / "sshd", f'ForceCommand export PATH={programs}; eval "$SSH_ORIGINAL_COMMAND"') as sshd:
        async with hermetic.open("ssh", **sshd.options) as env:
            assert "pty" in (await env.info()).cannot
            await env.run("kept=1; cd /")
            assert (await env.run("echo $kept $PWD; type -P python3")).output == "1 /\n"
            mark = new_mark()
            assert (await env.run(f"setsid sleep {mark} & sleep {mark}", timeout=1)).exit_code == 124
            assert await alive(env, mark) == []
            await env.write_file("~/made/f", b"\0\xff")
            assert await env.read_bytes("~/made/f") == b"\0\xff"
