"""The WebSocket of a browser tab: /tab."""

from collections.abc import Callable

from starlette.websockets import WebSocket

from hermetic.serve.console import Console
from hermetic.serve.control import Person
from hermetic.serve.direct import DirectSocket
from hermetic.serve.outgoing import Publish
from hermetic.serve.tab import SUBPROTOCOL, Tab
from hermetic.serve.tokens import Token

Redeem = Callable[[str], Token | None]  # the token of a ticket


async def serve_tab(console: Console, websocket: WebSocket, redeem: Redeem) -> None:
    """Serves one tab. Host and Origin were checked; its first frame has to hold a ticket."""
    if SUBPROTOCOL not in websocket.scope.get("subprotocols", ()):
        await websocket.close()  # before it is accepted: the client gets 403
        return
    await websocket.accept(SUBPROTOCOL)

    def admit(ticket: str) -> Person | None:
        token = redeem(ticket)
        return None if token is None else Person(token.grant.name, frozenset(token.grant.scopes))

    def subscribe(publish: Publish, answers: bool) -> Callable[[], None]:
        return console.hub.subscribe(publish, answers=answers)

    await Tab(DirectSocket(websocket), admit, console.terminals, subscribe).run()
