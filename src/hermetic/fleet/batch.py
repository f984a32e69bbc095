"""A batch of commands, each in an environment of its own, that is resumed where a killed caller
left it.

The environments are named after the batch and the task. A later run attaches to those that live and
takes the result of the command that runs there; the process has a fixed id, so that it is started
once. Where the environment is gone, the command may have run or not: the task is lost, unless the
caller wants such tasks run again.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hermetic.contract.endings import Ending, Exited, Lost, TimedOut
from hermetic.contract.errors import ExecutionError
from hermetic.contract.fleet import ItemResult
from hermetic.fleet.fleet import Fleet
from hermetic.fleet.journal import BatchTask, Began, Ended, Journal, Troubled, counts
from hermetic.fleet.mapping import LIMIT, RETRIES, Progress
from hermetic.fleet.opening import attach_environment
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.keeping import record_of
from hermetic.session.process import Process

PROCESS = "batch"  # id of a task's process in its environment
OUTPUT = 1 << 16  # bytes of output in a result
HEAD_PART = 0.4  # of them


class BatchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A batch after a run, in figures."""

    total: int
    passed: int
    failed: int  # with another exit code than 0, or by a signal
    timed_out: int
    lost: int
    open: int  # tasks without a result: no environment could be used for them
    earlier: int  # results that earlier runs wrote
    adopted: int  # commands that an earlier run had started
    seconds: float  # of this run
    per_second: float
    problem: str = ""  # why the first open task has no result

    def __str__(self) -> str:
        parts = [f"{self.passed} of {self.total} passed", f"{self.failed} failed"]
        parts += [f"{self.timed_out} timed out"] if self.timed_out else []
        parts += [f"{self.lost} lost"] if self.lost else []
        parts += [f"{self.open} without a result"] if self.open else []
        parts += [f"{self.earlier} from earlier runs"] if self.earlier else []
        return f"{', '.join(parts)}; {self.seconds:.1f} s, {self.per_second:.1f}/s"


