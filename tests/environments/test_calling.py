"""A place that is reached by nothing but blocking calls: what they carry arrives whole, and what
fails is told.
"""

import asyncio
import hashlib
import importlib
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.contract.endings import Exited, Lost, TimedOut
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments import calling_stream
from hermetic.environments.calling import CallingOptions
from hermetic.environments.calling_scripts import END, MARK, PUT, NoAnswer, answered, script
from tests.conformance.suite import run_suite, summarize
from tests.docs.pages import blocks
from tests.environments.engines import ask, need_engine
from tests.environments.plugins import install
from tests.programs import need_variable

# What a shell's argument may hold, which is how most SDKs pass a script on.
LONGEST_SCRIPT = 131072

# A version manager's python3, which is a script, would take longer than all the rest.
NO_SHIMS = "PATH=/usr/bin:/bin\n%s"

# A function of an SDK: what it prints comes at its end, as text, with whatever is printed around
# it.
HERE = '''
import subprocess
from hermetic.environments.calling import CallingBackend

class Here(CallingBackend):
    """Commands run on this machine, by calls; `sdk` says what goes wrong."""

    kind = "here"
    longest_call = 1.0
    sdk = None

    def create(self):
        self.sdk.create()

    def call(self, script):
        self.sdk.before(script)
        words = ["bash", "-c", self.sdk.around % script]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode(errors="replace"), done.returncode

    def cancel(self):
        self.sdk.cancel()

    def destroy(self):
        self.sdk.destroyed.set()
'''


class Sdk:
    """A cloud's SDK that works, unless a test makes it fail."""

    def __init__(self, module: Any) -> None:
        self.gone: type[Exception] = importlib.import_module("hermetic.environments.calling").Gone
        self.around = NO_SHIMS
        self.scripts: list[str] = []
        self.cancelled = threading.Event()
        self.destroyed = threading.Event()
        self.create: Callable[[], None] = lambda: None
        self.fault: Callable[[str], None] = lambda script: None
        module.Here.sdk = self

    def before(self, script: str) -> None:
        """Each call begins with it."""
        self.scripts.append(script)
        self.fault(script)

    def cancel(self) -> None:
        """As SDKs do when there is nothing to cancel."""
        self.cancelled.set()
        raise RuntimeError("there is nothing to cancel")


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sdk:
    """The kind `here`, and what it calls."""
    install(tmp_path, "here_kind", HERE, {"here": "Here"}, monkeypatch)
    return Sdk(importlib.import_module("here_kind"))


@asynccontextmanager
async def here(**options: Any) -> AsyncIterator[hermetic.Environment]:
    async with asyncio.timeout(60), hermetic.open("here", login=False, cwd="/", **options) as env:
        yield env


def test_an_answer_is_found_among_what_else_was_printed() -> None:
    assert answered(f"welcome\n{MARK}aGk=:\nbye", 0) == b"hi"
    for text in ("", "welcome", f"{MARK}aGk", f"{MARK}a:"):
        with pytest.raises(NoAnswer):
            answered(text, 1)
    assert script("python3", PUT, "/x", given=f"\n{END}\n".encode()).count(f"\n{END}\n") == 1


def test_its_limits_are_those_of_the_original() -> None:
    options = CallingOptions()
    assert (options.startup, options.lifetime) == (180, 3600)


async def test_input_output_and_files_pass_byte_by_byte_in_scripts_that_fit(
    sdk: Sdk, tmp_path: Path
) -> None:
    sdk.around = "PATH=/usr/bin:/bin; echo welcome; echo warning >&2\n%s\necho bye"
    data = bytes(range(256)) * 300 + f"\n{END}\n'\"\\$(exit)".encode()
    async with here() as env:
        assert (
            await env.run("sha256sum", stdin=data)
        ).output == f"{hashlib.sha256(data).hexdigest()}  -\n"
        assert (await env.run("cat", stdin=data)).data == data
        await env.write_file(f"{tmp_path}/file", data)
        assert (tmp_path / "file").read_bytes() == data
        assert (await env.run("printf '\\xff\\0'; exit 3")).data == b"\xff\0"
    assert max(map(len, sdk.scripts)) < LONGEST_SCRIPT


async def test_what_lives_elsewhere_lives_here(sdk: Sdk) -> None:
    async with here() as env:
        await env.run("cd /usr; kept=1")
        live: list[bytes] = []
        result = await env.run(
            "echo $kept $PWD; read -r line; echo $line", stdin="typed\n", on_output=live.append
        )
        assert (result.output, b"".join(live)) == ("1 /usr\ntyped\n", b"1 /usr\ntyped\n")
        process = await env.start("cat", pty=True)
        await process.submit("hello")
        await process.wait_for("hello", timeout=20)
        await process.kill()
        assert (await env.run("sleep 600 & sleep 600", timeout=0.2)).ending == TimedOut(after=0.2)
        assert (await env.run("jobs -p")).output == ""
        async with hermetic.attach(env.id) as again:
            assert (await again.run("echo $kept")).output == "1\n"


