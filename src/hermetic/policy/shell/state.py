"""What a shell knows while a text is evaluated: variables, functions, directories, files written so
far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from hermetic.contract.verdict import ShellState
from hermetic.policy.marks import NUMBER, PIDS, TOKEN, UNSET, is_plain, unknown_like
from hermetic.policy.programs.table import TABLE
from hermetic.policy.tables import names

from .syntax import Node

Value = str | list[str] | dict[str, str]

MAX_REFERENCES = 8  # that lead to each other
DEFAULT_HOME = "/home/dev"
DEFAULT_WORKSPACE = "/home/dev/project"
SECRET_NAME = re.compile(
    r"(?i)(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|APIKEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?|PAT)(_|$)"
    r"|_KEY$"
)
# Variables that name a tool by convention: unset, they stand for that tool.
_TOOL_NAMES = dict(pair.split("=") for pair in TABLE.words("tools-by-variable"))
_FILES = dict(pair.split("=") for pair in TABLE.words("files-by-variable"))
# Variables whose value only the shell knows: a number, or any text.
_NUMBERS = names("UID EUID RANDOM SECONDS LINENO BASHPID EPOCHSECONDS COLUMNS SRANDOM")
_TEXTS = names("LANG TERM BASH_VERSION MACHTYPE HOSTTYPE")


def texts_of(value: Value) -> list[str]:
    """The elements of an array, or a text as the only one."""
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, list) else list(value.values())


class Hidden(NamedTuple):
    """What a local variable hides: the values that the outer one may have, and where it leads as a
    nameref.
    """

    values: tuple[Value | None, ...]
    reference: str | None
    certain: bool = True  # False: only some ways through the function make it local


class Shell:
    """One shell's state; `fork` gives a subshell's."""

    def __init__(self, state: ShellState | None, cwd: str | None, workspace: str | None) -> None:
        state = state or ShellState()
        self.home = state.home or DEFAULT_HOME
        self.user = state.user or self.home.rsplit("/", 1)[-1] or "root"
        self.workspace = (
            workspace
            or cwd
            or state.cwd
            or (DEFAULT_WORKSPACE if state.home is None else self.home + "/project")
        )
        self.cwd = cwd or state.cwd or self.workspace
        self.complete = state.complete
        self.secrets = state.secrets
        self.variables: dict[str, Value] = {
            "HOME": self.home,
            "USER": self.user,
            "LOGNAME": self.user,
            "IFS": " \t\n",
            "TMPDIR": "/tmp",
        }
        for name, value in state.variables.items():
            self.variables[name] = value if isinstance(value, str | dict) else list(value)
        # None: unknown which
        self.exported = None if state.exported is None else frozenset(state.exported)
        self.began: dict[str, Value] = dict(self.variables)  # when the text begins
        # what its session was given, as far as that is part of its acts
        self.context: Mapping[str, str] | None = None
        # variables on whose value several ways disagree
        self.choices: dict[str, tuple[Value, ...]] = {}
        self.seen: set[str] = set()  # variables that were read
        self.functions: dict[str, Node] = {}
        self.unsure: frozenset[str] = frozenset()  # functions that only some ways define
        self.aliases: dict[str, str] = {}
        # name → the variable it stands for; only ever replaced as a whole
        self.references = dict(state.references)
        # by variables of the function that runs; replaced as a whole
        self.hidden: dict[str, Hidden] | None = None
        self.lastpipe = state.lastpipe  # the last command of a pipeline may run in this shell
        # signal and code; only ever replaced as a whole
        self.traps: tuple[tuple[str, str], ...] = ()
        self.positional: list[str] | None = None
        self.name0 = "bash"
        # the files that are being run, each started by the one before
        self.scripts: tuple[str, ...] = ()
        self.stack: list[str] = []
        self.previous = UNSET
        self.files: dict[str, str] = {}
        # files with their content that were judged as code
        self.judged: set[tuple[str, str]] = set()
        self.fetched: set[str] = set()  # directories that came from another machine
        self.foreign: set[str] = set()  # directories with code that nobody has vouched for
        self.descriptors: dict[str, str] = {}  # number → the path or address it is open on
        self.remote = False  # runs on another machine, where nothing is a workspace
        self.host = True
        self.git_aliases: dict[str, str] = {}
        self.links: dict[str, str] = {}  # symbolic link → where it leads
        self.moved: dict[str, str] = {}  # path → where it was before this text moved it
        self.copies: dict[str, str] = {}  # path → the program it is a copy of or a link to

    def is_fetched(self, full: str) -> bool:
        """True for a path that came from another machine, or lies in a directory that did."""
        return any(full == base or full.startswith(base.rstrip("/") + "/") for base in self.fetched)

    def fork(self) -> Shell:
        """A subshell: sees the same files, keeps its own variables, functions and directory."""
        twin = object.__new__(Shell)
        twin.__dict__.update(self.__dict__)
        twin.variables = dict(self.variables)
        twin.choices = dict(self.choices)
        twin.functions = dict(self.functions)
        twin.aliases = dict(self.aliases)
        twin.descriptors = dict(self.descriptors)
        twin.stack = list(self.stack)
        return twin

    def adopt(self, twin: Shell, choices: dict[str, tuple[Value, ...]]) -> None:
        """Become what the twin is; choices that it left alone stay open."""
        seen = self.seen
        self.__dict__.update(twin.__dict__)
        self.choices = {**choices, **twin.choices}
        self.seen = seen

    def elsewhere(self) -> Shell:
        """A login shell on another machine or in another container: nothing there is our workspace."""
        twin = self.fork()
        twin.variables = {"HOME": self.home, "IFS": " \t\n", "TMPDIR": "/tmp"}
        twin.began = dict(twin.variables)
        twin.choices = {}
        twin.functions, twin.aliases, twin.files, twin.fetched = {}, {}, {}, set()
        twin.traps, twin.references, twin.hidden, twin.lastpipe = (), {}, None, False
        twin.cwd = self.home
        twin.workspace = "\x00nowhere"
        twin.remote = True
        twin.positional = []
        return twin

    def reference(self, name: str) -> str:
        """What a name stands for: itself, or the variable or element that a nameref leads to."""
        for _ in range(MAX_REFERENCES):
            if not self.references.get(name):
                break
            name = self.references[name]
        return name

    def resolve(self, name: str) -> str:
        """The variable that a name stands for, or is an element of."""
        return self.reference(name).partition("[")[0]

    def set(self, name: str, value: Value) -> None:
        """Assign to a variable, or to the one that a nameref leads to."""
        # its first value is where it leads
        if self.references.get(name) == "" and isinstance(value, str):
            self.refer(name, value)
        else:
            self.variables[self.resolve(name)] = value

    def refer(self, name: str, target: str) -> None:
        """Make a name stand for another variable; for none that is known where the text is not a
        name.
        """
        others = {one: to for one, to in self.references.items() if one != name}
        if re.fullmatch(r"([A-Za-z_]\w*(\[.*\])?)?", target, re.DOTALL):
            self.references = {**others, name: target}
        else:
            self.references = others
            self.variables[name] = UNSET

    @contextmanager
    def temporarily(self, env: Mapping[str, str]) -> Iterator[None]:
        """With the variables that stand in front of a command, until it ends."""
        before = {name: self.variables.get(name) for name in env}
        self.variables.update(env)
        yield
        for name, value in before.items():
            if value is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = value

    def hide(self, name: str) -> bool:
        """Make a variable local to the function that runs; False where it is already, or no
        function runs.
        """
        if self.hidden is None or name in self.hidden:
            return False
        value, choices = self.variables.get(name), self.choices.get(name, ())
        open_values = choices if choices and choices[0] is value else (value,)
        self.hidden = {**self.hidden, name: Hidden(open_values, self.references.get(name))}
        self.references = {one: to for one, to in self.references.items() if one != name}
        return True

    def reveal(self, outer: dict[str, Hidden] | None) -> None:
        """Undo the local variables of a function that returns; `outer` are those of its caller."""
        for name, hidden in (self.hidden or {}).items():
            values = hidden.values if hidden.certain else (*hidden.values, self.variables.get(name))
            self.choices.pop(name, None)
            if values[0] is None and len(values) == 1:
                self.variables.pop(name, None)
            else:
                known = tuple("" if value is None else value for value in values)
                self.variables[name] = known[0]
                if len(known) > 1:
                    self.choices[name] = known
            self.references = {one: to for one, to in self.references.items() if one != name}
            if hidden.reference is not None:
                self.references = {**self.references, name: hidden.reference}
        self.hidden = outer

    def get(self, name: str) -> Value | None:
        """A variable's value; None when it is certainly unset; a mark when it is unknown."""
        name = self.resolve(name)
        self.seen.add(name)
        value = self.variables.get(name)
        if value is not None:
            return value
        return self._special(name)

    def _special(self, name: str) -> str | None:
        known = {"PWD": self.cwd, "OLDPWD": self.previous, "PPID": PIDS}
        if name == "BASH_SOURCE" and self.scripts:
            return self.scripts[-1]
        if name in known or name in _NUMBERS:
            return known.get(name, NUMBER)
        if name in _TOOL_NAMES or name in _TEXTS:
            return _TOOL_NAMES.get(name, UNSET)
        if self.complete:
            return None
        if name in _FILES:
            return f"{self.home}/{_FILES[name]}"
        return TOKEN if SECRET_NAME.search(name) else None

    def is_set(self, name: str) -> bool:
        """True when the variable has a known or conventional value."""
        return self.get(name) is not None

    def scalar(self, name: str) -> str:
        """The value `$name` expands to; a mark for an unknown variable."""
        value = self.get(name)
        if value is None:
            return "" if self.complete else UNSET
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return value[0] if value else ""
        return value.get("0", "") if all(map(is_plain, value)) else unknown_like(*value.values())

    def items(self, name: str) -> list[str]:
        """All elements of an array, or the scalar as the only one."""
        value = self.get(name)
        if value is None:
            return [] if self.complete else [UNSET]
        return texts_of(value)
