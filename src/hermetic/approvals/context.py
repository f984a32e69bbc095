"""An environment as decisions see it: what it shares, where the agent works, what its shells have
defined.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from typing import Any

import msgspec

from hermetic.approvals.definitions import read_definitions
from hermetic.approvals.readers import ProcessInput
from hermetic.contract.approval import Judged
from hermetic.contract.environment import Isolation
from hermetic.contract.errors import NotPermitted, Unsupported
from hermetic.contract.files import Bounds
from hermetic.contract.verdict import ShellState
from hermetic.environments.child_environment import child_environment
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.policy.circumstances import always_counts, counts
from hermetic.policy.containment import is_apart, shows_host
from hermetic.policy.marks import UNSET
from hermetic.policy.paths import classify
from hermetic.policy.shell import DEFAULT_HOME, SECRET_NAME, Shell
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of

NOWHERE = "\0nowhere"  # no directory is the agent's own
_OF_SOMEBODY = str.split("root home system disk device kernel log startup history unknown")
_HERE = ("local", "sandbox")  # kinds whose files are those of this machine, under the same names
# kinds that begin with variables of their own
_APART = ("docker", "podman", "apptainer", "sandbox")
# Where a name may come from elsewhere than the words: computed, or put together from pieces.
_RELEVANT = re.compile(
    r"`|\$\(|\$'|\$\{|\beval\b|\bsource\b|\btrap\b|<\(|[^\s;|&()<>]\$\w|\$\w+[^\w\s;|&()<>]"
)
_ORDINARY = re.compile(r"[\w.:@%+/-]+", re.ASCII)  # names that are found among the words of a text
_QUOTES = re.compile(r"\\\n|[\\'\"]")
_TELLING = ("user", "port", "config", "settings", "volumes", "host_cwd", "extra_args", "overlay")
_ALWAYS = ("command_not_found_handle",)
# for a session that defines more than can be sent: any command may do anything
UNSEEN = 'eval "$definitions_too_long_to_be_judged"'


class PolicyContext:
    """One environment, open or not.

    What was seen of its sessions and of input for its processes is remembered.
    """

    def __init__(
        self, kind: str, isolation: Isolation, options: Mapping[str, Any], id: str = ""
    ) -> None:
        """`id`: of an open environment."""
        self.kind = kind
        self.id = id
        self.isolation = isolation
        self.workspace = _workspace(options, isolation)
        start = options.get("cwd") or options.get("workspace")
        # where sessions begin
        self.start = start if isinstance(start, str) and start.startswith("/") else "/"
        # where one can tell before a session begins
        self.home = _home(options) if kind in _HERE else None
        self.key = _key(kind, options)
        self.inputs: dict[str, ProcessInput] = {}
        self._sessions: dict[str, KnownSession] = {}
        given: Mapping[str, str] = options.get("env") or {}
        # all that a container's own variables do not hold
        self.given = given if kind in _APART else None
        # that sessions begin with, as far as it is known
        self.variables = _variables(kind, options)

    def __repr__(self) -> str:
        return f"<PolicyContext {self.key}: work in {self.workspace!r}>"

    def session(self, name: str, environment: Environment | None) -> "KnownSession":
        """What is known of a session; `environment` is None while it is not open."""
        if environment is None:
            return KnownSession(self, None, name)
        if name not in self._sessions:
            self._sessions[name] = KnownSession(self, link_of(environment), name)
        return self._sessions[name]

    def expected(self) -> ShellState:
        """What a session begins with, as far as it is known before it does."""
        return ShellState(
            home=self.home, variables=dict(self.variables), exported=tuple(self.variables)
        )

    @property
    def is_here(self) -> bool:
        """Whether its files are those of this machine, under the same names."""
        return self.kind in _HERE

    def whole(self, path: str) -> str:
        """A path as files mean it that are named before a session begins: from its start, `~` the
        home.
        """
        return whole(path, self.start, self.home)

    def check(self, path: str, bounds: Bounds) -> None:
        """Raises NotPermitted for a path that is out of bounds, as far as that can be known from
        here.
        """
        true = self.real(self.whole(path))
        if (
            bounds.root is not None
            and self.kind in _HERE
            and not f"{true}/".startswith(f"{os.path.realpath(bounds.root)}/")
        ):
            raise _out_of_bounds(
                f"{true} is outside of {bounds.root}, and nothing may be written there"
            )
        home = self.real(self.home or DEFAULT_HOME)
        patterns = (home + one[1:] if one.startswith("~/") else one for one in bounds.deny)
        if any(
            re.fullmatch(".*".join(map(re.escape, one.split("*"))), true, re.DOTALL)
            for one in patterns
        ):
            raise _out_of_bounds(f"{true} is protected: ask the user to do it, or use another path")

    def real(self, path: str, folders: "Folders | None" = None) -> str:
        """The path behind symbolic links, where this machine can tell."""
        return _real(path, folders) if self.kind in _HERE else path

    def behind(self, path: str, *, itself: bool, folders: "Folders | None" = None) -> str | None:
        """Where a link on the way to a file leads; None without one.

        `itself`: the last name is meant, link or not. `folders` keeps the directories of earlier
        calls.
        """
        if (
            self.kind not in _HERE
            or not path.startswith("/")
            or path.startswith(("/dev/", "/proc/"))
        ):
            return None  # those mean something else to every process
        head, name = os.path.split(os.path.normpath(path))
        real = os.path.join(_real(head, folders), name) if itself else _real(path, folders)
        ours = _real(self.workspace, folders) if self.workspace != NOWHERE else None
        if real == os.path.normpath(path) or (ours and real.startswith(ours + "/")):
            return None
        return real

    def program(self, argv: tuple[str, ...], state: ShellState | None) -> str:
        """The file that a program's name means there; its name alone where only the place could
        tell.
        """
        if not argv or self.kind not in _HERE:
            return argv[0] if argv else ""
        path = None if state is None else state.variables.get("PATH")
        found = _found(
            argv[0], path if isinstance(path, str) else None, state.cwd if state else None
        )
        return argv[0] if found is None else found


Folders = dict[str, str]  # directories, and where they really are


def _real(path: str, folders: Folders | None) -> str:
    """As `os.path.realpath`; of many files in a directory, the directory is looked at once."""
    head, _, name = path.rpartition("/")
    if folders is None or not head or name in ("", ".", ".."):
        return os.path.realpath(path)
    if head not in folders:
        folders[head] = os.path.realpath(head)
    whole = os.path.join(folders[head], name)
    return os.path.realpath(whole) if os.path.islink(whole) else whole


AT_FIRST = 1  # the resident's count of changes before anything has run


class KnownSession:
    """A session's state as the policy takes it into account; requested each time, sent only when it
    changed.
    """

    def __init__(self, context: PolicyContext, link: Link | None, name: str) -> None:
        self.context = context
        self._link = link
        self.name = name
        # the resident's count of changes, and the resident
        self._known: tuple[int, str] | None = None
        self._state: ShellState | None = None
        self._is_likely = False  # the last command of this caller has ended without a change
        self._begun: ShellState | None = None  # as it was when it began; None before it was seen
        self._accepted: Mapping[
            str, str | list[str] | dict[str, str]
        ] = {}  # variables that need no approval
        # Answers of `variables` and `changed`, each behind what it rests on: most commands change
        # no variable.
        self._counted: tuple[object, object, dict[str, str]] | None = None
        self._changed: tuple[object, object, dict[str, str]] | None = None

    @property
    def was_seen(self) -> bool:
        """Whether the session's beginning is known."""
        return self._begun is not None

    @property
    def judged(self) -> Judged | None:
        """The last known state, as a verdict rests on it; None where it is not known."""
        if self._link is None:
            return Judged(AT_FIRST, None, lambda changes: None)
        if self._known is None or self._state is None:
            return None
        return Judged(max(self._known[0], AT_FIRST), self._state.cwd, self._ended)

    def _ended(self, changes: int | None) -> None:
        """A command has ended, with so many changes of its session."""
        self._is_likely = (
            changes is not None and self._known is not None and self._known[0] == changes
        )

    async def state(self, *, is_checked_later: bool = False) -> ShellState:
        """What the session's next command meets. No shell is started for it.

        `is_checked_later`: what it meets unless another caller changes it is enough.
        """
        if self._link is None:
            return self.context.expected()
        resident = self._link.hello.resident
        known = self._known[0] if self._known and self._known[1] == resident else None
        if is_checked_later and self._is_likely and self._state is not None and known is not None:
            return self._state
        try:
            said, body = await self._link.ask(
                "definitions", answers.defined, session=self.name, known=known
            )
        except Unsupported:  # an older resident
            return self.context.expected()
        self._is_likely = False
        state = self._state
        if state is None or not said.is_same:
            state = read_definitions(body.decode("utf-8", "surrogateescape"))
            if not said.fits:
                state = ShellState(traps={"DEBUG": UNSEEN})
            self._known = (said.changes, resident)
        if state.cwd != said.cwd:
            state = msgspec.structs.replace(state, cwd=said.cwd)
        self._state = state
        if said.is_there and self._begun is None:
            self._accepted = state.variables
            self._begun = state if said.changes <= AT_FIRST else self.context.expected()
        return state

    def variables(self, state: ShellState) -> dict[str, str]:
        """The variables of the session that are part of all its acts.

        What it began with counts where it is known to lead elsewhere, except what a container sets
        itself. What it was given since counts wherever it may change what programs do.
        """
        if (last := self._counted) and last[0] is state.variables and last[1] is self._begun:
            return last[2]
        found = self._count_variables(state)
        self._counted = state.variables, self._begun, found
        return found

    def _count_variables(self, state: ShellState) -> dict[str, str]:
        begun = self._begun or self.context.expected()
        ours = begun.variables if self.context.given is None else self.context.given
        found = {name: str(value) for name, value in ours.items() if always_counts(name)}
        if self._begun is None or begun.variables is state.variables:
            return found
        passes_all, exported = state.exported is None, state.exported or ()
        passed_on = {*exported, *(begun.exported or ())}
        for name in {**begun.variables, **state.variables}:
            is_new = begun.variables.get(name) != state.variables.get(name)
            if is_new and counts(name, passed_on=passes_all or name in passed_on):
                found[name] = str(state.variables.get(name, ""))
        return found

    def home(self, state: ShellState) -> str | None:
        """What `~` means for files and directories, whatever a shell has made of its HOME since."""
        return self.context.home or (self._begun or state).home

    def changed(self, state: ShellState) -> dict[str, str]:
        """The variables that were set since the session was first seen, and not accepted yet."""
        before = self._accepted
        if self._begun is None or before is state.variables:
            return {}
        if (last := self._changed) and last[0] is state.variables and last[1] is before:
            return last[2]
        found = {
            name: value
            for name, value in state.variables.items()
            if isinstance(value, str) and value != UNSET and before.get(name) != value
        }
        self._changed = state.variables, before, found
        return found

    def accept(self, variables: Mapping[str, str]) -> None:
        """What these variables mean for later commands was allowed."""
        if variables:
            self._accepted = {**self._accepted, **variables}


