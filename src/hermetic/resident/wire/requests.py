"""Table of operations: the name of each request, and the class that declares its fields and serves it."""

from __future__ import annotations

import os
import sys
import time

from ..channels import requests as channels
from ..lazy import Lazy
from ..life.server import Request
from ..limits import GRACE
from ..processes import requests as jobs
from ..processes import start_requests as starts
from ..shells import requests as sessions
from ..shells.command import prepare
from . import fields as take
from . import frames
from .fields import Field, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..files import requests as files
    from ..life.lease import Life
    from ..life.resident import Resident
    from ..life.server import Client
    from ..processes.job import Job
    from .frames import Fields
else:
    files = Lazy("..files.requests", __package__)


class Requests:
    """Creates the requests of all clients, and holds what serves them."""

    def __init__(self, resident: Resident, life: Life) -> None:
        self.resident, self.loop, self.life = resident, resident.loop, life
        self.operations = OPERATIONS
        self._files: Any = None

    def create(self, client: Client, number: int, fields: Fields, body: bytes) -> Request:
        operation = fields.get("op")
        found = self.operations.get(operation) if type(operation) is str else None
        return (found or Unknown)(client, number, fields, body)

    def serve(self, request: Request) -> None:
        """Serves a request, after the process that it names has started. Raises Refusal."""
        starting = self.resident.starting.get(_target(request.fields)) if self.resident.starting else None
        if starting is None:
            request.serve()
        else:
            starting.append(lambda _, refusal: request.refuse(refusal) if refusal else request.client.serve(request))

    @property
    def files(self) -> Any:
        """Serves the file operations. Imported with the first of them, so that the resident starts faster."""
        if self._files is None:
            self._files = self.open_files()
        return self._files

    def open_files(self) -> Any:
        return files.FileRequests(self)


def _target(fields: Fields) -> str:
    """The id of the process that a request names."""
    name = fields.get("process") or fields.get("log")
    return name.partition("/")[0] if type(name) is str else ""


class Unknown(Request):
    def serve(self) -> None:
        operation = self.fields.get("op")
        message = "this resident does not know the operation %r" % (operation,)
        raise Refusal("Unsupported", message, capability=str(operation))


class FileOperation(Request):
    def serve(self) -> None:
        getattr(self.client.server.requests.files, self.fields["op"])(self)


class LifeRequest(Request):
    @property
    def life(self) -> Life:
        return self.client.server.requests.life


class Hello(LifeRequest):
    """The handshake: token and protocol version."""

    def serve(self) -> None:
        versions, token = self.fields.get("versions"), self.fields.get("token")
        if type(versions) is not list or type(token) is not bytes:
            raise frames.FrameError("not a greeting")
        self.client.greet(token)
        common = [version for version in frames.VERSIONS if version in versions]
        if not common:
            message = (
                "this resident speaks protocol version %s, the client %s: end the environment (hermetic rm) and "
                "open it again" % (list(frames.VERSIONS), versions)
            )
            raise Refusal("EnvironmentUnavailable", message)
        self.reply(
            {
                "version": max(common),
                "resident": self.resident.id,
                "pid": os.getpid(),
                "python": sys.version.split()[0],
                "weak": self.life.weak,
                "environment": self.resident.label,
            }
        )
        self.client.loop.call_before_sleep(prepare)  # while the first shell starts
        self.client.loop.call_before_sleep(self.life.look_after)


class Ping(Request):
    def serve(self) -> None:
        self.reply({})


class Info(LifeRequest):
    def serve(self) -> None:
        self.resident.count_leftovers(self._reply_info)

    def _reply_info(self, left: dict[int, int]) -> None:
        resident, life = self.resident, self.life
        self.reply(
            {
                "resident": resident.id,
                "pid": os.getpid(),
                "guardian": life.guardian,
                "uptime": time.monotonic() - resident.began,
                "rss": resident_memory(),
                "python": sys.version.split()[0],
                "bash": resident.bash,
                "runtime": resident.runtime,
                "weak": life.weak,
                "cannot": list(resident.cannot),
                "sessions": len(resident.sessions),
                "clients": self.client.server.attached,
                "processes": len(resident.running()) + len(left),
                "lease": life.lease.lease,
                "unattended": life.lease.unattended,
                "descriptors": len(os.listdir("/proc/self/fd")),
                "spool_bytes": sum(log.spooled_bytes for job in resident.jobs.values() for log in job.logs()),
            }
        )


def resident_memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Events(LifeRequest):
    """Stays open. Sends starts and ends of jobs; `missed` to a client that did not read some of them."""

    missed = False

    def serve(self) -> None:
        self.life.listeners.append(self._notify)
        self.on_room = self._catch_up
        self.abandoned = lambda: self.life.listeners.remove(self._notify)

    def _notify(self, event: str, job: Job) -> None:
        if not self.client.has_room:
            self.missed = True  # nothing is queued for a client that does not read
        elif not self.missed:
            self.event({"event": event, "process": job.describe()})

    def _catch_up(self) -> None:
        if self.missed and self.client.has_room:
            self.missed = False
            self.event({"event": "missed"})


class SetLease(LifeRequest):
    def serve(self) -> None:
        lease = self.life.lease
        lease.set(
            take.seconds(self.fields, "lease", lease.lease),
            take.seconds(self.fields, "unattended", lease.unattended),
        )
        self.reply({})


class Shutdown(LifeRequest):
    grace = Field(take.seconds, GRACE)

    def serve(self) -> None:
        self.life.end(self.grace, lambda: self.reply({}))


OPERATIONS: dict[str, type[Request]] = {
    "hello": Hello,
    "ping": Ping,
    "info": Info,
    "events": Events,
    "lease": SetLease,
    "shutdown": Shutdown,
    "run": starts.Run,
    "start": starts.Start,
    "blob": starts.Blob,
    "drop_blob": starts.DropBlob,
    "list": jobs.ListJobs,
    "status": jobs.Status,
    "wait": jobs.Wait,
    "write": jobs.Write,
    "close_input": jobs.CloseInput,
    "tag": jobs.Tag,
    "claim": jobs.Claim,
    "resize": jobs.Resize,
    "signal": jobs.Signal,
    "kill": jobs.Kill,
    "forget": jobs.Forget,
    "readers": jobs.Readers,
    "read": jobs.Read,
    "follow": jobs.Follow,
    "sessions": sessions.ListSessions,
    "state": sessions.GetState,
    "definitions": sessions.GetDefinitions,
    "end_session": sessions.EndSession,
    "bridge": channels.OpenBridge,
    "modules": channels.Modules,
    "say": channels.Say,
    "askpass": channels.AnswerPrompts,
    "answer": channels.AnswerPrompt,
    **dict.fromkeys(("read_file", "read_lines", "file_status", "list_names", "search_files"), FileOperation),
    **dict.fromkeys(("write_file", "delete_file", "move_file", "change_files"), FileOperation),
}
