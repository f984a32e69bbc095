"""The toolbox behind the names of Hermes, and calls of its tools from any thread."""

import asyncio
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from hermetic.blocking.portal import in_portal
from hermetic.config.loading import HOMES
from hermetic.config.settings import Settings
from hermetic.contract.approval import Answer, ApprovalRequest, Denial
from hermetic.contract.concurrency import in_thread
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError
from hermetic.contract.fleet import FleetInfo
from hermetic.contract.notice import Notice
from hermetic.contract.tool import DEFAULT_TASK, Fields, Tool
from hermetic.fleet.opening import attach
from hermetic.toolbox import Toolbox

LOOK = 0.1  # seconds between two looks at an interrupt, which is only a flag
AGENT_SESSION = "agent"  # the shell of commands that the agent runs for itself
AGENT_OUTPUT = 64 << 20  # bytes
FOLLOWED_OUTPUT = 8192  # bytes
# kinds whose tasks other processes find, unless the settings say otherwise
SHARED = ("docker", "podman")
NOBODY = Denial(
    "there is no user to ask here; do it in another way, or tell the user what you need", "nobody"
)
# Override of a task → option, by kind.
IMAGES = {
    "docker": "docker_image",
    "podman": "docker_image",
    "apptainer": "singularity_image",
    "modal": "modal_image",
    "daytona": "daytona_image",
}


@dataclass
class Caller:
    """The ways from one call back to its thread: who approves, who types a password, and whether to
    stop.
    """

    approve: Callable[[ApprovalRequest], Answer | Denial] = lambda request: NOBODY
    password: Callable[[str], str | None] = lambda prompt: None
    stop: Callable[[], bool] = lambda: False
    beat: Callable[[], object] = lambda: None  # called while the call waits
    task: str = ""
    is_over: bool = False


_current: ContextVar[Caller | None] = ContextVar("hermes_caller", default=None)


