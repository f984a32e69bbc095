"""Bare mode: environments with bash and without Python, reached through any program that starts a bash there.

The resident runs on this machine, as that of `local`; `hermetic.resident.bare.main` connects it to the environment.
"""

from collections.abc import Mapping, Sequence

import msgspec

from hermetic.contract.environment import EnvironmentRecord, ResidentConfig, Started
from hermetic.contract.limits import START
from hermetic.environments.local_resident import (
    start_local_resident,
)
from hermetic.link.archive import BARE_BOOT

BASH = ("bash", "--norc", "--noprofile")  # the program to start in the environment; it reads its standard input
MARGIN = 10.0  # seconds of a start besides the keeper's


async def start_bare(
    exec_prefix: Sequence[str], config: ResidentConfig, *, environ: Mapping[str, str], keeper: Sequence[str] = (),
    cleanup_command: Sequence[str] = (), seconds: float = START,
) -> Started:  # fmt: skip
    """A resident on this machine for an environment that has bash. Raises EnvironmentUnavailable.

    `exec_prefix` starts BASH in the environment, with its standard streams; it runs for every command, with `environ`.
    `keeper` creates the environment and starts the first bash there, for as long as the resident lives.
    `cleanup_command` removes what is left of the environment once the resident has ended, also by SIGKILL.
    An empty `config.cwd` is the directory of `exec_prefix`. The record's `place` says `bare`: see `is_bare`.
    """
    chosen = msgspec.structs.replace(
        config, arm=tuple(exec_prefix), arm_environ=dict(environ), keeper=tuple(keeper), keeper_seconds=seconds,
        farewell=tuple(cleanup_command),
        foreground=False, guardian=True, inherit=False, opener=None, own_cgroup=False,
    )  # fmt: skip
    started = await start_local_resident(chosen, BARE_BOOT, seconds=seconds + MARGIN)
    return msgspec.structs.replace(started, place={"bare": "1"})


def is_bare(record: EnvironmentRecord) -> bool:
    """True when the resident of a record runs on this machine, by `start_bare`."""
    return "bare" in record.place