def _key(kind: str, options: Mapping[str, Any]) -> str:
    """What tells places of a kind apart: the machine, who one is there, and what they share with
    this one.
    """
    named = [str(options[name]) for name in ("host", "image") if options.get(name)]
    rest = {name: options[name] for name in _TELLING if options.get(name)}
    digest = hashlib.sha256(msgspec.json.encode(rest, order="deterministic")).hexdigest()[:8]
    return " ".join((kind, *named, *([f"({digest})"] if rest else [])))


def _found(name: str, path: str | None, cwd: str | None) -> str | None:
    """The file, and what tells it from others where it could be replaced by the agent."""
    if "/" in name:
        found: str | None = os.path.join(cwd or "/", name)
    else:
        found = shutil.which(name, path=path)
    if found is None or not os.path.isfile(found):
        return None
    whole = os.path.realpath(found)
    status = os.stat(whole)
    if (
        status.st_uid == os.geteuid()
        or os.access(whole, os.W_OK)
        or os.access(os.path.dirname(whole), os.W_OK)
    ):
        # no program can set that time
        return f"{whole} (file {status.st_ino} as of {status.st_ctime_ns})"
    return whole


def _variables(kind: str, options: Mapping[str, Any]) -> dict[str, str]:
    opener = os.environ if kind in _HERE else {}
    passthrough = options.get("passthrough") or ()
    found = child_environment(opener, passthrough=passthrough, extra=options.get("env") or {})
    return {
        name: value
        for name, value in found.items()
        if name != "HOME" and not SECRET_NAME.search(name)
    }


