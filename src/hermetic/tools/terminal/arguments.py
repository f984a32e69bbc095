"""What a model may ask of the terminal tool, and what it is told about it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

DESCRIPTION = """\
Runs a command in the task's shell and returns its output and exit code. The shell keeps its state between calls: \
directory, variables, functions, background jobs; files persist too.

A command that outlives its timeout is not lost: it goes on as a process, and the result has its session_id for the \
process tool. Start servers, watchers and other long work with background=true, then use the process tool (poll, log, \
wait, write, kill …). Programs that need a terminal (editors, pagers, REPLs, prompts) need pty=true; look at them with \
the process tool's screen and type with keys. Use workdir for a directory that holds for this command alone."""


class TerminalArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `terminal`."""

    command: Annotated[str, Meta(description="The command, as text for bash.")]
    background: Annotated[bool, Meta(description="Start it as a process and return at once with its session_id.")] = (
        False
    )
    timeout: Annotated[
        float | None, Meta(description="Seconds to wait for a foreground command; default 180, at most 600.")
    ] = None
    on_timeout: Annotated[
        Literal["yield", "kill"],
        Meta(description="What becomes of a command that outlives its timeout: it goes on as a process, or is ended."),
    ] = "yield"
    workdir: Annotated[str | None, Meta(description="Directory for this command alone.")] = None
    stdin: Annotated[str | None, Meta(description="Text the command reads as its standard input.")] = None
    environment: Annotated[
        dict[str, str] | None, Meta(description="Variables for this command alone, besides the shell's own.")
    ] = None
    outside: Annotated[
        bool, Meta(description="Only where commands run in a sandbox: ask the user to let this one run outside of it.")
    ] = False
    pty: Annotated[bool, Meta(description="Give it a terminal of 30 rows and 120 columns.")] = False
    notify_on_complete: Annotated[
        bool, Meta(description="Background only: you are told once when it ends, with the end of its output.")
    ] = False
    watch_patterns: Annotated[
        list[str] | None,
        Meta(description="Background only: you are told of lines that contain one of these texts, now and then."),
    ] = None
    check_interval: Annotated[
        float | None, Meta(description="Background only: seconds between two reports while it runs; at least 30.")
    ] = None


ANSWERS = (
    "{output: str, exit_code: int | None, error: str | None, ending: str, duration: float, log: str, "
    "total_bytes?: int, notes?: list[str]}"
)
