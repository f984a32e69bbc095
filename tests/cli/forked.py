"""Runs command lines in forks of one process that has imported the package: most of a short command
is imports.

A request carries three descriptors, which become the standard streams, and JSON with the words, the
directory and the variables. The answer is the pid of the fork, then its wait status, a line each.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import hermetic

ROOT = Path(__file__).parents[2]
SIZE = 1 << 16
MAIN = str(Path(hermetic.__file__).with_name("__main__.py"))
PACKAGES = ("approvals", "cli", "config", "fleet", "session", "toolbox")  # and all that they import
START = "from tests.cli.forked import serve; serve({path!r})"
# how the names of variables begin that act when one starts
OF_INTERPRETERS = ("PYTHON", "LC_", "LANG")


class ForkServer:
    """The process that forks, as a test sees it."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "forks")
        self._variables = _of_interpreters()
        words = [sys.executable, "-c", START.format(path=self._path)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self.pid = self._process.pid

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()

    def can_run(self) -> bool:
        """False where a new interpreter would behave differently."""
        return _of_interpreters() == self._variables

    def run(
        self, words: Sequence[str], stdin: bytes | None, seconds: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """As subprocess.run with captured output. Raises subprocess.TimeoutExpired."""
        assert self._process.stdout is not None
        self._process.stdout.read()  # it closes its end when it listens
        with socket.socket(socket.AF_UNIX) as connection, ThreadPoolExecutor(3) as pool:
            connection.connect(self._path)
            (given, ours), (output, their_output), (errors, their_errors) = (
                os.pipe() for _ in range(3)
            )
            if stdin is None:
                os.close(given)
                given = os.open(os.devnull, os.O_RDONLY)
            request = json.dumps(
                {"words": words, "cwd": os.getcwd(), "environ": dict(os.environ)}
            ).encode()
            theirs = [given, their_output, their_errors]
            socket.send_fds(connection, [request[:SIZE]], theirs)
            connection.sendall(request[SIZE:])
            connection.shutdown(socket.SHUT_WR)
            for descriptor in theirs:
                os.close(descriptor)
            pool.submit(_write, ours, stdin or b"")
            printed, told = pool.submit(_read, output), pool.submit(_read, errors)
            connection.settimeout(seconds)
            answer = b""
            try:
                while piece := connection.recv(SIZE):
                    answer += piece
            except TimeoutError:
                os.kill(int(answer.split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["hermetic", *words], seconds) from None
            code = os.waitstatus_to_exitcode(int(answer.split()[1]))
            return subprocess.CompletedProcess(
                ["hermetic", *words], code, printed.result(), told.result()
            )


def _of_interpreters() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(OF_INTERPRETERS)}


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as stream:
        view = memoryview(data)
        while view:
            view = view[stream.write(view) :]


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def serve(path: str) -> None:
    """Forks for each request, until standard input ends."""
    for package in PACKAGES:
        importlib.import_module(f"hermetic.{package}")
        inside = Path(MAIN).with_name(package)
        for module in pkgutil.iter_modules([str(inside)], f"hermetic.{package}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _collect)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.close(1)
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(connection)
            connection.close()


def _collect(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _attend(connection: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(connection, SIZE, 3)
    while piece := connection.recv(SIZE):
        data += piece
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(descriptors, **json.loads(data))
    with suppress(OSError):  # the test has ended
        connection.sendall(f"{pid}\n".encode())
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _run(
    descriptors: Sequence[int], words: list[str], cwd: str, environ: dict[str, str]
) -> NoReturn:
    """Becomes the command line."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [MAIN, *words]
    sys.path[0] = cwd
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    code: Any
    try:
        runpy.run_module("hermetic", run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code or 0)
