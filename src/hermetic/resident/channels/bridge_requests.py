"""Requests of a client that serves programs here."""

from __future__ import annotations

from ..processes.stdin_writer import InputClosed
from ..wire import fields as take
from .bridge import TOKEN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..life.server import Request


class BridgeRequests:
    resident: Resident

    def do_bridge(self, request: Request) -> None:
        """Stays open; the first event says where programs connect, the others what they say."""
        token = take.text(request.fields, "token").encode()
        if len(token) != TOKEN_BYTES:
            raise take.invalid("token", "a token has %d characters" % TOKEN_BYTES)
        self.resident.bridge.open(token, request)

    def do_modules(self, request: Request) -> None:
        """Keep the body: modules for scripts, under a name."""
        self.resident.scripts.keep(take.job_id(request.fields, "name"), request.body)
        request.reply({})

    def do_say(self, request: Request) -> None:
        """Give the body to the program on a channel of this client's; `gone` when it no longer listens."""
        channel = self.resident.bridge.channels.get(take.number(request.fields, "channel"))
        if channel is None or channel.owner is None or channel.owner.request.client is not request.client:
            request.reply({"gone": True})
            return

        def taken(error: InputClosed | None) -> None:
            request.reply({"gone": error is not None})

        try:
            if request.body:
                channel.send(request.body, taken)
            else:
                request.reply({"gone": False})
        except InputClosed as error:
            taken(error)
        if take.flag(request.fields, "end"):
            channel.close()
