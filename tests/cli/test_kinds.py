"""Every kind from the shell: a command runs there, and nothing is left of it; `doctor` knows what
works here.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hermetic.environments import catalog
from tests.cli.program import as_json, eventually, hermetic
from tests.environments.engines import need_engine
from tests.programs import need, need_variable

Words = Callable[[Path], list[str]]


def container(kind: str) -> list[str]:
    need_engine(kind)
    return ["--env", kind, "--image", need_variable("IMAGE_BASE")]


def apptainer(_: Path) -> list[str]:
    need_variable("APPTAINER")
    return ["--env", "apptainer", "--image", need_variable("IMAGE_BASE_SIF")]


def ssh(_: Path) -> list[str]:
    place = [
        "--env",
        "ssh",
        "--host",
        need_variable("SSH_HOST"),
        "--user",
        need_variable("SSH_USER"),
    ]
    # The connection waits for its next user, shortly here; whoever tests has no next one.
    settings = {"UserKnownHostsFile": need_variable("SSH_KNOWN_HOSTS"), "ControlPersist": "1"}
    options = [
        f"port={need_variable('SSH_PORT')}",
        f"key={need_variable('SSH_KEY')}",
        "config=/dev/null",
        f"settings={json.dumps(settings)}",
    ]
    return [*place, *(word for option in options for word in ("-o", option))]


def sandbox(workspace: Path) -> list[str]:
    need("bwrap")
    return ["--env", "sandbox", "--workspace", str(workspace)]


KINDS: dict[str, Words] = {
    "local": lambda _: [],
    "docker": lambda _: container("docker"),
    "podman": lambda _: container("podman"),
    "apptainer": apptainer,
    "ssh": ssh,
    "sandbox": sandbox,
}


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", os.environ.get("APPTAINER", ""))
    with TemporaryDirectory(prefix="hm-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", directory)
        yield Path(directory)


def has_doctor(kind: str) -> bool:
    return hasattr(catalog.find(kind), "doctor")


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_runs_in_every_kind_from_the_shell(
    kind: str, tmp_path: Path, runtime: Path
) -> None:
    done = hermetic("run", *KINDS[kind](tmp_path), "--", "echo from $((6 * 7)); exit 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"from 42\n", b"")
    eventually(lambda: os.listdir(runtime) == [])


def test_doctor_tells_of_every_kind_quickly_and_leaves_nothing(runtime: Path) -> None:
    began = time.monotonic()
    checks = {check["name"]: check for check in as_json("doctor")}
    took = time.monotonic() - began
    assert set(catalog.kinds()) <= checks.keys()
    for kind in catalog.kinds():
        assert checks[kind]["state"] in ("ok", "weak", "missing", "broken")
        assert checks[kind]["found"]
        assert checks[kind]["advice"] or checks[kind]["state"] == "ok"
    assert took < 30  # each kind has two seconds, and they are asked at once
    assert os.listdir(runtime) == []


def test_doctor_tells_of_the_web_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def web() -> dict[str, str]:
        checks: list[dict[str, str]] = as_json("doctor")
        return next(check for check in checks if check.pop("name") == "web")

    half = web()
    assert (half["state"], half["found"]) == ("weak", "web_extract can be used")
    assert "BRAVE_SEARCH_API_KEY" in half["advice"]
    monkeypatch.setenv("BRAVE_SEARCH_API_KEY", "k")
    assert web() == {"state": "ok", "found": "web_search and web_extract can be used", "advice": ""}
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; sys.modules['selectolax'] = None  # as if not installed"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    none = web()
    assert (none["state"], none["found"]) == (
        "missing",
        "neither web_search nor web_extract can be used",
    )
    assert "selectolax missing" in none["advice"]
    assert "pip install 'hermetic[web]'" in none["advice"]


def test_doctor_finds_what_the_engines_of_the_tests_offer() -> None:
    for kind in ("docker", "podman"):
        need_engine(kind)
    checks = {check["name"]: check for check in as_json("doctor")}
    assert checks["docker"]["state"] in ("ok", "weak")
    assert checks["podman"]["state"] in ("ok", "weak")
    need("ssh")
    assert checks["ssh"]["state"] in ("ok", "weak")


def test_doctor_says_what_to_do_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("HERMETIC_DOCKER_BINARY", "/nonexistent/docker")
    monkeypatch.delenv("HERMETIC_APPTAINER_BINARY")
    told = hermetic("doctor").stdout.decode()
    for kind in filter(has_doctor, ("docker", "podman", "apptainer", "ssh", "sandbox")):
        assert re.search(rf"^(?:missing|broken) +{kind} .*\n +→ \w", told, re.MULTILINE), kind
