"""Requests of a client that judges what may run: what a shell's words mean, and who reads what is typed."""

from __future__ import annotations

import os

from ..wire import fields as take
from ..wire import frames
from .process import Process
from .readers import programs_of, readers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..life.server import Request
    from .job import Job


class LookingRequests:
    resident: Resident

    def do_definitions(self, request: Request) -> None:
        """What a session's shell has defined; nothing but a number where that is known, and no shell is started."""
        session = self.resident.sessions.get(take.text(request.fields, "session"))
        if session is None:
            request.reply({"cwd": self.resident.cwd, "changes": 0, "is_there": False})
            return
        known, changes = request.fields.get("known"), session.exports.changes

        def answer(data: bytes) -> None:
            fits = len(data) <= frames.FRAME_BODY
            request.reply(  # what is told may be newer than that number, never older
                {"cwd": session.cwd, "changes": changes, "is_there": True, "fits": fits},
                data if fits else b"",
            )

        if known == session.exports.changes and not session.is_starting:
            request.reply({"cwd": session.cwd, "changes": known, "is_there": True, "is_same": True})
        else:
            session.definitions.ask(answer)

    def do_readers(self, request: Request) -> None:
        """The programs that read what is typed into a process now."""
        job: Job = self.resident.job(take.text(request.fields, "process"))
        if job.has_ended or not isinstance(job, Process) or not job.input_open or job.input_identity is None:
            request.reply({"readers": [], "programs": []})
            return
        terminal = job.writer.fd if job.pty and job.writer is not None else None
        members = job.members()
        request.reply(
            {
                "programs": programs_of(members),
                "readers": [
                    {"pid": pid, "program": program, "argv": [os.fsdecode(word) for word in argv]}
                    for pid, program, argv in readers_of(members, job.input_identity, terminal)
                ],
            }
        )
