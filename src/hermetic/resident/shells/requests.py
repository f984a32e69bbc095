"""Requests about sessions: list, state, definitions, end."""

from __future__ import annotations

from ..life.server import Request
from ..limits import GRACE
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Field
from .command import Command


class SessionRequest(Request):
    session = Field(take.text)


class ListSessions(Request):
    def serve(self) -> None:
        sessions = [
            {
                "name": session.name,
                "cwd": session.cwd,
                "busy": not session.is_idle,
                "shells": len(session.pool.shells),
            }
            for session in self.resident.sessions.values()
        ]
        self.reply({"sessions": sessions})


class GetState(SessionRequest):
    """A session's cwd and exported variables."""

    def serve(self) -> None:
        session = self.resident.session(self.session)
        session.exports.request(lambda exports: self.reply({"cwd": session.cwd}, frames.pack(exports)))


class GetDefinitions(SessionRequest):
    """What a session's shell has defined; only the version if the client knows it. Starts no shell."""

    def serve(self) -> None:
        session = self.resident.sessions.get(self.session)
        if session is None:
            self.reply({"cwd": self.resident.cwd, "changes": 0, "is_there": False})
            return
        known, changes = self.fields.get("known"), session.exports.changes
        if known == changes and not session.is_starting:
            self.reply({"cwd": session.cwd, "changes": known, "is_there": True, "is_same": True})
            return

        def answer(data: bytes) -> None:
            fits = len(data) <= frames.FRAME_BODY
            fields = {"cwd": session.cwd, "changes": changes, "is_there": True, "fits": fits}
            self.reply(fields, data if fits else b"")  # the data may be newer than that version, never older

        session.definitions.request(answer)


class EndSession(SessionRequest):
    """Ends a session: first its commands with their trees, then its shells."""

    def serve(self) -> None:
        session = self.resident.sessions.get(self.session)
        if session is None:
            self.reply({"ended": False})
            return

        def look() -> None:
            running = [job for job in self.resident.running() if isinstance(job, Command) and job.home is session]
            for job in running:
                job.end(GRACE, ["cancelled"])
            if running:
                running[0].when_ended(look)
            else:
                self.resident.forget_session(session)
                self.reply({"ended": True})

        look()
