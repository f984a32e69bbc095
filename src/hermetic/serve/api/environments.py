"""Environments: /environments and what can be done with one as a whole."""

import asyncio

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.process import PERSON
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.views import EnvironmentDetail, EnvironmentView, ProcessView, shown_options

LONGEST_COMMAND = 128_000  # characters
ENVIRONMENT = "/environments/{environment}"


class EnvironmentList(msgspec.Struct, frozen=True, kw_only=True):
    """Every environment of this user."""

    environments: tuple[EnvironmentView, ...]
    held: bool = False  # new calls of every agent wait, also in environments to come


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What was ended."""

    ended: str


class NewCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to start, in the directory and with the variables of a session."""

    command: str
    cwd: str | None = None
    timeout: float | None = None  # seconds; then its tree is ended
    session: str = ""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The process that was started."""

    process: ProcessView


async def _list(call: Call) -> EnvironmentList:
    environments = call.console.environments
    views = tuple(await environments.views())
    return EnvironmentList(environments=views, held=environments.are_all_held)


async def _show(call: Call) -> EnvironmentDetail:
    environments = call.console.environments
    known = await environments.get(call.path("environment"))
    fields, info = await asyncio.gather(environments.describe(known), environments.info(known))
    return EnvironmentDetail(**fields, info=info, options=shown_options(known.record.options))


async def _end(call: Call) -> Ended:
    known = await call.console.environments.get(call.path("environment"))
    name = known.record.task or known.id
    try:
        await known.attached().close(remove=True)
    except EnvironmentUnavailable as error:
        advice = f"Run: hermetic rm {known.id}"
        raise Refused(503, "unreachable", f"It could not be ended: {error}", advice) from None
    return Ended(ended=name)


async def _run(call: Call) -> Started:
    wanted = call.body(NewCommand)
    if not wanted.command.strip() or len(wanted.command) > LONGEST_COMMAND:
        raise Refused(400, "invalid", f"A command has 1 to {LONGEST_COMMAND} characters.")
    if wanted.timeout is not None and wanted.timeout <= 0:
        raise Refused(400, "invalid", "timeout is in seconds, more than 0.")
    known = await call.console.environments.get(call.path("environment"))
    environment = known.attached()
    session = environment.session(wanted.session) if wanted.session else environment
    process = await session.start(
        wanted.command, cwd=wanted.cwd, stdin="null", tag=f"{PERSON}{call.grant.name}"
    )
    if wanted.timeout is not None:
        call.console.environments.end_after(process, wanted.timeout)
    return Started(process=call.console.environments.view_process(known, process.info))


ROUTES = (
    Resource(
        "GET", "/environments", "view", _list, "Every environment of this user.", EnvironmentList
    ),
    Resource("GET", ENVIRONMENT, "view", _show, "One environment in detail.", EnvironmentDetail),
    Resource(
        "DELETE", ENVIRONMENT, "admin", _end, "Ends an environment and all that runs in it.", Ended
    ),
    Resource(
        "POST", ENVIRONMENT + "/run", "drive", _run, "Starts a command.", Started, body=NewCommand
    ),
)
