"""Arguments, options, limits and description of code mode."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from hermetic.contract import limits
from hermetic.contract.tool import about
from hermetic.tools.code.stubs import Stub


class CodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one script."""

    time: float = limits.CODE_TIME  # seconds
    calls: int = limits.CODE_CALLS  # of tools
    refused: int = limits.CODE_REFUSED  # calls that were refused; one more ends the script
    stdout: int = limits.CODE_STDOUT  # bytes in the answer
    stderr: int = limits.CODE_STDERR  # bytes in the answer
    gathered: int = limits.CODE_GATHERED  # bytes of arguments of concurrent calls
    files: int = limits.CODE_FILES  # bytes of attached files
    logged: int = limits.CODE_LOGGED  # calls in the answer's log


class CodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How scripts run."""

    limits: CodeLimits = CodeLimits()
    tools: tuple[str, ...] | None = None  # those that scripts may call; None: all but code mode
    passthrough: tuple[str, ...] = ()  # further variables of the session that scripts get
    timezone: str | None = None  # TZ of scripts
    warm: bool = True  # an interpreter waits for the next script
    isolated: bool = False  # scripts run in a sandbox; their tools act in the task's environment


class CodeArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `execute_code`."""

    code: Annotated[str, about("The Python script. What it prints is the answer.")]
    timeout: Annotated[
        float | None, about("Seconds the script may take; the default is also the most.")
    ] = None
    on_timeout: Annotated[
        Literal["kill", "yield"],
        about(
            "What becomes of a script that outlives its time: it is ended, or goes on as a process."
        ),
    ] = "kill"


_ABOUT = """\
Runs a Python script that calls tools as functions. Only what the script prints comes back; what \
tools answer stays in the script. Use it for three or more calls with logic between them: loops, \
filters, many files, results that are large and of which little is needed. For one call, or \
where you must look at an answer before the next step, call the tool itself.

Import what you need: `{example}`. The same functions can be awaited: `await aio.NAME(…)`. \
Threads call in parallel.

{tools}

Each answers a dict; keys with a question mark only where they apply. What went wrong is in its \
`error`. {terminal}Limits: {time:g} s, {calls} calls, {stdout:,} bytes of output (beyond that \
its start and end). The standard library is there. Also in the module: json_parse(text), \
shell_quote(text), retry(fn, max_attempts=3, delay=2), progress(text), attach(path), keep(name, \
value) and recall(name) for later scripts, search_tools(words), describe_tool(name)."""


def description(stubs: Sequence[Stub], limits: CodeLimits) -> str:
    """The description for a model, with the tools that it has."""
    listed = "\n".join(map(_listed, stubs))
    names = [stub.name for stub in stubs]
    preferred = [name for name in ("web_search", "terminal") if name in names]
    shown = (preferred + [name for name in names if name not in preferred])[:2]
    return _ABOUT.format(
        example=f"from hermetic_tools import {', '.join(shown)}"
        if shown
        else "import hermetic_tools",
        tools=listed or "  (no tools can be called)",
        terminal="terminal is foreground only. " if "terminal" in names else "",
        time=limits.time,
        calls=limits.calls,
        stdout=limits.stdout,
    )


def _listed(stub: Stub) -> str:
    answers = f"\n    answers {stub.answers}" if stub.answers else ""
    first_line = stub.description.partition("\n")[0]
    return f"  {stub.signature}\n    {first_line}{answers}"
