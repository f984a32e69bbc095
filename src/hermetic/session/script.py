"""Running a Python script as a process that has few of the session's variables and takes all it
started with it.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from hermetic.contract.command import Result
from hermetic.link import answers
from hermetic.link.calls import Call, Interruption
from hermetic.session.arguments import check_env, encode_path
from hermetic.session.output import Takers
from hermetic.session.session import Fields, Session


class ScriptStart(msgspec.Struct, frozen=True, kw_only=True):
    """How a script is started."""

    boot: str  # Python text that reads the script from standard input
    modules: str  # the name of what was sent before
    input: bytes
    title: str  # what lists of processes show
    keep: Sequence[str]  # names of the session's variables that it gets
    env: Mapping[str, str]  # variables besides
    cwd: str | None = None  # None: the session's
    is_warm: bool = True  # by an interpreter that is started ahead; another is for the next
    timeout: float | None = None
    on_timeout: Literal["kill", "yield"] = "kill"
    tag: str = ""


async def send_modules(session: Session, name: str, data: bytes) -> None:
    """Has the environment keep modules for scripts, the last four sets of them.

    Raises EnvironmentUnavailable.
    """
    await session._link.ask("modules", answers.done, data, name=name)


async def run_script(
    session: Session,
    script: ScriptStart,
    *,
    limit: int,
    cancel: Interruption,
    takers: Takers | None = None,
) -> Result:
    """What came of the script, its streams apart; cancelling ends its whole tree first, and so does
    setting `cancel`.

    `limit` is the most bytes of each stream. The takers get stdout and stderr as they come.
    """
    argv = b"\0".join(word.encode() for word in ("python3", "-c", script.boot))
    fields: Fields = {
        "op": "run",
        "session": session.name,
        "id": next(session._ids),
        "text": len(argv),
        "argv": True,
        "separate": True,
        "env": check_env(script.env),
        "tag": script.tag,
        "on_timeout": script.on_timeout,
        "script": {
            "keep": list(script.keep),
            "warm": script.is_warm,
            "title": script.title,
            "modules": script.modules,
        },
    }
    if script.timeout is not None:
        fields["timeout"] = script.timeout
    if script.cwd is not None:
        fields["cwd"] = encode_path(script.cwd, "cwd")

    async def run(fields: Fields, body: bytes) -> Result:
        return (await session._run(Call(fields, answers.ran, body), limit, cancel, takers))[0]

    if session._before is not None:
        await session._before()
    return await session._with_command(fields, argv, script.input, run)
