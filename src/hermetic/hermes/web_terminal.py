"""Terminals of a web UI by their Hermes names: one interactive shell for each session id, on this
machine.
"""

import codecs
import contextlib
import os
import queue
import shutil
import threading
from pathlib import Path

from hermetic.blocking.faces import Environment, Process
from hermetic.blocking.faces import open as open_environment
from hermetic.contract.errors import ExecutionError
from hermetic.contract.tool import Fields

EVENTS = 2000  # that wait for a reader; the log of the shell holds the rest
READ_SECONDS = 1.0  # that one request for output waits
UNATTENDED = 30.0  # seconds that shells outlive a server that was killed
FULL_SECONDS = 0.2  # between two looks whether a full queue is closed
CLOSING_SECONDS = 1.5  # between HUP and KILL
PASSED = str.split("""
    PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE LC_MESSAGES LANGUAGE TZ TMPDIR TEMP
    XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME
""")
INTERACTIVE = ("zsh", "bash", "sh")  # shells that take -i


class TerminalSession:
    """A shell in a terminal.

    Events in `output`, in order: `output`, `terminal_error`, at last `terminal_closed`.
    """

    def __init__(
        self, session_id: str, workspace: str, rows: int, cols: int, process: Process
    ) -> None:
        self.session_id = session_id
        self.workspace = workspace
        self.rows = rows
        self.cols = cols
        self.output: queue.Queue[tuple[str, Fields]] = queue.Queue(maxsize=EVENTS)
        self.closed = threading.Event()
        self._process = process
        self._lock = threading.Lock()  # one write or resize at a time
        self._reader = threading.Thread(
            target=self._read, name=f"hermes-terminal-{session_id}", daemon=True
        )
        self._reader.start()

    def __repr__(self) -> str:
        return f"<TerminalSession {self.session_id}{'' if self.is_alive() else ', ended'}>"

    def is_alive(self) -> bool:
        """Whether its shell runs."""
        return not self.closed.is_set() and self._process.info.ending is None

    def write(self, data: str) -> None:
        """Types a text."""
        with self._lock:
            self._process.write(data.encode("utf-8", "replace"))

    def resize(self, rows: int, cols: int) -> None:
        """Changes the size, within bounds; 0 leaves it."""
        with self._lock:
            self.rows, self.cols = _size(rows or self.rows, cols or self.cols)
            self._process.resize(self.rows, self.cols)

    def close(self) -> None:
        """Ends the shell and all that it has started."""
        self.closed.set()
        with contextlib.suppress(ExecutionError):  # it is gone
            self._process.signal("HUP")
            self._process.kill(grace=CLOSING_SECONDS)
        self._reader.join()

    def _read(self) -> None:
        """Turns output into events.

        A slow reader of these slows nothing down: the output waits in the shell's log.
        """
        decoder, at = codecs.getincrementaldecoder("utf-8")("replace"), 0
        try:
            while True:
                chunk = self._process.read(at, wait=READ_SECONDS)
                at = chunk.end
                if text := decoder.decode(chunk.data, chunk.ended):
                    self._put("output", {"text": text})
                if chunk.ended:
                    break
            ending = self._process.status().ending
            self._put(
                "terminal_closed", {"exit_code": None if ending is None else ending.exit_code}
            )
        except ExecutionError as error:
            self._put("terminal_error", {"error": str(error)})
            self._put("terminal_closed", {"exit_code": None})

    def _put(self, event: str, payload: Fields) -> None:
        while True:
            try:
                self.output.put((event, payload), timeout=FULL_SECONDS)
                return
            except queue.Full:
                if self.closed.is_set():  # its last events count more than the oldest ones
                    with contextlib.suppress(queue.Empty):
                        self.output.get_nowait()


