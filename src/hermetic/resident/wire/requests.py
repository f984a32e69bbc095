"""Table of operations: the name of each request, its handler, and its fields with their parsers."""

from __future__ import annotations

import os
import sys
import time

from ..channels import requests as channels
from ..lazy import Lazy
from ..limits import GRACE, SEARCH_CONTEXT, SEARCH_RESULTS, TERMINAL
from ..processes import control
from ..processes import requests as jobs
from ..processes import start_requests as starts
from ..processes.freezer import Freezer
from ..shells import requests as sessions
from ..shells.command import prepare
from . import fields as take
from . import frames
from .fields import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..files import requests as files
    from ..life.lease import Life
    from ..life.resident import Resident
    from ..life.server import Request
    from ..processes import usage
    from ..processes.job import Job
    from .fields import Parser

    Operation = tuple[Callable[..., Any], dict[str, Parser], tuple[str, ...]]
else:
    files = Lazy("..files.requests", __package__)
    usage = Lazy("..processes.usage", __package__)


class Requests:
    """Serves the requests of all clients."""

    def __init__(self, resident: Resident, life: Life) -> None:
        self.resident, self.life = resident, life
        self.operations: dict[str, Operation] = {
            **OPERATIONS,
            "hello": operation(
                self.hello, versions=take.anything, token=take.anything, observes=take.anything
            ),
            "info": operation(self.info),
            "events": operation(self.events, control=take.flag),
            "freeze": operation(self.freeze, spare=take.joined),
            "thaw": operation(self.thaw),
            "lease": operation(self.lease, lease=take.seconds, unattended=take.seconds),
            "shutdown": operation(self.shutdown, grace=take.seconds),
        }
        self.has_files = False
        self.freezer = Freezer(resident)

    def serve(self, request: Request) -> None:
        """Serves a request, after the process that it names has started. Raises Refusal."""
        fields, resident = request.fields, self.resident
        starting = resident.starting.get(_target(fields)) if resident.starting else None
        if starting is not None:
            starting.others.append(lambda _, refusal: _serve_late(request, refusal))
            return
        name = fields.get("op")
        found = self.operations.get(name) if type(name) is str else None
        if found is None:
            found = self._find(name)
        handler, parsers, required = found
        handler(resident, request, **take.parse(fields, parsers, *required))

    def _find(self, name: object) -> Operation:
        """A file operation.

        Their module is imported with the first of them, so that the resident starts faster.
        """
        if not self.has_files:
            self.has_files = True
            self._add_files(files.FileRequests(self.resident))
        if type(name) is not str or name not in self.operations:
            message = "this resident does not know the operation %r" % (name,)
            raise Refusal("Unsupported", message, capability=str(name))
        return self.operations[name]

    def _add_files(self, requests: files.FileRequests) -> None:
        for name, parsers in FILE_OPERATIONS.items():
            required = {"path", "target"} & {*parsers}
            self.operations[name] = operation(
                _for_files(getattr(requests, name)), *required, **parsers
            )

    # -- the resident itself
    def hello(
        self,
        resident: Resident,
        request: Request,
        versions: Any = None,
        token: Any = None,
        observes: Any = False,
    ) -> None:
        """The handshake: token and protocol version.

        A client that `observes` does not prolong the lease.
        """
        if type(versions) is not list or type(token) is not bytes:
            raise frames.FrameError("not a greeting")
        if self.life.ending:  # who has come late opens another one
            raise frames.FrameError("it is ending")
        request.client.greet(token, observes is True)
        common = [version for version in frames.VERSIONS if version in versions]
        if not common:
            message = (
                "this resident speaks protocol version %s, the client %s: end the environment (hermetic rm) and "
                "open it again" % (list(frames.VERSIONS), versions)
            )
            raise Refusal("EnvironmentUnavailable", message)
        request.reply({"version": max(common), "environment": resident.label, **self._identity()})
        resident.loop.call_before_sleep(prepare)  # while the first shell starts
        resident.loop.call_before_sleep(self.life.look_after)

    def _identity(self) -> dict[str, Any]:
        python = sys.version.split()[0]
        return {
            "resident": self.resident.id,
            "pid": os.getpid(),
            "python": python,
            "weak": self.life.weak,
        }

    def info(self, resident: Resident, request: Request) -> None:
        life = self.life

        def answer(left: dict[int, int]) -> None:
            request.reply(
                {
                    **self._identity(),
                    "guardian": life.guardian,
                    "uptime": time.monotonic() - resident.began,
                    "rss": resident_memory(),
                    "bash": resident.bash,
                    "runtime": resident.runtime,
                    "sessions": len(resident.sessions),
                    "clients": request.client.server.attached,
                    "processes": len(resident.running()) + len(left),
                    "lease": life.lease,
                    "unattended": life.unattended,
                    "descriptors": len(os.listdir("/proc/self/fd")),
                    "spool_bytes": sum(
                        log.spooled_bytes for job in resident.jobs.values() for log in job.logs()
                    ),
                }
            )

        resident.count_leftovers(answer)

    def events(self, resident: Resident, request: Request, control: bool = False) -> None:
        """Stays open. Sends starts and ends of jobs; `missed` to a client that did not read some of
        them.

        With `control` also changes of who drives a process, and of a terminal's size.
        """
        client, listeners, missed = request.client, self.life.listeners, False

        def notify(event: str, job: Job) -> None:
            nonlocal missed
            if event not in ("started", "ended") and not control:
                return
            # nothing is queued for a client that does not read
            missed = missed or not client.has_room
            if not missed:
                request.event({"event": event, "process": job.describe()})

        def catch_up() -> None:
            nonlocal missed
            if missed and client.has_room:
                missed = False
                request.event({"event": "missed"})

        listeners.append(notify)
        request.on_room, request.abandoned = catch_up, lambda: listeners.remove(notify)

    def freeze(self, resident: Resident, request: Request, spare: bytes = b"") -> None:
        """Stops all processes but those of the spared jobs; replies when none is left that runs."""
        frozen = self.freezer.frozen
        self.freezer.freeze(take.split(spare), lambda: request.reply({"processes": len(frozen)}))

    def thaw(self, resident: Resident, request: Request) -> None:
        request.reply({"processes": self.freezer.thaw()})

    def lease(self, resident: Resident, request: Request, **given: float) -> None:
        self.life.__dict__.update(given)
        self.life.restart()
        request.reply({})

    def shutdown(self, resident: Resident, request: Request, grace: float = GRACE) -> None:
        self.life.end(grace, lambda: request.reply({}))


