"""A kind of cloud by its real SDK, against a stand-in for the service.

Run by tests/clouds/test_clouds.py.
"""

import asyncio
import functools
import glob
import importlib.util
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from round_trips import NETWORK, measure

sys.path.insert(0, str(Path(__file__).parents[2]))
from cutting import check_cut  # type: ignore[import-not-found, unused-ignore]

import hermetic
from hermetic import hermes
from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments import catalog
from hermetic.environments.clouds import stream as streams
from hermetic.environments.clouds.hosted import ID, ROOT, HostedBackend
from hermetic.registry.records import id_for_task, new_id, runtime_root, tag_of

KIND = os.environ["CLOUD_KIND"]
STANDIN = Path(os.environ["STANDIN"])
IS_FULL = os.environ.get("HERMETIC_FULL", "") not in ("", "0")
KEYS = {"daytona": ("DAYTONA_API_KEY",), "modal": ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")}[KIND]
SERVICE = {"daytona": "DAYTONA_API_URL", "modal": "MODAL_SERVER_URL"}[KIND]
IMAGE = "standin"
SILENT = 3.0  # seconds until silence is noticed
# seconds: Modal's SDK keeps one connection for all requests, and pings it every 30 s
SDK_NOTICES = {"daytona": 0.0, "modal": 40.0}
SLOW = 10.0  # tenfold slack on a machine under load

full = pytest.mark.skipif(not IS_FULL, reason="at full size only")


def on_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test on an event loop of its own."""

    @functools.wraps(test)
    def plain(**arguments: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**arguments), 300))

    return plain


def running() -> set[str]:
    """The sandboxes that run, by their ids."""
    return set(os.listdir(STANDIN / "running")) if (STANDIN / "running").is_dir() else set()


def inside(sandbox: str) -> Iterator[Path]:
    """The processes of a sandbox."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"STANDIN_SANDBOX={sandbox}".encode() in (process / "environ").read_bytes().split(
                b"\0"
            ):
                yield process
        except OSError:
            continue


def is_cleaned() -> bool:
    """Whether no janitor waits for an environment of this runtime directory."""
    # unlike Path.glob, it passes over a process that ends meanwhile
    descriptors = glob.iglob("/proc/[0-9]*/fd/*")
    return all(
        os.path.dirname(target) != str(runtime_root()) for target in map(link_of, descriptors)
    )


def link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


async def until(is_so: Callable[[], bool], seconds: float) -> None:
    """Waits for something; fails after these seconds."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110  the files of another process
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Every test ends with no more sandboxes than it began with."""
    before = running()
    yield
    assert running() <= before


@on_a_loop
async def test_a_sandbox_lives_as_long_as_its_environment() -> None:
    async with hermetic.open(KIND, image=IMAGE, env={"GIVEN": "1"}) as environment:
        result = await environment.run("cd /; echo $GIVEN; export SET=2")
        assert (result.output, result.exit_code) == ("1\n", 0)
        assert (await environment.run("echo $SET $PWD")).output == "2 /\n"
        data = os.urandom(3 << 20)
        await environment.write_file("noise", data)
        assert await environment.read_bytes("noise") == data
        assert len(running()) == 1
    assert not running()


@on_a_loop
async def test_another_caller_attaches_to_a_task() -> None:
    task = secrets.token_hex(4)
    async with hermetic.open(KIND, task=task, image=IMAGE) as first:
        await first.run("KEPT=1")
        second = await hermetic.attach(task)
        assert (await second.run("echo $KEPT")).output == "1\n"
        await second.close()
        await first.close(remove=True)


@on_a_loop
async def test_keys_of_the_vendor_stay_here() -> None:
    before = running()
    async with hermetic.open(KIND, image=IMAGE) as environment:
        await environment.run("sleep 100 &")
        (sandbox,) = running() - before
        processes = list(inside(sandbox))
        assert len(processes) >= 3  # a resident, its guardian, a shell
        for process in processes:
            try:
                shown = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            except OSError:
                continue
            assert not any(os.environ[name].encode() in shown for name in KEYS)


def test_no_credentials_name_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentUnavailable, match=KEYS[0]):
        asyncio.run(_opened())
    finding = asyncio.run(catalog.find(KIND).doctor())  # type: ignore[attr-defined]
    assert finding.state == "missing"
    assert KEYS[0] in finding.advice


def test_the_doctor_finds_sdk_and_credentials() -> None:
    finding = asyncio.run(catalog.find(KIND).doctor())  # type: ignore[attr-defined]
    assert finding.state == "ok"
    assert not any(os.environ[name] in finding.found for name in KEYS)


def script_of(text: str) -> str:
    """The output of a program in another process: an SDK remembers its settings."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


OPEN = f"""
import asyncio, hermetic
async def main():
    try:
        async with hermetic.open({KIND!r}, image="standin", startup=10): pass
    except hermetic.EnvironmentUnavailable as error:
        print(type(error).__name__, error)
