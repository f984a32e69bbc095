"""What the policy says about a command: labels, parts, effects, and what it takes into account."""

from __future__ import annotations

from typing import Literal

import msgspec

Label = Literal["safe", "caution", "dangerous"]
Effect = Literal[
    "deletes",
    "writes",
    "reads secrets",
    "network",
    "executes unseen code",
    "changes shared state",
]

Source = Literal["program", "redirect", "text"]

LABELS: tuple[Label, ...] = ("safe", "caution", "dangerous")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One effect of a command, and why it matters."""

    label: Label
    category: str
    rule: str
    severity: int  # 0 harmless … 10 unrecoverable
    reason: str
    start: int  # span of the command in the given text, in characters
    end: int
    decoded: str  # the command after quotes, variables and decoders are resolved
    effects: tuple[Effect, ...] = ()
    hardline: bool = False  # never to be run, whatever the mode
    argv: tuple[str, ...] = ()  # the program that does it, with its words
    path: str = ""  # the file or directory it concerns, whole
    source: Source = "text"  # the program, a redirection beside it, or the text as a whole
    # equal only for the same words, input, directory and variables; empty when those are not known
    exact: str = ""
    around: str = ""  # equal only for the same directory and variables


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The worst of a command's parts, with every part that is not plainly safe."""

    label: Label
    category: str
    severity: int
    reason: str
    start: int
    end: int
    decoded: str
    effects: tuple[Effect, ...] = ()
    hardline: bool = False
    parts: tuple[Part, ...] = ()


class ShellState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a session's shell after its earlier commands."""

    cwd: str | None = None
    home: str | None = None
    user: str | None = None
    # a text, a list, or an associative or sparse array by its keys
    variables: dict[str, str | list[str] | dict[str, str]] = {}
    # name → body, as `declare -f` prints it, with or without the `name ()` line
    functions: dict[str, str] = {}
    aliases: dict[str, str] = {}
    traps: dict[str, str] = {}  # signal → code
    references: dict[str, str] = {}  # nameref → the variable it stands for
    lastpipe: bool = False  # the last command of a pipeline may run in the shell itself
    secrets: str = ""  # a digest of variables whose values are kept out of here
    # names of the variables that programs get; None: any may be
    exported: tuple[str, ...] | None = None
    complete: bool = False  # True: a variable that is not listed is certainly unset
