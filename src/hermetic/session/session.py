"""One shell's state in an environment, and the commands that run in it."""

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from hermetic.contract.approval import Guard, Judged
from hermetic.contract.command import Result
from hermetic.contract.edits import Oversight, Patched
from hermetic.contract.endings import Ending, Lost, Signalled, Yielded
from hermetic.contract.environment import SessionState
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.files import Bounds
from hermetic.contract.limits import FRAME_BODY, INLINE_INPUT, INLINE_OUTPUT, RETURNED_OUTPUT
from hermetic.link import answers
from hermetic.link.calls import Call, Interruption
from hermetic.link.failures import ResidentGone, Stalled
from hermetic.link.link import ENDED_BY_US, Link
from hermetic.resident.lazy import Lazy
from hermetic.session.arguments import (
    check_callback,
    check_count,
    check_env,
    check_event,
    check_id,
    check_positive,
    encode_command,
    encode_input,
    encode_path,
    path_text,
)
from hermetic.session.blobs import cut, with_blob
from hermetic.session.files import FileMethods, Files
from hermetic.session.judged import Stale, judged_again, stale_or
from hermetic.session.output import Excerpt, LiveOutput, Takers, gather
from hermetic.session.process import Process

if TYPE_CHECKING:
    from hermetic.session import patching
else:
    patching = Lazy("hermetic.session.patching")  # most callers edit nothing

R = TypeVar("R")

Fields = dict[str, object]
# what came of a command, and the resident's answer where there is one
Ran = tuple[Result, answers.Ran | None]


