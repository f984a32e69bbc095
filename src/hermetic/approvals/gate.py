"""The gate: collects what a command, script, write or input would do and meet, and has it decided
on.
"""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from hermetic.approvals.action import Action
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.context import Folders, KnownSession, PolicyContext, relevant, whole
from hermetic.approvals.grants import Budget
from hermetic.approvals.readers import ProcessInput, language_of, may_read_code
from hermetic.approvals.rules import breadth
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.typed_input import Transcript
from hermetic.contract.approval import Approver, Judged, Need, Subject
from hermetic.contract.errors import InvalidArgument, Unsupported
from hermetic.contract.process import ProcessInfo
from hermetic.contract.verdict import ShellState
from hermetic.link import answers
from hermetic.policy.assess import (
    Examined,
    Surroundings,
    around_of_text,
    examine_command,
    examine_python,
    examine_writes,
    join_changes,
    join_ours,
)
from hermetic.policy.budget import MAX_STEPS, Overflow
from hermetic.policy.marks import shown
from hermetic.registry.records import real_runtime_path
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of, record_of

MOST_IN_A_BATCH = 1000
BATCH_SECONDS = 3600.0
# of a text, and of the definitions it uses, that are examined on the event loop
QUICK_CHARACTERS = 4096
QUICK_STEPS = 3000  # of work; what takes more is done in a thread
MOST_FOLLOWED = 5000  # paths of one text that are looked up
QUICK_PATHS = 200  # of them, on the event loop

T = TypeVar("T")

_LEAVES = "it wants to run outside of its sandbox"

AnyEnvironment = Environment | PolicyContext  # open, or not yet


