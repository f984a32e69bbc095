"""Another machine by ssh: one connection, nothing in argv, nothing left, and errors that say what
to do.
"""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import ConfigError, EnvironmentUnavailable, Unreachable
from hermetic.environments.ssh import Ssh
from hermetic.environments.ssh_client import Target
from hermetic.registry.records import LONGEST_ROOT, Records, runtime_root
from tests.environments.sshd import Sshd, free_port, running
from tests.programs import need_root


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running(tmp_path_factory.mktemp("sshd")) as one:
        yield one


def places(id: str) -> list[Path]:
    """What an environment has on this machine, which is its host too."""
    own = f"hermetic-{os.geteuid()}"
    bases = (runtime_root(), Path("/tmp", own), Path("/var/tmp", own))
    return [
        path
        for base in bases
        if base.is_dir()
        for path in base.iterdir()
        if path.name.startswith(id)
    ]


async def test_commands_run_there_and_nothing_is_left(sshd: Sshd) -> None:
    async with hermetic.open("ssh", **sshd.options) as env:
        assert (await env.run("cd /usr; pwd")).output == "/usr\n"
        assert (await env.run("pwd; echo $SSH_CONNECTION")).output.startswith("/usr\n127.0.0.1 ")
        assert len(places(env.id)) == 4  # a record and a spool here, a directory and a spool there
    assert places(env.id) == []


async def test_the_directory_there_is_private(sshd: Sshd) -> None:
    async with hermetic.open("ssh", **sshd.options) as env:
        record = Records(runtime_root()).read(env.id)
        assert record is not None
        there = (record.place["directory"], record.place["spool"], record.socket)
        assert [os.stat(path).st_mode & 0o777 for path in there] == [0o700, 0o700, 0o600]


async def test_one_connection_serves_everything(sshd: Sshd) -> None:
    before = sshd.log.count("Accepted publickey")
    async with (
        hermetic.open("ssh", **sshd.options) as one,
        hermetic.open("ssh", **sshd.options) as other,
    ):
        async with hermetic.attach(one.id) as again:
            assert (await again.run("echo $$")).exit_code == 0
        assert (await other.run("true")).exit_code == 0
    assert sshd.log.count("Accepted publickey") == before + 1


def test_the_control_socket_fits_whatever_the_host_is_called() -> None:
    longest = Path("/" + "r" * (LONGEST_ROOT - 1))
    seen = set()
    for host in ("h", "h" * 250, "other"):
        words = Target(host=host, user="u" * 100).shell(longest, "true")
        [path] = [
            word.removeprefix("ControlPath=").strip('"')
            for word in words
            if word.startswith("ControlPath=")
        ]
        assert len(path) + len(".0123456789abcdef") < 108  # ssh binds a longer name first
        assert re.fullmatch("c-[0-9a-f]{16}", Path(path).name)
        seen.add(path)
    assert len(seen) == 3


async def test_variables_reach_commands_and_no_command_line(sshd: Sshd) -> None:
    secret = os.urandom(8).hex()
    async with hermetic.open("ssh", **sshd.options, env={"HIDDEN": secret}) as env:
        assert (await env.run("echo $HIDDEN", env={"MORE": secret})).output == f"{secret}\n"
        assert not any(secret.encode() in words for words in command_lines())


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


async def test_the_home_is_where_relative_directories_start(sshd: Sshd) -> None:
    for cwd, expected in (("~", str(sshd.home)), (".", str(sshd.home)), ("/usr", "/usr")):
        async with hermetic.open("ssh", **sshd.options, cwd=cwd) as env:
            assert (await env.run("pwd -P")).output.strip() == expected
    with pytest.raises(EnvironmentUnavailable, match="'/nowhere' is not a directory there"):
        await hermetic.open("ssh", **sshd.options, cwd="/nowhere")


async def test_setup_runs_once_in_its_shell(sshd: Sshd) -> None:
    async with hermetic.open("ssh", **sshd.options, setup="export READY=1") as env:
        assert (await env.run("echo $READY")).output == "1\n"


async def test_what_the_users_shell_prints_first_does_no_harm(tmp_path: Path) -> None:
    noise = """ForceCommand echo noise; printf '\\0+\\0'; echo complaint >&2; eval "$SSH_ORIGINAL_COMMAND\""""
    with running(tmp_path / "sshd", noise) as sshd:
        async with hermetic.open("ssh", **sshd.options) as env:
            assert (await env.run("echo hi")).output == "hi\n"