class Batch:
    """The tasks of a journal that have no result yet, run in a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        tasks: Sequence[BatchTask],
        *,
        limit: int = LIMIT,
        retries: int = RETRIES,
        timeout: float | None = None,
        reruns_lost: bool = False,
        output_bytes: int = OUTPUT,
        prepare: Callable[[Environment], object] = lambda environment: None,
    ) -> None:
        """`prepare` is called with each environment before its command.

        `timeout` is for tasks without one.
        """
        self._fleet, self._journal, self._tasks = fleet, journal, tasks
        self._limit, self._retries, self._timeout = limit, retries, timeout
        self._reruns_lost, self._output_bytes, self._prepare = reruns_lost, output_bytes, prepare
        self._adopted = 0
        self._earlier = len(journal.ended)

    def __repr__(self) -> str:
        return f"<Batch of {len(self._tasks)} in {self._fleet!r}>"

    def environment_name(self, task: BatchTask) -> str:
        """The task of its environment, by which every run of the batch finds it."""
        return f"{self._journal.header.name}/{task.id}"

    async def run(self, progress: Progress = False) -> BatchSummary:
        """Runs what has no result; returns when every task has one, or could not be run."""
        began = time.monotonic()
        await self._end_finished()
        if self._reruns_lost:
            for id in [id for id, ended in self._journal.ended.items() if ended.outcome == "lost"]:
                del self._journal.ended[id]
        waiting = [task for task in self._tasks if task.id not in self._journal.ended]
        for task in waiting:
            self._fleet.override(self.environment_name(task), **task.options)
        mapped = await self._fleet.map(
            self._run,
            waiting,
            limit=self._limit,
            retries=self._retries,
            progress=progress,
            task=self.environment_name,
        )
        for result in mapped.results:
            if result.error is not None:
                await self._journal.write(Troubled(task=result.item.id, error=str(result.error)))
        return self._summary(mapped.results, time.monotonic() - began)

    async def _run(self, environment: Environment, task: BatchTask) -> None:
        """Runs one task, or takes the result of the command that an earlier run started here."""
        self._prepare(environment)
        record = record_of(environment)
        began = self._journal.began.get(task.id)
        if began is not None and began.resident != record.resident and not self._reruns_lost:
            lost = Lost(f"environment {began.environment} ended before a result was read")
            await self._journal.write(_ended(task, lost, environment=began.environment))
            return
        is_new = began is None or began.resident != record.resident
        if is_new:
            entry = Began(task=task.id, environment=record.id, resident=record.resident)
            await self._journal.write(entry)
        self._adopted += not is_new
        try:
            await self._journal.write(await self._result(environment, task))
        except asyncio.CancelledError:
            # the caller ends the environment: the next run begins anew
            self._journal.interrupted(task.id)
            raise

    async def _result(self, environment: Environment, task: BatchTask) -> Ended:
        process = await environment.start(
            list(task.command) if isinstance(task.command, tuple) else task.command,
            id=PROCESS,
            cwd=task.cwd,
            env=task.env,
            stdin=task.stdin.encode() if task.stdin else "null",
        )
        ending = await self._end_of(process, task)
        output, total = b"", 0
        if not isinstance(ending, Lost):
            # it was lost after its end: the ending counts
            with contextlib.suppress(ExecutionError):
                output, total = await self._output(environment, process)
        return _ended(
            task,
            ending,
            environment=environment.id,
            seconds=process.info.duration,
            output=output.decode("utf-8", "replace"),
            total_bytes=total,
        )

    async def _end_of(self, process: Process, task: BatchTask) -> Ending:
        timeout = self._timeout if task.timeout is None else task.timeout
        if timeout is None:
            return await process.wait()
        status = await process.status()
        left = timeout - process.info.duration if status.state == "running" else timeout
        try:
            return await process.wait(max(left, 0.001))
        except TimeoutError:
            await process.kill()
            return TimedOut(timeout)

    async def _output(self, environment: Environment, process: Process) -> tuple[bytes, int]:
        """Head and tail of the output, and its size."""
        await process.status()
        total, most = process.info.out, self._output_bytes
        if total <= most:
            return (await environment.read_log(process.id, 0, limit=max(most, 1))).data, total
        head = int(most * HEAD_PART)
        tail = most - head
        first = await environment.read_log(process.id, 0, limit=max(head, 1))
        last = await environment.read_log(process.id, total - tail, limit=max(tail, 1))
        left_out = f"\n[{total - len(first.data) - len(last.data)} bytes left out]\n".encode()
        return first.data + left_out + last.data, total

    async def _end_finished(self) -> None:
        """Ends environments of tasks whose result was written just before the caller was killed."""
        records = Records(runtime_root())
        living = {record.task for record in records.all()}
        for task in self._tasks:
            if task.id in self._journal.ended and (name := self.environment_name(task)) in living:
                with contextlib.suppress(ExecutionError):
                    await (await attach_environment(name)).close(remove=True)

    def _summary(self, results: Sequence[ItemResult], seconds: float) -> BatchSummary:
        found = counts(self._journal.ended)
        done = sum(found.values())
        return BatchSummary(
            total=len(self._tasks),
            passed=found["passed"],
            failed=found["failed"],
            timed_out=found["timed out"],
            lost=found["lost"],
            open=len(self._tasks) - done,
            earlier=self._earlier,
            adopted=self._adopted,
            seconds=seconds,
            per_second=len(results) / seconds if seconds else 0.0,
            problem=next((str(result.error) for result in results if result.error is not None), ""),
        )


def _ended(task: BatchTask, ending: Ending, **more: Any) -> Ended:
    if isinstance(ending, Lost):
        outcome = "lost"
    elif isinstance(ending, TimedOut):
        outcome = "timed out"
    else:
        outcome = "passed" if ending == Exited(0) else "failed"
    fields = {"outcome": outcome, "exit_code": ending.exit_code, "ending": str(ending), **more}
    return Ended(task=task.id, **fields)
