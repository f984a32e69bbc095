"""Stops agents and releases them: /stop and /release."""

import msgspec

from hermetic.fleet.stopping import Stopped, release, stop
from hermetic.registry.holds import Mode
from hermetic.serve.routes import Call, Resource


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What to stop."""

    environment: str | None = None  # None: every one, also those that are opened later
    mode: Mode = "freeze"


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """What to release."""

    environment: str | None = None  # None: every one


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each environment."""

    environments: tuple[Stopped, ...]


async def _stop(call: Call) -> Outcome:
    wanted, environments = call.body(Stop), call.console.environments
    by = f"{call.grant.name} at the console"
    done = await stop(environments.records, await _ids(call, wanted.environment), wanted.mode, by)
    environments.refresh()
    return Outcome(environments=tuple(done))


async def _release(call: Call) -> Outcome:
    environments = call.console.environments
    done = await release(environments.records, await _ids(call, call.body(Release).environment))
    environments.refresh()
    return Outcome(environments=tuple(done))


async def _ids(call: Call, environment: str | None) -> list[str] | None:
    return None if environment is None else [(await call.console.environments.get(environment)).id]


ROUTES = (
    Resource(
        "POST",
        "/stop",
        "drive",
        _stop,
        "Stops what agents run, and holds their calls.",
        Outcome,
        body=Stop,
    ),
    Resource("POST", "/release", "drive", _release, "Lets agents go on.", Outcome, body=Release),
)