class PolicyGate:
    """Lets through what is allowed. Nothing is created before it is."""

    def __init__(self, approvals: Approvals) -> None:
        self.approvals = approvals
        self._contexts: WeakKeyDictionary[Environment, PolicyContext] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<PolicyGate: {self.approvals!r}>"

    async def command(
        self,
        task: str,
        text: str,
        environment: AnyEnvironment,
        *,
        session: str = "",
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        outside: bool = False,
    ) -> Judged | None:
        """May this text run in a shell there? `outside` of its sandbox, the user is always asked.

        Returns the state of the session by which it was judged. A session that no command has
        changed since it was last looked at is not looked at again: a command that was judged by an
        old state does not begin.
        """
        action = await self._action(
            "outside" if outside else "command",
            task,
            text,
            environment,
            session,
            cwd,
            is_checked_later=True,
        )
        known = action.known
        judged = known.judged
        changed = known.changed(action.state)
        around = replace(
            action.around,
            stdin=stdin.decode("utf-8", "replace") if isinstance(stdin, bytes) else stdin,
            env={**changed, **(env or {})},
            context={**(action.around.context or {}), **(env or {})},
        )

        async def changed_since() -> str:
            now = (await self._action("command", task, text, environment, session, cwd)).around
            if (now.cwd, now.state) == (around.cwd, around.state):
                return ""
            return "the session's directory, variables, functions or aliases changed while it was decided on"

        leaves = Need(decoded=text, reason=_LEAVES, category="outside", rule="outside")
        always = (leaves,) if outside else ()
        action = replace(action, around=around, changed=changed_since, always_needs=always)
        await self._decide(await _followed(await _examined(action, examine_command)))
        known.accept(changed)
        await self._see_first(environment, known)
        return judged

    async def code(self, task: str, source: str, environment: AnyEnvironment) -> None:
        """May this Python text run there?"""
        action = await self._action("code", task, source, environment)
        await self._decide(await _followed(await _examined(action, examine_python)))

    async def write(self, task: str, paths: Sequence[str], environment: AnyEnvironment) -> None:
        """May these files, by their whole paths, be written, changed or deleted there?"""
        action = await self._action("write", task, "", environment)
        paths = [action.whole(path) for path in paths]
        meant = [*paths, *(real for path in paths if (real := action.context.real(path)) != path)]
        examined = examine_writes(meant, action.around)
        await self._decide(replace(action, text="\n".join(paths), examined=examined))

    async def input(
        self, task: str, data: str, process: ProcessInfo, environment: Environment
    ) -> None:
        """May this be typed into that process?

        Into a shell or a Python it is code, judged when a text is complete.
        """
        typed = self.context(environment).inputs.setdefault(process.id, ProcessInput())
        async with typed.lock:
            action = await self._action("input", task, "", environment, cwd=process.cwd)
            # Of the session's state, a program surely has the home alone.
            around = replace(action.around, state=ShellState(home=action.state.home))
            action = replace(action, around=around)
            transcript, program = await self._reader(process, environment, typed)
            if (
                transcript is None
                or transcript.language in ("input", "keys")
                or transcript.is_ahead
            ):
                before = ", before a shell" if transcript and transcript.is_ahead else ""
                what = f"{len(data)} characters typed into {program}{before}"
                await self._decide(replace(action, text=what))
            if transcript is None:
                return
            # What is refused is not typed: what was typed before still waits for its end.
            typing = transcript.copy()

            async def changed() -> str:
                now, _ = await self._reader(process, environment, typed)
                other = "another program reads there than when it was decided on"
                return "" if now is transcript else other

            for text, examined, is_data in await asyncio.to_thread(typing.type, data, around):
                action = replace(action, text=text, examined=examined, changed=changed)
                if is_data:
                    self.approvals.refuse_denied(action)
                else:
                    await self._decide(action)
            typed.transcript = typing

    async def batch(
        self,
        task: str,
        environment: AnyEnvironment,
        *,
        count: int,
        under: str = "",
        words: Sequence[str] = (),
        why: str = "",
    ) -> None:
        """Asks for so many writes below a directory, or runs of a program with these first words,
        in one request.
        """
        action = await self._action("batch", task, "", environment)
        around, context = action.around, action.context
        if under:
            under = action.whole(under)
        _check_batch(count, under, tuple(words))
        runs = f"up to {count} × `{' '.join(words)} …` in {around.cwd}, with the same variables"
        what = f"up to {count} changes of files below {under}" if under else runs
        covers = f"{what}, for the task {task!r}, within {BATCH_SECONDS / 60:g} minutes"
        need = Need(
            decoded=covers, reason="it asks for many acts at once", category="batch", rule="batch"
        )
        text = f"{covers}: {why}" if why else covers
        await self._decide(replace(action, text=text, always_needs=(need,)))
        self.approvals.grants.add_budget(
            Budget(
                task=task,
                environment=context.key,
                under=under,
                words=tuple(words),
                left=count,
                around=around_of_text(around),
                program=action.program(tuple(words)),
                expires=self.approvals.now() + BATCH_SECONDS,
            )
        )

    async def meet(self, environment: Environment) -> None:
        """Looks at what a new session begins with, which no command has done."""
        await self._see_first(environment, self.context(environment).session("", environment))

    # -- circumstances
    def context(self, environment: AnyEnvironment) -> PolicyContext:
        """The environment as it is remembered here."""
        if isinstance(environment, PolicyContext):
            return environment
        if environment not in self._contexts:
            record = record_of(environment)
            self._contexts[environment] = PolicyContext(
                record.kind, environment.isolation, record.options, record.id
            )
        return self._contexts[environment]

    async def _action(
        self,
        subject: Subject,
        task: str,
        text: str,
        environment: AnyEnvironment,
        session: str = "",
        cwd: str | None = None,
        *,
        is_checked_later: bool = False,
    ) -> Action:
        """An action that is not examined yet, with all that it meets."""
        context = self.context(environment)
        known = context.session(
            session, None if isinstance(environment, PolicyContext) else environment
        )
        state = relevant(await known.state(is_checked_later=is_checked_later), text)
        home, here = known.home(state), state.cwd or context.start
        if home and state.home and home != state.home:
            # `~` is what HOME says now; the user's home is where it was.
            variables = {**state.variables, "HOME": state.home}
            state = replace(state, home=home, variables=variables)
        around = Surroundings(
            cwd=whole(cwd, here, home) if cwd else here,
            workspace=context.workspace,
            state=state,
            isolation=context.isolation,
            context=known.variables(state),
            extension=self.approvals.extension,
        )
        return Action(
            subject=subject, task=task, text=text, around=around, context=context, known=known
        )

    async def _see_first(self, environment: AnyEnvironment, known: KnownSession) -> None:
        """Looks at a new session before its first command runs: what it begins with, no command has
        done.
        """
        if not isinstance(environment, PolicyContext) and not known.was_seen:
            named = (
                environment if known.name == environment.name else environment.session(known.name)
            )
            await named.state()
            await known.state()

    async def _reader(
        self, process: ProcessInfo, environment: Environment, typed: ProcessInput
    ) -> tuple[Transcript | None, str]:
        """What the program that reads has been typed so far, and its name; None when it runs no
        code from its input.
        """
        try:
            said, _ = await link_of(environment).ask("readers", answers.readers, process=process.id)
        except Unsupported:
            return None, "an unknown program"
        for one in reversed(said.readers):
            if language := language_of(one.program, one.argv):
                argv = one.argv or (one.program,)
                return typed.of_reader(
                    one.pid, language, terminal=process.pty, argv=argv
                ), one.program
        name = (said.readers[-1].program if said.readers else "") or "a program that begins or ends"
        # a shell around it reads what it leaves
        if not said.programs or any(map(may_read_code, said.programs)):
            return typed.of_reader(0, "shell", terminal=process.pty, ahead=True), name
        return None, name

    async def _decide(self, action: Action) -> None:
        own_files = self.approvals.own_files
        examined = await _looking_up(action, lambda: _with_own_files(action, own_files))
        await self.approvals.decide(replace(action, examined=examined))


