"""Which of an environment's programs the portable runtime replaces: none, its Python, its bash, or
both.

The environment's own are tried first. A start that fails for want of one is repeated with the
runtime, and what the image lacks is remembered for a day, so that the next start is the only one.
`identity` changes when another image has the same name. A Python without ctypes counts
as missing where the runtime can replace it, and is used where it cannot: the resident runs on it,
with weaknesses.
"""

import contextlib
import hashlib
import logging
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermetic.contract.environment import ResidentConfig
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.runtime.store import ADVICE, Runtime, portable, runtime_at
from hermetic.environments.starting import StartFailed
from hermetic.link.archive import NO_PYTHON_CODE
from hermetic.registry.records import runtime_root

# what an image can lack; NO_BASH: any bash at all
PYTHON, BASH, NO_BASH = "python3 >= 3.8", "bash >= 4.4", "bash"
CTYPES = "ctypes in its python3"
# Of an engine whose container has no such program. Apptainer has one exit code for everything.
NOT_FOUND_CODE, NOT_FOUND = 127, "executable file not found in $PATH"
_LACKS = {
    "NoPython": {PYTHON},
    "NoCtypes": {CTYPES},
    "NoBash": {BASH, NO_BASH},
    "OldBash": {BASH},
}  # by the resident's error
MEMORY = ".lacks"  # a directory beside the records; a file in it names what an image lacks
REMEMBERED_SECONDS = 24 * 3600.0  # an image of the same name may change
BIN_BASH = "/bin/bash"  # where scripts expect it

log = logging.getLogger("hermetic")


class Mount(NamedTuple):
    """A file or directory of this machine and its path inside, read-only."""

    source: str
    target: str


class RuntimeChoice:
    """The choice for one start, which learns from its failures.

    `wanted` is "auto", "image", "portable" or the path of a runtime; `image` identifies what is
    started.
    """

    def __init__(self, wanted: str, image: str) -> None:
        self.wanted, self.image = wanted, image
        self.lacks = {PYTHON, BASH} if wanted not in ("auto", "image") else set()
        self.runtime: Runtime | None = None
        self.identity = ""  # of the image whose lacks are remembered
        self.needs_ctypes = wanted == "auto"
        self._memory: Path | None = None
        with contextlib.suppress(ConfigError):  # no directory for it
            self._memory = runtime_root() / MEMORY / hashlib.sha256(image.encode()).hexdigest()[:32]
        if wanted == "auto":
            self._recall()

    def __repr__(self) -> str:
        return f"<RuntimeChoice {self.wanted} for {self.image}: lacks {sorted(self.lacks)}>"

    async def prepare(self) -> None:
        """Finds or builds the runtime if something is lacking. Raises EnvironmentUnavailable."""
        if not self.lacks or self.runtime is not None:
            return
        try:
            self.runtime = await self.obtain()
        except EnvironmentUnavailable as error:
            if self.lacks != {CTYPES}:
                raise
            log.warning(
                "the environment's python3 has no ctypes, and is used all the same: %s", error
            )
            self.do_without_ctypes()

    async def obtain(self) -> Runtime:
        """The runtime for this environment. Raises EnvironmentUnavailable."""
        return await (
            portable() if self.wanted in ("auto", "portable") else runtime_at(self.wanted)
        )

    def do_without_ctypes(self) -> None:
        """Accepts a Python without ctypes."""
        self.needs_ctypes = False
        self.lacks.discard(CTYPES)

    def learn(self, error: StartFailed) -> bool:
        """Whether the start failed for want of a program that the runtime has; the next attempt
        uses it then.

        Raises EnvironmentUnavailable if the runtime may not be used.
        """
        lacks = _LACKS.get(error.error, set())
        not_found = [line for line in error.stderr.splitlines() if NOT_FOUND in line]
        is_missing = error.exit_code in (NOT_FOUND_CODE, NO_PYTHON_CODE)
        if any("python3" in line for line in not_found) or (is_missing and not not_found):
            lacks = {PYTHON}
        if lacks <= self.lacks:
            return False
        if self.wanted == "image":
            what = " and ".join(sorted(lacks - {NO_BASH}))
            raise EnvironmentUnavailable(
                f"no {what} there; use another image, or the option runtime='auto'"
            ) from error
        # What is remembered was complete for its image; so this is another one.
        self.lacks = lacks if self.identity else self.lacks | lacks
        self.identity = ""
        return True

    def explained(self, error: EnvironmentUnavailable) -> EnvironmentUnavailable:
        """The error of a failed start, with advice if the runtime does not run there."""
        if not self.replaces_python or (isinstance(error, StartFailed) and error.error):
            return error
        return EnvironmentUnavailable(
            f"the portable runtime cannot be mounted or does not run there; {ADVICE}. {error}"
        )

    @property
    def is_new(self) -> bool:
        """True if the image lacks something that is not remembered."""
        return self.wanted == "auto" and bool(self.lacks) and not self.identity

    def remember(self, identity: str = "same") -> None:
        """Notes what the image lacks, after a start that succeeded."""
        if self.is_new and self._memory is not None:
            with contextlib.suppress(OSError):
                self._memory.parent.mkdir(mode=0o700, exist_ok=True)
                for path in self._memory.parent.iterdir():
                    if not _is_fresh(path):
                        path.unlink()
                self._memory.write_text("\n".join((identity, *sorted(self.lacks))))

    def forget(self) -> None:
        """Resets the choice: the image is another one."""
        self.lacks, self.runtime, self.identity = set(), None, ""

    def _recall(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._memory is not None and _is_fresh(self._memory):
                self.identity, *lacks = self._memory.read_text().splitlines() or [""]
                self.lacks |= {PYTHON, CTYPES, BASH, NO_BASH}.intersection(
                    lacks if self.identity else ()
                )

    @property
    def replaces_python(self) -> bool:
        """True if the runtime's Python is used."""
        return bool(self.lacks & {PYTHON, CTYPES})

    @property
    def python(self) -> str:
        """The interpreter of the resident."""
        return (
            self.runtime.python if self.runtime is not None and self.replaces_python else "python3"
        )

    @property
    def bash(self) -> str:
        """The bash of the resident; empty: the one on PATH."""
        if self.runtime is None or BASH not in self.lacks:
            return ""
        return BIN_BASH if NO_BASH in self.lacks else self.runtime.bash

    def configured(self, config: ResidentConfig) -> ResidentConfig:
        """The same configuration for the programs that were chosen."""
        return msgspec.structs.replace(
            config, bash=self.bash, runtime=self.description, needs_ctypes=self.needs_ctypes
        )

    @property
    def mounts(self) -> list[Mount]:
        """What has to be mounted; over /bin/bash only where the image has no bash."""
        if self.runtime is None:
            return []
        own = Mount(self.runtime.directory, self.runtime.prefix)
        bash = Mount(
            f"{self.runtime.directory}{self.runtime.bash.removeprefix(self.runtime.prefix)}",
            BIN_BASH,
        )
        return [own, bash] if NO_BASH in self.lacks else [own]

    @property
    def description(self) -> str:
        """What is in use, as `info` reports it."""
        if self.runtime is None:
            return "image"
        names = ["python"] * self.replaces_python + ["bash"] * (BASH in self.lacks)
        return f"portable {' and '.join(names)}"

    @property
    def place(self) -> dict[str, str]:
        """Fields of a record: `hermetic gc` keeps the runtime while it is named there."""
        return (
            {} if self.runtime is None else {"runtime": self.runtime.digest, "python": self.python}
        )


def _is_fresh(memory: Path) -> bool:
    return time.time() - memory.stat().st_mtime < REMEMBERED_SECONDS
