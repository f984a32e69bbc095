"""The one door: what is about to be done, with all that it meets, is put before the desk that decides."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from hermetic.approvals.case import Case
from hermetic.approvals.context import PolicyContext, relevant, whole
from hermetic.approvals.desk import Desk
from hermetic.approvals.grants import Budget
from hermetic.approvals.matching import Directories
from hermetic.approvals.readers import language_of, may_read_code
from hermetic.approvals.typed_input import Language, Transcript
from hermetic.contract.approval import Judged, Subject
from hermetic.contract.errors import InvalidArgument, Unsupported
from hermetic.contract.process import ProcessInfo
from hermetic.contract.verdict import ShellState, Verdict
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
from hermetic.policy.shell import DEFAULT_HOME
from hermetic.registry.records import real_runtime_path
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of, record_of

MOST_IN_A_BATCH = 1000
BATCH_SECONDS = 3600.0
QUICK_CHARACTERS = 4096  # of a text, and of the definitions it uses, that are examined on the event loop
QUICK_STEPS = 3000  # of work; what takes more is done in a thread
MOST_FOLLOWED = 100  # paths of one text that are looked up


class PolicyGate:
    """Lets through what the desk allows. Nothing is created before it has."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._spots: WeakKeyDictionary[Environment, PolicyContext] = WeakKeyDictionary()
        self._transcripts: WeakKeyDictionary[Environment, dict[str, tuple[int, Transcript]]] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[Environment, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<PolicyGate: {self.desk!r}>"

    async def command(
        self, task: str, text: str, environment: Environment | PolicyContext, *, session: str = "",
        stdin: str | bytes | None = None, env: Mapping[str, str] | None = None, cwd: str | None = None,
    ) -> Judged | None:  # fmt: skip
        """May this text run in a shell there? The state of the session by which it was judged.

        Where no command has changed the session since it was last looked at, it is not looked at again: one that was
        judged by an old state does not begin.
        """
        around, spot = await self._around(environment, session, text, cwd, is_checked_later=True)
        judged = spot.judged(session)
        changed = spot.changed(session, around.state)
        around = _with(
            around,
            stdin=_text(stdin),
            env={**changed, **(env or {})},
            context={**(around.context or {}), **(env or {})},
        )
        examined = _through_links(await _examine(examine_command, text, around), around, spot)
        changed_since = partial(self._changed_since, environment, session, text, cwd, around)
        await self._decide("command", task, text, examined, around, spot, changed=changed_since)
        spot.accept(session, changed)
        await self._see_first(environment, spot, session)
        return judged

    async def _changed_since(
        self, environment: Environment | PolicyContext, session: str, text: str, cwd: str | None, before: Surroundings
    ) -> str:
        """Why a text means something else than before; empty when it does not."""
        now, _ = await self._around(environment, session, text, cwd)
        if (now.cwd, now.state) == (before.cwd, before.state):
            return ""
        return "the session's directory, variables, functions or aliases changed while it was decided on"

    async def code(self, task: str, source: str, environment: Environment | PolicyContext) -> None:
        """May this Python text run there?"""
        around, spot = await self._around(environment, "", "", None)
        examined = _through_links(await _examine(examine_python, source, around), around, spot)
        await self._decide("code", task, source, examined, around, spot)

    async def write(self, task: str, paths: Sequence[str], environment: Environment | PolicyContext) -> None:
        """May these files, by their whole paths, be written, changed or deleted there?"""
        around, spot = await self._around(environment, "", "", None)
        paths = [whole(path, around.cwd, spot.home_in("", around.state)) for path in paths]
        meant = [*paths, *(real for path in paths if (real := spot.real(path)) != path)]
        await self._decide("write", task, "\n".join(paths), examine_writes(meant, around), around, spot)

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """May this be typed into that process? Into a shell or a Python it is code, judged when a text is complete."""
        async with self._turns.setdefault(environment, {}).setdefault(process.id, asyncio.Lock()):
            await self._input(task, data, process, environment)

    async def _input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        around, spot = await self._around(environment, "", "", process.cwd)
        around = _with(around, state=_only_home(around.state))
        transcript, program = await self._reader(process, environment)
        if transcript is None:
            await self._passed(task, f"{len(data)} characters typed into {program}", around, spot)
            return
        if transcript.language in ("input", "keys"):
            await self._passed(task, f"{len(data)} characters typed into {program}", around, spot)
        if transcript.is_ahead:
            await self._passed(task, f"{len(data)} characters typed into {program}, before a shell", around, spot)
        typing = transcript.copy()  # what is refused is not typed: what was typed before still waits for its end

        async def changed() -> str:
            now, _ = await self._reader(process, environment)
            return "" if now is transcript else "another program reads there than when it was decided on"

        for typed in await asyncio.to_thread(lambda: list(typing.type(data, around))):
            if typed.is_data:
                self.desk.refuse_denied(self._case("input", task, typed.text, typed.examined, around, spot))
            else:
                await self._decide("input", task, typed.text, typed.examined, around, spot, changed)
        self._transcripts[environment][process.id] = (self._transcripts[environment][process.id][0], typing)

    async def batch(
        self, task: str, environment: Environment | PolicyContext, *, count: int, under: str = "",
        words: Sequence[str] = (), why: str = "",
    ) -> None:  # fmt: skip
        """Asks for so many writes below a directory, or runs of a program with these first words, in one question."""
        if not 1 <= count <= MOST_IN_A_BATCH:
            raise InvalidArgument(f"count must be 1 to {MOST_IN_A_BATCH}, not {count}", argument="count")
        if bool(under) == bool(words):
            raise InvalidArgument(
                "a batch is of writes below a directory, or of one program: give one", argument="under"
            )
        around, spot = await self._around(environment, "", "", None)
        if under:
            under = whole(under, around.cwd, spot.home_in("", around.state))
        self.desk.check_batch(under, tuple(words))
        runs = f"up to {count} × `{' '.join(words)} …` in {around.cwd}, with the same variables"
        what = f"up to {count} changes of files below {under}" if under else runs
        covers = f"{what}, for the task {task!r}, within {BATCH_SECONDS / 60:g} minutes"
        case = self._case("batch", task, f"{covers}{f': {why}' if why else ''}", Examined(_HARMLESS), around, spot)
        budget = Budget(
            task=task, environment=spot.key, under=under, words=tuple(words), around=around_of_text(around),
            program=spot.program(tuple(words), around.state), left=count, expires=self.desk.now() + BATCH_SECONDS,
        )  # fmt: skip
        await self.desk.allow_batch(case, budget, covers)

    async def outside(
        self, task: str, text: str, environment: Environment | PolicyContext, *, stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None, cwd: str | None = None,
    ) -> Judged | None:  # fmt: skip
        """May this text leave its sandbox? Somebody is always asked."""
        around, spot = await self._around(environment, "", text, cwd)
        judged = spot.judged("")
        around = _with(
            around, stdin=_text(stdin), env=dict(env or {}), context={**(around.context or {}), **(env or {})}
        )
        changed_since = partial(self._changed_since, environment, "", text, cwd, around)
        examined = _with_ours(await _examine(examine_command, text, around), self.desk.ours, spot)
        await self.desk.allow_outside(self._case("outside", task, text, examined, around, spot, changed=changed_since))
        return judged

    async def meet(self, environment: Environment) -> None:
        """Looks at what a new session begins with, which is nobody's doing."""
        await self._see_first(environment, self.spot(environment), "")

    # -- circumstances
    def spot(self, environment: Environment | PolicyContext) -> PolicyContext:
        """The place as it is remembered here."""
        if isinstance(environment, PolicyContext):
            return environment
        if environment not in self._spots:
            record = record_of(environment)
            self._spots[environment] = PolicyContext(record.kind, environment.isolation, record.options)
        return self._spots[environment]

    async def _around(
        self, environment: Environment | PolicyContext, session: str, text: str, cwd: str | None, *,
        is_checked_later: bool = False,
    ) -> tuple[Surroundings, PolicyContext]:  # fmt: skip
        spot = self.spot(environment)
        opened = None if isinstance(environment, PolicyContext) else environment
        state = await spot.state(session, opened, is_checked_later=is_checked_later)
        state = relevant(state, text) if state is not None else spot.expected()
        home, here = spot.home_in(session, state), state.cwd or spot.start
        if home and state.home and home != state.home:  # `~` is what HOME says by now; somebody's home is where it was
            variables = {**state.variables, "HOME": state.home}
            state = msgspec.structs.replace(state, home=home, variables=variables)
        if cwd:
            here = whole(cwd, here, home)
        return Surroundings(
            cwd=here, workspace=spot.workspace, state=state, isolation=spot.isolation,
            context=spot.context(session, state),
        ), spot  # fmt: skip

    async def _see_first(self, environment: Environment | PolicyContext, spot: PolicyContext, session: str) -> None:
        """What a new session begins with is nobody's doing: it is looked at before its first command runs."""
        if not isinstance(environment, PolicyContext) and not spot.was_seen(session):
            named = environment if session == environment.name else environment.session(session)
            await named.state()
            await spot.state(session, environment)

    async def _reader(self, process: ProcessInfo, environment: Environment) -> tuple[Transcript | None, str]:
        """What the program that reads has been typed so far, and its name; None when it runs no code from its input."""
        try:
            said, _ = await link_of(environment).ask("readers", answers.readers, process=process.id)
        except Unsupported:
            return None, "a program nobody knows"
        kept = self._transcripts.setdefault(environment, {})
        found = [(one, language) for one in said.readers if (language := language_of(one.program, one.argv))]
        name = (said.readers[-1].program if said.readers else "") or "a program that begins or ends"
        if found:
            reader, language = found[-1]
            return _kept(
                kept, process, reader.pid, language, ahead=False, argv=reader.argv or (reader.program,)
            ), reader.program
        if not said.programs or any(map(may_read_code, said.programs)):  # a shell around it reads what it leaves
            return _kept(kept, process, 0, "shell", ahead=True), name
        return None, name

    # -- deciding
    async def _decide(
        self, subject: Subject, task: str, text: str, examined: Examined, around: Surroundings, spot: PolicyContext,
        changed: Callable[[], Awaitable[str]] | None = None,
    ) -> None:  # fmt: skip
        examined = _with_ours(examined, self.desk.ours, spot)
        await self.desk.decide(self._case(subject, task, text, examined, around, spot, changed))

    async def _passed(self, task: str, what: str, around: Surroundings, spot: PolicyContext) -> None:
        await self.desk.decide(self._case("input", task, what, Examined(_HARMLESS), around, spot))

    def _case(
        self, subject: Subject, task: str, text: str, examined: Examined, around: Surroundings, spot: PolicyContext,
        changed: Callable[[], Awaitable[str]] | None = None,
    ) -> Case:  # fmt: skip
        home = (around.state.home if around.state else None) or os.environ.get("HOME") or DEFAULT_HOME
        return Case(
            subject=subject, task=task, text=text, examined=examined, environment=spot.kind, place=spot.key,
            ground=Directories(home, spot.workspace), around=partial(_digest, around),
            meaning=partial(_meaning, around), circumstances=partial(_told, around), contained=spot.kind == "sandbox",
            program=lambda argv: spot.program(argv, around.state), changed=changed or _unchanged,
        )  # fmt: skip


def _kept(
    kept: dict[str, tuple[int, Transcript]], process: ProcessInfo, pid: int, language: Language, *, ahead: bool,
    argv: Sequence[str] = (),
) -> Transcript:  # fmt: skip
    """What that program has been typed so far; a new one begins anew."""
    before = kept.get(process.id)
    if before is None or before[0] != pid or before[1].language != language or before[1].is_ahead != ahead:
        # Whoever reads the rest of a line reads its beginning, and lines that came before it was there.
        half, ran = (before[1].half, before[1].ahead) if before is not None else ("", "")
        ran = ran if language == "shell" else ""
        typed = Transcript(language, terminal=process.pty, ahead=ahead, half=half, ran=ran, argv=argv)
        kept[process.id] = before = (pid, typed)
    return before[1]


async def _examine(examine: Callable[[str, Surroundings, int], Examined], text: str, around: Surroundings) -> Examined:
    """What the text would do; the event loop goes on where finding that out takes more than some milliseconds."""
    state = around.state
    defined = [*state.functions.values(), *state.aliases.values()] if state is not None else []
    if len(text) + sum(map(len, defined)) <= QUICK_CHARACTERS:
        with contextlib.suppress(Overflow):
            return examine(text, around, QUICK_STEPS)
    return await asyncio.to_thread(examine, text, around, MAX_STEPS)


async def _unchanged() -> str:
    return ""


_HARMLESS = Verdict(label="safe", category="safe", severity=0, reason="", start=0, end=0, decoded="")


def _with(around: Surroundings, **changes: Any) -> Surroundings:
    fields = {name: getattr(around, name) for name in around.__struct_fields__}
    return Surroundings(**{**fields, **changes})


def _only_home(state: ShellState | None) -> ShellState | None:
    """What a program that was started from a session knows of it for certain."""
    return None if state is None else ShellState(home=state.home)


def _through_links(examined: Examined, around: Surroundings, spot: PolicyContext) -> Examined:
    """With the files that it changes through symbolic links which are there already."""
    named = {shown(act.path): act.deed for act in examined.acts if act.deed in ("write", "delete") and act.is_known}
    real = {path: spot.behind(path, itself=deed == "delete") for path, deed in list(named.items())[:MOST_FOLLOWED]}
    others = {behind: named[path] for path, behind in real.items() if behind is not None and behind not in named}
    written = [path for path, deed in others.items() if deed == "write"]
    deleted = [path for path, deed in others.items() if deed == "delete"]
    return join_changes(examined, written, deleted, around) if others else examined


def _with_ours(examined: Examined, ours: Set[str], spot: PolicyContext) -> Examined:
    """With those of our own files that it changes, wherever they were put; a directory goes with what is in it."""
    touched = [act for act in examined.acts if act.path and act.is_known] if spot.is_here else []
    if not touched:
        return examined
    real = [(act.deed, spot.real(shown(act.path))) for act in touched[:MOST_FOLLOWED]]
    written = {path for deed, path in real if deed != "read"}
    gone = tuple(f"{path.rstrip('/')}/" for deed, path in real if deed == "delete")
    if met := [path for path in ours if path in written or path.startswith(gone)]:
        examined = join_ours(examined, met)
    return _with_records(examined, real, gone) if spot.kind == "local" else examined


def _with_records(examined: Examined, real: Sequence[tuple[str, str]], gone: tuple[str, ...]) -> Examined:
    """With what it reads, changes or deletes of the runtime directory, whose records hold the tokens of environments.

    Elsewhere it is out of reach: containers and sandboxes are shown their own socket, and hosts none of it.
    """
    root = real_runtime_path()
    met = [path for _, path in real if _may_lie_in(path, root)]
    met += [root] if f"{root}/".startswith(gone) else []
    return (
        join_ours(examined, list(dict.fromkeys(met)), "reaches into the records of environments") if met else examined
    )


def _may_lie_in(path: str, root: str) -> bool:
    """Whether a path, which may hold globs, is a directory or lies below it."""
    parts, above = path.split("/"), root.split("/")
    pairs = zip(parts, above, strict=False)
    return len(parts) >= len(above) and all(one == two or fnmatchcase(two, one) for one, two in pairs)


def _text(stdin: str | bytes | None) -> str | None:
    return stdin.decode("utf-8", "replace") if isinstance(stdin, bytes) else stdin


def _told(around: Surroundings) -> dict[str, str]:
    """What a person has to know besides the text."""
    variables = "\n".join(f"{name}={value}" for name, value in sorted(around.env.items()))
    told = {"directory": around.cwd, "variables": variables, "input": around.stdin}
    return {name: value for name, value in told.items() if value}


def _digest(around: Surroundings) -> str:
    """What makes the same act another one: directory, variables that may change what programs do, and input."""
    return _hashed([around_of_text(around), around.stdin or "", str(sorted(around.env.items()))])


def _meaning(around: Surroundings) -> str:
    """What makes the same text mean something else: all that its shell knows."""
    state = "" if around.state is None else msgspec.json.encode(around.state, order="sorted").decode()
    return _hashed([around.cwd or "", around.stdin or "", str(sorted(around.env.items())), state])


def _hashed(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
