"""`python -m benchmarks.trace`: what one warm call passes through on the caller's side.

Prints for each operation the calls of Hermetic's own functions, the files they are in and the
requests sent to the resident. The policy's share stands apart. These are counts, not times: they
are the same on a busy machine.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

import hermetic
from benchmarks.measuring import Place, WrongResult
from benchmarks.places import PLACES, Missing
from benchmarks.private_home import private_home
from hermetic.link.connection import Connection
from hermetic.link.link import Link

SOURCES = str(Path(hermetic.__file__).parent) + "/"
POLICY = "policy/"
WARM_CALLS = 5  # before the first one that counts
COUNTED_CALLS = 5
# no function of their own since Python 3.12
INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
# each time another text: nothing of it was seen before
COMMANDS = map("true {}".format, itertools.count())
REQUESTS = (Link._send.__code__, Connection.greet.__code__)  # what a resident answers

Operation = Callable[[], Awaitable[object]]


class Passed(NamedTuple):
    """The functions of ours that one operation called, by how often, and the requests that it sent."""

    functions: Counter[CodeType]
    requests: int


class Line(NamedTuple):
    """One operation's row: medians over the counted calls."""

    name: str
    calls: int
    files: int
    policy_calls: int
    policy_files: int
    round_trips: int


class Tracer:
    """Counts calls of functions below `SOURCES`, in every thread that begins while it is on."""

    def __init__(self) -> None:
        self.functions: Counter[CodeType] = Counter()

    def __repr__(self) -> str:
        return f"<Tracer: {self.functions.total()} calls>"

    @contextmanager
    def on(self) -> Iterator[None]:
        """Counts within the block."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES) and _begins(frame):
            self.functions[frame.f_code] += 1


def _begins(frame: FrameType) -> bool:
    """Whether a function was called; False where a coroutine or generator goes on (`RESUME` with an
    argument).
    """
    return frame.f_code.co_code[frame.f_lasti + 1] == 0


def main() -> int:
    """Traces what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only operations whose name contains it"
    )
    parser.add_argument(
        "--functions",
        action="store_true",
        help="also list every function, with how often it is called",
    )
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    arguments = parser.parse_args()
    with private_home():
        lines = asyncio.run(trace(arguments.only or [""], list_functions=arguments.functions))
    print(table(lines), end="")
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps([line._asdict() for line in lines], indent=1) + "\n"
        )
    return 0


async def trace(only: Sequence[str] = ("",), *, list_functions: bool = False) -> list[Line]:
    """One line for each operation whose name contains a part of `only` and whose environment this
    machine has.
    """
    lines = []
    for name, (kind, prepare, warm) in OPERATIONS.items():
        if not any(part in name for part in only):
            continue
        try:
            place = PLACES[kind]()
        except Missing as missing:
            print(f"{name}: left out: {missing}", file=sys.stderr)
            continue
        passed = await prepare(place, warm)
        lines.append(_line(name, passed))
        if list_functions:
            print(f"{name}\n{_functions(passed[-1])}")
    return lines


async def _count(
    operation: Operation, warm: int, before: Callable[[], None] = lambda: None
) -> list[Passed]:
    """What each of some calls passed, after `warm` that do not count; `before` runs uncounted ahead
    of each.
    """
    passed = []
    for turn in range(-warm, COUNTED_CALLS):
        before()
        tracer = Tracer()
        with tracer.on():
            await operation()
        if turn >= 0:
            passed.append(
                Passed(tracer.functions, sum(tracer.functions[code] for code in REQUESTS))
            )
    return passed


async def _run(place: Place, warm: int) -> list[Passed]:
    """`env.run` of a program that does nothing."""
    async with place.open() as env:

        async def run() -> None:
            await env.run(next(COMMANDS))

        return await _count(run, warm)


async def _terminal(place: Place, warm: int) -> list[Passed]:
    """The same by the tool, judged by the policy."""
    return await _call(
        place,
        warm,
        "terminal",
        lambda: {"command": next(COMMANDS)},
        lambda answer: answer.get("exit_code") == 0,
    )


async def _read_file(place: Place, warm: int) -> list[Passed]:
    """A small file by the tool."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "small.txt"
        path.write_text("a line of text\n" * 100)
        return await _call(
            place,
            warm,
            "read_file",
            lambda: {"path": str(path)},
            lambda answer: answer.get("total_lines") == 100,
        )


async def _call(
    place: Place,
    warm: int,
    tool: str,
    arguments: Callable[[], dict[str, Any]],
    is_right: Callable[[dict[str, Any]], bool],
) -> list[Passed]:
    async with place.toolbox() as toolbox:

        async def call() -> None:
            answer = json.loads(await toolbox.call(tool, arguments()))
            if not is_right(answer):
                raise WrongResult(str(answer))

        try:
            return await _count(call, warm, before=toolbox.forget_reads)
        finally:
            await toolbox.close(remove=True)


async def _open(place: Place, warm: int) -> list[Passed]:
    """Opening an environment, to the object that its caller gets; what was opened is closed
    uncounted.
    """
    opened: list[hermetic.Environment] = []

    async def open_one() -> None:
        opened.append(await place.open())

    try:
        return await _count(open_one, warm)
    finally:
        for env in opened:
            await env.close()


OPERATIONS: dict[str, tuple[str, Callable[[Place, int], Awaitable[list[Passed]]], int]] = {
    "env.run": ("local", _run, WARM_CALLS),
    'toolbox.call("terminal")': ("local", _terminal, WARM_CALLS),
    'toolbox.call("read_file")': ("local", _read_file, WARM_CALLS),
    "open docker": ("docker", _open, 1),
}


def _line(name: str, passed: list[Passed]) -> Line:
    def median(values: Iterator[int]) -> int:
        return round(statistics.median(values))

    def share(of: Passed, *, policy: bool) -> dict[str, int]:
        """Calls by file, of the policy or of all else."""
        calls: Counter[str] = Counter()
        for code, times in of.functions.items():
            file = code.co_filename.removeprefix(SOURCES)
            if file.startswith(POLICY) == policy and code.co_name not in INLINED:
                calls[file] += times
        return calls

    ours = [share(one, policy=False) for one in passed]
    policy = [share(one, policy=True) for one in passed]
    return Line(
        name,
        median(sum(calls.values()) for calls in ours),
        median(len(calls) for calls in ours),
        median(sum(calls.values()) for calls in policy),
        median(len(calls) for calls in policy),
        median(one.requests for one in passed),
    )


def table(lines: list[Line]) -> str:
    """The rows as text."""
    head = ("operation", "calls", "files", "of policy: calls", "files", "round trips")
    rows = [head, *([str(cell) for cell in line] for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + "\n"
        for row in rows
    )


def _functions(passed: Passed) -> str:
    """Every function that was called, by file."""
    named = sorted(
        (code.co_filename.removeprefix(SOURCES), code.co_firstlineno, code.co_qualname, times)
        for code, times in passed.functions.items()
        if code.co_name not in INLINED
    )
    return "\n".join(f"  {times:4} × {file}:{line} {name}" for file, line, name, times in named)


if __name__ == "__main__":
    sys.exit(main())
