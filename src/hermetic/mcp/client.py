"""One MCP client: its toolbox, its environments, and its running calls."""

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_types import ElicitRequestURLParams

from hermetic.config import Settings
from hermetic.contract.approval import Answer, ApprovalRequest, Denial
from hermetic.contract.limits import LEASE
from hermetic.contract.notice import Notice
from hermetic.contract.printable import one_line
from hermetic.mcp.calls import Call, Calls
from hermetic.mcp.clients import longest_wait
from hermetic.mcp.questions import DISMISSED, approval_answer, approval_form
from hermetic.mcp.secret_page import Purpose, SecretPages
from hermetic.mcp.secret_tool import secret_tool
from hermetic.redaction.redactor import Redactor
from hermetic.toolbox import Toolbox

DENIED = 600.0  # seconds: during which a denied request is denied again without a question
DENIED_BEFORE = "they denied the same a short time ago; this time there was no question"
# seconds: for a user to answer the client's dialogue, unless the settings say another time
ANSWERING = 300.0
TYPING = 300.0  # seconds: for a user to type a secret on its page
SHOWN = 1000  # characters of a command in the client's dialogue; the page shows the whole
MESSAGE = """\
This command gets a secret: {command}
{note}
Type it on this page of your own machine, which shows the whole command. The model does not see it."""
MESSAGES = 100  # progress messages of scripts that wait to be reported; older ones are dropped
TASK = "mcp"  # name of the environment of a client that names none


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of every client."""

    settings: Settings
    options: Mapping[str, Any] = {}  # of the environment
    # a task that other programs share; None: environments are the client's alone
    task: str | None = None
    wait: float | None = None  # seconds that the client is known to wait; None: by its name


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of itself."""

    name: str = ""
    takes_forms: bool = False
    opens_pages: bool = False


class Client:
    """One client's toolbox and calls."""

    def __init__(self, given: ServeOptions, about: About, pages: SecretPages | None = None) -> None:
        """`pages` are closed with the client, unless another server shows them."""
        self.about = about
        self.calls = Calls()
        # by the URI of a resource it has subscribed to
        self.watches: dict[str, asyncio.Task[None]] = {}
        self.buses: set[InMemorySubscriptionBus] = set()  # of its open listen requests
        self.notices: list[Notice] = []
        # task, a script's progress message
        self._messages: deque[tuple[str, str]] = deque(maxlen=MESSAGES)
        self._redactor = Redactor(given.settings.known_secrets(os.environ))
        self._notes: list[str] = []  # of answers that the model does not see
        self._pages = pages or SecretPages()
        self.wait = given.wait if given.wait is not None else longest_wait(about.name)
        self._task = given.task
        # request → the time until which there is no question
        self._denied: dict[tuple[str, ...], float] = {}
        self._held: set[str] = set()  # tasks whose environments are kept attached
        self._attached = contextlib.AsyncExitStack()  # releases them
        self._is_ready = False
        self._settings = _settings(given, self.wait)
        self.toolbox = Toolbox(
            settings=self._settings,
            options=_options(given),
            on_notice=self._keep_notice,
            approver=self._approve if about.takes_forms else None,
            ask_password=self._ask_password if about.opens_pages else None,
            on_progress=self._keep_message,
        )

    async def ready(self) -> Toolbox:
        """The toolbox, with the tools that only a client has."""
        if not self._is_ready:
            await self.toolbox.__aenter__()
            self._is_ready = True
            ask = self._ask_secret if self.about.opens_pages else None
            self.toolbox.register(secret_tool(ask, self._settings.approvals), replace=True)
        return self.toolbox

    def task_id(self, name: str = "") -> str:
        """The task of a call that names this one of its client's."""
        base = self._task or TASK
        return f"{base}-{name}" if name else base

    def start(self, name: str, arguments: Mapping[str, Any], task_id: str) -> Call:
        """Starts a call of a tool."""
        return self.calls.start(name, arguments, task_id, self._run(name, arguments, task_id))

    async def close(self) -> None:
        """Ends the calls and the environments; those of a shared task live on by their lease."""
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self.toolbox.close)
            closing.push_async_callback(self._attached.aclose)
            closing.push_async_callback(self._pages.close)
            for watch in self.watches.values():
                watch.cancel()
            await self.calls.close()

    def is_open(self, task_id: str) -> bool:
        """Whether the task has an environment now."""
        return self._is_ready and task_id in self.toolbox.fleet.tasks

    async def look(self, arguments: Mapping[str, Any], task_id: str) -> dict[str, Any]:
        """An answer of the process tool that the model does not see; {} where no environment is
        open.
        """
        return await self._unseen("process", arguments, task_id) if self.is_open(task_id) else {}

    async def read_file(self, path: str, offset: int, task_id: str) -> dict[str, Any]:
        """A page of a file that the model does not see: it may read the same again."""
        toolbox = await self.ready()
        toolbox.forget_reads(task_id)
        try:
            return await self._unseen(
                "read_file", {"path": path, "offset": offset, "limit": 2000}, task_id
            )
        finally:
            toolbox.forget_reads(task_id)

    def take_messages(self, task_id: str) -> list[str]:
        """Progress messages of the task's scripts since the last time, without secrets."""
        taken = [text for task, text in self._messages if task == task_id]
        kept = [(task, text) for task, text in self._messages if task != task_id]
        self._messages.clear()
        self._messages.extend(kept)
        return list(map(self._redactor.redact, taken))

    async def _unseen(
        self, name: str, arguments: Mapping[str, Any], task_id: str
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            await self.toolbox.call(name, arguments, task_id=task_id)
        )
        self._notes += answer.pop("notes", ())
        return answer

    async def _run(self, name: str, arguments: Mapping[str, Any], task_id: str) -> str:
        toolbox = await self.ready()
        text = await toolbox.call(name, patient(name, arguments, self.wait), task_id=task_id)
        if self._notes:
            notes, self._notes = self._notes, []
            answer = json.loads(text)
            text = json.dumps({**answer, "notes": [*notes, *answer.get("notes", ())]})
        if task_id not in self._held and task_id in self.toolbox.fleet.tasks:
            self._held.add(task_id)
            # its lease does not run
            await self._attached.enter_async_context(self.toolbox.fleet.use(task_id))
        return text

    async def _approve(self, request: ApprovalRequest) -> Answer | Denial:
        key = (
            request.task,
            request.subject,
            request.command,
            *(need.decoded for need in request.needs),
        )
        if self._denied.get(key, 0.0) > time.monotonic():
            return Denial(DENIED_BEFORE)
        call = self.calls.asking(request.task)
        if call is None:
            raise LookupError("no call is open through which the client could ask its user")
        answer = approval_answer(await call.ask(approval_form(request)))
        if answer == "deny" or (isinstance(answer, Denial) and answer.reason != DISMISSED):
            self._denied[key] = time.monotonic() + DENIED
        return answer

    async def _ask_password(self, prompt: str, task_id: str) -> str | None:
        """The password for a sudo of the task.

        All that runs there is shown: any of it may have started that sudo.
        """
        commands = [call.command for call in self.calls.running(task_id)]
        for process in (await self.look({"action": "list"}, task_id)).get("processes", ()):
            if process["status"] == "running" and not any(
                known.startswith(process["command"]) for known in commands
            ):
                commands.append(process["command"])
        note = (
            f"sudo asks: {one_line(prompt)} Later commands of this task may use the password too."
        )
        return await self._ask_secret(Purpose("\n\n".join(commands), note), task_id)

    async def _ask_secret(self, purpose: Purpose, task_id: str) -> str | None:
        """What the user types on a page; None without a call through which the client could show
        it.
        """
        call = self.calls.asking(task_id)
        if call is None:
            return None
        async with self._pages.page(purpose) as page:
            reply = await call.ask(
                ElicitRequestURLParams(
                    message=MESSAGE.format(
                        command=one_line(purpose.command, SHOWN), note=purpose.note
                    ),
                    url=page.url,
                    elicitation_id=secrets.token_hex(8),
                )
            )
            if reply.action != "accept":
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TYPING):
                    return await page.typed
        return None

    def _keep_message(self, task_id: str, text: str) -> None:
        self._messages.append((task_id, text))

    async def _keep_notice(self, notice: Notice) -> None:
        self.notices.append(notice)


