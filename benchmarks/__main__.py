"""`python -m benchmarks`: measures, prints the table, and writes JSON and the picture where asked."""

import argparse
import asyncio
import datetime
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import hermetic
from benchmarks.catalog import Benchmark, all_benchmarks
from benchmarks.figures import Machine, Report, Row
from benchmarks.limits import BASH
from benchmarks.measuring import Bench
from benchmarks.picture import picture
from benchmarks.places import Missing
from benchmarks.private_home import private_home
from benchmarks.readme import fill, fill_headlines
from benchmarks.table import table

ABOUT = """\
Prints what Hermetic's promises cost on this machine, each figure beside its physical limit taken in the same run.
A quiet machine gives the truth; other work shows most in the p95 and worst columns. The exit code is 0 also where a
target is missed."""


def main() -> int:
    """Runs what was asked for; the exit code."""
    arguments = _parser().parse_args()
    if arguments.list:
        print("\n".join(benchmark.name for benchmark in all_benchmarks()))
        return 0
    report = (
        _read(arguments.read)
        if arguments.read
        else _measure(_chosen(arguments.only), quick=arguments.quick)
    )
    print(table(report), end="")
    if arguments.json:
        _write(arguments.json, msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    if arguments.svg:
        _write(arguments.svg, picture(report))
    if arguments.readme:
        fill_headlines(Path(arguments.readme), report)
    if arguments.page:
        fill(Path(arguments.page), report, add=arguments.add)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=ABOUT)
    parser.add_argument(
        "--quick", action="store_true", help="fewer repeats: well under a minute instead of a few"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only this one; may be given several times"
    )
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--json", metavar="FILE", help="write the report")
    parser.add_argument("--svg", metavar="FILE", help="write the picture of the report")
    parser.add_argument(
        "--readme",
        metavar="FILE",
        help="put the five headline rows between the markers of a Markdown page",
    )
    parser.add_argument("--page", metavar="FILE", help="the same with every row")
    parser.add_argument(
        "--add",
        action="store_true",
        help="with --page: below the tables that are there, instead of them",
    )
    parser.add_argument(
        "--read", metavar="FILE", help="show a report written before instead of measuring"
    )
    return parser


def _chosen(names: list[str] | None) -> list[Benchmark]:
    known = all_benchmarks()
    for name in names or ():
        if not any(benchmark.is_called(name) for benchmark in known):
            valid = ", ".join(benchmark.name for benchmark in known)
            raise SystemExit(f"no benchmark is called {name!r}; there are: {valid}")
    return [
        benchmark for benchmark in known if names is None or any(map(benchmark.is_called, names))
    ]


def _measure(chosen: list[Benchmark], *, quick: bool) -> Report:
    machine = _machine()
    started = time.monotonic()
    with private_home():
        rows = asyncio.run(_run(chosen, Bench(quick=quick)))
    if not rows:
        raise SystemExit("nothing of what was asked for can be measured here")
    return Report(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=hermetic.__version__,
        quick=quick,
        seconds=time.monotonic() - started,
        machine=machine,
        rows=tuple(rows),
    )


async def _run(chosen: list[Benchmark], bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for benchmark in chosen:
        started = time.monotonic()
        try:
            rows += await benchmark.measure(bench)
        except Missing as missing:
            print(f"{benchmark.name}: left out: {missing}", file=sys.stderr, flush=True)
            continue
        print(f"{benchmark.name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    return rows


def _machine() -> Machine:
    told = subprocess.run(
        [BASH, "-c", "echo $BASH_VERSION"], capture_output=True, text=True, check=True
    )
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        python=platform.python_version(),
        bash=told.stdout.strip(),
        load=os.getloadavg()[0],
    )


def _read(path: str) -> Report:
    return msgspec.json.decode(Path(path).read_bytes(), type=Report)


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
