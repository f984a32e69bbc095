"""`hermetic record` and `hermetic play`: recordings of terminals and processes, as asciinema plays
them.
"""

import argparse
import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from hermetic.cli import run
from hermetic.cli.command import (
    BAD_USAGE,
    JSON,
    Command,
    defaults,
    option,
    options,
    report_error,
    takes,
)
from hermetic.cli.interrupts import Interrupts, Stopped, interruptible, run_interruptibly
from hermetic.cli.lookup import KnownEnvironment, attached, find_process, find_record
from hermetic.cli.opening import ENVIRONMENT, settings_here
from hermetic.cli.report import age, print_listing, size
from hermetic.contract.errors import InvalidArgument, UnknownProcess
from hermetic.fleet.opening import attach_environment
from hermetic.recordings.cast import read_cast
from hermetic.recordings.recorder import Recorder
from hermetic.recordings.store import Store, create_file
from hermetic.redaction.known_secrets import secrets_of
from hermetic.redaction.redactor import Redactor
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.terminal_modes import TerminalModes

_CLIPBOARD = re.compile(r"\x1b\]52;[^\x07\x1b]*(\x07|\x1b\\|\Z)")

ABOUT = """\
Records what a process prints, until it ends or Ctrl-C; or every command of a task, with a mark at the start and the end
of each; or a command that it runs on your terminal. Secrets that Hermetic knows are hidden. `hermetic play` and
asciinema play the file.

  hermetic record p-12
  hermetic record web
  hermetic record -f demo.cast -- vim notes.txt"""


def _record(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list(arguments.json)
    if arguments.remove:
        _store().remove(arguments.remove)
        return 0
    if arguments.export:
        return _export(arguments.export, arguments.output)
    words, arguments.json = arguments.command, False
    if words[:1] != ["--"] and len(words) != 1:
        return report_error(
            "name one process or task, or put -- before a command to run", BAD_USAGE
        )
    name, file = _new_file(arguments.output)
    with _removed_if_empty(file):
        redact = _redact()
        if words[0] == "--":
            arguments.record = lambda environment, process: _recorded(
                Recorder(environment, file, redact), process
            )
            code = run_interruptibly(lambda interrupts: run.run_command(arguments, interrupts))
        else:
            code = _record_living(arguments, words[0], file, redact)
    sys.stderr.write(f"hermetic: recorded; `hermetic play {name}` plays it\n")
    return code


@contextmanager
def _removed_if_empty(file: IO[bytes]) -> Iterator[None]:
    """Closes the file, and removes it where nothing was recorded."""
    try:
        yield
    finally:
        is_empty = not file.tell()
        file.close()
        if is_empty:
            os.unlink(file.name)


def _record_living(
    arguments: argparse.Namespace, name: str, file: IO[bytes], redact: Callable[[str], str]
) -> int:
    try:
        return run_interruptibly(lambda interrupts: _follow(arguments.within, name, file, redact))
    except Stopped:  # Ctrl-C is the usual end
        return 0


async def _follow(
    within: str | None, name: str, file: IO[bytes], redact: Callable[[str], str]
) -> int:
    async with AsyncExitStack() as block:
        async with attached(within, observes=True) as environments:
            process = None
            try:
                found = await find_process(environments, name)
                seen, process = found.environment, found.info.id
            except UnknownProcess:
                seen = _environment(environments, name)
            environment = await attach_environment(seen.id, patience=0)
            await block.enter_async_context(environment)
        recorder = Recorder(environment, file, redact)
        await (recorder.environment() if process is None else recorder.process(process))
    return 0


def _environment(environments: list[KnownEnvironment], name: str) -> Environment:
    record = find_record(Records(runtime_root()), name)
    known = next((known for known in environments if known.record.id == record.id), None)
    if known is None or known.environment is None:
        raise InvalidArgument(
            f"{name} does not answer: {known.problem if known else 'it is new'}", argument="id"
        )
    return known.environment


@asynccontextmanager
async def _recorded(recorder: Recorder, process: Process) -> AsyncIterator[None]:
    """Records while the block lasts; if the process has ended by then, up to its end."""
    task = asyncio.create_task(recorder.process(process.id))
    try:
        yield
        if (await process.status()).ending is not None:
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])


def _new_file(output: str | None) -> tuple[str, IO[bytes]]:
    if output is None:
        return _store().create()
    try:
        return output, create_file(Path(output))
    except FileExistsError:
        raise InvalidArgument(
            f"there is a file {output}; name a new one", argument="output"
        ) from None


def _list(as_json: bool) -> int:
    found = _store().all()
    rows = [(one.id, age(one.started), size(one.size), one.title) for one in found]
    print_listing(as_json, found, "ID|AGE|SIZE|TITLE", rows)
    return 0


def _export(id: str, output: str | None) -> int:
    if output is None:
        return report_error("name the file: hermetic record --export REC -f FILE", BAD_USAGE)
    with _opened(id) as kept, _new_file(output)[1] as file:
        shutil.copyfileobj(kept, file)
    return 0


def _store() -> Store:
    return Store.of_user(os.environ)


def _redact() -> Callable[[str], str]:
    settings = settings_here()
    known = secrets_of(os.environ) if settings is None else settings.known_secrets(os.environ)
    return Redactor(known).redact


# -- playing
@interruptible
async def _play(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    """Plays until the end or Ctrl-C."""
    if not arguments.speed > 0 or not arguments.idle > 0:
        raise InvalidArgument("--speed and --idle are above zero", argument="speed")
    modes, speed = TerminalModes(), arguments.speed
    with _opened(arguments.recording) as file:
        _, events = read_cast(file)
        try:
            due, before = time.monotonic(), 0.0
            for at, kind, text in events:
                due += min(at - before, arguments.idle) / speed
                before = at
                if kind != "o":
                    continue
                if not arguments.cat:
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                data = _CLIPBOARD.sub("", text).encode("utf-8", "replace")
                modes.feed(data)
                interrupts.write(1, data)
        finally:
            if os.isatty(1):
                os.write(1, modes.undo())
    return 0


def _opened(name: str) -> IO[bytes]:
    """A kept recording by its id, or a file."""
    path = Path(name)
    try:
        return open(path if path.exists() else _store().path(name), "rb")
    except FileNotFoundError:
        raise InvalidArgument(
            f"there is no recording {name}; `hermetic record --list` lists them"
        ) from None
    except OSError as error:
        raise InvalidArgument(f"the recording {name} cannot be read: {error.strerror}") from None


COMMANDS = {
    "record": Command(
        ABOUT,
        takes(
            options(
                ENVIRONMENT,
                """\
-f, --file FILE -> output  a new file, instead of the kept recordings
--task T           run COMMAND in the environment of this task
--in ENV -> within  look for ID only in this environment
--list             the kept recordings
--export REC       copy a kept recording to the file of -f
--remove REC       remove a kept recording""",
                JSON,
                run.COMMAND,
            ),
            option("command", nargs=argparse.REMAINDER, metavar="ID | TASK | -- COMMAND…"),
            defaults(tty=True, detach=False, timeout=None, separate=False, verbose=False),
        ),
        _record,
        usage="hermetic record [OPTION…] ID | TASK | -- COMMAND…",
        failed=run.NOT_DONE,
    ),
    "play": Command(
        """\
Plays a recording on this terminal.

  hermetic play --speed 2 build.cast""",
        options("""\
--speed X: float = 1.0  times as fast
--idle S: float = 5.0   most seconds of a pause (default: 5)
--cat                   everything at once
recording REC|FILE      a kept recording or an asciicast file, version 2 or 3"""),
        _play,
    ),
}
