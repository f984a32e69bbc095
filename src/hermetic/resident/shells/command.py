"""A command that runs in a session's shell, and the static analysis of its text."""

from __future__ import annotations

import os

from ..life.fast_stdlib import pattern
from ..limits import PIPED_COMMAND, READABLE_COMMAND
from ..processes.ended_jobs import owner_of
from ..processes.job import Drain, Job, ending_of
from ..processes.tree import children
from ..processes.unnamed import in_memory, sealed
from ..wire.fields import advised
from .orders import CommandText, can_be_followed, long_order, plain_order, short_order
from .reports import read_traps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..processes.job import Ending, StartOptions
    from .session import Session
    from .shell import Shell

_EXACT = pattern(rb"\btrap\b|\bexec\b|\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s")
# The look-behind makes the expression try each word once, not once per letter.
_DEFINES = pattern(
    rb"(?<![\w.:-])([\w.:-]+)[ \t]*\(\)|\bfunction[ \t]+([\w.:-]+)|\balias[ \t]+([\w.:-]+)="
)
_OPENS_TEXT = pattern(rb"\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s")
_PLAIN = pattern(rb"\s*([\w./+-]+)(?:[ \t]+([\w./:@%+,=~^-]+|'[^']*'|\"[^\"$`\\!]*\"))*\s*")
_UNCHANGING = frozenset(
    b"true false : echo pwd test ls cat head tail wc grep egrep rg find git stat file date sleep ps id whoami uname "
    b"which sort uniq cut tr diff cmp sed awk python python3 node npm npx make cargo go pytest pip ruff mypy tar gzip "
    b"mkdir touch cp mv rm ln chmod du df curl wget tree jq basename dirname realpath readlink md5sum sha256sum seq "
    b"env nproc free hostname uv docker".split()
)


# A text of these characters has no quotes and no expansions: bash sees the same words.
_OPEN_TEXT = pattern(rb"[\w\s./:@%+,=~^;&|<>-]*")
_WORDS = pattern(rb"[^\s;&|<>]+")
# no name that could be redefined
_ASSIGNMENTS = pattern(rb"\s*(?:[A-Za-z_]\w*=[\w./:@%+,^-]*(?:[\s;]+|$))+")
_MAY_TRAP = frozenset(b". alias builtin command enable eval exec function source trap".split())

YIELDED = "state not kept: the command was yielded and goes on as a process"


def may_change_shell(text: bytes) -> bool:
    """Whether a text may set traps or keep descriptors open.

    A wrong guess is visible to the user only as a higher descriptor number or a trap that runs
    late.
    """
    return len(text) > READABLE_COMMAND or _EXACT.search(text) is not None


def prepare() -> None:
    """Compiles the expressions that the first command needs."""
    may_change_shell(b"")
    Redefinitions().learn(b"")
    Redefinitions().last_word(b"")


class Redefinitions:
    """Names that commands of one session may have redefined as functions or aliases."""

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self.open = False  # True: code that was not read here has run, so any name may be redefined
        self.has_trace_fd = False  # True: a trace may go to a descriptor of the user's

    def learn(self, text: bytes) -> None:
        if len(text) > READABLE_COMMAND:
            self.open = True
            return
        calls_own = bool(self.names) and not self.names.isdisjoint(_WORDS.findall(text))
        self.open = self.open or calls_own or _OPENS_TEXT.search(text) is not None
        for groups in _DEFINES.findall(text):
            self.names.update(filter(None, groups))

    def reported(self, names: set[bytes]) -> None:
        """The shell has reported its functions and aliases: no others are redefined."""
        self.names, self.open = names, False

    def keeps_traps(self, text: bytes) -> bool:
        """Whether a text provably sets no trap and defines no function."""
        if len(text) > READABLE_COMMAND or _OPEN_TEXT.fullmatch(text) is None:
            return False
        if self.open:
            return _ASSIGNMENTS.fullmatch(text) is not None
        words = _WORDS.findall(text)
        return _MAY_TRAP.isdisjoint(words) and self.names.isdisjoint(words)

    def last_word(self, text: bytes) -> bytes | None:
        """The last word of a text that is one plain program which cannot change the shell; None for
        any other text.

        A wrong guess loses one command's state at the next rollback, never the session.
        """
        found = _PLAIN.fullmatch(text) if len(text) <= READABLE_COMMAND and not self.open else None
        if found is None or found.group(1) not in _UNCHANGING or found.group(1) in self.names:
            return None
        last = found.group(2) or found.group(1)
        return last[1:-1] if last[:1] in (b"'", b'"') else last


