"""Checks of programs that a kind of environment needs, for `hermetic doctor`."""

import os
import shutil
from collections.abc import Mapping, Sequence

from hermetic.contract.environment import Finding
from hermetic.contract.errors import NotInstalled
from hermetic.environments.starting import run_program

PROBE_SECONDS = 2.0


def missing(error: NotInstalled) -> Finding:
    """The finding of `hermetic doctor` for a missing program."""
    return Finding(state="missing", found=error.problem, advice=error.advice)


async def try_program(
    names: Sequence[str],
    arguments: Sequence[str],
    *,
    install: str,
    repair: str = "",
    environ: Mapping[str, str] | None = None,
) -> Finding:
    """Whether the first of these programs on PATH succeeds with these arguments.

    `install` is the advice if there is none, `repair` if it fails.
    """
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        return Finding(state="missing", found=f"no {' or '.join(names)} on PATH", advice=install)
    code, said = await probe([path, *arguments], environ=environ)
    if code != 0:
        return Finding(
            state="broken",
            found=said or f"{path}: exit code {code}",
            advice=repair or f"make {path} work",
        )
    return Finding(state="ok", found=" ".join(filter(None, (path, said))))


async def probe(
    argv: Sequence[str], *, seconds: float = PROBE_SECONDS, environ: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and last line of a program's output; 124 after a timeout."""
    try:
        done = await run_program(argv, seconds=seconds, environ=environ or os.environ)
    except TimeoutError:
        return 124, f"{argv[0]}: no answer within {seconds:g} s"
    output = done.output.decode("utf-8", "replace").strip()
    lines = (output or done.errors if done.code == 0 else done.errors or output).splitlines()
    return done.code, lines[-1] if lines else ""
