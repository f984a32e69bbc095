"""`hermetic runtime`: the portable runtimes of this user."""

import argparse
import asyncio
import contextlib

from hermetic.cli.command import Command, options
from hermetic.cli.progress import Progress, log_progress
from hermetic.cli.report import print_json
from hermetic.environments.runtime import store


def _run(arguments: argparse.Namespace) -> int:
    """Prints runtimes."""
    if arguments.action == "list":
        found = [runtime for runtime in store.runtimes() if runtime.lean or not arguments.lean]
    else:
        if is_build := arguments.action == "build":
            log_progress()  # says when it begins and ends
        found = [asyncio.run(_portable(arguments.lean, is_shown=not is_build))]
    if arguments.json:
        print_json(found)
        return 0
    for runtime in found:
        more = f"{runtime.size / 1e6:.0f} MB, Python {runtime.version}, {'lean, ' * runtime.lean}for {runtime.prefix}"
        print(f"{runtime.directory}  {more}" if arguments.action == "list" else runtime.directory)
    return 0


async def _portable(lean: bool, *, is_shown: bool) -> store.Runtime:
    with Progress("building the portable runtime") if is_shown else contextlib.nullcontext():
        return await store.portable(lean=lean)


COMMANDS = {
    "runtime": Command(
        """\
The portable runtime: this machine's Python and bash for environments that lack them.

  hermetic runtime build
  hermetic runtime list --json""",
        options("""\
action {build,list,path}
        build: build the runtime, unless it is there, and print its directory;
        list: the runtimes in the cache: directory, size, Python, and where each has to be inside;
        path: the directory of the runtime that environments get here; built if need be
--lean  the small one for uploads
--json  as JSON"""),
        _run,
    ),
}