asyncio.run(main())
"""


def test_a_wrong_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS[0], "wrong-key")
    said = script_of(OPEN)
    assert said.startswith("EnvironmentUnavailable "), said
    assert KEYS[0] in said
    assert "wrong-key" not in said


@full
def test_a_service_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVICE, "http://127.0.0.1:9/api")
    said = script_of(OPEN)
    assert said.startswith(("Unreachable ", "EnvironmentUnavailable ")), said


async def _opened(image: str = IMAGE, **options: Any) -> None:
    async with hermetic.open(KIND, image=image, **options):
        pass


@full
@on_a_loop
async def test_an_image_without_python_gets_the_portable_runtime() -> None:
    async with hermetic.open(KIND, image="standin:nopython", login=False) as environment:
        assert (await environment.run("command -v python3 || echo none")).output == "none\n"
        assert (await environment.info()).runtime.startswith("portable")


@full
@on_a_loop
async def test_files_of_a_persistent_task_outlive_its_sandboxes() -> None:
    task = secrets.token_hex(4)
    for expected in ("", "kept\n"):
        environment = await hermetic.open(KIND, task=task, image=IMAGE, persistent=True)
        assert (
            await environment.run("cat ~/file 2>/dev/null; echo kept >~/file")
        ).output == expected
        await environment.close(remove=True)


@full
@on_a_loop
async def test_size_clocks_and_tags_are_those_of_the_options() -> None:
    options = {"cpu": 2, "memory_bytes": 2 << 30, "lifetime": 600, "idle": 120, "network": False}
    async with hermetic.open(KIND, image=IMAGE, **options) as environment:
        assert environment.isolation.separate_network
        created = json.loads((STANDIN / "created").read_text().splitlines()[-1])
        tags = created.pop("tags")
        assert created == {"lifetime": 600, "idle": 120, "cpu": 2, "memory": 2048, "network": False}
        assert (tags[ID], tags[ROOT]) == (environment.id, tag_of(runtime_root()))


@full
@on_a_loop
async def test_directories_are_kept_the_same(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "sent").write_text("there")
    async with hermetic.open(KIND, image=IMAGE, sync={str(here): "~/there"}) as environment:
        assert (await environment.run("cat ~/there/sent; echo back >~/there/new")).output == "there"
    assert (here / "new").read_text() == "back\n"


@on_a_loop
async def test_a_cancelled_start_leaves_nothing() -> None:
    opening = asyncio.ensure_future(_opened())
    await until(lambda: bool(running()) or opening.done(), 60)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


@full
@on_a_loop
async def test_a_sandbox_that_the_vendor_ends_is_lost() -> None:
    before = running()
    environment = await hermetic.open(KIND, image=IMAGE)
    (sandbox,) = running() - before
    backend: Any = catalog.find(KIND)
    async with backend.api() as api:
        await (await api.find(sandbox)).end(None)
    result = await environment.run("echo no")
    assert isinstance(result.ending, hermetic.Lost)
    await environment.close()


@full
@on_a_loop
async def test_a_cut_network_is_noticed_at_both_ends_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HostedBackend, "silence", SILENT)
    async with hermetic.open(KIND, image=IMAGE, login=False) as environment:

        def cut() -> None:
            with (STANDIN / "cuts").open("a") as file:
                file.write("cut\n")

        await check_cut(environment, cut, SLOW * SILENT + SDK_NOTICES[KIND])


@full
@on_a_loop
async def test_gc_ends_a_sandbox_without_a_record(tmp_path: Path) -> None:
    before = running()
    backend: Any = catalog.find(KIND)({"image": IMAGE})
    await backend.start(
        NewEnvironment(id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label="")
    )
    assert len(running() - before) == 1
    removed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "hermetic", "gc"], capture_output=True, text=True
    )
    assert f"{KIND} sandbox" in removed.stdout, removed
    assert running() == before


@full
@on_a_loop
async def test_gc_ends_the_others_where_one_sandbox_does_not_end(tmp_path: Path) -> None:
    before, stuck = running(), STANDIN / "stuck"
    backend: Any = catalog.find(KIND)({"image": IMAGE})
    places = []
    for name in ("1", "2", "3"):
        directory = tmp_path / name
        directory.mkdir()
        started = await backend.start(
            NewEnvironment(
                id=new_id(), directory=str(directory), spool=None, token=b"t" * 32, label=""
            )
        )
        places.append(started.place["sandbox"])
    stuck.write_text(places[1])
    gc = [sys.executable, "-m", "hermetic", "gc"]
    try:
        said = await asyncio.to_thread(subprocess.run, gc, capture_output=True, text=True)
        assert running() - before == {places[1]}
        assert f"{KIND} sandbox {places[1]} was not ended" in said.stderr
    finally:
        stuck.unlink()
    await asyncio.to_thread(subprocess.run, gc)


@full
def test_gc_says_when_the_service_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVICE, "http://127.0.0.1:9/api")
    done = subprocess.run(
        [sys.executable, "-m", "hermetic", "gc"], capture_output=True, text=True, timeout=120
    )
    assert f"{KIND.capitalize()} does not answer" in done.stderr


@full
@on_a_loop
async def test_an_image_that_cannot_be_had_is_an_error_and_leaves_nothing() -> None:
    with pytest.raises(EnvironmentUnavailable, match="manifest unknown") as caught:
        await _opened("standin:noimage", startup=30)
    assert not isinstance(caught.value, hermetic.Unreachable)
    backend: Any = catalog.find(KIND)
    async with backend.api() as api:
        assert not await api.tagged({ROOT: tag_of(runtime_root())})


@full
@pytest.mark.parametrize("persistent", [False, True])
@on_a_loop
async def test_a_new_environment_of_a_task_ends_an_abandoned_sandbox(
    tmp_path: Path, persistent: bool
) -> None:
    before, task = running(), secrets.token_hex(4)
    backend: Any = catalog.find(KIND)({"image": IMAGE, "persistent": persistent})
    await backend.start(
        NewEnvironment(
            id=id_for_task(task), directory=str(tmp_path), spool=None, token=b"t" * 32, label=""
        )
    )
    async with hermetic.open(KIND, task=task, image=IMAGE, persistent=persistent) as environment:
        assert len(running() - before) == 1
        await environment.close(remove=True)


MOMENTS = 10 if IS_FULL else 3


@full
@pytest.mark.parametrize("more", [[], ["persistent"]])
def test_killed_callers_leave_no_sandbox_after_their_lease(more: list[str]) -> None:
    words = [sys.executable, str(Path(__file__).with_name("caller.py")), KIND]
    began = time.monotonic()
    with subprocess.Popen([*words, "whole", *more], stdout=subprocess.PIPE, text=True) as whole:
        assert whole.stdout is not None
        assert [whole.stdout.readline() for _ in range(3)][-1] == "done\n"
        needed = time.monotonic() - began
        whole.send_signal(signal.SIGKILL)
    for moment in range(MOMENTS):
        with subprocess.Popen(
            [*words, f"moment-{moment}", *more], stdout=subprocess.PIPE
        ) as caller:
            time.sleep(needed * moment / (MOMENTS - 1))  # the moment itself is what is tested
            caller.send_signal(signal.SIGKILL)
    asyncio.run(until(lambda: not running(), SLOW * (streams.SILENCE + 5)))
    asyncio.run(until(is_cleaned, SLOW * (streams.SILENCE + 5)))


@full
@on_a_loop
async def test_a_warm_command_takes_at_most_two_round_trips() -> None:
    """Of the stream that carries it, over a network faster than any to a cloud."""
    commands, echoes = map(statistics.median, await measure(KIND, 100 if IS_FULL else 20, NETWORK))
    assert commands <= 2 * echoes, f"a command {commands:.2f} ms, a round trip {echoes:.2f} ms"


@full
def test_the_class_of_hermes_keeps_the_files_of_a_task() -> None:
    make: Any = getattr(hermes, f"{KIND.capitalize()}Environment")
    task = secrets.token_hex(4)
    for expected in ("", "kept"):
        environment = make(IMAGE, cwd="~", task_id=task)
        try:
            assert (
                environment.execute("cat ~/file 2>/dev/null; echo kept >~/file")["output"].strip()
                == expected
            )
        finally:
            environment.cleanup()


def test_the_class_of_hermes_takes_the_sizes_of_the_original() -> None:
    make: Any = getattr(hermes, f"{KIND.capitalize()}Environment")
    sizes: dict[str, Any] = {"cpu": 2, "memory": 2048}
    own = {
        "daytona": {**sizes, "disk": 4096},
        # a pair is a request and a limit
        "modal": {
            "modal_sandbox_kwargs": {
                **sizes,
                "cpu": (2, 4),
                "timeout": 600,
                "block_network": True,
            }
        },
    }[KIND]
    environment = make(IMAGE, cwd="~", persistent_filesystem=False, **own)
    try:
        assert environment.execute("exit 3")["returncode"] == 3
        created = json.loads((STANDIN / "created").read_text().splitlines()[-1])
    finally:
        environment.cleanup()
    assert sizes.items() <= created.items()
    if KIND == "modal":
        assert (created["lifetime"], created["network"]) == (600, False)


def test_the_sdk_is_imported_on_first_use() -> None:
    text = (
        f"import hermetic, sys; hermetic.open({KIND!r}, image='x'); print({KIND!r} in sys.modules)"
    )
    assert script_of(text) == "False\n"
    assert importlib.util.find_spec(KIND) is not None
