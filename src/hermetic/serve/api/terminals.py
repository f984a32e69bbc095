"""Terminals of persons: /terminals and /environments/ENV/terminals."""

import msgspec

from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.terminals import TooManyTerminals
from hermetic.serve.views import ProcessView

TERMINALS = "/environments/{environment}/terminals"
TERMINAL = TERMINALS + "/{process}"


class TerminalView(ProcessView, frozen=True, kw_only=True):
    """A terminal, and its environment."""

    environment: str


class TerminalList(msgspec.Struct, frozen=True, kw_only=True):
    """Running terminals."""

    terminals: tuple[TerminalView, ...]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A new terminal.

    Of one session there is one: a living one in the same directory is returned.
    """

    rows: int | None = None  # 8 to 80
    cols: int | None = None  # 20 to 240
    cwd: str | None = None
    session: str | None = None
    command: str | None = None  # instead of the user's shell
    restart: bool = False


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Command lines of what ran in a closed terminal."""

    ended: tuple[str, ...]


async def _list(call: Call) -> TerminalList:
    environments = call.console.environments
    everything, _ = await environments.everything()
    found = [
        TerminalView(
            environment=known.id, **msgspec.structs.asdict(environments.view_process(known, info))
        )
        for known, info in everything
        if info.personal and info.ending is None
    ]
    return TerminalList(terminals=tuple(found))


async def _start(call: Call) -> ProcessView:
    known = await call.console.environments.get(call.path("environment"))
    try:
        info = await call.console.terminals.start(
            known.id, **msgspec.structs.asdict(call.body(Wanted))
        )
    except TooManyTerminals as error:
        raise Refused(409, "too_many_terminals", str(error)) from None
    return call.console.environments.view_process(known, info)


async def _restart(call: Call) -> ProcessView:
    known = await call.console.environments.get(call.path("environment"))
    info = await call.console.terminals.restart(known.id, call.path("process"))
    return call.console.environments.view_process(known, info)


async def _end(call: Call) -> Ended:
    return Ended(
        ended=tuple(
            await call.console.terminals.end(call.path("environment"), call.path("process"))
        )
    )


ROUTES = (
    Resource("GET", "/terminals", "view", _list, "Running terminals of persons.", TerminalList),
    Resource("POST", TERMINALS, "drive", _start, "Starts a terminal.", ProcessView, body=Wanted),
    Resource(
        "POST",
        TERMINAL + "/restart",
        "drive",
        _restart,
        "Closes a terminal and starts it anew.",
        ProcessView,
    ),
    Resource("DELETE", TERMINAL, "drive", _end, "Closes a terminal with all its processes.", Ended),
)
