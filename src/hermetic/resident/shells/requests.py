"""Requests about sessions: list, state, definitions, end."""

from __future__ import annotations

from ..limits import GRACE
from ..wire import frames
from .command import Command
from .exports import request_definitions
from .state import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..life.server import Request


def list_sessions(resident: Resident, request: Request) -> None:
    sessions = [
        {"name": one.name, "cwd": one.cwd, "busy": not one.is_idle, "shells": len(one.pool.shells)}
        for one in resident.sessions.values()
    ]
    request.reply({"sessions": sessions})


def state(resident: Resident, request: Request, session: str = "") -> None:
    """Replies with a session's cwd and exported variables."""
    found = resident.session(session)
    found.exports.request(lambda exports: request.reply({"cwd": found.cwd}, frames.pack(exports)))


def definitions(
    resident: Resident, request: Request, session: str = "", known: object = None
) -> None:
    """Replies with what a session's shell has defined; only the version if the client knows it.

    Starts no shell.
    """
    found = resident.sessions.get(session)
    if found is None:
        request.reply({"cwd": resident.cwd, "changes": 0, "is_there": False})
        return
    cwd, changes = found.cwd, found.exports.changes
    if known == changes and not found.is_starting:
        request.reply({"cwd": cwd, "changes": known, "is_there": True, "is_same": True})
        return

    def answer(data: bytes) -> None:
        data = shortened(data, frames.FRAME_BODY)
        fits = len(data) <= frames.FRAME_BODY
        fields = {"cwd": found.cwd, "changes": changes, "is_there": True, "fits": fits}
        # the data may be newer than that version, never older
        request.reply(fields, data if fits else b"")

    request_definitions(found, answer)


def end_session(resident: Resident, request: Request, session: str = "") -> None:
    """Ends a session: first its commands with their trees, then its shells."""
    found = resident.sessions.get(session)
    if found is None:
        request.reply({"ended": False})
        return

    def look() -> None:
        running = [
            job for job in resident.running() if isinstance(job, Command) and job.home is found
        ]
        for job in running:
            job.end(GRACE, ["cancelled"])
        if running:
            running[0].when_ended(look)
        else:
            resident.forget_session(found)
            request.reply({"ended": True})

    look()