class Session(FileMethods):
    """A shell that keeps its state from command to command: cwd, variables, functions, jobs."""

    def __init__(
        self,
        link: Link,
        name: str,
        before: Callable[[], Awaitable[None]] | None = None,
        guard: Guard | None = None,
        editing: asyncio.Lock | None = None,
    ) -> None:
        self._link = link
        self._name = name
        self._before = before  # every command and process
        # the state in which commands may begin; None: they were not judged
        self._judged: Judged | None = None
        # who has to allow commands, input and writes; None: the caller is trusted
        self._guard = guard
        self._files = Files(link, name)
        # edits of this caller wait for each other, and need not try again
        self._editing = editing or asyncio.Lock()
        tag = secrets.token_hex(3)  # other callers of the same resident choose ids too
        self._ids = map(f"{tag}-{{}}".format, itertools.count(1))

    def __repr__(self) -> str:
        return f"<Session {self._name!r} in {self._link.environment}>"

    def __reduce__(self) -> NoReturn:
        advice = f"give the id to hermetic.attach({self._link.environment!r}) there"
        raise TypeError(f"{self!r} cannot be copied or sent to another process; {advice}")

    @property
    def name(self) -> str:
        """Name of the session; "" is the environment's default session."""
        return self._name

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        on_timeout: Literal["kill", "yield"] = "kill",
        cwd: str | PathLike[str] | None = None,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        separate: bool = False,
        limit: int | None = None,
        on_output: Callable[[bytes], object] | None = None,
        cancel: asyncio.Event | None = None,
        tag: str = "",
    ) -> Result:
        """Runs a command and returns its result when it has ended.

        Cancelling ends the command's process tree first; so does setting `cancel`, and the result
        is `Cancelled`. `on_output` gets output as it comes, on the event loop. `tag` is a short
        text that is stored with it. Raises: InvalidArgument, EnvironmentUnavailable; nothing was
        started then.
        """
        text, is_argv = encode_command(command)
        fields: Fields = {"op": "run", "text": len(text)}
        if self._name:
            fields["session"] = self._name
        if is_argv:
            fields["argv"] = True
        if timeout is not None:
            fields["timeout"] = check_positive(timeout, "timeout")
        if on_timeout != "kill":
            fields["on_timeout"] = _check_on_timeout(on_timeout)
        most = RETURNED_OUTPUT if limit is None else check_count(limit, "limit")
        if most < INLINE_OUTPUT:
            fields["limit"] = most
        if separate:
            fields["separate"] = True
        if tag:
            fields["tag"] = tag
        if cwd is not None or env is not None:
            _add_place(fields, cwd, env)
        takers = None if on_output is None else (check_callback(on_output), on_output)
        data = None if stdin is None else encode_input(stdin, "stdin")
        if cancel is not None:
            check_event(cancel)

        def call(fields: Fields, body: bytes) -> Awaitable[Ran]:
            return self._run(Call(fields, answers.ran, body), most, cancel, takers)

        async def send(fields: Fields, judged: Judged | None) -> Result:
            fields["id"] = next(self._ids)
            if data is None and len(text) <= FRAME_BODY:
                result, said = await call(fields, text)
            else:
                result, said = await self._with_command(fields, text, data, call)
            if judged is not None and said is not None:
                judged.report(None if said.is_stale else said.changes)
                if said.is_stale:
                    raise Stale
            return result

        return await self._begin(command, fields, send, stdin=stdin, env=env, cwd=cwd)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        id: str | None = None,
        pty: bool = False,
        rows: int = 24,
        cols: int = 80,
        cwd: str | PathLike[str] | None = None,
        stdin: str | bytes = "pipe",
        env: Mapping[str, str] | None = None,
        separate: bool = False,
        tag: str = "",
        personal: bool = False,
    ) -> Process:
        """Starts a process in the background, with this session's cwd and exported variables.

        `stdin` is "pipe" (write to it later), "null", or the whole input. A known `id` returns the
        existing process. `tag` is a short text that is stored with it. `personal`: a person's
        terminal, with which all its processes end. Raises: InvalidArgument, Unsupported,
        EnvironmentUnavailable.
        """
        text, is_argv = encode_command(command)
        chosen = next(self._ids) if id is None else check_id(id)
        fields: Fields = {"op": "start", "session": self._name, "id": chosen, "text": len(text)}
        if is_argv:
            fields["argv"] = True
        if pty:
            fields |= {
                "pty": True,
                "rows": check_count(rows, "rows", least=1),
                "cols": check_count(cols, "cols", least=1),
            }
        if separate:
            fields["separate"] = True
        if tag:
            fields["tag"] = tag
        if personal:
            fields["personal"] = True
        _add_place(fields, cwd, env)
        data = None
        if stdin in ("pipe", "null"):
            fields["stdin"] = stdin
        else:
            data = encode_input(stdin, "stdin")

        async def send(fields: Fields, judged: Judged | None) -> Process:
            try:
                start = partial(self._start, is_new=id is None)
                said = await self._with_command(fields, text, data, start)
            except Stalled:
                # its caller cannot know it: should the resident start it yet, it ends it
                if id is None:
                    self._link.mention("kill", process=chosen)
                raise
            return Process(self._link, said.process, self._guard)

        return await self._begin(command, fields, send, stdin=data, env=env, cwd=cwd)

    def _begin(
        self,
        command: str | Sequence[str],
        fields: Fields,
        send: Callable[[Fields, Judged | None], Awaitable[R]],
        cwd: str | PathLike[str] | None,
        **met: Any,
    ) -> Awaitable[R]:
        """What `send` returns once the command was judged; again where the session has changed in
        between.
        """
        met["cwd"] = None if cwd is None else path_text(cwd, "cwd")

        async def attempt() -> R:
            judged = self._judged
            if self._guard is not None:
                judged = await self._guard.command(command, session=self._name, **met)
            if self._before is not None:
                await self._before()
            known = {} if judged is None else {"known": judged.changes, "at": judged.cwd}
            try:
                return await send({**fields, **known}, judged)
            except InvalidArgument as error:
                raise stale_or(error, judged) from None

        return attempt() if self._guard is None else judged_again(attempt)

    async def process(self, id: str) -> Process:
        """The process with this id. Raises UnknownProcess."""
        said, _ = await self._link.ask("status", answers.described, process=check_id(id))
        return Process(self._link, said.process, self._guard)

    async def patch(
        self,
        path: str | PathLike[str] | None = None,
        old_string: str | None = None,
        new_string: str | None = None,
        *,
        replace_all: bool = False,
        patch: str | None = None,
        bounds: Bounds | None = None,
        oversight: Oversight | None = None,
    ) -> Patched:
        """Edits files, all or none: replaces `old_string` by `new_string` at `path`, or applies a
        V4A `patch`.

        The old text must occur once, unless `replace_all`; white space and typography may differ.
        Raises: EditRefused, NotPermitted, OSErrors.
        """
        edits = patching.Patching(self._files, bounds, self._guard, oversight, self._editing)
        if patch is not None:
            if (path, old_string, new_string) != (None, None, None):
                raise InvalidArgument(
                    "give either patch, or path, old_string and new_string", argument="patch"
                )
            return await edits.patch(patch)
        if path is None or old_string is None or new_string is None:
            raise InvalidArgument("give path, old_string and new_string, or patch", argument="path")
        where = path_text(path, "path")
        return await edits.replace(where, old_string, new_string, replace_all=replace_all)

    async def state(self) -> SessionState:
        """The cwd and the exported variables that the next command sees."""
        said, body = await self._link.ask("state", answers.place, session=self._name)
        return SessionState(cwd=said.cwd, env=self._link.decode(answers.exports, body))

    async def reset(self) -> bool:
        """Ends the session's running commands and its shells; its next command starts from the
        login state.

        Processes of `start` and background jobs of earlier commands continue. False: there was
        nothing to end.
        """
        said, _ = await self._link.ask("end_session", answers.session_ended, session=self._name)
        return said.ended

    async def close(self) -> None:
        """As `reset`. The environment stays open."""
        await self.reset()

    async def _run(
        self,
        call: Call[answers.Ran],
        most: int,
        cancel: asyncio.Event | None,
        takers: Takers | None = None,
    ) -> Ran:
        if self._link.is_stalled:
            await self._link.recover()
        future = self._link.send(call)
        live = None if takers is None else LiveOutput(self._link, call, takers)
        try:
            said, body = await (
                future if cancel is None else self._answer_or_stop(call, future, cancel)
            )
            if live is not None:
                await live.drain(said)
        except asyncio.CancelledError:
            await self._link.stop(call)
            raise
        except ResidentGone as gone:
            return _lost(call, gone), None
        finally:
            if live is not None:
                live.close()
        if live is not None and live.error is not None:
            raise live.error
        return await self._result(call, said, body, most), said

    async def _answer_or_stop(
        self, call: Call[R], future: "asyncio.Future[tuple[R, bytes]]", cancel: asyncio.Event
    ) -> tuple[R, bytes]:
        """The answer to a request; once `cancel` is set, the resident ends the command."""
        stop = partial(self._link.cancel, call)
        waiting = None
        if cancel.is_set():
            stop()
        elif isinstance(cancel, Interruption):
            cancel.callbacks.add(stop)
        else:
            waiting = asyncio.ensure_future(cancel.wait())
            waiting.add_done_callback(lambda done: None if done.cancelled() else stop())
        try:
            return await future
        finally:
            if isinstance(cancel, Interruption):
                cancel.callbacks.discard(stop)
            elif waiting is not None:
                waiting.cancel()

    async def _start(self, fields: Fields, body: bytes, *, is_new: bool) -> answers.Described:
        """Starts a process; `is_new`: nobody else uses its id."""
        call = Call(fields, answers.described, body)
        if self._link.is_stalled:
            await self._link.recover()
        future = self._link.send(call)
        try:
            # Shielded: the answer to a start counts, though its caller is cancelled as it comes.
            said, _ = await asyncio.shield(future)
        except asyncio.CancelledError:
            answer = await self._link.stop(call)
            # After a reconnect a process exists that was new before it.
            if answer is not None and (is_new or not answer[0].existing):
                self._link.mention("kill", process=answer[0].process.id)
            raise
        return said

    async def _with_command(
        self,
        fields: Fields,
        text: bytes,
        data: bytes | None,
        send: Callable[[Fields, bytes], Awaitable[R]],
    ) -> R:
        """What `send` returns; what does not fit into its frame of command and input is in a blob
        sent before.
        """
        if len(text) > FRAME_BODY:
            return await self._with_blob(
                text,
                lambda blob: self._with_command(
                    {**fields, "text": 0, "command": blob}, b"", data, send
                ),
            )
        if data is None:
            return await send(fields, text)
        if len(text) + len(data) <= INLINE_INPUT:
            return await send({**fields, "stdin": "inline"}, text + data)
        return await self._with_blob(
            data, lambda blob: send({**fields, "stdin": "blob", "blob": blob}, text)
        )

    def _with_blob(self, data: bytes, use: Callable[[str], Awaitable[R]]) -> Awaitable[R]:
        return with_blob(self._link, lambda: cut(data), use)

    async def _result(
        self, call: Call[answers.Ran], said: answers.Ran, body: bytes, most: int
    ) -> Result:
        log = said.log or str(call.fields["id"])
        total, head, tail = said.out
        excerpt, separate = Excerpt(body, None), None
        if said.err is not None:
            excerpt = await gather(self._link, log, said.out, body[: head + tail], most)
            separate = await gather(self._link, f"{log}/err", said.err, body[head + tail :], most)
        elif not total == head + tail == len(body) <= most:
            excerpt = await gather(self._link, log, said.out, body, most)
        process = (
            await self.process(said.ending.process_id) if isinstance(said.ending, Yielded) else None
        )
        return Result(
            data=excerpt.data,
            ending=self._ending(said.ending),
            duration=said.duration,
            cwd=said.cwd,
            total_bytes=total,
            omitted=excerpt.omitted,
            stderr_data=separate and separate.data,
            stderr_bytes=said.err[0] if said.err else 0,
            stderr_omitted=separate and separate.omitted,
            log=log,
            notes=said.notes,
            waiting_for_input=said.waiting,
            process=process,
        )

    def _ending(self, ending: Ending) -> Ending:
        """A signal that came because the environment was closed is nothing the command did."""
        return (
            Lost(ENDED_BY_US) if self._link.is_ending and isinstance(ending, Signalled) else ending
        )


def as_judged(session: Session, judged: Judged | None) -> Session:
    """The same session, for a command that was judged by that version of its state."""
    twin = object.__new__(Session)
    twin.__dict__ = {**session.__dict__, "_judged": judged}
    return twin


def _add_place(
    fields: Fields, cwd: str | PathLike[str] | None, env: Mapping[str, str] | None
) -> None:
    """Where one command runs and with which variables besides the session's."""
    if cwd is not None:
        fields["cwd"] = encode_path(cwd, "cwd")
    if env is not None:
        fields["env"] = check_env(env)


def _check_on_timeout(value: str) -> str:
    if value not in ("kill", "yield"):
        raise InvalidArgument(
            f'on_timeout must be "kill" or "yield", not {value!r}', argument="on_timeout"
        )
    return value


def _lost(call: Call[answers.Ran], gone: ResidentGone) -> Result:
    """The result of a command whose resident went away under it."""
    return Result(
        data=b"",
        ending=Lost(gone.reason),
        duration=0.0,
        cwd="",
        total_bytes=0,
        log=str(call.fields["id"]),
        notes=(f"{gone}",),
    )
