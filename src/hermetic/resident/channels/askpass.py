"""Password prompts: a program's prompt goes to a client, and the answer goes directly to that
program.

sudo runs the program that SUDO_ASKPASS names. Ours connects to a socket of the resident. Only a
child of a running sudo gets the answer, and no process without sudo's privileges can pass for one:
programs that a command runs itself get nothing.
"""

from __future__ import annotations

import os
import sys

from ..limits import PASSWORD_QUESTIONS, PROMPT
from ..processes.tree import stat_fields
from ..wire.stream import Listener, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop, Watch


# Run as `PROGRAM PROMPT`. Prints the answer, or fails.
_PROGRAM = """\
#!/bin/sh
exec '%s' -I -S -c '
import socket, sys
stream = socket.socket(socket.AF_UNIX)
answer = b""
try:
    stream.connect(sys.argv[1])
    stream.sendall(sys.argv[2].encode("utf-8", "replace")[:%d])
    stream.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: stream.recv(4096), b""))
except OSError:
    pass
sys.stdout.buffer.write(answer)
sys.exit(not answer)
' '%s' "${1:-}"
"""


class Askpass:
    """Listens for prompts while a client is registered to answer them."""

    def __init__(self, loop: Loop, directory: str) -> None:
        self.loop, self.directory = loop, directory
        self.path = directory + "/askpass"
        self.answerers: list[Callable[[Question], None]] = []
        self.questions: dict[int, Question] = {}
        self.number = 0
        self.listener: Listener | None = None

    def listen(self) -> None:
        if self.listener is not None:
            return
        socket_path = self.directory + "/a"
        with open(
            os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700), "w"
        ) as file:
            file.write(_PROGRAM % (_quoted(sys.executable), PROMPT, _quoted(socket_path)))
        self.listener = Listener(self.loop, socket_path, 0o600, PASSWORD_QUESTIONS, self._accepted)

    def restore(self) -> None:
        """Listens again after one of its files was removed. Raises OSError."""
        names = (self.path, self.directory + "/a")
        if self.listener is not None and not all(map(os.path.lexists, names)):
            for name in filter(os.path.lexists, names):
                os.unlink(name)
            self.listener.close()
            self.listener = None
            self.listen()

    def _accepted(self, connection: Stream, pid: int, uid: int) -> None:
        asker = asking_sudo(pid)
        if (
            uid != os.getuid()
            or asker is None
            or len(self.questions) >= PASSWORD_QUESTIONS
            or not self.answerers
        ):
            connection.close()
            return
        self.number += 1
        self.questions[self.number] = Question(self, self.number, connection, asker)


class Question:
    """One program that waits for a password."""

    def __init__(self, askpass: Askpass, number: int, connection: Stream, asker: int) -> None:
        self.askpass, self.number, self.connection, self.asker = askpass, number, connection, asker
        self.prompt = b""
        self.is_asked = False
        self.watch: Watch = askpass.loop.watch(connection.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self.connection.recv(PROMPT)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self.prompt += data[: PROMPT - len(self.prompt)]
        if not data:
            self.askpass.loop.unwatch(self.watch)
            self.is_asked = True
            if self.askpass.answerers:
                self.askpass.answerers[-1](self)
            else:
                self.close()

    def answer(self, data: bytes) -> None:
        """Sends the answer to the program; empty: no answer."""
        try:
            if data:
                self.connection.send(data + b"\n")  # shorter than any socket's buffer
        except OSError:
            pass  # the program has gone
        self.close()

    def close(self) -> None:
        self.askpass.loop.unwatch(self.watch)
        self.askpass.questions.pop(self.number, None)
        self.connection.close()


def asking_sudo(pid: int) -> int | None:
    """The pid of the sudo that started this process, or None.

    Name and effective user come from /proc.
    """
    fields = stat_fields(pid)
    if len(fields) < 2:
        return None
    parent = int(fields[1])
    try:
        with open("/proc/%d/status" % parent) as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return None
    is_sudo = status.get("Name") == "sudo" and status.get("Uid", "").split()[1:2] == ["0"]
    return parent if is_sudo else None


def _quoted(path: str) -> str:
    """Escapes a path for single quotes."""
    return path.replace("'", "'\\''")