def _home(options: Mapping[str, Any]) -> str | None:
    """The home directory of commands on this machine."""
    home = (options.get("env") or {}).get("HOME") or os.environ.get("HOME")
    return home if isinstance(home, str) and home.startswith("/") else None


def whole(path: str, cwd: str | None, home: str | None) -> str:
    """A path from the root, as the resident takes it:

    `~` is the home, what is relative starts at `cwd`.
    """
    if path == "~" or path.startswith("~/"):
        path = (home or DEFAULT_HOME) + path[1:]
    return os.path.normpath(os.path.join(cwd or "/", path))


def _out_of_bounds(why: str) -> NotPermitted:
    return NotPermitted(why, rule="protected-path", reason=why)


def _workspace(options: Mapping[str, Any], isolation: Isolation) -> str:
    """Where the agent works. A home directory or the system's own is not the agent's to change.

    A home directory of an environment's own files is: it has no other user.
    """
    chosen = options.get("workspace") or options.get("cwd")
    if not isinstance(chosen, str) or not chosen.startswith("/"):
        return NOWHERE
    whole = os.path.normpath(chosen)
    place = classify(whole, Shell(None, None, NOWHERE))
    if place == "home" and is_apart(isolation) and not shows_host(whole, isolation):
        return whole
    return NOWHERE if place in _OF_SOMEBODY else whole


