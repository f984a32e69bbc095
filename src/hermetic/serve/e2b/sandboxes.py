"""Sandboxes: environments of an isolating kind with an owner, a time to live, and a token of their
own.
"""

import asyncio
import contextlib
import logging
import secrets
import string
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

import msgspec

from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, ExecutionError
from hermetic.contract.limits import LEASE
from hermetic.environments import catalog
from hermetic.fleet.opening import open_environment
from hermetic.link import answers
from hermetic.registry.janitor_process import remove_tree
from hermetic.serve.clients import ClientOptions
from hermetic.serve.environments import Guarding
from hermetic.serve.tokens import Token
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of
from hermetic.session.process import Process
from hermetic.session.users import Users, users_of

TIMEOUT = 300.0  # seconds that a sandbox lives, unless its creator says another time
LONGEST = 24 * 3600.0  # seconds
MOST = 100  # sandboxes at once
BASE = "base"  # the template of a creator that names none
WITH_IMAGES = ("docker", "podman", "apptainer", "singularity")
NO_ISOLATION = "E2B's sandboxes need a kind that isolates; start: hermetic serve --env docker --image python:3.12"

State = Literal["running", "paused"]

_log = logging.getLogger("hermetic.serve")


class NewSandbox(msgspec.Struct, kw_only=True, rename="camel"):
    """What a creator says."""

    template: str = msgspec.field(default=BASE, name="templateID")
    timeout: float = TIMEOUT  # seconds
    metadata: dict[str, str] = {}
    env_vars: dict[str, str] = {}
    auto_pause: bool = False
    allow_internet_access: bool | None = msgspec.field(default=None, name="allow_internet_access")
    network: dict[str, Any] | None = None  # this and the rest are refused, not ignored
    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    volume_mounts: list[Any] | None = None


class Started(msgspec.Struct, frozen=True):
    """A process of a sandbox, and how it was started."""

    process: Process
    config: dict[str, Any]
    tag: str | None
    timed_out: asyncio.Event


class Sandbox:
    """One sandbox."""

    def __init__(
        self, owner: Token, wanted: NewSandbox, environment: Environment, home: str, users: Users
    ) -> None:
        self.id = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(20))
        self.owner = owner  # the API key that made it
        self.token = secrets.token_hex(20)  # for its processes and files
        self.wanted = wanted
        self.environment = environment
        self.home = home  # where relative paths begin
        self.users = users
        self.state: State = "running"
        self.started = time.time()
        self.ends = self.started
        self.processes: dict[int, Started] = {}  # that run, by pid
        self.watchers: dict[str, Any] = {}  # by id
        self.timer: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.files = contextlib.ExitStack()  # what lies on this machine

    def __repr__(self) -> str:
        return f"<Sandbox {self.id}: {self.state}, {self.environment!r}>"

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that ends with the sandbox."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Sandboxes:
    """The sandboxes of one server."""

    def __init__(self, options: ClientOptions, guard: Guarding) -> None:
        self._options = options
        self._guard = guard
        self._living: dict[str, Sandbox] = {}
        self._opening = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Sandboxes: {len(self._living)}>"

    def of(self, owner: Token) -> list[Sandbox]:
        """Those of an owner, the newest first."""
        return [
            sandbox for sandbox in reversed(self._living.values()) if sandbox.owner.key == owner.key
        ]

    def all(self) -> list[Sandbox]:
        """Those of every owner."""
        return list(self._living.values())

    def get(self, id: str) -> Sandbox | None:
        """The sandbox with this id."""
        return self._living.get(id)

    async def create(self, owner: Token, wanted: NewSandbox) -> Sandbox:
        """Opens a sandbox. Raises ConfigError, EnvironmentUnavailable."""
        if len(self._living) + self._opening >= MOST:
            raise EnvironmentUnavailable(f"{MOST} sandboxes live; end one", environment="e2b")
        self._opening += 1
        try:
            with contextlib.ExitStack() as files:
                kind, options = await asyncio.to_thread(self._plan, wanted, files.callback)
                environment = await open_environment(kind, None, options)
                try:
                    self._guard(environment)
                    home, users = (await environment.state()).cwd, await users_of(environment)
                    sandbox = Sandbox(owner, wanted, environment, home, users)
                except BaseException:
                    await environment.close(remove=True)
                    raise
                sandbox.files = files.pop_all()
        finally:
            self._opening -= 1
        self._living[sandbox.id] = sandbox
        self.set_timeout(sandbox, wanted.timeout)
        return sandbox

    def set_timeout(self, sandbox: Sandbox, seconds: float) -> None:
        """Lets it live so long from now on."""
        seconds = min(max(seconds, 0.0), LONGEST)
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        sandbox.ends = time.time() + seconds
        sandbox.timer = asyncio.get_running_loop().call_later(seconds, self._expire, sandbox)

    async def pause(self, sandbox: Sandbox) -> None:
        """Freezes its processes; it lives until it is resumed or ended."""
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        sandbox.state = "paused"
        await link_of(sandbox.environment).ask("freeze", answers.frozen, spare=b"")

    async def resume(self, sandbox: Sandbox, seconds: float | None) -> None:
        """Lets its processes go on. One that runs lives on at least so long."""
        if sandbox.state == "paused":
            await link_of(sandbox.environment).ask("thaw", answers.frozen)
            sandbox.state = "running"
            self.set_timeout(sandbox, TIMEOUT if seconds is None else seconds)
        elif seconds is not None and time.time() + seconds > sandbox.ends:
            self.set_timeout(sandbox, seconds)

    async def end(self, sandbox: Sandbox) -> None:
        """Ends it and all that runs in it."""
        if self._living.pop(sandbox.id, None) is None:
            return
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        for task in sandbox.tasks:
            task.cancel()
        try:
            await sandbox.environment.close(remove=True)
        except ExecutionError as error:
            _log.warning("sandbox %s: %s", sandbox.id, error)
        finally:
            await asyncio.to_thread(sandbox.files.close)

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*map(self.end, self.all()))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _expire(self, sandbox: Sandbox) -> None:
        work = self.pause(sandbox) if sandbox.wanted.auto_pause else self.end(sandbox)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _plan(
        self, wanted: NewSandbox, at_end: Callable[..., object]
    ) -> tuple[str, Mapping[str, Any]]:
        """The kind and the options of a new one. Raises ConfigError."""
        settings = self._options.settings()
        kind, options = settings.environment.kind, {**settings.options, **self._options.options}
        for name in ("network", "mcp", "iam", "volume_mounts"):
            if getattr(wanted, name):
                raise ConfigError(f"{name} is not available here; leave it out")
        if wanted.template != BASE:
            if kind not in WITH_IMAGES:
                raise ConfigError(
                    f"no template {wanted.template!r}: sandboxes of the kind {kind} have none"
                )
            options["image"] = wanted.template
        if wanted.allow_internet_access is False:
            options["network"] = False
        if kind == "sandbox" and options.get("workspace") is None:
            options["workspace"] = folder = tempfile.mkdtemp(prefix="hermetic-e2b-")
            at_end(remove_tree, folder)
        # a killed server leaves nothing
        options.setdefault("unattended", options.get("lease") or LEASE)
        isolation = catalog.find(kind)(options).isolation
        if not (isolation.separate_files and isolation.separate_processes):
            raise ConfigError(NO_ISOLATION)
        return kind, options
