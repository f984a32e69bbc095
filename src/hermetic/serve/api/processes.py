"""Processes of an environment: /environments/ENV/processes, their output, their screen, their end."""

import msgspec
from starlette.responses import Response

from hermetic.contract.limits import KILL_GRACE
from hermetic.contract.process import Shown
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.views import ProcessView
from hermetic.session.usage import tree_of

PROCESSES = "/environments/{environment}/processes"
PROCESS = PROCESSES + "/{process}"
LAST_OFFSET = (1 << 62) - 1
MOST_OUTPUT = 4 << 20  # bytes of one answer
LONGEST_GRACE = 60.0  # seconds
LONGEST_WAIT = 30.0  # seconds

# Bytes of a program: never interpreted by a browser, whatever they look like.
BYTES_HEADERS = {
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}


class ProcessList(msgspec.Struct, frozen=True, kw_only=True):
    """Processes, newest first."""

    processes: tuple[ProcessView, ...]


class WhichProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """Which processes are listed."""

    all: int = 0  # 1: also those that have ended


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of an output."""

    offset: int = 0
    limit: int = 1 << 20
    wait: float = 0.0  # seconds to wait for the first byte
    stderr: int = 0  # 1: the separate stderr


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """How a tree is ended: TERM, then KILL after the grace."""

    grace: float = KILL_GRACE  # seconds


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for a tree, by number or name."""

    signal: int | str


async def _list(call: Call) -> ProcessList:
    environments = call.console.environments
    known = await environments.get(call.path("environment"))
    infos = await environments.processes(known)
    chosen = [info for info in infos if call.query(WhichProcesses).all or info.is_running]
    return ProcessList(
        processes=tuple(environments.view_process(known, info) for info in reversed(chosen))
    )


async def _show(call: Call) -> ProcessView:
    environments = call.console.environments
    known = await environments.get(call.path("environment"))
    process = await known.attached().process(call.path("process"))
    tree = await tree_of(known.attached(), process.id)
    return environments.view_process(known, process.info, tree=tree.members, ports=tree.ports)


async def _output(call: Call) -> Response:
    wanted = call.query(Range)
    if not 0 <= wanted.offset <= LAST_OFFSET:
        raise Refused(400, "invalid", f"offset is a number of bytes, 0 to {LAST_OFFSET}.")
    if not 1 <= wanted.limit <= MOST_OUTPUT or not 0 <= wanted.wait <= LONGEST_WAIT:
        raise Refused(
            400,
            "invalid",
            f"limit is 1 to {MOST_OUTPUT} bytes, wait 0 to {LONGEST_WAIT:g} seconds.",
        )
    environment = await call.console.environments.attached(call.path("environment"))
    log = f"{call.path('process')}/err" if wanted.stderr else call.path("process")
    chunk = await environment.read_log(
        log, wanted.offset, limit=wanted.limit, wait=wanted.wait or None
    )
    headers = {
        **BYTES_HEADERS,
        "Hermetic-Start": str(chunk.start),
        "Hermetic-End": str(chunk.end),
        "Hermetic-Ended": str(int(chunk.ended)),
    }
    return Response(chunk.data, media_type="application/octet-stream", headers=headers)


async def _screen(call: Call) -> Shown:
    environment = await call.console.environments.attached(call.path("environment"))
    return await (await environment.process(call.path("process"))).shown()


async def _kill(call: Call) -> ProcessView:
    grace = call.body(Kill).grace
    if not 0 <= grace <= LONGEST_GRACE:
        raise Refused(400, "invalid", f"grace is 0 to {LONGEST_GRACE:g} seconds.")
    known = await call.console.environments.get(call.path("environment"))
    process = await known.attached().process(call.path("process"))
    await process.kill(grace)
    return call.console.environments.view_process(known, process.info)


async def _signal(call: Call) -> None:
    environment = await call.console.environments.attached(call.path("environment"))
    await (await environment.process(call.path("process"))).signal(call.body(Signal).signal)


ROUTES = (
    Resource(
        "GET",
        PROCESSES,
        "view",
        _list,
        "Processes of an environment.",
        ProcessList,
        query=WhichProcesses,
    ),
    Resource("GET", PROCESS, "view", _show, "One process in detail.", ProcessView),
    Resource(
        "GET", PROCESS + "/output", "view", _output, "Bytes of its output by offset.", query=Range
    ),
    Resource("GET", PROCESS + "/screen", "view", _screen, "Its terminal as text.", Shown),
    Resource("POST", PROCESS + "/kill", "drive", _kill, "Ends its tree.", ProcessView, body=Kill),
    Resource(
        "POST", PROCESS + "/signal", "drive", _signal, "Sends a signal to its tree.", body=Signal
    ),
)