class Command(Job):
    """A job that runs in a shell of a session. The session assigns the shell."""

    kind = "command"
    shell: Shell | None = None
    is_stale = False  # judged by another state of its session, so it does not begin
    in_primary = True  # False: in a parallel shell, or yielded; its state is dropped at the end
    left_cwd = ""  # the session's cwd before it
    is_plain = False  # one plain program, which cannot change the shell
    last_word = b""  # of a plain program
    long_order: CommandText | None = None
    traps_fd: int | None = None  # the shell writes its traps there
    status_before_trap: int | None = None  # while its EXIT trap runs

    def __init__(self, resident: Resident, session: Session, options: StartOptions) -> None:
        super().__init__(resident, options)
        self.home, self.options = session, options
        self.descriptors: list[int] = []

    @property
    def is_simple(self) -> bool:
        """Whether the text is short and needs no cwd, variables, input or separate stderr."""
        options, text = self.options, self.text
        if (
            len(text) > PIPED_COMMAND
            or options.stdin_fd is not None
            or options.cwd
            or options.env
            or options.separate
        ):
            return False
        return self.is_plain or (b"set" not in text and can_be_followed(text))

    def open(self, verb: bytes, shell: Shell) -> tuple[bytes, ...]:
        """Opens the output pipes and returns the fields of the order.

        Called again if the shell died before it read the first order. R runs a short text alone. Q
        runs a text with its options. T runs a text that may set traps or keep descriptors.
        """
        self.close_descriptors()
        ends: list[int] = []
        for log in self.logs():
            read_end, write_end = self.resident.pipes.take()
            self.descriptors.append(write_end)
            self.drains.append(Drain(self.resident.loop, read_end, log))
            ends.append(write_end)
        if verb == b"R":
            if self.is_plain:
                return plain_order(self.number, ends[0], self.text, self.last_word)
            return short_order(self.number, ends[0], self.text, shell.statuses)
        source = self.resident.null if self.options.stdin_fd is None else self.options.stdin_fd
        streams = (source, ends[0], ends[-1])
        run = CommandText(
            self.resident.orders,
            shell,
            self.number,
            self.options,
            streams,
            self.home.redefinitions.has_trace_fd,
        )
        self.long_order, self.traps_fd = run, None
        if verb == b"T" or shell.held_traps:
            self.traps_fd = self._keep(in_memory(b""))
        code = (
            run.exact(self.traps_fd)
            if verb == b"T" and self.traps_fd is not None
            else run.scoped(self.traps_fd)
        )
        return self._long_order(code, verb)

    def _long_order(self, code: bytes, verb: bytes) -> tuple[bytes, ...]:
        return long_order(self.number, self._keep(sealed(self.resident.orders.whole(code))), verb)

    def take_traps(self) -> dict[bytes, bytes] | None:
        """The traps that the text has left, as reported by its shell; None if none were requested
        or reported.
        """
        if self.traps_fd is None:
            return None
        data, self.traps_fd = os.pread(self.traps_fd, os.fstat(self.traps_fd).st_size, 0), None
        return read_traps(data)

    def run_exit_trap(self, shell: Shell, body: bytes, status: int) -> None:
        """Runs the EXIT trap that the text has left, as bash does at its end.

        The command ends with its report.
        """
        assert self.long_order is not None, "a text whose traps are reported"
        self.status_before_trap = status
        shell.send(*self._long_order(self.long_order.exit_trap(body, status), b"X"))

    def listen_soon(self) -> None:
        """Watches the output before the loop next sleeps.

        Most commands end earlier and need no watch.
        """
        self.resident.loop.call_before_sleep(self._listen)

    def _listen(self) -> None:
        for drain in self.drains:
            drain.listen()

    def _keep(self, fd: int) -> int:
        self.descriptors.append(fd)
        return fd

    def close_descriptors(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []

    def members(self) -> list[int]:
        shell = self.shell
        if shell is None or shell.command is not self or not shell.pid:
            return self.resident.tree_of(self, self._left_behind(), self.home.protected)
        return self.resident.tree_of(self, [shell.pid], self._jobs_of_others(shell.pid))

    def _jobs_of_others(self, pid: int) -> set[int]:
        """Children of the shell that earlier commands started."""
        if self.home.is_untagged:
            return self.home.protected
        return {job for job in children(pid) if self._number_of(job) not in (None, self.number)}

    def _left_behind(self) -> list[int]:
        """Processes that the command left running below the session's shells, as far as tags show
        it.
        """
        known = self.resident.loop.children
        jobs = [job for pid in self.home.pool.pids() for job in children(pid) if job not in known]
        return [job for job in jobs if owner_of(self.resident, job) == self.number]

    def _number_of(self, pid: int) -> int | None:
        return self.resident.process_tags.number_of(pid, self.resident.number)

    def end(self, grace: float, ending: Ending | None) -> None:
        if self.shell is None and not self.has_ended:  # it waits for a shell: no tree to end
            self.home.withdraw(self)
            self.forced = ending
            self.finish(ending or ["cancelled"])
            return
        super().end(grace, ending)

    def note_yield(self) -> None:
        if self.in_primary and YIELDED not in self.notes:
            self.notes.append(YIELDED)

    def cannot_begin(self, error: Exception) -> None:
        """Ends as lost, because the system refused a descriptor or process.

        Any other error is raised again, for the log.
        """
        why = advised(error) if isinstance(error, OSError) else "the resident failed: %r" % error
        self.conclude(["lost", "the command could not begin: %s" % why])
        if not isinstance(error, OSError):
            raise error

    def lose_shell(self, status: int) -> None:
        """Ends with its shell, which was dropped and has died."""
        if not self.has_ended:
            self.conclude(ending_of(status))

    def refuse_stale(self) -> None:
        """Ends a command whose session has changed since it was judged; nothing was run."""
        self.is_stale = True
        self.conclude(["lost", "the session changed before the command began"])

    def conclude(self, ending: Ending) -> None:
        """Finishes, and releases what a shell would have released."""
        self.finish(ending)
        self.shell_left()

    def shell_left(self) -> None:
        """Releases everything but the drains, which stay open while a child still prints."""
        self.close_descriptors()
        self.resident.loop.forget_before_sleep(self._listen)
        for drain in self.drains:
            drain.read()
            drain.listen()
        if self.options.stdin_fd is not None:
            os.close(self.options.stdin_fd)
            self.options.stdin_fd = None


def choose_verb(session: Session, command: Command, shell: Shell) -> bytes:
    """T for a text whose traps and traces must be exact, R for a quick one, Q for the rest."""
    redefinitions, is_primary = session.redefinitions, shell is session.primary
    last_word = redefinitions.last_word(command.text) if is_primary else None
    command.is_plain, command.last_word = last_word is not None, last_word or b""
    redefinitions.has_trace_fd |= b"XTRACEFD" in command.text
    is_exact = bool(shell.held_traps) or redefinitions.has_trace_fd
    if is_exact or (not command.is_plain and may_change_shell(command.text)):
        if is_primary and not command.is_plain:
            learn(session, command)
        # T needs `command exec`, the only form whose redirections persist: not if a function
        # shadows `command`.
        return b"T" if b"command" not in redefinitions.names else b"Q"
    is_ready = is_primary and session.has_null_stdin and shell.has_run
    # A standby that is not forked yet would inherit the tag, and be ended with this command.
    is_quick = is_ready and command.is_simple and not (session.pool.pending or shell.is_traced)
    tags = session.resident.process_tags
    return b"R" if is_quick and tags.apply_to(shell.pid, command.number) else b"Q"


def learn(session: Session, command: Command) -> None:
    """Notes what the text of a command for the primary shell may redefine."""
    if command.shell is not None and not session.redefinitions.keeps_traps(command.text):
        command.shell.may_have_changed_traps()
    session.redefinitions.learn(command.text)
    # it may lower the limit that holds the tag
    session.is_untagged = session.is_untagged or b"ulimit" in command.text
