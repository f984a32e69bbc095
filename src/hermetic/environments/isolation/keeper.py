"""The one process of a sandbox outside of it: waits for bwrap's end, then takes away what is left on this side.

It is nobody's child, and bwrap dies with it; so an environment neither depends on its opener nor outlives its keeper.
"""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hermetic.environments.isolation.cgroups import remove_cgroup
from hermetic.environments.isolation.workspace import UNGUARD, unguard
from hermetic.registry.host_process import PASSED, HostProcess

FILTER, INFO, KEEPER = "filter", "info", "keeper"  # files in the environment's directory


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What of a sandbox is on this side, and goes with it."""

    directory: str
    spool: str | None
    lock: str  # of the workspace
    cgroups: tuple[str, ...] = ()
    processes: tuple[HostProcess, ...] = ()  # the resident, then the keeper, once they are known


def started(kept: Kept) -> Kept:
    """The same with the processes that `keeper_argv` brought up, as far as they can be found."""
    pids = []
    with suppress(OSError, msgspec.DecodeError, KeyError):
        pids.append(msgspec.json.decode(Path(kept.directory, INFO).read_bytes(), type=dict[str, int])["child-pid"])
    with suppress(OSError, ValueError):
        pids.append(int(Path(kept.directory, KEEPER).read_text()))
    found = [process for pid in pids if (process := HostProcess.find(pid))]
    return msgspec.structs.replace(kept, processes=tuple(found))


async def clear(kept: Kept) -> None:
    """Returns when nothing runs any more, and does what the keeper leaves undone when it was killed."""
    for process in kept.processes:
        await process.see_ended()
    await remove_cgroup(kept.cgroups)
    unguard(kept.lock)


def keeper_argv(kept: Kept, bwrap: Sequence[str]) -> list[str]:
    """A shell that leaves a keeper behind and ends. It has to get the workspace's lock as descriptor PASSED.

    The keeper runs `bwrap` in the sandbox's cgroups, without variables, and cleans up after it. bwrap finds its filter
    as descriptor 9 and tells of its child on descriptor 7.
    """
    directory = shlex.quote(kept.directory)
    join = "".join(f"echo 0 >{shlex.quote(path)}/cgroup.procs || exit 1; " for path in kept.cgroups)
    lines = [
        "exec 3<&0",
        "(",
        f"read -r own rest </proc/self/stat; echo $own >{directory}/{KEEPER}",
        f"( {join}unset PATH LD_LIBRARY_PATH LC_ALL PWD OLDPWD SHLVL",
        f"exec {shlex.join(bwrap)} <&3 3<&- 7>{directory}/{INFO} {PASSED}<&- 9<{directory}/{FILTER} ) &",
        "child=$!",
        'trap "kill $child" HUP INT TERM',
        "exec </dev/null >/dev/null 2>&1 3<&-",
        "wait $child; trap '' HUP INT TERM; wait $child",
        *(_remove_cgroup(path) for path in kept.cgroups),
        f"set -- {shlex.quote(kept.lock)}",
        f"if flock -xn {PASSED}; then {UNGUARD}fi",
        *_remove(kept),
        ") &",
    ]
    return ["/bin/sh", "-c", "\n".join(lines), "hermetic-keeper"]


def _remove_cgroup(path: str) -> str:
    """Where bwrap was killed, what it held is only about to end, and the kernel tells nobody when it has."""
    quoted = shlex.quote(path)
    return f"tries=0; while [ -d {quoted} ] && ! rmdir {quoted} && [ $tries -lt 2000 ]; do tries=$((tries + 1)); done"


def _remove(kept: Kept) -> list[str]:
    """Moved away first, and only if it is the one we knew: a task's next environment has a directory of that name."""
    directory, aside = shlex.quote(kept.directory), shlex.quote(f"{kept.directory}.gone")
    remove = 'rm -rf "$1" || { chmod -R u+rwx "$1"; rm -rf "$1"; }'
    lines = [f"remove() {{ {remove}; }}"]
    if kept.spool is not None:
        lines.append(f"remove {shlex.quote(kept.spool)}")
    inode = os.stat(kept.directory).st_ino
    lines.append(f'[ "$(stat -c %i {directory})" = {inode} ] && mv -T {directory} {aside}.$$ && remove {aside}.$$')
    return lines
