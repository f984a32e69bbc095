"""A command in a session's shell, and what its text tells before it runs."""

import os
import re

from .job import Drain, Job
from .shell import INLINE_BYTES, in_memory

LISTEN_SECONDS = 0.001
_MAY_SET_TRAPS = re.compile(rb"\btrap\b|\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s")
# The look-behind lets a word be tried once and not from each of its letters.
_DEFINES = re.compile(rb"(?<![\w.:-])([\w.:-]+)[ \t]*\(\)|\bfunction[ \t]+([\w.:-]+)|\balias[ \t]+([\w.:-]+)=")
_OPENS_TEXT = re.compile(rb"\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s")
_PLAIN = re.compile(rb"\s*([\w./+-]+)(?:[ \t]+(?:[\w./:@%+,=~^-]+|'[^']*'|\"[^\"$`\\!]*\"))*\s*")
_UNCHANGING = frozenset(
    b"true false : echo pwd test ls cat head tail wc grep egrep rg find git stat file date sleep ps id whoami uname which sort uniq cut tr "
    b"diff cmp sed awk python python3 node npm npx make cargo go pytest pip ruff mypy tar gzip mkdir touch cp mv rm ln chmod du df curl "
    b"wget tree jq basename dirname realpath readlink md5sum sha256sum seq env nproc free hostname uv docker".split()
)


READABLE_BYTES = 4096  # a longer text is not looked into: it may mean anything


def may_set_traps(text):
    return len(text) > READABLE_BYTES or _MAY_SET_TRAPS.search(text) is not None


class Vocabulary:
    """The names that commands of one session may have given another meaning."""

    def __init__(self):
        self.names = set()
        self.open = False  # True: a text was read from elsewhere, any name may mean anything

    def learn(self, text):
        if len(text) > READABLE_BYTES:
            self.open = True
            return
        for groups in _DEFINES.findall(text):
            self.names.update(filter(None, groups))
        self.open = self.open or _OPENS_TEXT.search(text) is not None

    def leaves_state_alone(self, text):
        """Whether a text is one plain program that cannot change the shell. A wrong guess costs one command's state at the next
        rollback, never the session."""
        found = _PLAIN.fullmatch(text) if len(text) <= READABLE_BYTES and not self.open else None
        return found is not None and found.group(1) in _UNCHANGING and found.group(1) not in self.names


class Command(Job):
    """Runs in a shell of a session; the shell is handed over by the session."""

    kind = "command"

    def __init__(self, resident, job_id, number, session, text, out, err, order):
        super().__init__(resident, job_id, number, session.name, text, out, err)
        self.home = session
        self.order = order
        self.shell = None
        self.in_lane = True  # False: beside the lane or yielded; its state is dropped at the end
        self.restored = False  # True: it ended its shell, the state is the one before it
        self.descriptors = []
        self.listening = None

    def open(self):
        """The fields of the order; called again when a shell died before it read the first one."""
        self.close_descriptors()
        ends = []
        for log in self.logs():
            # The shell opens the write end anew by its path, so that this flag is ours alone.
            read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self.descriptors.append(write_end)
            self.drains.append(Drain(self.resident.loop, read_end, log))
            ends.append(b"%d" % write_end)
        text = b" " + self.text
        if len(text) > INLINE_BYTES:
            text = b"@%d" % self._keep(in_memory(self.text))
        # Most commands end before this: their output is taken in when they report, and nobody has listened.
        self.listening = self.resident.loop.call_later(LISTEN_SECONDS, self._listen)
        source = self.resident.null if self.order.stdin_fd is None else self.order.stdin_fd
        wrap = b""
        if self.order.env:
            wrap = b"%d" % self._keep(in_memory(_assignments(self.order.env) + b' builtin eval "$__h_u"'))
        return b"%d" % source, ends[0], ends[-1], text, os.fsencode(self.order.cwd or ""), wrap

    def _listen(self):
        for drain in self.drains:
            drain.listen()

    def _keep(self, fd):
        self.descriptors.append(fd)
        return fd

    def close_descriptors(self):
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []

    def members(self):
        shell = self.shell
        if shell is None or shell.command is not self or not shell.pid:
            return self.resident.tree_of(self, [], self.home.protected)
        return self.resident.tree_of(self, [shell.pid], self.home.jobs_of_others(shell, self))

    def end(self, grace, ending):
        if self.shell is None and not self.has_ended:  # still waits for a shell: there is no tree to end
            self.home.withdraw(self)
            self.forced = ending
            self.finish(ending)
            return
        super().end(grace, ending)

    def shell_left(self):
        """The shell has reported or died: nothing of ours needs to stay open, but for the drains while a child still prints."""
        self.close_descriptors()
        if self.listening is not None:
            self.listening.cancel()
        for drain in self.drains:
            drain.read()
            drain.listen()
        if self.order.stdin_fd is not None:
            os.close(self.order.stdin_fd)
            self.order.stdin_fd = None


class Order:
    """What goes with a command's text."""

    def __init__(self, cwd=None, env=None, stdin_fd=None):
        self.cwd, self.env, self.stdin_fd = cwd, env, stdin_fd


def _assignments(env):
    """`A='…' B='…'` in front of `eval`: they hold for that one command and are exported to its children."""
    return b" ".join(
        os.fsencode(name) + b"='" + os.fsencode(value).replace(b"'", b"'\\''") + b"'" for name, value in env.items()
    )
