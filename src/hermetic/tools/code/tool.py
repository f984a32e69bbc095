"""The tool `execute_code`: a script in the task's place whose calls come back to the tools here."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from hermetic.contract.command import Result
from hermetic.contract.endings import Yielded
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
    NotPermitted,
)
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.script import ScriptStart, run_script, send_modules
from hermetic.tools.base.task import Borrow, Recent, Task
from hermetic.tools.code.answer import SLACK, answer_of
from hermetic.tools.code.arguments import CodeArguments, CodeOptions, description
from hermetic.tools.code.bridge import Bridge
from hermetic.tools.code.serving import ScriptCalls, Silence
from hermetic.tools.code.stubs import (
    ScriptModules,
    Stub,
    boot,
    module_source,
    script_input,
    stubs_of,
)

# (task, stream, bytes) as they come.
_log = logging.getLogger("hermetic.codemode")

Printed = Callable[[str, Literal["stdout", "stderr"], bytes], object]

NAME = "execute_code"
PREPARED = 8  # sets of tools whose modules are kept
TITLE = 1000  # characters of a script that lists of processes show
# Variables of the session that scripts get.
KEPT = str.split("""
    PATH HOME USER LOGNAME SHELL TERM TMPDIR TMP TEMP TZ LANG LANGUAGE LC_ALL LC_ADDRESS LC_COLLATE
    LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY LC_NAME LC_NUMERIC LC_PAPER
    LC_TELEPHONE LC_TIME XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME
    XDG_RUNTIME_DIR XDG_STATE_HOME PYTHONPATH PYTHONHOME PYENV_ROOT PYENV_VERSION VIRTUAL_ENV
    CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE LD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR
""")


class Prepared(NamedTuple):
    """What scripts with the same tools import."""

    stubs: dict[str, Stub]  # by the tool's name
    modules: ScriptModules


class CodeMode:
    """Runs scripts for many tasks; close it."""

    def __init__(
        self,
        options: CodeOptions,
        tools: Callable[[], Sequence[Tool[Any]]],
        call: Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
        *,
        tell: Callable[[str, str], object],
        apart: Callable[[str], Borrow],
        printed: Printed | None = None,
    ) -> None:
        self._options = options
        self._tools = tools
        self._call = call  # (task, tool, arguments) → its answer
        self._tell = tell  # (task, progress)
        self._printed = printed
        self._apart = apart  # a sandbox for the scripts of a task
        self._silence = Silence()
        self._prepared: Recent[tuple[Tool[Any], ...], Prepared] = Recent(PREPARED)
        self._known_there: WeakKeyDictionary[Environment, tuple[str, str]] = WeakKeyDictionary()
        self._going_on: set[asyncio.Task[None]] = set()  # yielded scripts

    def __repr__(self) -> str:
        return f"<CodeMode: {len(self._going_on)} scripts go on>"

    def tool(self) -> Tool[CodeArguments]:
        """What models call."""
        return Tool(NAME, self._description, CodeArguments, self.execute)

    async def close(self) -> None:
        """Serves no script any more; calls of those that still run fail."""
        going_on = list(self._going_on)
        for task in going_on:
            task.cancel()
        if going_on:
            await asyncio.wait(going_on)

    async def execute(self, task: Task, asked: CodeArguments) -> Fields:
        """Runs the script; the answer says how it ended and what it printed."""
        try:
            _check(asked)
            gate = task.gate
            judge = None if gate is None else lambda place: gate.code(task.id, asked.code, place)
            async with task.environment(judge, self._borrow(task)) as environment:
                return await self._run(task, asked, environment)
        except (NotPermitted, EnvironmentUnavailable):
            raise
        except ExecutionError as error:
            answer = {"status": "error", "output": "", "error": str(error)}
            return answer | {"tool_calls_made": 0, "duration_seconds": 0.0}

    def _borrow(self, task: Task) -> Borrow | None:
        """How the environment of its scripts is borrowed; None: it is the task's own."""
        return self._apart(task.id) if self._options.isolated else None

    async def _run(self, task: Task, asked: CodeArguments, environment: Environment) -> Fields:
        prepared, limits = self._prepare(task.script_tools), self._options.limits
        seconds = min(asked.timeout or limits.time, limits.time)

        async def call(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            silence = self._silence.begin()
            try:
                return await self._call(task.id, tool, arguments)
            finally:
                self._silence.end(silence)

        calls = ScriptCalls(call, prepared.stubs, limits, lambda text: self._tell(task.id, text))
        calls.deadline = time.monotonic() + seconds
        bridge = Bridge(environment, calls.serve)
        is_yielded = False
        try:
            address = bridge.token + await self._socket(environment, bridge, prepared.modules)
            timezone = {"TZ": self._options.timezone} if self._options.timezone else {}
            script = ScriptStart(
                boot=boot(),
                modules=prepared.modules.name,
                input=script_input(asked.code, {"HERMETIC_BRIDGE": address}),
                title=asked.code.strip()[:TITLE].replace("\0", " "),
                keep=(*KEPT, *self._options.passthrough),
                env={"PYTHONDONTWRITEBYTECODE": "1", **timezone},
                is_warm=self._options.warm,
                timeout=seconds,
                on_timeout=asked.on_timeout,
            )
            run = partial(self._until_stopped, environment, script, task, calls)
            async with task.alive():
                try:
                    result = await run()
                except InvalidArgument as error:
                    if error.argument != "modules":
                        raise
                    # Others have taken the place of the modules meanwhile.
                    self._known_there.pop(environment, None)
                    await self._socket(environment, bridge, prepared.modules)
                    result = await run()
            answer = answer_of(result, calls, limits, lambda text: task.show(text, ""))
            if isinstance(result.ending, Yielded):
                answer["pid"] = result.process.pid
                await self._leave(task, result.process, bridge, calls)
                is_yielded = True
        finally:
            if not is_yielded:
                await bridge.close()
        return answer

    async def _until_stopped(
        self, environment: Environment, script: ScriptStart, task: Task, calls: ScriptCalls
    ) -> Result:
        """Runs the script until its end, an interruption, or too many refused calls."""
        stop, printed = calls.is_over, self._printed
        limit = self._options.limits.stdout + 2 * SLACK
        takers = (
            None
            if printed is None
            else (
                _tolerant(partial(printed, task.id, "stdout")),
                _tolerant(partial(printed, task.id, "stderr")),
            )
        )
        task.interrupted.callbacks.add(stop.set)
        try:
            if task.interrupted.is_set():
                stop.set()
            return await run_script(environment, script, limit=limit, cancel=stop, takers=takers)
        finally:
            task.interrupted.callbacks.discard(stop.set)

    async def _socket(
        self, environment: Environment, bridge: Bridge, modules: ScriptModules
    ) -> str:
        """Where scripts connect.

        It is the same as long as the environment lives, which then has the modules too.
        """
        socket, known = self._known_there.get(environment, ("", ""))
        if known != modules.name:
            await send_modules(environment, modules.name, modules.data)
            socket = socket or await bridge.socket()
            self._known_there[environment] = socket, modules.name
        return socket

    async def _leave(
        self, task: Task, process: Process, bridge: Bridge, calls: ScriptCalls
    ) -> None:
        """The script goes on as one of the task's processes, and can still call tools."""
        calls.deadline = None
        await task.goes_on(process, "a script of execute_code")
        going_on = asyncio.ensure_future(self._go_on(task, process, bridge, calls.is_over))
        self._going_on.add(going_on)
        going_on.add_done_callback(self._going_on.discard)

    async def _go_on(
        self, task: Task, process: Process, bridge: Bridge, is_over: asyncio.Event
    ) -> None:
        try:
            async with (
                task.environment(borrow=self._borrow(task)),
                asyncio.TaskGroup() as group,
            ):  # it is not released meanwhile
                ending = group.create_task(_end_when(is_over, process))
                await process.wait()
                ending.cancel()
        except* ExecutionError:
            pass  # the environment is gone, and the script with it
        finally:
            await bridge.close()

    def _offered(self, only: Collection[str] | None = None) -> tuple[Tool[Any], ...]:
        """The tools that scripts may call, in the order of their names; of these `only` some, where
        it is given.
        """
        allowed = [names for names in (self._options.tools, only) if names is not None]
        found = [
            tool
            for tool in self._tools()
            if tool.name != NAME and all(tool.name in names for names in allowed)
        ]
        return tuple(sorted(found, key=lambda tool: tool.name))

    def _prepare(self, only: Collection[str] | None) -> Prepared:
        """What scripts import; the stubs are written anew where the tools are others than before."""
        tools = self._offered(only)
        prepared = self._prepared.get(tools)
        if prepared is None:
            stubs = stubs_of(tools)
            prepared = self._prepared[tools] = Prepared(
                stubs, ScriptModules(module_source(stubs.values()))
            )
        return prepared

    def _description(self) -> str:
        return description(list(stubs_of(self._offered()).values()), self._options.limits)


async def _end_when(is_over: asyncio.Event, process: Process) -> None:
    """A script that goes on is still held to the refused calls it may make."""
    await is_over.wait()
    await process.kill()


def _check(asked: CodeArguments) -> None:
    if not asked.code.strip():
        raise InvalidArgument("code is empty; give the text of a Python script", argument="code")
    if asked.timeout is not None and not asked.timeout > 0:
        raise InvalidArgument(
            f"timeout must be seconds above zero, not {asked.timeout:g}", argument="timeout"
        )


def _tolerant(printed: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """The program's own function, until it fails: the script and the model's answer are not its
    concern.
    """
    failed = False

    def take(data: bytes) -> None:
        nonlocal failed
        try:
            if not failed:
                printed(data)
        except Exception:
            failed = True
            _log.exception("on_script_output failed and gets no more of this script's output")

    return take
