"""The task's environment for modules of Hermes Agent that read files there or store results."""

import contextlib
from typing import Any

from hermetic.contract.errors import ExecutionError
from hermetic.contract.tool import Fields
from hermetic.hermes.agent_files import cache_base
from hermetic.hermes.host import Host

TIMEOUT = 60.0  # seconds


class AgentEnvironment:
    """What Hermes' own modules need of an environment.

    They are trusted, and do not disturb the model's shell.
    """

    _persistent = True  # it outlives a turn
    env: dict[str, str] = {}  # noqa: RUF012 (Hermes reads it)
    timeout = TIMEOUT

    def __init__(self, host: Host, task: str) -> None:
        self._host = host
        self._task = task
        self._cwd = ""

    def __repr__(self) -> str:
        return f"<AgentEnvironment of {self._task}>"

    def is_of(self, host: Host) -> bool:
        """Whether it belongs to this toolbox."""
        return self._host is host

    @property
    def cwd(self) -> str:
        """The directory of the model's shell."""
        with contextlib.suppress(ExecutionError):  # the last one known
            self._cwd = self._host.cwd(self._task)
        return self._cwd

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: float | None = None,
        stdin_data: str | None = None,
        **_: Any,
    ) -> Fields:
        """Runs a command in a shell of its own: `output` and `returncode`."""
        return self._host.execute(
            self._task, command, cwd or self.cwd, timeout or TIMEOUT, stdin_data
        )

    def agent_visible_cache_base(self) -> str | None:
        """The directory there in which the model finds Hermes' caches; None for this machine's."""
        return cache_base(self._host.kind)

    def get_temp_dir(self) -> str:
        """The directory there for short-lived files."""
        return "/tmp"

    def cleanup(self, *, force_remove: bool = False) -> None:
        """Releases the task's environment; a container is left to its lease unless `force_remove`."""
        self._host.close_task(self._task, remove=force_remove)

    def stop(self) -> None:
        """As `cleanup`."""
        self.cleanup()