class Terminals:
    """All terminals of the process, in one environment of this machine."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of the tables; a shell is started and ended outside of it
        self._sessions: dict[str, TerminalSession] = {}
        self._starting: dict[str, threading.Lock] = {}
        self._environment: Environment | None = None

    def __repr__(self) -> str:
        return f"<Terminals: {len(self._sessions)}>"

    def start(
        self, session_id: str, workspace: str | Path, rows: int, cols: int, restart: bool
    ) -> TerminalSession:
        key, directory = _key(session_id), Path(workspace).expanduser().resolve()
        if not directory.is_dir():
            raise ValueError(f"the workspace {directory} is no directory")
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        with starting:
            known = self.get(key)
            if (
                known is not None
                and known.is_alive()
                and known.workspace == str(directory)
                and not restart
            ):
                known.resize(rows, cols)
                return known
            if known is not None:
                self.close(key)
            rows, cols = _size(rows, cols)
            argv = ["env", "-i", *_variables(directory, rows, cols), *_shell()]
            process = self._opened().start(argv, pty=True, rows=rows, cols=cols, cwd=str(directory))
            session = TerminalSession(key, str(directory), rows, cols, process)
            with self._lock:
                self._sessions[key] = session
            return session

    def get(self, session_id: str) -> TerminalSession | None:
        with self._lock:
            return self._sessions.get(str(session_id).strip())

    def close(self, session_id: str) -> bool:
        with self._lock:
            session = self._sessions.pop(str(session_id).strip(), None)
        if session is not None:
            session.close()
        return session is not None

    def close_all(self) -> int:
        with self._lock:
            ids = list(self._sessions)
        count = sum(map(self.close, ids))
        with self._lock:
            environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()
        return count

    def _opened(self) -> Environment:
        with self._lock:
            if self._environment is None:
                self._environment = open_environment("local", login=False, unattended=UNATTENDED)
            return self._environment


def start_terminal(
    session_id: str, workspace: str | Path, rows: int = 24, cols: int = 80, restart: bool = False
) -> TerminalSession:
    """The session's terminal in a directory: the living one, resized, or a new one.

    Raises ValueError.
    """
    return _terminals.start(session_id, workspace, rows, cols, restart)


def get_terminal(session_id: str) -> TerminalSession | None:
    """The session's terminal, also after its shell has ended; None without one."""
    return _terminals.get(session_id)


def write_terminal(session_id: str, data: str) -> None:
    """Types a text. Raises KeyError when no shell runs."""
    session = _terminals.get(session_id)
    if session is None or not session.is_alive():
        raise KeyError(session_id)
    session.write(data)


def resize_terminal(session_id: str, rows: int, cols: int) -> None:
    """Changes the size. Raises KeyError for an unknown session."""
    session = _terminals.get(session_id)
    if session is None:
        raise KeyError(session_id)
    if session.is_alive():
        session.resize(rows, cols)


def close_terminal(session_id: str) -> bool:
    """Ends the session's terminal; False without one."""
    return _terminals.close(session_id)


def close_all_terminals() -> int:
    """Ends all terminals; returns how many."""
    return _terminals.close_all()


def _key(session_id: str) -> str:
    if not (key := str(session_id).strip()):
        raise ValueError("session_id is empty")
    return key


def _size(rows: int, cols: int) -> tuple[int, int]:
    return max(8, min(int(rows or 24), 80)), max(20, min(int(cols or 80), 240))


def _variables(directory: Path, rows: int, cols: int) -> list[str]:
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    added = {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "COLUMNS": str(cols),
        "LINES": str(rows),
    }
    added |= {"PWD": str(directory), "HERMES_WEBUI_TERMINAL": "1"}
    return [f"{name}={value}" for name, value in (passed | added).items()]


def _shell() -> list[str]:
    named = os.environ.get("SHELL", "")
    found = (
        named
        if os.path.isfile(named)
        else next(filter(None, map(shutil.which, INTERACTIVE)), "/bin/sh")
    )
    return [found, "-i"] if os.path.basename(found) in INTERACTIVE else [found]


_terminals = Terminals()