def relevant(state: ShellState, text: str) -> ShellState:
    """The state with only those functions and aliases that the text can reach, so that judging it
    stays quick.
    """
    if state.traps or not (state.functions or state.aliases):
        return state
    if not all(map(_ORDINARY.fullmatch, (*state.functions, *state.aliases))):
        return state
    bare = _QUOTES.sub("", text)
    if _RELEVANT.search(text) or _RELEVANT.search(bare):
        return state
    used = re.findall(r"\$(\w+)", text)
    if any(name not in state.variables for name in used):  # the text itself may say what they are
        return state
    reached: dict[str, str] = {}
    texts = [text, bare, *(str(state.variables[name]) for name in used)]
    while texts:
        words = set(re.split(r"[\s;|&()<>\"'$={},!]+", texts.pop()))
        for name in {*words, *_ALWAYS} & state.functions.keys() - reached.keys():
            reached[name] = state.functions[name]
            texts.append(reached[name])
        texts += [
            state.aliases[name] for name in words & state.aliases.keys() if name not in reached
        ]
        reached.update(
            {name: "" for name in words & state.aliases.keys() if name not in state.functions}
        )
    functions = {name: body for name, body in state.functions.items() if name in reached}
    aliases = {name: body for name, body in state.aliases.items() if name in reached}
    return msgspec.structs.replace(state, functions=functions, aliases=aliases)
