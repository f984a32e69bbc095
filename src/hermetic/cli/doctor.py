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
from hermetic.cli.command import FAILED, JSON, Command, options
from hermetic.cli.extras import PURPOSES, Extra, extras
from hermetic.cli.opening import current_directory
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


State = Literal["ok", "weak", "missing", "broken"]


def _check(name: str, state: State, found: str, advice: str = "") -> Check:
    return Check(name=name, state=state, found=found, advice=advice)


def _failed(name: str, error: BaseException, otherwise: str = "") -> Check:
    return _check(name, "broken", str(error) or otherwise, "see the message")


async def all_checks() -> list[Check]:
    """Every check, in the order a person reads them."""
    plain = [_python(), await _bash(), _subreaper(), _runtime_directory(), _spool()]
    others = [kind for kind in catalog.kinds() if kind not in ("local", *catalog.ALIASES)]
    checks = [*plain, await _local(), *await asyncio.gather(*map(_kind, others))]
    told = {check.advice for check in checks}
    return [*checks, *_aliases(checks), _web(), *(_extra(extra, told) for extra in extras())]


def _aliases(checks: list[Check]) -> list[Check]:
    """Checks of alias names, with the state of the kind they stand for."""
    states = {check.name: check.state for check in checks}
    return [
        _check(name, states[kind], f"another name of {kind}", f"see {kind}")
        for name, kind in catalog.ALIASES.items()
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if not sys.executable:
        return _check("python", "broken", version, "start Python by its path")
    return _check("python", "ok", f"{version} at {sys.executable}")


async def _bash() -> Check:
    path = shutil.which("bash")
    if path is None:
        return _check("bash", "missing", "no bash on PATH", "install bash; sessions need it")
    code, said = await probe(
        [path, "-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]} $BASH_VERSION"]
    )
    words = said.split()
    if code != 0 or len(words) < 3:
        return _check("bash", "broken", said or f"exit code {code}", f"repair {path}")
    if (int(words[0]), int(words[1])) < OLDEST_BASH:
        return _check("bash", "broken", words[2], "install bash 4.4 or newer")
    return _check("bash", "ok", f"{words[2]} at {path}")


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
        return _check("subreaper", "ok", "the kernel gives orphans to the resident")
    advice = "use Linux 3.4 or newer and a Python with ctypes; without it what forks twice may escape a kill"
    return _check("subreaper", "weak", f"not available: {seen}", advice)


def _runtime_directory() -> Check:
    try:
        root = runtime_root()
    except ConfigError as error:
        return _failed("runtime directory", error)
    count = len(Records(root).all())
    return _check("runtime directory", "ok", f"{root}, {count} environments remembered")


def _spool() -> Check:
    try:
        base = spool_base()
    except ConfigError as error:
        return _failed("spool", error)
    if base is None:
        advice = "set HERMETIC_SPOOL_DIR to one; without it only the ends of long outputs are kept"
        return _check("spool", "weak", "no directory on a disk can be written", advice)
    return _check("spool", "ok", f"{base}, {shutil.disk_usage(base).free >> 20} MiB free")


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
        return _failed("local", error, "no answer in time")
    if result.output != "works\n":
        found = f"{result.ending}, {result.output!r}"
        return _check("local", "broken", found, "look at your shell profile")
    timing = f"opened in {(opened - began) * 1000:.0f} ms, first command in {(ran - opened) * 1000:.0f} ms"
    notes = [*weak, *result.notes]
    return _check("local", "weak" if notes else "ok", timing, "; ".join(notes))


async def _kind(kind: str) -> Check:
    """The result of a kind's own check."""
    try:
        doctor = getattr(catalog.find(kind), "doctor", None)
        if doctor is None:
            return _check(kind, "ok", "can be loaded; it has no check of its own")
        async with asyncio.timeout(PROBE_SECONDS):
            finding: Finding = await doctor()
    except (ExecutionError, OSError, TimeoutError) as error:
        return _failed(kind, error, f"no answer within {PROBE_SECONDS:g} s")
    return _check(kind, finding.state, finding.found, finding.advice)


def _web() -> Check:
    """Which web tools can be used, by the settings; nothing is fetched."""
    try:
        web = Web(load(current_directory()).web, os.environ)
    except ConfigError as error:
        return _failed("web", error)
    missing = {"web_search": web.search_missing(), "web_extract": web.extract_missing()}
    usable = [name for name, why in missing.items() if why is None]
    advice = "; ".join(dict.fromkeys(filter(None, missing.values())))
    found = f"{' and '.join(usable) or 'neither web_search nor web_extract'} can be used"
    return _check("web", "missing" if not usable else "weak" if advice else "ok", found, advice)


def _extra(extra: Extra, told: set[str]) -> Check:
    """Whether the packages of an extra are installed. One that is missing is no fault.

    Advice that the check of its kind has told is not repeated.
    """
    name, purpose = f"extra {extra.name}", PURPOSES[extra.name]
    if not extra.missing:
        return _check(name, "ok", ", ".join(extra.installed))
    found = f"for {purpose}; not installed: {', '.join(extra.missing)}"
    advice = f"see {extra.name}" if extra.command in told else extra.command
    return _check(name, "missing", found, advice)


COMMANDS = {
    "doctor": Command(
        """\
Tries what Hermetic needs and says what works here, what not, and what to do.

  hermetic doctor
  hermetic doctor --json""",
        options(JSON),
        _doctor,
    ),
}