async def test_a_call_that_blocks_holds_up_neither_the_loop_nor_the_end_of_the_process(
    sdk: Sdk,
) -> None:
    loop, begun, answer = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def create() -> None:
        loop.call_soon_threadsafe(begun.set)
        assert answer.wait(30)

    sdk.create = create
    opening = asyncio.ensure_future(hermetic.open("here", login=False)._opened())
    async with asyncio.timeout(30):
        await begun.wait()  # the loop goes on while the call blocks
    threads = [
        thread for thread in threading.enumerate() if thread.name.startswith("hermetic-call")
    ]
    assert threads
    assert all(thread.daemon for thread in threads)
    answer.set()
    env = await opening
    try:
        assert all(
            thread.daemon
            for thread in threading.enumerate()
            if thread.name.startswith("hermetic-p")
        )
    finally:
        await env.close()


async def test_a_place_that_does_not_come_up_in_time_is_taken_away_once_it_has(sdk: Sdk) -> None:
    made = threading.Event()

    def create() -> None:
        # which only a start that gave up does, and its error is passed over
        assert sdk.cancelled.wait(30)
        made.set()

    sdk.create = create
    with pytest.raises(EnvironmentUnavailable, match=r"was not ready within 0\.2 s"):
        await hermetic.open("here", startup=0.2)
    assert made.is_set()
    assert sdk.destroyed.is_set()


@pytest.mark.parametrize("what", ["create", "call", "nothing said", "no python3"])
async def test_what_fails_at_the_start_is_told_and_nothing_is_left(sdk: Sdk, what: str) -> None:
    def fail(script: str = "") -> None:
        raise ValueError("quota exceeded")

    if what == "create":
        sdk.create = fail
    elif what == "call":
        sdk.fault = fail
    else:
        sdk.around = "PATH=/nowhere\n%s" if what == "no python3" else "echo sorry; exit 7\n%s"
    says = {"nothing said": r"sorry \(exit code 7\)", "no python3": "lacks mkdir, chmod, cat"}
    with pytest.raises(EnvironmentUnavailable, match=says.get(what, "ValueError: quota exceeded")):
        await hermetic.open("here")
    assert sdk.destroyed.is_set()


async def test_a_way_that_breaks_is_made_anew_and_no_command_runs_twice(
    sdk: Sdk, tmp_path: Path
) -> None:
    failures = 0

    def fail(script: str) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ConnectionError("the network is down")

    sdk.fault = fail
    async with here() as env:
        process = await env.start("for i in {1..100}; do echo $i; sleep 0.02; done")
        for _ in range(4):
            failures = 3  # of what is under way or comes next
            result = await env.run(f"echo once >>{tmp_path}/ran; echo done")
            assert result.output == "done\n"
        failures = 0
        assert await process.wait(timeout=30) == Exited(0)
        assert (await process.read()).data == "".join(
            f"{number}\n" for number in range(1, 101)
        ).encode()
    assert (tmp_path / "ran").read_text() == "once\n" * 4


