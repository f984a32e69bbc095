"""What the engines behind the places cost by themselves, with nothing of ours in it."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from benchmarks.limits import run_program
from benchmarks.measuring import MILLI, WrongResult

SECONDS = 60.0
ANSWER_SECONDS = 10.0  # for an engine to say that it is there


class Raw(Protocol):
    """A place as its own client gives it."""

    opening: str  # what `open` does, for the table

    def open(self) -> list[float]:
        """Milliseconds until a place is there; it is taken away afterwards."""


class RawContainer:
    """Containers of docker or podman."""

    def __init__(self, program: str, image: str) -> None:
        self.program, self.image = program, image
        self.opening = f"{program} run -d"

    def is_up(self) -> bool:
        """Whether the engine answers."""
        try:
            done = subprocess.run(
                [self.program, "version"], capture_output=True, timeout=ANSWER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def open(self) -> list[float]:
        """A container that sleeps, as one would start it by hand."""
        started = time.perf_counter()
        name = self.start()
        taken = (time.perf_counter() - started) * MILLI
        self.remove(name)
        return [taken]

    @contextmanager
    def running(self, *limits: str) -> Iterator[str]:
        """The id of a container that sleeps for the block."""
        name = self.start(*limits)
        try:
            yield name
        finally:
            self.remove(name)

    def start(self, *limits: str) -> str:
        """The id of a new container that sleeps."""
        # podman has none unless a package brings it
        init = ("--init",) if self.program == "docker" else ()
        return self._ask("run", "-d", *init, *limits, self.image, "sleep", "600")

    def remove(self, *names: str) -> None:
        """Takes containers away."""
        at_once = ("-t", "0") if self.program == "podman" else ()  # docker kills in any case
        self._ask("rm", "-f", *at_once, *names)

    def execute(self, name: str) -> None:
        """`true` in a container that is there already."""
        run_program([self.program, "exec", name, "true"])

    def seconds_inside(self, name: str, text: str) -> float:
        """How long a shell in a container takes for a text, by its own clock."""
        clock = "date +%s%N"
        said = self._ask(
            "exec", name, "bash", "-c", f"before=$({clock}); {text}; echo $(($({clock}) - before))"
        )
        return int(said) / 1e9

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            [self.program, *words], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode != 0:
            raise WrongResult(f"{self.program} {words[0]}: {done.stderr.strip()}")
        return done.stdout.strip()


class RawProgram:
    """A place that is there as long as one program runs in it."""

    def __init__(self, opening: str, argv: Sequence[str]) -> None:
        self.opening, self._argv = opening, argv

    def open(self) -> list[float]:
        """A place for `true`, and its end."""
        started = time.perf_counter()
        run_program(self._argv)
        return [(time.perf_counter() - started) * MILLI]


class RawSandbox(RawProgram):
    """bubblewrap with namespaces of its own."""

    def __init__(self, program: str) -> None:
        inside = [
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--unshare-all",
            "true",
        ]
        super().__init__("bwrap … true", [program, *inside])


class RawApptainer(RawProgram):
    """A container of apptainer for one program."""

    def __init__(self, program: str, image: str) -> None:
        options = ["--userns", "--containall", "--writable-tmpfs"]
        super().__init__(
            "apptainer exec … true", [program, "--silent", "exec", *options, image, "true"]
        )


class RawSsh(RawProgram):
    """A connection for one program."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__("ssh … true", [*argv, "true"])


def memory_available() -> int:
    """Bytes that the machine could give to new programs now."""
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    raise LookupError(f"no MemAvailable in /proc/meminfo of {os.uname().sysname}")
