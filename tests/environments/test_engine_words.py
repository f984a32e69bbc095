"""What is wrong with an engine or an image, in plain words first; and what `doctor` says of it,
once.
"""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermetic
from hermetic.cli.dispatch import main
from hermetic.environments.containers.client import EngineClient
from hermetic.environments.docker import Docker
from tests.environments.engines import need_engine
from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root, need_variable


@pytest.mark.parametrize("kind", ["docker", "podman"])
async def test_an_image_that_is_missing_is_said_first(kind: str) -> None:
    need_engine(kind)
    image = "localhost:1/hermetic/missing:1"
    with pytest.raises(hermetic.EnvironmentUnavailable) as caught:
        await hermetic.open(kind, image=image)
    said = str(caught.value)
    assert said.startswith(
        f"the image {image!r} is not on this machine and could not be pulled; check its name"
    )
    assert f"pull {image}" in said
    assert "--help" not in said
    assert "connection refused" in said.partition("The engine said: ")[2]


@pytest.mark.parametrize("kind", ["docker", "podman"])
async def test_a_name_without_a_registry_is_said_with_one(kind: str) -> None:
    need_engine(kind)
    with pytest.raises(hermetic.EnvironmentUnavailable) as caught:
        await hermetic.open(kind, image="hermetic-missing:1")
    assert "check its name (podman may need REGISTRY/hermetic-missing:1) and" in str(caught.value)


SAYS_NO = "#!/bin/sh\necho 'permission denied while trying to connect' >&2\nexit 1\n"
ASK = """
import asyncio, sys
from hermetic.environments.containers.client import EngineClient
print(asyncio.run(EngineClient(sys.argv[1], {"DOCKER_HOST": "unix://" + sys.argv[2]}).problem()))
"""


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    need_root("only root can run something as another user")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        user = OrdinaryUser(need_variable("APPTAINER_USER"), Path(home))
        for name in ("run", "xdg"):
            (user.home / name).mkdir(mode=0o700)
            os.chown(user.home / name, user.uid, user.gid)
        user.environ |= {"HERMETIC_RUNTIME_DIR": f"{home}/run", "XDG_RUNTIME_DIR": f"{home}/xdg"}
        yield user


def test_a_socket_that_is_closed_to_the_user_is_said_first(user: OrdinaryUser) -> None:
    program, path = user.home / "docker", str(user.home / "docker.sock")
    program.write_text(SAYS_NO)
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        os.chmod(path, 0o660)  # of root
        said = user.run(ASK, str(program), path)
    assert said.startswith(
        f"you may not use {program}: {path} is closed to your user; join the group that owns it"
    )
    assert "permission denied" in said


async def test_an_engine_that_does_not_answer_is_said_first(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(SAYS_NO)
    program.chmod(0o755)
    found = await EngineClient(
        str(program), {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    ).problem()
    assert found is not None
    assert found.startswith(
        f"the engine behind {program} does not answer; start it, or set DOCKER_HOST. It said: perm"
    )


async def test_an_engine_that_hangs_is_to_be_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.environments.containers.client.ANSWER_SECONDS", 0.5)
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    client = EngineClient(str(program), {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    found = await client.diagnosis()
    assert found is not None
    assert found.advice == "restart it, or set DOCKER_HOST"
    with pytest.raises(hermetic.EnvironmentUnavailable, match="restart it, then try again"):
        await client.run("ps", seconds=0.5)


def test_doctor_advises_each_thing_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("HERMETIC_DOCKER_BINARY", "HERMETIC_APPTAINER_BINARY"):
        monkeypatch.delenv(name, raising=False)
    main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)
    for check in checks:
        words = [
            part.strip()
            for part in check["advice"].replace("; ", ", or ").split(", or ")
            if part.strip()
        ]
        assert not [part for part in words if part in check["found"]], check
    given = [check["advice"] for check in checks if check["advice"]]
    assert len(given) == len(set(given)), given


async def test_doctor_splits_what_is_wrong_from_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text(SAYS_NO)
    program.chmod(0o755)
    monkeypatch.setenv("HERMETIC_DOCKER_BINARY", str(program))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    found = await Docker.doctor()
    assert (found.state, found.advice) == ("broken", "start it, or set DOCKER_HOST")
    assert "start it" not in found.found


DOCTOR = "import sys; from hermetic.cli import main; sys.exit(0 * main(['doctor', '--json']))"


def test_doctor_leaves_no_pause_process_of_rootless_podman(user: OrdinaryUser) -> None:
    need_engine("podman")
    checks = {check["name"]: check for check in json.loads(user.run(DOCTOR))}
    assert checks["podman"]["state"] in ("ok", "weak"), checks["podman"]
    assert processes_with(str(user.home)) == []
    assert list((user.home / "xdg").rglob("pause.pid")) == []


def processes_with(text: str) -> list[str]:
    """What still runs with a variable that holds the text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return found
