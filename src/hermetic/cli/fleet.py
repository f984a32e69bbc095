"""`hermetic fleet run`: a batch of commands, each in an environment of its own, resumed after a
crash.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from hermetic.cli.command import (
    FAILED,
    Command,
    check_above_zero,
    option,
    options,
    report_error,
    takes,
)
from hermetic.cli.interrupts import Interrupts, run_interruptibly
from hermetic.cli.opening import (
    ENVIRONMENT,
    DenyRules,
    choose,
    current_directory,
    option_errors,
)
from hermetic.cli.progress import Progress, log_progress
from hermetic.cli.report import print_json
from hermetic.contract.errors import InvalidArgument
from hermetic.fleet.batch import OUTPUT, Batch, BatchSummary
from hermetic.fleet.fleet import Fleet
from hermetic.fleet.journal import opened, read_tasks
from hermetic.fleet.mapping import LIMIT, RETRIES

INCOMPLETE = 3  # some tasks have no result, or were lost


def _main(arguments: argparse.Namespace) -> int:
    """Runs the batch; 0 when all passed, 1 when one failed, INCOMPLETE when one has no result."""
    log_progress()
    summary = run_interruptibly(lambda interrupts: _run(arguments, interrupts))
    if arguments.json:
        print_json(summary)
    else:
        print(summary)
    if summary.open or summary.lost:
        problem = summary.problem or "--rerun-lost runs lost tasks again"
        return report_error(
            f"{summary.open + summary.lost} tasks have no result: {problem}", INCOMPLETE
        )
    return FAILED if summary.failed or summary.timed_out else 0


async def _run(arguments: argparse.Namespace, interrupts: Interrupts) -> BatchSummary:
    for name in ("limit", "output_bytes"):
        if getattr(arguments, name) < 1:
            raise InvalidArgument(f"--{name.replace('_', '-')} must be at least 1", argument=name)
    check_above_zero(arguments, "timeout", "; leave it out for no limit")
    path = Path(arguments.tasks)
    tasks = read_tasks(path)
    results = Path(current_directory(), arguments.results or f"{path}.results.jsonl")
    chosen = choose(arguments)
    rules = DenyRules(chosen.settings)
    name = f"batch-{hashlib.sha256(bytes(results)).hexdigest()[:12]}"
    for task in tasks:
        command = task.command if isinstance(task.command, str) else list(task.command)
        options = {**chosen.options, **task.options}
        await rules.check_before_opening(chosen.kind, options, None, command, task.cwd)
    with option_errors(), opened(results, chosen.kind, tasks, name) as journal:
        async with Fleet(chosen.kind, warm=arguments.warm, **chosen.options) as fleet:
            batch = Batch(
                fleet,
                journal,
                tasks,
                limit=arguments.limit,
                retries=arguments.retries,
                timeout=arguments.timeout,
                reruns_lost=arguments.rerun_lost,
                output_bytes=arguments.output_bytes,
                prepare=rules.guard_environment,
            )
            with Progress(f"{len(tasks)} tasks") as shown:
                if sys.stderr.isatty():
                    return await batch.run(lambda now: shown.say(str(now)))
                return await batch.run()


ABOUT = """\
Runs the tasks of a file, each in a new environment that is ended afterwards, and writes a result for each. Run it again
after a crash: tasks with a result are not run again, commands that still run are waited for, the others begin. Exits
with 0 when all passed, 1 when one failed, 3 when one has no result.

  hermetic fleet run --tasks tasks.jsonl --env docker --image python:3.12 --limit 16
  hermetic fleet run --tasks tasks.jsonl --env slurm -o partition=cpu --limit 200"""

COMMANDS = {
    "fleet": Command(
        ABOUT,
        takes(
            options("action {run}  run: the tasks that have no result yet", ENVIRONMENT),
            option(
                "--tasks",
                metavar="FILE",
                required=True,
                help='JSON lines: {"id": …, "command": …}',
            ),
            options(f"""\
--results FILE        where results are written, and resumed from (default: FILE.results.jsonl)
--limit N: int = {LIMIT}   tasks at once (%(default)s)
--retries N: int = {RETRIES}
                      further tries for an environment that does not open (%(default)s)
--timeout S: float    seconds for a task that names none
--warm N: int = 0     environments that are started ahead (0)
--rerun-lost          run tasks again whose environment was gone before their result
--output-bytes N: int = {OUTPUT}
                      most bytes of output in a result (%(default)s)
--json                the summary as JSON"""),
        ),
        _main,
    )
}