def _serve_late(request: Request, refusal: Refusal | None) -> None:
    """Serves a request whose process has started by now, or was withdrawn, or refused.

    Its client may have cancelled it or left meanwhile.
    """
    if request.answered:
        return
    if refusal is not None:
        request.refuse(refusal)
        return
    request.client.serve(request)
    if request.client.closed:
        request.abandoned()


def _for_files(handler: Callable[..., None]) -> Callable[..., None]:
    """The handler of a file operation, which knows the resident."""
    return lambda _, request, **given: handler(request, **given)


def _target(fields: dict[str, Any]) -> str:
    """The id of the process that a request names."""
    name = fields.get("process") or fields.get("log")
    return name.partition("/")[0] if type(name) is str else ""


def resident_memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ping(resident: Resident, request: Request, silence: float | None = None) -> None:
    """Shows that the resident lives; after `silence` seconds without another one the client counts
    as gone.
    """
    if silence is not None:
        request.client.await_ping(silence)
    request.reply({})


def operation(handler: Callable[..., Any], *required: str, **parsers: Parser) -> Operation:
    """A row of the table.

    The handler gets the resident, the request, and the given fields by name.
    """
    return handler, parsers, required


_COUNT, _CELLS = take.number(), take.number(1, TERMINAL)
_START: dict[str, Parser] = {
    **dict.fromkeys(("session", "command", "blob"), take.text),
    **dict.fromkeys(("argv", "separate", "pty", "personal"), take.flag),
    **dict.fromkeys(("text", "known"), _COUNT),
    **dict.fromkeys(("rows", "cols"), _CELLS),
    "id": take.job_id,
    "cwd": take.path,
    "env": take.environ,
    "at": take.anything,
    "stdin": take.choice("pipe", "null", "inline", "blob"),
    "tag": take.tag,
    "script": take.script,
}
_RUN: dict[str, Parser] = {
    "timeout": take.positive_seconds,
    "grace": take.seconds,
    "on_timeout": take.choice("kill", "yield"),
    "limit": _COUNT,
}
OPERATIONS: dict[str, Operation] = {
    "ping": operation(ping, silence=take.positive_seconds),
    "run": operation(starts.Run, "id", **_START, **_RUN),
    "start": operation(starts.Start, "id", **_START),
    "blob": operation(starts.blob, "blob", blob=take.job_id),
    "drop_blob": operation(starts.drop_blob, "blob", blob=take.job_id),
    "list": operation(jobs.list_jobs),
    "status": operation(jobs.status, process=take.text),
    "wait": operation(jobs.wait, process=take.text),
    "write": operation(
        jobs.write, process=take.text, secret=take.flag, key=take.text, by=take.text
    ),
    "close_input": operation(jobs.close_input, process=take.text, key=take.text),
    "drive": operation(
        control.Drive, process=take.text, key=take.text, name=take.text, again=take.flag
    ),
    "give": operation(control.give, process=take.text, key=take.text, note=take.text),
    "inputs": operation(control.inputs, process=take.text),
    "tag": operation(
        jobs.tag, process=take.text, tag=take.tag, was=take.anything, claimed=take.flag
    ),
    "claim": operation(jobs.claim, process=take.text),
    "resize": operation(jobs.resize, process=take.text, rows=_CELLS, cols=_CELLS, key=take.text),
    "signal": operation(jobs.signal, process=take.text, signal=take.number(1, 64), tree=take.flag),
    "kill": operation(jobs.kill, process=take.text, grace=take.seconds),
    "forget": operation(jobs.forget, process=take.text),
    "readers": operation(jobs.readers, process=take.text),
    "usage": operation(lambda resident, request: usage.usage(resident, request)),
    "tree": operation(
        lambda resident, request, process: usage.tree(resident, request, process), process=take.text
    ),
    "read": operation(
        jobs.Read, log=take.text, offset=_COUNT, limit=take.number(1), wait=take.seconds
    ),
    "since": operation(jobs.since, log=take.text, age=take.seconds),
    "follow": operation(
        jobs.Follow, log=take.text, offset=_COUNT, credit=_COUNT, hold=take.flag, pace=take.flag
    ),
    "sessions": operation(sessions.list_sessions),
    "state": operation(sessions.state, session=take.text),
    "definitions": operation(sessions.definitions, session=take.text, known=take.anything),
    "end_session": operation(sessions.end_session, session=take.text),
    "bridge": operation(channels.bridge, token=take.text),
    "modules": operation(channels.modules, "name", name=take.job_id),
    "say": operation(channels.say, channel=_COUNT, end=take.flag),
    "askpass": operation(channels.askpass),
    "answer": operation(channels.answer, ask=_COUNT),
}

