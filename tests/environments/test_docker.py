"""Containers of docker and podman, looked at through the engine's own eyes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.environments.catalog import find
from hermetic.environments.containers.client import PROGRAMS
from hermetic.registry.records import Records, id_for_task, runtime_root
from hermetic.session.keeping import record_of
from tests.environments.engines import ENGINES, ask, containers, need_engine, ours, starting
from tests.programs import need_variable
from tests.sizes import is_full, scale

SCRIPTS = Path(__file__).parents[2] / "scripts" / "engines"
LEASE = 0.3
GONE_SECONDS = 60.0


# Where the engines themselves behave differently; the rest is our code alone, which podman repeats at full size.
both_engines = pytest.mark.parametrize("engine", ENGINES, indirect=True)


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> str:
    """docker, and at full size podman."""
    need_engine(request.param)
    return str(request.param)


@pytest.fixture
def image() -> str:
    """An image with bash and python3."""
    return need_variable("IMAGE_BASE")


def mine(engine: str, environment: hermetic.Environment) -> list[str]:
    """The containers of an environment, in whatever state."""
    return containers(engine, f"hermetic.id={environment.id}")


def inspect(engine: str, environment: hermetic.Environment) -> dict[str, Any]:
    """What the engine tells of its container."""
    (name,) = mine(engine, environment)
    (told,) = json.loads(ask(engine, ["inspect", name]))
    return dict(told)


async def eventually(check: Callable[[], bool]) -> None:
    """Returns once it is true; what an engine does by itself tells nobody."""
    async with asyncio.timeout(GONE_SECONDS):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # a look takes a client's start


def left_here(id: str) -> list[str]:
    """What this machine still has of an environment: its directory, its lock, its spool."""
    spools = Path("/var/tmp", f"hermetic-{os.geteuid()}")
    return [str(path) for place in (runtime_root(), spools) for path in place.glob(f"*{id}*")]


@both_engines
async def test_it_is_labelled_hardened_and_gone_after_its_end(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image) as env:
        told = inspect(engine, env)
        labels = told["Config"]["Labels"]
        assert labels["hermetic"] == "1"
        assert labels["hermetic.id"] == env.id
        assert len(labels["hermetic.spec"]) == 64
        assert labels["hermetic.profile"] == "default"
        host = told["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == 5 << 30
        assert host["PidsLimit"] == 256
        assert host["NanoCpus"] == 1_000_000_000
        assert not host["Privileged"]
        assert (await env.run("cat /proc/1/comm")).output == "hermetic-reside\n"
    assert mine(engine, env) == []
    await eventually(lambda: not left_here(env.id))


@both_engines
async def test_no_value_of_a_variable_is_told_to_the_engine(
    engine: str, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED", "hidden-forwarded")
    monkeypatch.setenv("EMPTY", "")
    given = {"A": "hidden-given", "N": 5}
    async with hermetic.open(engine, image=image, env=given, forward_env=["FORWARDED", "MISSING", "EMPTY"]) as env:
        assert "hidden" not in json.dumps(inspect(engine, env))
        assert (
            await env.run("echo $A $N $FORWARDED ${MISSING-none} ${EMPTY-none}")
        ).output == "hidden-given 5 hidden-forwarded none none\n"
        assert "hidden" not in (await env.run("tr '\\0' ' ' </proc/1/environ; tr '\\0' ' ' </proc/1/cmdline")).output


async def test_the_engine_starts_nothing_for_a_command(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image) as env:
        before = inspect(engine, env)["ExecIDs"]
        assert (await env.run("cat", stdin="given", env={"A": "b"})).output == "given"
        await (await env.start("true")).wait(20)
        assert (await env.run(["true"])).exit_code == 0
        assert inspect(engine, env)["ExecIDs"] == before


async def test_the_variables_of_the_image_reach_commands(engine: str, image: str) -> None:
    extra = ["--env", "OF_THE_IMAGE=yes"]
    async with hermetic.open(engine, image=image, extra_args=extra) as env:
        assert (await env.run("echo $OF_THE_IMAGE $HOME $PAGER")).output == "yes /root cat\n"


@both_engines
async def test_the_record_and_its_token_are_not_seen_inside(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, task="unseen") as env:
        try:
            names = (await env.run("ls -A /run/hermetic")).output.split()
            found = (await env.run("find / -xdev -name env.json -not -path '/proc/*'")).output
        finally:
            await env.close(remove=True)
        assert "s" in names
        assert {name for name in names if not name.startswith(f"{env.id}.")} <= {"s", "askpass"}  # and shells' channels
        assert found == ""


async def test_a_socket_that_was_swapped_for_a_link_is_not_followed(engine: str, image: str, tmp_path: Path) -> None:
    """Code inside may write where its socket lies; the host must not be led elsewhere by it."""
    async with hermetic.open(engine, image=image, task="swapped") as env:
        await env.run("cd /run/hermetic; mv s t; ln -s /run/docker.sock s")
        with pytest.raises(hermetic.EnvironmentUnavailable):
            await hermetic.attach("swapped")
        await env.run("cd /run/hermetic; rm s; mv t s")
        await env.close(remove=True)


@both_engines
async def test_removed_behind_our_back_it_is_lost_at_once_and_nothing_runs_twice(
    engine: str, image: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"image": image, "volumes": [f"{tmp_path}:/shared"], "task": "removed"}
    env = await hermetic.open(engine, **options)
    up = asyncio.Event()
    running = asyncio.create_task(env.run("echo once >>/shared/log; echo up; sleep 600", on_output=lambda _: up.set()))
    async with asyncio.timeout(20):
        await up.wait()
    ask(engine, ["rm", "-f", *mine(engine, env)])
    began = time.monotonic()
    result = await running
    assert isinstance(result.ending, hermetic.Lost)
    assert time.monotonic() - began < 5
    with contextlib.suppress(hermetic.EnvironmentUnavailable):  # or lost, when it is asked while that is found out
        assert isinstance((await env.run("echo twice >>/shared/log")).ending, hermetic.Lost)
    await env.close()
    again = await hermetic.open(engine, **options)
    assert (await again.run("cat /shared/log; hostname")).output.splitlines()[0] == "once"
    assert (tmp_path / "log").read_text() == "once\n"
    await again.close(remove=True)
    await eventually(lambda: not left_here(env.id))


async def test_a_task_is_not_handed_out_with_another_image_network_mount_or_limit(
    engine: str, image: str, tmp_path: Path
) -> None:
    first = await hermetic.open(engine, image=image, task="spec", volumes=[f"{tmp_path}:/x:ro"], network=False)
    spec = inspect(engine, first)["Config"]["Labels"]["hermetic.spec"]
    others: list[tuple[str, dict[str, Any]]] = [
        ("image", {"image": need_variable("IMAGE_TOOLS"), "volumes": [f"{tmp_path}:/x:ro"], "network": False}),
        ("network", {"image": image, "volumes": [f"{tmp_path}:/x:ro"]}),  # not asked for is the default: with network
        ("volumes", {"image": image, "network": False}),
        ("pids", {"image": image, "volumes": [f"{tmp_path}:/x:ro"], "network": False, "pids": 100}),
    ]
    for setting, options in others:
        with pytest.raises(hermetic.ConfigError, match=setting) as caught:
            await hermetic.open(engine, task="spec", **options)
        assert caught.value.setting == setting
    replaced = await hermetic.open(engine, task="spec", image=image, replace=True)
    assert inspect(engine, replaced)["Config"]["Labels"]["hermetic.spec"] != spec
    assert (await replaced.run("test -e /x || echo no mount")).output == "no mount\n"
    await first.close()
    await replaced.close(remove=True)


NAMES = ["..", "../../etc", "/", "a/b", "a_b", "a:b", "a b\n", "-x", "ü" * 100, "x" * 300, "x" * 299 + "y"]


async def test_tasks_of_any_name_have_containers_of_their_own(engine: str, image: str) -> None:
    assert len({id_for_task(name) for name in NAMES}) == len(NAMES)
    for name in NAMES[:: 1 if scale(10) > 1 else 3]:
        async with hermetic.open(engine, image=image, task=name) as env:
            assert mine(engine, env)
            async with hermetic.attach(name) as again:
                assert again.id == env.id
            await env.close(remove=True)
        await eventually(lambda id=env.id: not left_here(id))  # type: ignore[misc]


@both_engines
async def test_persistent_files_outlive_the_container_and_belong_to_one_task(
    engine: str, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_DATA_DIR", str(tmp_path))
    for name in ("../a:b", "a/b"):
        env = await hermetic.open(engine, image=image, task=name, persistent=True)
        assert (
            await env.run(f"ls -A /root /workspace; echo {len(name)} >/root/kept; cp /root/kept /workspace")
        ).exit_code == 0
        await env.close(remove=True)
        env = await hermetic.open(engine, image=image, task=name, persistent=True)
        assert (await env.run("cat /root/kept /workspace/kept")).output == f"{len(name)}\n" * 2
        assert str(tmp_path / "containers") in env.isolation.shared_paths
        await env.close(remove=True)
    kept = sorted(path.name for path in (tmp_path / "containers").iterdir())
    assert kept == sorted(id_for_task(name) for name in ("../a:b", "a/b"))
    with pytest.raises(hermetic.ConfigError, match="task"):
        await hermetic.open(engine, image=image, persistent=True)


async def test_a_directory_of_the_host_is_the_workspace(engine: str, image: str, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("yes\n")
    async with hermetic.open(engine, image=image, host_cwd=str(tmp_path), volumes=["/etc:/host-etc:ro"]) as env:
        assert (await env.run("pwd; cat here; echo new >there")).output == "/workspace\nyes\n"
        assert (await env.run("echo x >/host-etc/x")).exit_code != 0
        assert str(tmp_path) in env.isolation.shared_paths
    assert (tmp_path / "there").read_text() == "new\n"
    missing = {"host_cwd": str(tmp_path / "none")}, {"volumes": [f"{tmp_path}/none:/x"]}
    for given in missing:
        with pytest.raises(hermetic.ConfigError):
            await hermetic.open(engine, image=image, **given)
    assert ours(engine) == []


async def test_setup_prepares_the_shell_or_nothing_is_left(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, setup="export READY=1; cd /opt") as env:
        assert (await env.run("echo $READY $PWD")).output == "1 /opt\n"
    with pytest.raises(hermetic.EnvironmentUnavailable, match="cannot do it"):
        await hermetic.open(engine, image=image, setup="echo cannot do it; exit 3")
    assert ours(engine) == []


@both_engines
async def test_memory_that_ran_out_is_told_and_the_place_lives(engine: str, image: str) -> None:
    bomb = "python3 -c 'x = bytearray(400 << 20)'"
    async with hermetic.open(engine, image=image, memory_bytes=256 << 20) as env:
        await env.run("kept=1")
        for command in (bomb, ["python3", "-c", "x = bytearray(400 << 20)"]):
            result = await env.run(command)
            assert (result.ending, result.exit_code) == (hermetic.OutOfMemory(), 137)
        process = await env.start(bomb)
        assert await process.wait(20) == hermetic.OutOfMemory()
        assert (await env.run("kill -9 $$")).ending == hermetic.Signalled(9)
        assert (await env.run("echo $kept")).output == "1\n"


@both_engines
async def test_a_full_tmpfs_costs_only_who_fills_it(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, memory_bytes=256 << 20) as env:
        full = await env.run("head -c 999M /dev/zero >/tmp/full")
        assert full.exit_code != 0
        assert "No space left" in full.output
        with pytest.raises(OSError, match="No space left"):
            await env.write_file("/tmp/more", "x" * 100_000)
        head = await env.run("seq 1000000")
        assert (head.exit_code, head.total_bytes) == (0, 6888896)
        await env.run("head -c 999M /dev/zero >/run/full; head -c 999M /dev/zero >/dev/shm/full")
        assert (await env.run("cd /; echo usable")).output == "usable\n"


async def test_a_kill_of_everything_leaves_the_place(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image) as env:
        await env.run("kept=1")
        process = await env.start("sleep 600")
        await env.run("exec env kill -9 -1")
        assert await process.wait(20) == hermetic.Signalled(9)
        assert (await env.run("echo alive")).output == "alive\n"
        zombies = await env.run(
            "for i in {1..200}; do (setsid true &); done; sleep 0.5; grep -l 'State:.Z' /proc/[0-9]*/status | wc -l"
        )
        assert zombies.output == "0\n"


@both_engines
async def test_a_start_that_fails_says_why_and_leaves_nothing(engine: str, image: str) -> None:
    with pytest.raises(hermetic.EnvironmentUnavailable, match="no-such-option"):
        await hermetic.open(engine, image=image, extra_args=["--no-such-option"])
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.open(engine, image="localhost/no-such-image:none")
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.open(engine, image=image, user="no-such-user")
    assert ours(engine) == []
    assert list(runtime_root().glob("[et]-*")) == []


async def test_a_start_that_is_cancelled_leaves_nothing(engine: str, image: str) -> None:
    for part in range(8):
        opening = asyncio.ensure_future(_awaited(hermetic.open(engine, image=image)))
        await asyncio.sleep(part * 0.03)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await opening).close()  # it was faster
    await eventually(lambda: ours(engine) == [])
    assert list(runtime_root().glob("[et]-*")) == []


async def _awaited(opening: Any) -> hermetic.Environment:
    environment: hermetic.Environment = await opening
    return environment


@both_engines
@pytest.mark.slow
async def test_many_opens_and_closes_leave_nothing(engine: str, image: str) -> None:
    for _ in range(100 if is_full() else 5):
        async with hermetic.open(engine, image=image) as env:
            assert (await env.run("echo up")).output == "up\n"
        await eventually(lambda id=env.id: not left_here(id))  # type: ignore[misc]
    assert ours(engine) == []


OPENER = """
import asyncio, sys, hermetic
async def main():
    kind, image, lease = sys.argv[1:]
    print("begun", flush=True)
    env = await hermetic.open(kind, image=image, lease=float(lease), unattended=float(lease))
    await env.start("setsid sleep 600 & sleep 600")
    print(env.id, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@asynccontextmanager
async def opener(engine: str, image: str) -> AsyncIterator[asyncio.StreamReader]:
    """A process that opens an environment and is killed at the end of the block; what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENER, engine, image, str(LEASE), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    yield process.stdout
    process.send_signal(signal.SIGKILL)
    await process.wait()


@both_engines
@pytest.mark.slow
async def test_callers_killed_by_sigkill_leave_nothing_after_the_lease(engine: str, image: str) -> None:
    for _ in range(scale(20)):
        async with opener(engine, image) as said:
            id = (await said.readline()).decode().strip()
            assert containers(engine, f"hermetic.id={id}")
        await eventually(lambda id=id: not left_here(id) and not containers(engine, f"hermetic.id={id}"))  # type: ignore[misc]


@pytest.mark.slow
async def test_callers_killed_while_they_open_leave_nothing(engine: str, image: str) -> None:
    for part in range(scale(60)):
        async with opener(engine, image):
            await asyncio.sleep(part % 6 * 0.06)
    await eventually(lambda: starting(engine) == [])
    await eventually(lambda: ours(engine) == [])
    await eventually(lambda: list(runtime_root().iterdir()) == [])


async def test_a_living_task_is_found_by_another_process_with_its_output(engine: str, image: str) -> None:
    env = await hermetic.open(engine, image=image, task="found")
    process = await env.start("echo one; read line; echo $line; sleep 600")
    await process.wait_for("one", timeout=20)
    await env.close()
    script = f"""
import hermetic
with hermetic.blocking.open({engine!r}, image={image!r}, task="found") as env:
    process = env.process({process.id!r})
    process.submit("two")
    process.wait_for("two", timeout=20)
    print(process.read().data.decode(), end="")
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "one\ntwo\n", done.stderr
    again = await hermetic.attach("found")
    assert (await again.process(process.id)).id == process.id
    await again.close(remove=True)


@asynccontextmanager
async def engine_by_tcp() -> AsyncIterator[str]:
    """The docker engine as it is reached on another machine: by an address instead of a socket's path."""
    path = need_variable("DOCKER_HOST").removeprefix("unix://")

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
            target.write_eof()
        except OSError:
            return

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        there, back = await asyncio.open_unix_connection(path)
        with contextlib.suppress(asyncio.CancelledError):  # a stream's task that is cancelled counts as a failure
            await asyncio.gather(carry(reader, back), carry(there, writer))
        back.close()
        writer.close()
        serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def test_an_engine_elsewhere_is_reached_through_its_exec(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine("docker")
    async with engine_by_tcp() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        env = await hermetic.open("docker", image=image, task="far")
        record = Records(runtime_root()).find("far")
        assert record is not None
        assert record.place["bridge"] == "exec"
        assert (await env.run("cd /opt; seq 100000 | wc -l")).output == "100000\n"
        big = await env.run("head -c 3000000 /dev/zero", limit=4_000_000)
        assert len(big.data) == 3_000_000
        # Whoever attaches later speaks to the engine that has it, whatever is set then.
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
        async with hermetic.attach("far") as again:
            assert (await again.run("pwd")).output == "/opt\n"
        await env.close(remove=True)
    monkeypatch.undo()
    assert ours("docker") == []


async def test_an_engine_that_is_missing_or_broken_is_told_and_nothing_runs_elsewhere(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(PROGRAMS, "docker", ("docker", "podman"))  # this machine may have it where a Mac would
    for kind in ENGINES:
        with pytest.raises(hermetic.EnvironmentUnavailable, match=f"install {kind}"):
            await hermetic.open(kind, image=image)
    program = tmp_path / "client"
    for setting in ("HERMES_DOCKER_BINARY", "HERMETIC_DOCKER_BINARY"):
        monkeypatch.setenv(setting, str(program))
        with pytest.raises(hermetic.EnvironmentUnavailable, match=f"{setting}.*does not exist"):
            await hermetic.open("docker", image=image)
    program.write_text("#!/bin/sh\necho no good >&2\nexit 1\n")
    with pytest.raises(hermetic.EnvironmentUnavailable, match="chmod"):
        await hermetic.open("docker", image=image)
    program.chmod(0o755)
    with pytest.raises(hermetic.EnvironmentUnavailable, match="no good"):
        await hermetic.open("docker", image=image)
    assert list(runtime_root().glob("[et]-*")) == []


# An engine without the cgroup for processes: it refuses that limit, and says in `info` that it has none.
WITHOUT_PIDS = """\
#!/bin/sh
case " $* " in
*" --pids-limit "*) echo "runtime error: no cgroup for pids" >&2; exit 125 ;;
" info "*) echo '{"PidsLimit": false, "MemoryLimit": true, "CpuCfsQuota": true}'; exit ;;
esac
exec "$REAL_DOCKER" "$@"
"""


async def test_a_limit_that_cannot_be_set_is_left_out_and_named(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text(WITHOUT_PIDS.replace("$REAL_DOCKER", need_engine("docker")))
    client.chmod(0o755)
    monkeypatch.setenv("HERMETIC_DOCKER_BINARY", str(client))
    async with hermetic.open("docker", image=image, network=False) as env:
        assert inspect("docker", env)["HostConfig"]["PidsLimit"] in (None, 0)
        assert any("no limit on pids" in note for note in env.isolation.notes)
        assert any("no limit on pids" in note for note in (await env.info()).weak)
        async with hermetic.attach(env.id) as again:
            assert again.isolation == env.isolation
    assert (await find("docker").doctor()).state == "weak"  # type: ignore[attr-defined]


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A docker engine of the test's own is the one in use; calling it stops it."""
    need_engine("docker")
    if os.geteuid() != 0:
        pytest.skip("an engine of its own can only be started by root")
    with tempfile.TemporaryDirectory(prefix="hd-", dir="/tmp") as directory:

        def stop() -> None:
            subprocess.run([SCRIPTS / "stop-docker.sh", "--dir", directory], check=True, capture_output=True)

        subprocess.run([SCRIPTS / "start-docker.sh", "--dir", directory], check=True, capture_output=True)
        try:
            monkeypatch.setenv("DOCKER_HOST", f"unix://{directory}/docker.sock")
            ask("docker", ["import", need_variable("IMAGE_BASE_TAR"), "own"])
            yield stop
        finally:
            stop()


@pytest.mark.slow
async def test_a_stopped_engine_is_told_with_what_to_do(own_engine: Callable[[], None]) -> None:
    env = await hermetic.open("docker", image="own", network=False, task="stopped")
    up = asyncio.Event()
    running = asyncio.create_task(env.run("echo up; sleep 600", on_output=lambda _: up.set()))
    async with asyncio.timeout(20):
        await up.wait()
    await asyncio.to_thread(own_engine)
    assert isinstance((await running).ending, hermetic.Lost)
    await env.close()
    for task in ("stopped", "another"):
        with pytest.raises(hermetic.EnvironmentUnavailable, match="does not answer; start it"):
            await hermetic.open("docker", image="own", network=False, task=task)
    assert [record.task for record in Records(runtime_root()).all()] in ([], ["stopped"])
    Records(runtime_root()).discard(env.id)
    await eventually(lambda: list(runtime_root().glob("[et]-*")) == [])


@both_engines
@pytest.mark.parametrize("user", ["1000:1000", "1000", "nobody"])
async def test_another_user_has_a_directory_of_its_own(engine: str, image: str, user: str) -> None:
    async with hermetic.open(engine, image=image, user=user) as env:
        result = await env.run("pwd; echo $HOME; touch here ~/there && stat -c %U $PWD && id -u")
        assert result.exit_code == 0, result
        assert result.output.splitlines()[:2] == ["/root", "/root"]
        assert any(note.startswith("/root was made for user") for note in record_of(env).notes)


@pytest.mark.parametrize("user", ["1000:1000", None])
async def test_a_missing_cwd_is_made_for_the_user(engine: str, image: str, user: str | None) -> None:
    async with hermetic.open(engine, image=image, user=user, cwd="/data/new") as env:
        result = await env.run("pwd; touch f && id -u")
        assert result.output.splitlines() == ["/data/new", "1000" if user else "0"]
        notes = [note for note in record_of(env).notes if note.startswith("/data/new was made")]
        assert len(notes) == (user is not None)
        assert (await env.run("stat -c %u /data/new")).output == ("1000\n" if user else "0\n")


async def test_a_cwd_that_is_closed_to_the_user_is_named(engine: str, image: str) -> None:
    with pytest.raises(hermetic.EnvironmentUnavailable, match="/var/cache/ldconfig' cannot be entered by user 1000"):
        await hermetic.open(engine, image=image, user="1000:1000", cwd="/var/cache/ldconfig")
    assert ours(engine) == []


@both_engines
async def test_a_limit_on_disk_holds_or_is_named_as_missing(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, disk_bytes=64 << 20, login=False) as env:
        missing = [note for note in env.isolation.notes if note.startswith("no limit on disk_bytes")]
        filled = await env.run("head -c 100000000 /dev/zero > /fill")
        assert (filled.exit_code == 0) == bool(missing)
        assert not any(note.startswith("no limit on disk:") for note in env.isolation.notes)
    assert ours(engine) == []


async def test_files_in_memory_have_a_limit_of_inodes(image: str) -> None:
    need_engine("docker")
    async with hermetic.open("docker", image=image, memory_bytes=64 << 20, login=False) as env:
        counts = (await env.run("df --output=itotal /tmp /run | tail -n +2")).output.split()
        assert [0 < int(count) <= 4096 for count in counts] == [True, True]


async def test_a_forwarded_name_is_looked_up_in_the_env_file(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_engine("docker")
    (tmp_path / ".env").write_text(
        "# keys\nexport A='of file # 1'\nB=\"two\\nlines\"\nC = plain # comment\nD=of file\nE=\nF=not asked\nbroken\n"
    )
    monkeypatch.setenv("HERMETIC_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("D", "of process")
    monkeypatch.setenv("EMPTY", "")
    names = ("A", "B", "C", "D", "E", "EMPTY", "MISSING")
    async with hermetic.open("docker", image=image, forward_env=names, login=False) as env:
        code = f"import os; print([os.environ.get(name) for name in {[*names, 'F']}])"
        result = await env.run(["python3", "-c", code])
        expected = ["of file # 1", "two\nlines", "plain", "of process", None, None, None, None]
        assert result.output == f"{expected}\n"


async def test_the_mounted_directory_of_the_socket_is_restricted_where_the_engine_can(image: str) -> None:
    need_engine("podman")
    async with hermetic.open("podman", image=image, login=False) as env:
        words = (await env.run("grep ' /run/hermetic ' /proc/mounts")).output.split()[3].split(",")
        assert {"nosuid", "nodev", "noexec"} <= set(words)