async def test_a_call_that_never_returns_counts_as_lost_and_is_let_go_of(
    sdk: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = False

    def hang(script: str) -> None:
        nonlocal hangs
        if hangs:
            hangs = False
            assert sdk.cancelled.wait(30)
            raise ConnectionError("cancelled")

    sdk.fault = hang
    async with here() as env:
        monkeypatch.setattr(calling_stream, "CALL", 2.0)
        hangs = True
        assert (await env.run("echo there")).output == "there\n"
        assert sdk.cancelled.is_set()


async def test_the_failure_of_a_call_that_nothing_waits_for_any_more_is_quiet() -> None:
    begun, gone = threading.Event(), threading.Event()

    def call(text: str) -> tuple[str, int]:
        begun.set()
        assert gone.wait(30)
        raise ConnectionError("it was ended")

    calls = calling_stream.BlockingCalls(call, lambda: None)
    stream = calling_stream.CallStream(calls, "python3", "/relay", 1)
    reading = asyncio.create_task(stream.read())
    assert await asyncio.to_thread(begun.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    gone.set()
    await calls.give_up(lambda: None)


async def test_a_call_that_got_no_thread_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = calling_stream.BlockingCalls(lambda text: (text, 0), lambda: None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        await calls.output("true")
    monkeypatch.undo()
    destroyed = threading.Event()
    async with asyncio.timeout(5):
        await calls.give_up(destroyed.set)
    assert destroyed.is_set()


async def test_what_runs_in_a_place_that_is_gone_is_lost(sdk: Sdk) -> None:
    async with hermetic.open("here", login=False, task="cloudy") as env:
        running = asyncio.ensure_future(env.run("echo; sleep 600"))
        await env.run("true")
        reached = sdk.fault

        def fail(script: str) -> None:
            raise sdk.gone("it was ended")

        sdk.fault = fail
        ended = await running
        assert isinstance(ended.ending, Lost)
        sdk.fault = reached
        async with hermetic.attach("cloudy") as again:  # in truth it is still there
            await again.close(remove=True)


QUICK = """
class Quick(Cloud):
    kind = "quick"
    longest_call = silence = 1.0
"""


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of the page about extending whose only means is a blocking call of docker's client."""
    need_engine("docker")
    _, code = blocks("docs/how-to/add-a-backend.md", "python")
    install(
        tmp_path, "cloud_kind", code.text + QUICK, {"cloud": "Cloud", "quick": "Quick"}, monkeypatch
    )
    return "cloud"


async def test_the_kind_of_the_page_works_and_its_end_is_the_places(cloud: str) -> None:
    options: dict[str, Any] = {"image": need_variable("IMAGE_BASE"), "lifetime": 77.0}
    async with hermetic.open(cloud, task="t/1", **options) as env:
        assert (await env.run("cd /usr; hostname >/dev/null; kept=1")).exit_code == 0
        assert (await env.run("echo $kept $PWD")).output == "1 /usr\n"
        (name,) = _containers(env.id)
        assert "77.0" in ask("docker", ["inspect", "--format", "{{.Args}}", name])
        running = asyncio.ensure_future(env.run("sleep 600"))
        await env.run("true")
        ask("docker", ["rm", "--force", name])
        assert isinstance((await running).ending, Lost)
    async with hermetic.open(cloud, task="t/1", **options) as env:
        assert (await env.run("echo ${kept-new}")).output == "new\n"
        (name,) = _containers(env.id)
        await env.close(remove=True)
    assert _containers(env.id) == []


KILLED = """
import asyncio, os, hermetic
async def main():
    env = await hermetic.open("quick", image=os.environ["IMAGE_BASE"], lease=0.5, login=False)
    print(env.id, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_caller_that_is_killed_leaves_no_place_after_the_lease(cloud: str) -> None:
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, stdout=asyncio.subprocess.PIPE
    )
    assert caller.stdout is not None
    async with asyncio.timeout(60):
        id = (await caller.stdout.readline()).decode().strip()
        assert len(_containers(id)) == 1
        caller.kill()
        await caller.communicate()
        while _containers(id):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # the engine tells nobody


def _containers(id: str) -> list[str]:
    return ask(
        "docker", ["ps", "--all", "--filter", f"name=hermetic-{id}-", "--format", "{{.Names}}"]
    ).split()


# Bounds that such a client misses: two calls take longer than a trivial command may, 100 MB longer
# than a test may.
SLOW = ("test_a_trivial_command_returns_at_once", "test_large_input_arrives_whole")


# Some of SHORT: input, output as it comes, a timeout, a terminal, a signal and files.
BY_CALLS = (
    "test_bytes_pass_unchanged",
    "test_output_is_seen_live",
    "test_a_timeout_keeps_the_output",
    "test_there_is_a_terminal",
    "test_a_signal_is_told",
    "test_what_is_written_is_read_back",
)


PLAIN = f"""
import subprocess
from hermetic.environments.calling import CallingBackend

class Plain(CallingBackend):
    kind = "plain"

    def call(self, script):
        words = ["bash", "-c", {NO_SHIMS!r} % script]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode(errors="replace"), done.returncode
"""


@pytest.mark.slow
def test_it_passes_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose calls are the start of a shell on this machine."""
    install(tmp_path, "plain_kind", PLAIN, {"plain": "Plain"}, monkeypatch)
    passes("plain", tmp_path, [], ["-k", " or ".join(BY_CALLS)], len(BY_CALLS))


@pytest.mark.slow
@pytest.mark.full
def test_the_kind_of_the_page_passes_the_suite_but_for_speed(cloud: str, tmp_path: Path) -> None:
    """Every call is a client's start."""
    options = [f"image={need_variable('IMAGE_TOOLS')}"]
    passes(cloud, tmp_path, options, ["-k", f"not ({' or '.join(SLOW)})"], 400)


def passes(kind: str, tmp_path: Path, options: list[str], only: list[str], least: int) -> None:
    at = tmp_path / "suite"
    at.mkdir()
    cases = run_suite(kind, at, options, only)
    assert len(cases) >= least
    wrong = [case for case in cases if case.outcome != "passed"]
    assert not wrong, summarize(wrong)
