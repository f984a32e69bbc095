"""`hermetic doctor`: what works here, what does not, and what to do.

Each check tries the thing itself.
"""

import argparse
import asyncio
import ctypes
import os
import shutil
import sys
import time
from typing import Literal

from hermetic.cli.colours import shown_state
from hermetic.cli.command import FAILED, JSON, Command
from hermetic.cli.report import one_line, print_json
from hermetic.config import load
from hermetic.contract.environment import Finding
from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.environments import catalog
from hermetic.environments.checkup import probe
from hermetic.fleet.opening import open as open_environment
from hermetic.registry.private import spool_base
from hermetic.registry.records import Records, runtime_root
from hermetic.tools.web.tool import Web

NEEDED = frozenset({"python", "bash", "runtime directory", "local"})


def _doctor(arguments: argparse.Namespace) -> int:
    """Prints the checks; 1 when commands cannot be run on this machine."""
    checks = asyncio.run(all_checks())
    if arguments.json:
        print_json(checks)
    else:
        for check in checks:
            print(
                f"{shown_state(f'{check.state:8}', sys.stdout)} {check.name:18} {one_line(check.found, 160)}"
            )
            if check.advice:
                print(f"{'':27} → {one_line(check.advice, 300)}")
    is_well = all(check.state in ("ok", "weak") for check in checks if check.name in NEEDED)
    return 0 if is_well else FAILED


PROBE_SECONDS = 10.0
OLDEST_BASH = (4, 4)
PR_GET_CHILD_SUBREAPER = 37


class Check(Finding, frozen=True, kw_only=True):
    """The result of one check."""

    name: str


async def all_checks() -> list[Check]:
    """Every check, in the order a person reads them."""
    plain = [_python(), await _bash(), _subreaper(), _runtime_directory(), _spool()]
    others = [kind for kind in catalog.kinds() if kind not in ("local", *catalog.ALIASES)]
    checks = [*plain, await _local(), *await asyncio.gather(*map(_kind, others))]
    return [*checks, *_aliases(checks), _web()]


def _aliases(checks: list[Check]) -> list[Check]:
    """Checks of alias names, with the state of the kind they stand for."""
    states = {check.name: check.state for check in checks}
    return [
        Check(name=name, state=states[kind], found=f"another name of {kind}", advice=f"see {kind}")
        for name, kind in catalog.ALIASES.items()
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if not sys.executable:
        return Check(
            name="python", state="broken", found=version, advice="start Python by its path"
        )
    return Check(name="python", state="ok", found=f"{version} at {sys.executable}")


async def _bash() -> Check:
    path = shutil.which("bash")
    if path is None:
        return Check(
            name="bash",
            state="missing",
            found="no bash on PATH",
            advice="install bash; sessions need it",
        )
    code, said = await probe(
        [path, "-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]} $BASH_VERSION"]
    )
    words = said.split()
    if code != 0 or len(words) < 3:
        return Check(
            name="bash", state="broken", found=said or f"exit code {code}", advice=f"repair {path}"
        )
    if (int(words[0]), int(words[1])) < OLDEST_BASH:
        return Check(
            name="bash", state="broken", found=words[2], advice="install bash 4.4 or newer"
        )
    return Check(name="bash", state="ok", found=f"{words[2]} at {path}")


def _subreaper() -> Check:
    """Whether a resident can adopt orphans."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).prctl(
            PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0
        )
    except (OSError, AttributeError) as error:
        answer, seen = -1, str(error)
    else:
        seen = os.strerror(ctypes.get_errno())
    if answer == 0:
        return Check(name="subreaper", state="ok", found="the kernel gives orphans to the resident")
    advice = "use Linux 3.4 or newer and a Python with ctypes; without it what forks twice may escape a kill"
    return Check(name="subreaper", state="weak", found=f"not available: {seen}", advice=advice)


def _runtime_directory() -> Check:
    try:
        root = runtime_root()
    except ConfigError as error:
        return Check(
            name="runtime directory", state="broken", found=str(error), advice="see the message"
        )
    count = len(Records(root).all())
    return Check(
        name="runtime directory", state="ok", found=f"{root}, {count} environments remembered"
    )


def _spool() -> Check:
    try:
        base = spool_base()
    except ConfigError as error:
        return Check(name="spool", state="broken", found=str(error), advice="see the message")
    if base is None:
        advice = "set HERMETIC_SPOOL_DIR to one; without it only the ends of long outputs are kept"
        return Check(
            name="spool", state="weak", found="no directory on a disk can be written", advice=advice
        )
    free = shutil.disk_usage(base).free
    return Check(name="spool", state="ok", found=f"{base}, {free >> 20} MiB free")


async def _local() -> Check:
    """Opens an environment and runs a command in it."""
    began = time.perf_counter()
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS * 4),
            open_environment("local", lease=30) as environment,
        ):
            opened = time.perf_counter()
            result = await environment.run("echo works")
            ran = time.perf_counter()
            weak = (await environment.info()).weak
    except (ExecutionError, TimeoutError) as error:
        return Check(
            name="local",
            state="broken",
            found=str(error) or "no answer in time",
            advice="see the message",
        )
    if result.output != "works\n":
        found = f"{result.ending}, {result.output!r}"
        return Check(name="local", state="broken", found=found, advice="look at your shell profile")
    timing = f"opened in {(opened - began) * 1000:.0f} ms, first command in {(ran - opened) * 1000:.0f} ms"
    notes = [*weak, *result.notes]
    if notes:
        return Check(name="local", state="weak", found=timing, advice="; ".join(notes))
    return Check(name="local", state="ok", found=timing)


async def _kind(kind: str) -> Check:
    """The result of a kind's own check."""
    try:
        doctor = getattr(catalog.find(kind), "doctor", None)
        if doctor is None:
            return Check(name=kind, state="ok", found="can be loaded; it has no check of its own")
        async with asyncio.timeout(PROBE_SECONDS):
            finding: Finding = await doctor()
    except (ExecutionError, OSError, TimeoutError) as error:
        found = str(error) or f"no answer within {PROBE_SECONDS:g} s"
        return Check(name=kind, state="broken", found=found, advice="see the message")
    return Check(name=kind, state=finding.state, found=finding.found, advice=finding.advice)


def _web() -> Check:
    """Which web tools can be used, by the settings; nothing is fetched."""
    try:
        web = Web(load().web, os.environ)
    except ConfigError as error:
        return Check(name="web", state="broken", found=str(error), advice="see the message")
    missing = {"web_search": web.search_missing(), "web_extract": web.extract_missing()}
    usable = [name for name, why in missing.items() if why is None]
    advice = "; ".join(dict.fromkeys(filter(None, missing.values())))
    found = f"{' and '.join(usable) or 'neither web_search nor web_extract'} can be used"
    state: Literal["ok", "weak", "missing"] = (
        "missing" if not usable else "weak" if advice else "ok"
    )
    return Check(name="web", state=state, found=found, advice=advice)


COMMANDS = {
    "doctor": Command(
        """\
Tries what Hermetic needs and says what works here, what not, and what to do.

  hermetic doctor
  hermetic doctor --json""",
        JSON,
        _doctor,
    ),
}
