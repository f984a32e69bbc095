"""The watchdog of a sandbox or an apptainer container: a shell on this host that outlives the
opener.

It is the parent of bwrap or apptainer; bwrap dies with it. When they end, it runs the backend's
cleanup lines, then removes the environment's directory, its spool and a lock that a killed opener
left.
"""

import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hermetic.registry.host_process import HostProcess, end_session

PID_FILE = "watchdog"  # in the environment's directory
CONTAINER_SECONDS = 5.0  # for a container that got a signal; it unmounts its file systems then

# A shell function that removes a directory, also where its owner may not enter a part of it.
_REMOVE = 'remove() { rm -rf -- "$1" || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }; }'


def watchdog_argv(
    command: Sequence[str],
    *,
    directory: str,
    spool: str | None,
    before: Sequence[str] = (),
    join: str = "",
    redirections: str = "",
    cleanup: Sequence[str] = (),
) -> list[str]:
    """A shell that runs `command` as its child and cleans up after it.

    `before` are lines of the watchdog itself, `join` one of the child, `redirections` are the
    child's. `cleanup` are lines that run once the child has ended, with its exit code as `$code`.
    Descriptors 3 and 6 are the watchdog's own.
    """
    own, lock = shlex.quote(directory), shlex.quote(f"{directory}.lock")
    root, id = os.path.split(directory)
    aside = f"{shlex.quote(f'{root}/.{id}')}.gone$$"  # a name that `hermetic gc` knows
    lines = [
        f"exec 3<&0 6<{own}",
        *before,
        f"echo $$ >{own}/{PID_FILE}",
        f"( {join} exec {shlex.join(command)} <&3 3<&- 6<&- {redirections} ) &",
        "child=$!",
        'trap "kill $child" HUP INT TERM',
        "exec </dev/null >/dev/null 2>&1 3<&-",
        "wait $child; code=$?; trap '' HUP INT TERM; wait $child",
        _REMOVE,
        *cleanup,
        *([f"remove {shlex.quote(spool)}"] if spool else []),
        # Only if the path is still ours, and moved away first: the task's next life has a directory
        # of the same name.
        f"[ /proc/self/fd/6 -ef {own} ] && mv -T {own} {aside} && remove {aside}",
        f"exec 7>>{lock} && flock -n 7 && rm -f {lock}",
    ]
    return ["/bin/sh", "-c", "\n".join(lines), "hermetic-watchdog"]


class Watchdog(HostProcess, frozen=True):
    """The watchdog of one environment, as a process."""

    @classmethod
    def read(cls, directory: str) -> "Watchdog | None":
        """The watchdog that was started there; None where it has not begun, or ended."""
        try:
            return cls.find(int(Path(directory, PID_FILE).read_text()))
        except (OSError, ValueError):
            return None

    def _steps(self) -> Sequence[Callable[[], None]]:
        """Signals to its child first, so that the watchdog itself can clean up."""
        signals = (
            partial(self._send_to_child, number) for number in (signal.SIGTERM, signal.SIGKILL)
        )
        return (*signals, self._kill_session)

    def _send_to_child(self, number: int) -> None:
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                os.kill(int(pid), number)

    def _kill_session(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            end_session(os.getsid(self.pid))
