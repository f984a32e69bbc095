"""What `hermetic doctor` looks at: each check tries the thing itself and says what it saw."""

import asyncio
import ctypes
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.environments import catalog
from hermetic.environments.private import spool_base
from hermetic.environments.records import Records, runtime_root
from hermetic.session.opening import open as open_environment

PROBE_SECONDS = 10.0
OLDEST_BASH = (4, 4)
PR_GET_CHILD_SUBREAPER = 37


# Kind, the programs of which it needs one, how that is tried, and what to install.
ENGINES = (
    ("sandbox", ("bwrap",), ("--ro-bind", "/", "/", "--proc", "/proc", "true"), "bubblewrap"),
    ("docker", ("docker",), ("version", "--format", "{{.Server.Version}}"), "a docker engine and start it"),
    ("podman", ("podman",), ("info", "--format", "{{.Version.Version}}"), "podman"),
    ("apptainer", ("apptainer", "singularity"), ("--version",), "apptainer"),
    ("ssh", ("ssh",), ("-V",), "openssh-client"),
)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was tried."""

    name: str
    state: Literal["ok", "weak", "missing", "broken"]
    found: str
    advice: str = ""


async def all_checks() -> list[Check]:
    """Every check, in the order a person reads them."""
    plain = [_python(), await _bash(), _subreaper(), _runtime_directory(), _spool()]
    known = catalog.kinds()
    engines = await asyncio.gather(*(_engine(*engine) for engine in ENGINES if engine[0] in known))
    return [*plain, await _local(), *engines]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if not sys.executable:
        return Check(name="python", state="broken", found=version, advice="start Python by its path")
    return Check(name="python", state="ok", found=f"{version} at {sys.executable}")


async def _bash() -> Check:
    path = shutil.which("bash")
    if path is None:
        return Check(name="bash", state="missing", found="no bash on PATH", advice="install bash; sessions need it")
    code, said = await _probe([path, "-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]} $BASH_VERSION"])
    words = said.split()
    if code != 0 or len(words) < 3:
        return Check(name="bash", state="broken", found=said or f"exit code {code}", advice=f"repair {path}")
    if (int(words[0]), int(words[1])) < OLDEST_BASH:
        return Check(name="bash", state="broken", found=words[2], advice="install bash 4.4 or newer")
    return Check(name="bash", state="ok", found=f"{words[2]} at {path}")


def _subreaper() -> Check:
    """Whether a resident can become the parent of what loses its own."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0)
    except (OSError, AttributeError) as error:
        answer, seen = -1, str(error)
    else:
        seen = os.strerror(ctypes.get_errno())
    if answer == 0:
        return Check(name="subreaper", state="ok", found="the kernel gives orphans to the resident")
    return Check(
        name="subreaper", state="weak", found=f"not available: {seen}",
        advice="use Linux 3.4 or newer and a Python with ctypes; without it what forks twice may escape a kill",
    )  # fmt: skip


def _runtime_directory() -> Check:
    try:
        root = runtime_root()
    except ConfigError as error:
        return Check(name="runtime directory", state="broken", found=str(error), advice="see the message")
    count = len(Records(root).all())
    return Check(name="runtime directory", state="ok", found=f"{root}, {count} environments remembered")


def _spool() -> Check:
    try:
        base = spool_base()
    except ConfigError as error:
        return Check(name="spool", state="broken", found=str(error), advice="see the message")
    if base is None:
        return Check(
            name="spool", state="weak", found="no directory on a disk can be written",
            advice="set HERMETIC_SPOOL_DIR to one; without it only the ends of long outputs are kept",
        )  # fmt: skip
    free = shutil.disk_usage(base).free
    return Check(name="spool", state="ok", found=f"{base}, {free >> 20} MiB free")


async def _local() -> Check:
    """Opens an environment and runs a command in it: the only honest answer."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(PROBE_SECONDS * 4), open_environment("local", lease=30) as environment:
            opened = time.perf_counter()
            result = await environment.run("echo works")
            ran = time.perf_counter()
            weak = (await environment.info()).weak
    except (ExecutionError, TimeoutError) as error:
        return Check(name="local", state="broken", found=str(error) or "no answer in time", advice="see the message")
    if result.output != "works\n":
        found = f"{result.ending}, {result.output!r}"
        return Check(name="local", state="broken", found=found, advice="look at your shell profile")
    timing = f"opened in {(opened - began) * 1000:.0f} ms, first command in {(ran - opened) * 1000:.0f} ms"
    notes = [*weak, *result.notes]
    if notes:
        return Check(name="local", state="weak", found=timing, advice="; ".join(notes))
    return Check(name="local", state="ok", found=timing)


async def _engine(kind: str, programs: Sequence[str], probe: Sequence[str], package: str) -> Check:
    """A program that a kind of environment needs, tried out."""
    path = next(filter(None, map(shutil.which, programs)), None)
    if path is None:
        return Check(name=kind, state="missing", found=f"no {programs[0]} on PATH", advice=f"install {package}")
    code, said = await _probe([path, *probe])
    if code != 0:
        return Check(name=kind, state="broken", found=said or f"exit code {code}", advice=f"make `{path}` work")
    return Check(name=kind, state="ok", found=" ".join(filter(None, (path, said))))


async def _probe(argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and last line of what a program says, both streams together."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 124, f"no answer within {PROBE_SECONDS:g} s"
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, lines[-1] if lines else ""