class EnvironmentGuard:
    """The gate as one environment's Python caller meets it. All methods raise NotPermitted."""

    def __init__(self, gate: PolicyGate, environment: Environment) -> None:
        self._gate = gate
        self._environment = environment
        self._task = environment.task or environment.id

    def __repr__(self) -> str:
        return f"<EnvironmentGuard of {self._environment!r}>"

    async def command(self, command: str | Sequence[str], **more: Any) -> Judged | None:
        """The state of the session by which it was judged."""
        text = command if isinstance(command, str) else shlex.join(command)
        return await self._gate.command(self._task, text, self._environment, **more)

    async def input(self, data: bytes, process: ProcessInfo) -> None:
        """Bytes for a process that runs."""
        await self._gate.input(
            self._task, data.decode("utf-8", "replace"), process, self._environment
        )

    async def write(self, paths: Sequence[str]) -> None:
        """Files that are about to be written."""
        await self._gate.write(self._task, paths, self._environment)


def make_gate(
    settings: ApprovalSettings, approver: Approver | None = None, *, keeps: bool = False
) -> PolicyGate:
    """A gate by these settings; see `Approvals`."""
    return PolicyGate(Approvals(settings, approver=approver, keeps=keeps))


def _check_batch(count: int, under: str, words: tuple[str, ...]) -> None:
    """Raises InvalidArgument for a batch that covers too much."""
    if not 1 <= count <= MOST_IN_A_BATCH:
        raise InvalidArgument(
            f"count must be 1 to {MOST_IN_A_BATCH}, not {count}", argument="count"
        )
    if bool(under) == bool(words):
        raise InvalidArgument(
            "a batch is of writes below a directory, or of one program: give one", argument="under"
        )
    if under and len(under.strip("/").split("/")) < 2:
        raise InvalidArgument(
            f"{under} is too much for a batch; name a directory below it", argument="under"
        )
    if words and (problem := breadth(words)):
        raise InvalidArgument(problem, argument="words")