async def test_other_callers_of_the_same_task_do_not_collide_there(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hermetic.open("ssh", task="same", **sshd.options) as one:
        await one.run("who=one")
        (tmp_path / "run").mkdir(mode=0o700)
        with monkeypatch.context() as patch:
            patch.setenv("HERMETIC_RUNTIME_DIR", str(tmp_path / "run"))
            other = await hermetic.open("ssh", task="same", **sshd.options)
            assert (await other.run('echo "[$who]"')).output == "[]\n"
            await other.close(remove=True)
        assert (await one.run("echo $who")).output == "one\n"
        await one.close(remove=True)


async def test_a_socket_without_a_name_there_is_no_proof_that_the_environment_is_gone(
    sshd: Sshd,
) -> None:
    """A cleaner removed the name there, which the resident makes anew."""
    async with hermetic.open("ssh", task="unnamed", **sshd.options) as first:
        await first.run("KEPT=1")
        record = Records(runtime_root()).of_task("unnamed")
        assert record is not None
        os.unlink(record.socket)
        async with hermetic.open("ssh", task="unnamed", **sshd.options) as again:
            assert (await again.run("echo $KEPT")).output == "1\n"
        await first.close(remove=True)
    assert await Ssh(sshd.options).is_gone(record)


async def fails(
    expected: str, kind: type[EnvironmentUnavailable] = EnvironmentUnavailable, **options: Any
) -> None:
    """Opening says why it cannot be, and leaves nothing on either side."""
    known = {path.name for path in runtime_root().iterdir() if not path.name.startswith("c-")}
    async with asyncio.timeout(60):
        with pytest.raises(EnvironmentUnavailable, match=expected) as caught:
            await hermetic.open("ssh", **options)
    assert type(caught.value) is kind
    async with asyncio.timeout(20):
        while {  # noqa: ASYNC110
            path.name for path in runtime_root().iterdir() if not path.name.startswith("c-")
        } != known:
            # the janitor, who has nothing to do any more, tells nobody that it ends
            await asyncio.sleep(0.02)


def make_key(at: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at], check=True)
    return str(at)


async def test_a_refused_key_is_told(sshd: Sshd, tmp_path: Path) -> None:
    await fails(
        "login was refused.*options user and key",
        **{**sshd.options, "key": make_key(tmp_path / "other")},
    )


async def test_an_unknown_host_is_told_where_it_must_be_known(sshd: Sshd, tmp_path: Path) -> None:
    settings = {"UserKnownHostsFile": str(tmp_path / "empty"), "StrictHostKeyChecking": "yes"}
    await fails("key is not known.*accept-new", **{**sshd.options, "settings": settings})


async def test_an_unknown_host_is_remembered_and_a_changed_one_refused(
    sshd: Sshd, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    options = {
        **sshd.options,
        "settings": {"UserKnownHostsFile": str(known), "ControlPersist": "no"},
    }
    async with hermetic.open("ssh", **options) as env:
        assert (await env.run("true")).exit_code == 0
    assert f"[127.0.0.1]:{sshd.port} " in known.read_text()
    make_key(sshd.at / "impostor")
    known.write_text(sshd.known_host("impostor"))
    await fails("not the one that is known.*ssh-keygen -R", **options)


async def test_nobody_there_is_told(sshd: Sshd) -> None:
    await fails("no ssh server listens there", Unreachable, **{**sshd.options, "port": free_port()})
    await fails("no such host is known", Unreachable, **{**sshd.options, "host": "nowhere.invalid"})


def with_path(path: str) -> str:
    """The setting of an sshd whose commands find their programs there, whatever the user's shell
    says.
    """
    return f'ForceCommand PATH={path}; eval "$SSH_ORIGINAL_COMMAND"'


async def test_no_python_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    with running(tmp_path / "sshd", with_path(f"{tmp_path}/bin")) as sshd:
        await fails(
            "no sh with dd answers there, which an upload of the portable runtime needs",
            **sshd.options,
        )
        await fails("no python3 >= 3.8 there", **sshd.options, runtime="image")


async def test_a_python_that_is_too_old_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    # What an old one would do: it runs the text that it is given, and has an old version.
    python.write_text(
        '#!/bin/sh\nexec /usr/bin/python3 -I -S -c "import sys; sys.version_info = (3, 6); $4" "$5"\n'
    )
    python.chmod(0o755)
    with running(tmp_path / "sshd", with_path(f"{tmp_path}/bin:/usr/bin:/bin")) as sshd:
        await fails("no python3 >= 3.8 there", **sshd.options, runtime="image")


@pytest.fixture
def in_run() -> Iterator[Path]:
    """A directory that is seen where /tmp is another."""
    need_root("only root can change the machine's view")
    path = Path("/run") / f"hermetic-test-{os.getpid()}"
    yield path
    shutil.rmtree(path)


async def test_a_full_disk_there_is_told(in_run: Path) -> None:
    places = ("/tmp", "/var/tmp", f"{in_run}/home")
    mounts = "".join(f"mount -t tmpfs -o nr_inodes=1 none {path} && " for path in places)
    around = ["unshare", "--mount", "sh", "-c", f'{mounts} exec "$@"', "sh"]
    with running(in_run, around=around) as sshd:
        await fails("the disk there is full; free some space", **sshd.options)


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({}, "host"),
        ({"host": ""}, "host"),
        ({"host": "-oProxyCommand=true"}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "h", "user": "-x"}, "user"),
        ({"host": "h", "port": 0}, "port"),
        ({"host": "h", "prot": 22}, "prot"),
        ({"host": "h", "settings": {"A B": "c"}}, "settings"),
        ({"host": "h", "settings": {"User": "c\nProxyCommand true"}}, "settings"),
        ({"host": "h", "env": {"A=B": "c"}}, "env"),
    ],
    ids=str,
)
async def test_options_that_cannot_be_are_named(options: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await hermetic.open("ssh", **options)
    assert caught.value.setting == setting


async def test_the_isolation_is_that_of_another_machine_unless_it_is_this_one(sshd: Sshd) -> None:
    async with hermetic.open("ssh", **sshd.options) as env:
        assert env.isolation.shared_paths == ("/",)
        assert not env.isolation.separate_files