def patient(name: str, arguments: Mapping[str, Any], wait: float | None) -> Mapping[str, Any]:
    """The arguments, so that what takes longer than the client waits continues as a process and is
    not ended.
    """
    if wait is None or name not in ("terminal", "execute_code"):
        return arguments
    if name == "terminal":
        is_ended = (
            arguments.get("on_timeout") == "kill" and _seconds(arguments.get("timeout"), 0.0) > wait
        )
        return {**arguments, "on_timeout": "yield"} if is_ended else arguments
    if _seconds(arguments.get("timeout"), float("inf")) <= wait:
        return arguments
    return {**arguments, "timeout": wait, "on_timeout": "yield"}


def _seconds(value: Any, missing: float) -> float:
    try:
        return missing if value is None else float(value)
    except (TypeError, ValueError):
        return 0.0  # the tool says what is wrong with it


def _settings(given: ServeOptions, wait: float | None) -> Settings:
    settings = given.settings
    replace = msgspec.structs.replace
    if wait is not None:
        terminal = settings.terminal
        settings = replace(
            settings,
            terminal=replace(
                terminal,
                timeout=min(terminal.timeout, wait),
                longest_timeout=min(terminal.longest_timeout, wait),
            ),
        )
    if given.task is None:
        settings = replace(
            settings, environment=replace(settings.environment, across_processes=False)
        )
    approvals = settings.approvals
    answering = approvals.timeout if "approvals.timeout" in settings.places else ANSWERING
    if "sudo.timeout" not in settings.places:
        settings = replace(settings, sudo=replace(settings.sudo, timeout=ANSWERING + TYPING))
    # The user answers through the client, never on a terminal that the client may use itself.
    return replace(
        settings, approvals=replace(approvals, answers="nobody", wait=True, timeout=answering)
    )


def _options(given: ServeOptions) -> Mapping[str, Any]:
    """The options, so that environments of a killed server end after their lease, whatever runs in
    them.
    """
    known = {**given.settings.options, **given.options}
    if given.task is not None or known.get("unattended") is not None:
        return given.options
    return {**given.options, "unattended": known.get("lease") or LEASE}
