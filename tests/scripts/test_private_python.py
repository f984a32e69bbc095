"""What ./start says and does on machines that lack something; with everything there, ./test itself
is the proof.
"""

import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "dirname", "find", "flock", "rm", "sha256sum", "tail", "uname")

OLD_PYTHON = 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi'
BARE_PYTHON = """
case "$*" in
  *ensurepip* | *"-m venv"* | *"-m pip"* | *"-m virtualenv"*) echo "No module named that"; exit 1 ;;
  *"apt-get install"*) echo sudo apt-get install python3.11-venv ;;
  *"sys.version_info <"*) exit 0 ;;
esac
"""


class Machine:
    """A checkout on a machine that has only the programs put there."""

    def __init__(self, at: Path) -> None:
        self.programs = at / "programs"
        self.checkout = at / "checkout"
        self.programs.mkdir()
        (self.checkout / "scripts").mkdir(parents=True)
        for name in ("start", "pyproject.toml", "scripts/private-python.sh"):
            (self.checkout / name).write_bytes((ROOT / name).read_bytes())
        for tool in TOOLS:
            found = next(
                path for folder in ("/usr/bin", "/bin") if (path := Path(folder, tool)).exists()
            )
            (self.programs / tool).symlink_to(found)

    def add(self, name: str, text: str) -> None:
        self._write(self.programs / name, text)

    def add_environment(self) -> None:
        """What an earlier run leaves: a .venv and the stamp of this checkout."""
        folder = self.checkout / ".venv"
        (folder / "bin").mkdir(parents=True)
        self._write(folder / "bin/python", "exit 1")
        self._write(folder / "bin/hermetic", 'echo "ran: $*"')
        stamped = f"{self.checkout}\n".encode() + (self.checkout / "pyproject.toml").read_bytes()
        (folder / ".ready-serve").write_text(hashlib.sha256(stamped).hexdigest() + "  -\n")

    def start(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/bash", str(self.checkout / "start"), *arguments],
            env={"PATH": str(self.programs), "HOME": os.environ["HOME"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_another_system_than_linux_is_told_what_is_not_there_yet(machine: Machine) -> None:
    machine.add("uname", "echo Darwin")
    code, told = machine.start()
    assert code == 1
    assert "Darwin is not supported yet" in told


def test_a_machine_with_only_an_old_python_is_told(machine: Machine) -> None:
    machine.add("python3", OLD_PYTHON)
    code, told = machine.start()
    assert code == 1
    assert "needs Python 3.11 or newer; Python 3.9.2 is what this machine has" in told


def test_a_python_that_cannot_make_environments_gets_the_one_command_that_helps(
    machine: Machine,
) -> None:
    machine.add("python3", BARE_PYTHON)
    machine.add("apt-get", "exit 1")
    code, told = machine.start()
    assert code == 1
    assert "One command helps: sudo apt-get install python3.11-venv" in told
    assert str(machine.checkout / ".setup.log") in told
    assert "No module named that" in (machine.checkout / ".setup.log").read_text()


def test_tests_are_set_up_by_pip_where_uv_cannot(machine: Machine) -> None:
    """uv does not read the files by which pip may know an index."""
    machine.add_environment()
    stamp = machine.checkout / ".venv/.ready-dev"
    machine.add("python3", 'echo "$*" >>"$0.log"; [ "$2" != uv ]')
    for folder in ("python", "python3"):
        (machine.checkout / ".venv/bin" / folder).unlink(missing_ok=True)
        (machine.checkout / ".venv/bin" / folder).symlink_to(machine.programs / "python3")
    done = subprocess.run(
        ["/bin/bash", "-c", '. scripts/private-python.sh; prepare "$PWD" dev'],
        env={"PATH": str(machine.programs)},
        cwd=machine.checkout,
        check=False,
    )
    assert done.returncode == 0
    assert stamp.exists()
    calls = (machine.checkout / ".venv/bin/python.log").read_text().splitlines()
    assert [line.partition("install ")[2] for line in calls if "install " in line] == [
        "uv",
        "--python .venv -e .[dev]",
        "-e .[dev]",
    ]


def test_a_start_goes_on_where_the_page_cannot_be_built(machine: Machine) -> None:
    machine.add_environment()
    (machine.checkout / "console/src").mkdir(parents=True)
    code, told = machine.start()
    assert code == 0
    assert "It could not be built; everything else works." in told
    assert told.endswith("ran: demo --console\n")


def test_a_second_start_does_nothing_but_start(machine: Machine) -> None:
    machine.add_environment()
    before = time.monotonic()
    code, told = machine.start("--quick")
    assert (code, told) == (0, "ran: demo --console --quick\n")
    assert time.monotonic() - before < 3  # 0.3 s, tenfold slack


def test_a_changed_pyproject_sets_up_again(machine: Machine) -> None:
    machine.add_environment()
    with (machine.checkout / "pyproject.toml").open("a") as pyproject:
        pyproject.write("# changed\n")
    machine.add("python3", OLD_PYTHON)
    code, told = machine.start()
    assert code == 1
    assert "needs Python 3.11" in told


@pytest.mark.parametrize(("extras", "ready"), [("", 0), ("serve", 0), ("dev", 0), ("docs", 1)])
def test_an_environment_for_tests_runs_everything_but_does_not_build_the_site(
    machine: Machine, extras: str, ready: int
) -> None:
    machine.add_environment()
    stamps = machine.checkout / ".venv"
    stamp = (stamps / ".ready-serve").rename(stamps / ".ready-dev").read_text()
    script = '. scripts/private-python.sh; is_ready "$PWD" "$1" "$2"'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", extras, stamp.removesuffix("\n")],
        cwd=machine.checkout,
        check=False,
    )
    assert done.returncode == ready