class Host:
    """A toolbox with settings of Hermes. Threads may share it; close it."""

    def __init__(
        self,
        settings: Settings,
        on_notice: Callable[[Notice], object],
        tools: Collection[Tool[Any]] = (),
    ):
        self.kind = settings.environment.kind
        self.settings = settings
        # Other kinds have nothing that could outlive this process usefully: each task is its own.
        self.is_shared = self.kind in SHARED and settings.environment.across_processes
        self._callers: list[Caller] = []
        self._followers: set[asyncio.Future[None]] = set()
        environment = msgspec.structs.replace(settings.environment, across_processes=self.is_shared)
        approvals = settings.approvals
        is_queued = approvals.answers == "queue"
        if is_queued:  # the caller asks the user, and calls again
            approvals = msgspec.structs.replace(approvals, wait=False)
        chosen = msgspec.structs.replace(settings, environment=environment, approvals=approvals)

        async def notify(notice: Notice) -> None:
            on_notice(msgspec.structs.replace(notice, task_id=self._own_name(notice.task_id)))

        async def made() -> Toolbox:
            toolbox = Toolbox(
                settings=chosen,
                approver=None if is_queued else self._approve,
                ask_password=self._ask_password,
                on_notice=notify,
            )
            for tool in tools:
                toolbox.register(tool, replace=True)
            return toolbox

        self._portal, self.toolbox = in_portal(made)

    def __repr__(self) -> str:
        return f"<Host of {self.kind}>"

    # -- calls
    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        task_id: str | None,
        caller: Caller,
        *,
        script_tools: Collection[str] | None = None,
    ) -> Fields:
        """The tool's answer. Meanwhile the caller's thread looks for an interrupt."""
        with self._calling(caller, self.task(task_id)) as task:
            call = self._portal.begin(
                self.toolbox.call, tool, arguments, task_id=task, script_tools=script_tools
            )
            while not call.wait(LOOK):
                caller.beat()
                if caller.stop():
                    self.toolbox.interrupt(task)
            answer: Fields = json.loads(call.result())
            return answer

    @contextmanager
    def _calling(self, caller: Caller, task: str) -> Iterator[str]:
        caller.task = task
        self._callers.append(caller)
        before = _current.set(caller)
        try:
            yield task
        finally:
            _current.reset(before)
            self._callers.remove(caller)
            caller.is_over = True

    def _caller(self, task: str) -> Caller | None:
        """The call that asks: this one, or for a script's tools the newest call of the task."""
        current = _current.get()
        if current is not None and not current.is_over and current.task == task:
            return current
        return next((caller for caller in reversed(self._callers) if caller.task == task), None)

    def _approve(self, request: ApprovalRequest) -> Answer | Denial:
        caller = self._caller(request.task)
        answer = NOBODY if caller is None else caller.approve(request)
        if answer is NOBODY and self.settings.approvals.nobody == "allow":
            return "once"
        return answer

    def _ask_password(self, prompt: str, task: str) -> str | None:
        caller = self._caller(task)
        return None if caller is None else caller.password(prompt)

    # -- tasks
    def task(self, task_id: str | None) -> str:
        """A task's name in the toolbox: with the profile, where other processes find it."""
        task = task_id or DEFAULT_TASK
        return f"hermes-{profile()}-{task}" if self.is_shared else task

    def _own_name(self, task: str) -> str:
        return task.removeprefix(f"hermes-{profile()}-") if self.is_shared else task

    def override(self, task_id: str, overrides: Mapping[str, Any]) -> None:
        """Sets a task's image and directory. Raises ConfigError when it has an environment."""
        options: dict[str, Any] = {}
        if image := overrides.get(IMAGES.get(self.kind, "")):
            options["image"] = image
        cwd = overrides.get("cwd")
        if cwd and not (self.kind != "local" and str(cwd).startswith(HOMES)):
            options["cwd"] = str(cwd)
        if options:
            self._portal.do(lambda: self.toolbox.fleet.override(self.task(task_id), **options))

    def clear_override(self, task_id: str) -> None:
        """Removes what `override` has set."""
        self._portal.do(self.toolbox.fleet.clear_override, self.task(task_id))

    def info(self) -> FleetInfo:
        """Its tasks by their own names."""
        info = self._portal.call(self.toolbox.fleet.info)
        tasks = [
            msgspec.structs.replace(task, task=self._own_name(task.task)) for task in info.tasks
        ]
        return msgspec.structs.replace(info, tasks=tuple(tasks))

    def running(self, task_id: str) -> list[str]:
        """Session ids of the task's running processes."""
        return self._portal.call(self.toolbox.running, self.task(task_id))

    def close_task(self, task_id: str, *, remove: bool) -> bool:
        """Releases a task's environment, or ends it. A task of this process alone always ends."""
        task, remove = self.task(task_id), remove or not self.is_shared
        self._portal.do(self.toolbox.forget_reads, task)
        was_open = self._portal.call(self.toolbox.fleet.close_task, task, remove=remove)
        if remove and self.is_shared and not was_open:
            with suppress(EnvironmentUnavailable):
                self._portal.call(_end, task)
        return was_open

    # -- for the agent's own modules
    def execute(
        self, task_id: str, command: str, cwd: str, timeout: float, stdin: str | None
    ) -> Fields:
        """Runs a command of the agent itself, in a session apart from the model's, and without
        asking.
        """

        async def run() -> Fields:
            async with self.toolbox.fleet.use(self.task(task_id)) as environment:
                session = environment.session(AGENT_SESSION)
                result = await session.run(
                    command, cwd=cwd or None, timeout=timeout, stdin=stdin, limit=AGENT_OUTPUT
                )
                return {
                    "output": result.output,
                    "returncode": -1 if result.exit_code is None else result.exit_code,
                }

        return self._portal.call(run)

    def cwd(self, task_id: str) -> str:
        """The directory of the model's shell."""

        async def state() -> str:
            async with self.toolbox.fleet.use(self.task(task_id)) as environment:
                return (await environment.state()).cwd

        return self._portal.call(state)

    def follow(
        self, task_id: str, session_id: str, done: Callable[[int | None, str], object]
    ) -> None:
        """Calls `done` with the exit code of a process, None for a lost one, and the end of its
        output.
        """

        async def wait() -> None:
            code, output = None, ""
            with suppress(ExecutionError):
                async with self.toolbox.fleet.use(self.task(task_id)) as environment:
                    process = await environment.process(session_id)
                    code = (await process.wait()).exit_code
                    await process.status()
                    chunk = await process.read(max(0, process.info.out - FOLLOWED_OUTPUT))
                    output = chunk.data.decode("utf-8", "replace")
            await in_thread(lambda: done(code, output))

        def begin() -> None:
            follower = asyncio.ensure_future(wait())
            self._followers.add(follower)
            follower.add_done_callback(self._followers.discard)

        self._portal.do(begin)

    def recover(self, task_id: str) -> None:
        """Resumes notices of processes that an earlier process has started."""
        self._portal.call(self.toolbox.recover, self.task(task_id))

    def close(self, *, remove: bool = False) -> None:
        """Closes the toolbox, and ends its thread."""

        async def close() -> None:
            for follower in self._followers:
                follower.cancel()
            await asyncio.gather(*self._followers, return_exceptions=True)
            await self.toolbox.close(remove=remove)

        try:
            self._portal.call(close)
        finally:
            self._portal.close()


async def _end(task: str) -> None:
    await (await attach(task)).close(remove=True)


def profile() -> str:
    """The name of the profile in use, by HERMES_HOME; one elsewhere has a name of its own."""
    home = os.environ.get("HERMES_HOME", "").strip()
    if not home or Path(home) == Path("~/.hermes").expanduser():
        return "default"
    path = Path(home)
    return (
        path.name
        if path.parent.name == "profiles"
        else f"custom-{sha256(home.encode()).hexdigest()[:8]}"
    )
