"""Containers of docker and podman, inspected with the engine's own client."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.registry.records import id_for_task
from tests.environments.engines import (
    ask,
    both_engines,
    eventually,
    inspect,
    left_here,
    mine,
    need_engine,
    ours,
)
from tests.programs import need_variable
from tests.sizes import scale


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


async def test_no_value_of_a_variable_is_told_to_the_engine(
    engine: str, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED", "hidden-forwarded")
    monkeypatch.setenv("EMPTY", "")
    given = {"A": "hidden-given", "N": 5}
    async with hermetic.open(
        engine, image=image, env=given, forward_env=["FORWARDED", "MISSING", "EMPTY"]
    ) as env:
        assert "hidden" not in json.dumps(inspect(engine, env))
        assert (
            await env.run("echo $A $N $FORWARDED ${MISSING-none} ${EMPTY-none}")
        ).output == "hidden-given 5 hidden-forwarded none none\n"
        assert (
            "hidden"
            not in (
                await env.run("tr '\\0' ' ' </proc/1/environ; tr '\\0' ' ' </proc/1/cmdline")
            ).output
        )


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


async def test_the_record_and_its_token_are_not_seen_inside(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, task="unseen") as env:
        try:
            names = (await env.run("ls -A /run/hermetic")).output.split()
            found = (await env.run("find / -xdev -name env.json -not -path '/proc/*'")).output
        finally:
            await env.close(remove=True)
        assert "s" in names
        # the others are shells' channels
        own = {name for name in names if not name.startswith(f"{env.id}.")}
        assert own <= {"s", "askpass", "host"}
        assert found == ""


def names_below(folder: Path) -> list[str]:
    """What a directory holds."""
    return sorted(str(path) for path in folder.rglob("*"))


@both_engines
@pytest.mark.parametrize("user", [None, "1000:1000"])
async def test_nothing_of_this_machine_can_be_written_inside(
    engine: str, image: str, user: str | None
) -> None:
    """Not even where the socket is: no set-uid file, no device and no flood of files gets out of
    the container.
    """
    env = await hermetic.open(engine, image=image, task="unwritten", user=user)
    try:
        folder = Path(os.environ["HERMETIC_RUNTIME_DIR"], env.id)
        before = names_below(folder)
        tried = await env.run(
            "cd /run/hermetic/host && for act in 'cp /bin/true x' 'mkfifo x' 'mkdir x' 'mv s t' 'rm -f s' 'ln -sf x s' "
            "'chmod 777 .' 'chmod 4777 s'; do $act 2>/dev/null && echo $act; done; ls -A"
        )
        assert tried.output == "s\n"
        assert names_below(folder) == before
        async with hermetic.attach("unwritten") as again:
            assert (await again.run("echo reached")).output == "reached\n"
        mounts = [
            line.split() for line in (await env.run("cat /proc/self/mounts")).output.splitlines()
        ]
        (own,) = [words[3].split(",") for words in mounts if words[1] == "/run/hermetic"]
        assert {"nosuid", "nodev"} <= set(own)
        assert any(word.startswith("size=") for word in own)
        # A user without the rights of root installs no packages, and needs no set-uid file.
        made = await env.run("cp /bin/true ~/x && chmod 4755 ~/x")
        assert (made.exit_code == 0) is (user is None)
    finally:
        await env.close(remove=True)
    assert ours(engine) == []


@both_engines
async def test_removed_behind_our_back_it_is_lost_at_once_and_nothing_runs_twice(
    engine: str, image: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "image": image,
        "volumes": [f"{tmp_path}:/shared"],
        "task": f"removed-{os.getpid()}",
    }
    env = await hermetic.open(engine, **options)
    up = asyncio.Event()
    running = asyncio.create_task(
        env.run("echo once >>/shared/log; echo up; sleep 600", on_output=lambda _: up.set())
    )
    async with asyncio.timeout(20):
        await up.wait()
    ask(engine, ["rm", "-f", *mine(engine, env)])
    began = time.monotonic()
    result = await running
    assert isinstance(result.ending, hermetic.Lost)
    assert time.monotonic() - began < 5
    # or lost, when it is asked while that is found out
    with contextlib.suppress(hermetic.EnvironmentUnavailable):
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
    first = await hermetic.open(
        engine, image=image, task="spec", volumes=[f"{tmp_path}:/x:ro"], network=False
    )
    spec = inspect(engine, first)["Config"]["Labels"]["hermetic.spec"]
    others: list[tuple[str, dict[str, Any]]] = [
        (
            "image",
            {
                "image": need_variable("IMAGE_TOOLS"),
                "volumes": [f"{tmp_path}:/x:ro"],
                "network": False,
            },
        ),
        # not asked for is the default: with network
        ("network", {"image": image, "volumes": [f"{tmp_path}:/x:ro"]}),
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


NAMES = [
    "..",
    "../../etc",
    "/",
    "a/b",
    "a_b",
    "a:b",
    "a b\n",
    "-x",
    "ü" * 100,
    "x" * 300,
    "x" * 299 + "y",
]


async def test_tasks_of_any_name_have_containers_of_their_own(engine: str, image: str) -> None:
    assert len({id_for_task(name) for name in NAMES}) == len(NAMES)
    for name in NAMES[:: 1 if scale(10) > 1 else 3]:
        async with hermetic.open(engine, image=image, task=name) as env:
            assert mine(engine, env)
            async with hermetic.attach(name) as again:
                assert again.id == env.id
            await env.close(remove=True)
        await eventually(lambda id=env.id: not left_here(id))  # type: ignore[misc]


async def test_persistent_files_outlive_the_container_and_belong_to_one_task(
    engine: str, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_DATA_DIR", str(tmp_path))
    for name in ("../a:b", "a/b"):
        env = await hermetic.open(engine, image=image, task=name, persistent=True)
        assert (
            await env.run(
                f"ls -A /root /workspace; echo {len(name)} >/root/kept; cp /root/kept /workspace"
            )
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


async def test_a_directory_of_the_host_is_the_workspace(
    engine: str, image: str, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text("yes\n")
    async with hermetic.open(
        engine, image=image, host_cwd=str(tmp_path), volumes=["/etc:/host-etc:ro"]
    ) as env:
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


async def test_a_living_task_is_found_by_another_process_with_its_output(
    engine: str, image: str
) -> None:
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
