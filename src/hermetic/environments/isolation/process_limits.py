"""Limits of single processes, for an environment without a cgroup, and their gaps."""

import os
import platform
import re
import shutil

import msgspec

from hermetic.environments.isolation.cgroups import Cgroup

_COUNTS_BY_NAMESPACE = (5, 14)  # older kernels count a user's processes over all namespaces


class ProcessLimits(msgspec.Struct, frozen=True):
    """A program that starts the first process with limits, and notes on weaker limits."""

    argv: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # options that nothing here enforces


def limits_besides(cgroup: Cgroup, *, memory_bytes: int, pids: int) -> ProcessLimits:
    """Limits for what the cgroup does not limit."""
    program = shutil.which("prlimit", path="/usr/bin:/bin")
    argv, notes, missing = [], [], []
    if "memory" not in cgroup.limits:
        if program:
            argv.append(f"--data={memory_bytes}")
            notes.append(f"no cgroup: memory is limited to {memory_bytes} bytes for each process, not for all together")
        else:
            missing.append("memory_bytes")
    elif "swap" not in cgroup.limits:
        notes.append("swap is not limited: memory_bytes counts only what is in memory")
    if "pids" not in cgroup.limits:
        if program and os.geteuid() != 0 and _kernel() >= _COUNTS_BY_NAMESPACE:
            argv.append(f"--nproc={pids}")  # set inside, it counts the processes of this user namespace alone
        else:
            missing.append("pids")
    notes += [f"no cgroup can be made here, so that nothing enforces {name}" for name in missing]
    return ProcessLimits((program, *argv) if program and argv else (), tuple(notes), tuple(missing))


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