_PIECE, _MODE = take.number(0, frames.FRAME_BODY), take.number(0, 0o7777)
_BOUNDS: dict[str, Parser] = {
    "session": take.text,
    "root": take.path,
    "deny": take.joined,
    "exact": take.flag,
}
_FILE: dict[str, Parser] = {"path": take.path, **_BOUNDS}
FILE_OPERATIONS: dict[str, dict[str, Parser]] = {
    "read_file": {**_FILE, "offset": _COUNT, "limit": _PIECE},
    "read_lines": {
        **_FILE,
        "first": take.number(1),
        "lines": take.number(0, frames.FRAME_ITEMS),
        "width": take.number(2),
        "budget": take.number(1, frames.FRAME_BODY),
    },
    "file_status": {**_FILE, "missing": take.flag},
    "list_names": {**_FILE, "most": take.number(1, frames.FRAME_ITEMS)},
    "search_files": {
        **_FILE,
        "pattern": take.text,
        "target": take.choice("content", "files"),
        "mode": take.choice("content", "files_only", "count"),
        "glob": take.text,
        "offset": _COUNT,
        "limit": take.number(1, SEARCH_RESULTS),
        "context": take.number(0, SEARCH_CONTEXT),
        "seconds": take.positive_seconds,
        "ripgrep": take.flag,
    },
    "write_file": {
        **_FILE,
        "blob": take.text,
        "mode": _MODE,
        "parents": take.flag,
        "expect": take.text,
    },
    "delete_file": {**_FILE, "expect": take.text},
    "move_file": {**_FILE, "target": take.path, "expect": take.text, "replace": take.flag},
    "change_files": {**_BOUNDS, "named": _COUNT, "blob": take.text},
}