async def _examined(
    action: Action, examine: Callable[[str, Surroundings, int], Examined]
) -> Action:
    """With what its text would do; the event loop goes on where finding that out takes some
    milliseconds.
    """
    text, around, state = action.text, action.around, action.state
    defined = [*state.functions.values(), *state.aliases.values()]
    if len(text) + sum(map(len, defined)) <= QUICK_CHARACTERS:
        with contextlib.suppress(Overflow):
            return replace(action, examined=examine(text, around, QUICK_STEPS))
    return replace(action, examined=await asyncio.to_thread(examine, text, around, MAX_STEPS))


async def _looking_up(action: Action, look: Callable[[], T]) -> T:
    """The result of a look at the files of an action, in a thread where they are many."""
    if len(action.examined.acts) <= QUICK_PATHS:
        return look()
    return await asyncio.to_thread(look)


async def _followed(action: Action) -> Action:
    return await _looking_up(action, lambda: _through_links(action))


def _unseen(examined: Examined, paths: Sequence[str]) -> Examined:
    """The same with what it means that these paths, beyond the most, are not looked up."""
    does = "names so many files that they are not all looked at, such as"
    return join_ours(examined, paths[:1], does)


def _through_links(action: Action) -> Action:
    """With the files that it changes through symbolic links which exist already."""
    changes = [
        act for act in action.examined.acts if act.deed in ("write", "delete") and act.is_known
    ]
    named = {shown(act.path): act.deed for act in changes}
    others: dict[str, list[str]] = {"write": [], "delete": []}
    folders: Folders = {}
    for path, deed in list(named.items())[:MOST_FOLLOWED]:
        real = action.context.behind(path, itself=deed == "delete", folders=folders)
        if real is not None and real not in named:
            others[deed].append(real)
    written, deleted = others.values()
    examined = action.examined
    if written or deleted:
        examined = join_changes(examined, written, deleted, action.around)
    if action.context.is_here:
        examined = _unseen(examined, list(named)[MOST_FOLLOWED:])
    return replace(action, examined=examined)


def _with_own_files(action: Action, own_files: Set[str]) -> Examined:
    """With those of Hermetic's own files that it changes; a directory goes with what is in it.

    On this host itself, also with what it reads, changes or deletes of the runtime directory, whose
    records hold the tokens of environments. Containers and sandboxes see their own socket of it
    alone, and other hosts nothing.
    """
    examined, context = action.examined, action.context
    touched = [act for act in examined.acts if act.path and act.is_known] if context.is_here else []
    if not touched:
        return examined
    named = list(dict.fromkeys((act.deed, shown(act.path)) for act in touched))
    folders: Folders = {}
    real = [(deed, context.real(path, folders)) for deed, path in named[:MOST_FOLLOWED]]
    examined = _unseen(examined, [path for _, path in named[MOST_FOLLOWED:]])
    written = {path for deed, path in real if deed != "read"}
    gone = tuple(f"{path.rstrip('/')}/" for deed, path in real if deed == "delete")
    if met := [path for path in own_files if path in written or path.startswith(gone)]:
        examined = join_ours(examined, met)
    if context.kind != "local":
        return examined
    root = real_runtime_path()
    met = [path for _, path in real if _may_lie_in(path, root)]
    met += [root] if f"{root}/".startswith(gone) else []
    if not met:
        return examined
    return join_ours(examined, list(dict.fromkeys(met)), "reaches into the records of environments")


def _may_lie_in(path: str, root: str) -> bool:
    """Whether a path, which may hold globs, is a directory or lies below it."""
    parts, above = path.split("/"), root.split("/")
    pairs = zip(parts, above, strict=False)
    return len(parts) >= len(above) and all(
        one == two or fnmatchcase(two, one) for one, two in pairs
    )
