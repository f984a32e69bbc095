"""Process handles, as `_run_bash` returns them: their output, their end, and background processes
made of them.
"""

import codecs
import contextlib
import io
import os
import secrets
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from hermetic.contract.tool import Fields
from hermetic.hermes.shared import shared

KEPT = 16 << 20  # characters of output
LOOK = 0.1  # seconds between two looks at a deadline or an interrupt
SETTLING = 0.3  # seconds for output that is on its way when the process has ended
PIECE = 1 << 16
PREVIEW, FINAL = 1000, 2000  # characters
KILLING_SECONDS = 10.0  # for a killed process to end
TYPED = "Process stdin not available: it was started through an environment object"


class ProcessHandle(Protocol):
    """What a started process has; `subprocess.Popen` is one."""

    @property
    def stdout(self) -> Any: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ThreadedProcessHandle:
    """A handle around a blocking function that returns (output, exit code); `cancel` ends it early."""

    def __init__(
        self, function: Callable[[], tuple[str, int]], cancel: Callable[[], object] | None = None
    ) -> None:
        self._cancel = cancel
        self._is_done = threading.Event()
        self.returncode: int | None = None
        read, write = os.pipe()
        self.stdout = os.fdopen(read, "rb")
        threading.Thread(
            target=self._work, args=(function, write), name="hermes-call", daemon=True
        ).start()

    def _work(self, function: Callable[[], tuple[str, int]], write: int) -> None:
        try:
            output, code = function()
        except Exception as error:  # of an SDK: the result says what happened
            output, code = f"{type(error).__name__}: {error}", 1
        with contextlib.suppress(OSError), os.fdopen(write, "wb") as stream:
            stream.write(output.encode(errors="replace"))
        self.returncode = code
        self._is_done.set()

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self.returncode

    def kill(self) -> None:
        """Cancels the call, if that is possible. Errors are dropped."""
        if self._cancel is not None:
            with contextlib.suppress(Exception):
                self._cancel()

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        if not self._is_done.wait(timeout) or self.returncode is None:
            raise subprocess.TimeoutExpired("a call", timeout or 0)
        return self.returncode


def end(handle: ProcessHandle) -> None:
    """Kills a process, and with it its group where it has one of its own."""
    pid = handle.pid if isinstance(handle, subprocess.Popen) else None
    with contextlib.suppress(OSError):
        if pid is not None and handle.poll() is None and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        handle.kill()


class Drain:
    """Reads a process's output on a thread.

    A child that holds the pipe is read on, and dropped, to its end.
    """

    def __init__(self, handle: ProcessHandle, until: str = "") -> None:
        self._stream = handle.stdout
        self._until = until
        self._lock = threading.Lock()
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._sizes = [0, 0]  # characters in head and tail
        self._last = ""  # the end of the output, in which `until` is searched
        self.dropped = 0  # characters
        self.is_done = threading.Event()  # `until` came, or the end
        threading.Thread(target=self._read, name="hermes-output", daemon=True).start()

    @property
    def text(self) -> str:
        """The output so far; of too much the start and the end."""
        with self._lock:
            gap = [f"\n[... {self.dropped:,} characters left out ...]\n"] if self.dropped else []
            return "".join([*self._head, *gap, *self._tail])

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := self._piece():
                self._add(decoder.decode(data) if isinstance(data, bytes) else data)
            self._add(decoder.decode(b"", True))
        except (OSError, ValueError):  # it was closed
            pass
        self.is_done.set()
        with contextlib.suppress(OSError, AttributeError):
            self._stream.close()

    def _piece(self) -> bytes | str:
        """What has come; waits for something."""
        if self._stream is None:
            return b""
        try:
            return os.read(self._stream.fileno(), PIECE)
        except (AttributeError, io.UnsupportedOperation):  # no file of the system
            piece: bytes | str = self._stream.read(PIECE)
            return piece

    def _add(self, text: str) -> None:
        if not text or self.is_done.is_set():
            return
        with self._lock:
            if self._sizes[0] < KEPT * 2 // 5:
                self._head.append(text)
                self._sizes[0] += len(text)
            else:
                self._tail.append(text)
                self._sizes[1] += len(text)
                while self._sizes[1] - len(self._tail[0]) > KEPT * 3 // 5:
                    self.dropped += len(self._tail[0])
                    self._sizes[1] -= len(self._tail.popleft())
        self._last = (self._last + text)[-8192:]
        last = self._last.rstrip("\n")
        # it stands on both sides
        if self._until and last.endswith(self._until) and last.count(self._until) > 1:
            self.is_done.set()


def settle(handle: ProcessHandle, drain: Drain) -> bool:
    """Whether it has ended.

    The rest of its output is awaited shortly, should a child of it hold the pipe.
    """
    if handle.poll() is None:
        return False
    drain.is_done.wait(SETTLING)
    return True


class HandleProcess:
    """A background process that an environment object has started."""

    def __init__(self, handle: ProcessHandle) -> None:
        self.id = f"proc_{secrets.token_hex(6)}"
        self.pid: int | None = getattr(handle, "pid", None)
        self._start = time.time()
        self._killed_by = ""
        self._handle = handle
        self._drain = Drain(handle)

    def __repr__(self) -> str:
        return f"<HandleProcess {self.id}>"

    def act(self, action: str, **given: Any) -> Fields:
        """The answer of one action, in the shapes of the process tool."""
        if action == "poll":
            return self._described() | {"output_preview": self._drain.text[-PREVIEW:]}
        if action == "log":
            return self._described() | self._lines(given["limit"], given.get("offset", 0))
        if action == "wait":
            return self._wait(given["timeout"])
        if action == "kill":
            return self._kill()
        return self._type(action, given.get("data", ""))

    def _type(self, action: str, data: str) -> Fields:
        write, close = (
            getattr(self._handle, name, None) for name in ("write_input", "close_input")
        )
        if write is None or close is None:
            return {"status": "error", "error": TYPED}
        if action == "close":
            close()
            return {"status": "ok"}
        text = data + "\n" if action == "submit" else data
        write(text)
        return {"status": "ok", "bytes_written": len(text.encode())}

    def _described(self) -> Fields:
        found: Fields = {
            "session_id": self.id,
            "pid": self.pid,
            "uptime_seconds": time.time() - self._start,
        }
        if not settle(self._handle, self._drain):
            return found | {"status": "running"}
        reason = "killed" if self._killed_by else "exited"
        found |= {
            "status": "exited",
            "exit_code": self._handle.returncode,
            "completion_reason": reason,
        }
        return found | ({"termination_source": self._killed_by} if self._killed_by else {})

    def _lines(self, limit: int, offset: int) -> Fields:
        lines = self._drain.text.splitlines()
        shown = lines[offset - 1 : offset - 1 + limit] if offset else lines[-limit:]
        return {"output": "\n".join(shown), "total_lines": len(lines)}

    def _wait(self, timeout: float) -> Fields:
        status, deadline, caller = "exited", time.monotonic() + timeout, shared.caller()
        while not settle(self._handle, self._drain):
            if caller.stop() or time.monotonic() >= deadline:
                status = "interrupted" if caller.stop() else "timeout"
                break
            caller.beat()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._handle.wait(LOOK)
        return self._described() | {"status": status, "output": self._drain.text[-FINAL:]}

    def _kill(self) -> Fields:
        status = "already_exited"
        if self._handle.poll() is None:
            status, self._killed_by = "killed", "process.kill"
            end(self._handle)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._handle.wait(KILLING_SECONDS)
        return self._described() | {"status": status, "output": self._drain.text[-FINAL:]}
