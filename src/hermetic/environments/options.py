"""Options of backends: what all kinds have in common, validation, and a resident's configuration by
them. Errors name the valid options.
"""

import difflib
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import msgspec

from hermetic.contract.environment import NewEnvironment, ResidentConfig
from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import LEASE, LOGIN, UNATTENDED
from hermetic.contract.variables import fault_of, is_text
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.environments import child_environment
    from hermetic.environments import profile as profiles
else:  # the event loop of a first call imports this module
    child_environment = Lazy("hermetic.environments.child_environment")
    profiles = Lazy("hermetic.environments.profile")

T = TypeVar("T", bound=msgspec.Struct)

LEAST_LEASE = 0.1  # seconds; a new resident has to live until its opener has attached

Lease = Annotated[float, msgspec.Meta(ge=LEAST_LEASE)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every kind."""

    # variables of commands, besides those of the environment
    env: dict[str, str] = {}
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # read the login profile


class RuntimeOptions(Options, frozen=True, kw_only=True):
    """The options of kinds whose environment may lack a fitting Python or bash."""

    # whose Python and bash: "image" (the environment's own), "portable", a portable runtime's path,
    # or "auto": the portable ones where the environment lacks one
    runtime: str = "auto"


class ProfileOptions(RuntimeOptions, frozen=True, kw_only=True):
    """The options of kinds in which the files of a profile are shown, or to which they are copied."""

    # of the profile: in ~/.hermetic there, read-only or never copied back
    credential_files: tuple[str, ...] = ()
    profile: str | None = None  # whose files and skills: a name, or an absolute path
    setup: str | None = None  # shell text that a new environment runs first, in its own shell

    @property
    def selected_profile(self) -> "profiles.SelectedProfile":
        """The profile, once the options are read."""
        return profiles.SelectedProfile(self.profile, self.credential_files)


def new_resident_id(id: str) -> str:
    """The id of a new resident: an environment's next resident has another."""
    return f"{id}.{secrets.token_hex(4)}"


# Options that a later opener of a task may give otherwise: its environment is used all the same. All
# others identify an environment.
CHANGEABLE = str.split("""
    annotations config cwd env forward_env idle init_files key labels lease lifetime login passthrough
    pending pool pull_policy pull_secrets runtime settings setup startup sync tolerations unattended
""")


def identity_of(shape: type[msgspec.Struct]) -> tuple[str, ...]:
    """The names of the options that identify an environment."""
    return tuple(name for name in shape.__struct_fields__ if name not in CHANGEABLE)


class OptionsBackend:
    """Part of a backend that validates and reports its options."""

    kind: str
    option_shape: ClassVar[type[msgspec.Struct]]

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.chosen: Any = read_options(self.kind, self.option_shape, options)

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self.chosen)


def resident_config(options: Options, new: NewEnvironment, **fields: Any) -> ResidentConfig:
    """The configuration of the resident of a new environment, by the options of its kind.

    Without `fields`, which come on top, it is that of a resident on another machine: it makes its
    directories itself, inherits variables, and has a guardian.
    """
    defaults = {
        "id": new_resident_id(new.id),
        "token": new.token,
        "label": new.label,
        "directory": "",
        "spool": None,
        "cwd": getattr(options, "cwd", None),
        "environ": child_environment.child_environment({}, extra=options.env),
        "inherit": True,
        "guardian": True,
        "lease": options.lease,
        "unattended": options.unattended,
        "login": options.login,
        "login_timeout": LOGIN,
    }
    return ResidentConfig(**{**defaults, **fields})


class UnknownOption(ConfigError):
    """A kind has no option of that name."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]) -> None:
        self.kind = kind
        self.valid = tuple(valid)
        super().__init__(
            f"{kind!r} has no option {name!r}; {choices(name, self.valid)}", setting=name
        )


class MissingOption(ConfigError):
    """A kind cannot be opened without that option."""

    def __init__(self, kind: str, name: str, example: str = "") -> None:
        self.kind = kind
        self.example = example
        advice = f"for example {name}={example!r}" if example else "give it"
        super().__init__(f"{kind!r} needs the option {name!r}; {advice}", setting=name)


def read_options(kind: str, shape: type[T], options: Mapping[str, Any]) -> T:
    """The options as `shape`, defaults filled in. Raises ConfigError."""
    valid = shape.__struct_fields__
    for name in options:
        if name not in valid:
            raise UnknownOption(kind, name, valid)
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"option {name!r} of {kind!r} must be a finite number", setting=name)
    for field in msgspec.structs.fields(shape):
        if field.required and field.name not in options:
            raise MissingOption(kind, field.name)
    try:
        chosen = msgspec.convert({name: _plain(value) for name, value in options.items()}, shape)
    except msgspec.ValidationError as error:
        name = str(error).partition("`$.")[2].partition("`")[0].partition("[")[0]
        raise ConfigError(
            f"option {name!r} of {kind!r} does not fit: {error}", setting=name
        ) from None
    return msgspec.structs.replace(chosen, **_resolved(chosen))


def _resolved(chosen: Any) -> dict[str, Any]:
    """The options that mean the same for every kind, with whole paths and variables as text."""
    found: dict[str, Any] = {}
    if hasattr(chosen, "env"):
        found["env"] = {name: _as_text(value) for name, value in sorted(chosen.env.items())}
        if fault := fault_of(found["env"]):
            raise ConfigError(fault, setting="env")
    if isinstance(chosen, ProfileOptions):
        selected = profiles.select_profile(chosen.profile, chosen.credential_files)
        found["profile"], found["credential_files"] = selected
    if hasattr(chosen, "sync"):
        found["sync"] = synced_directories(chosen.sync)
    return found


def _as_text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def choices(wrong: str, valid: Iterable[str]) -> str:
    """`did you mean 'cwd'? Valid: cwd, env`."""
    names = sorted(valid)
    near = difflib.get_close_matches(wrong, names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + "Valid: " + ", ".join(names)


def check_persistent(is_persistent: bool, id: str) -> None:
    """Raises ConfigError where files are to be kept without a task that they belong to."""
    if is_persistent and not id.startswith("t-"):
        raise ConfigError(
            "persistent keeps the files of a task; name a task for it", setting="persistent"
        )


def check_word(name: str, value: str | None) -> None:
    """Raises ConfigError for a text that no program takes as an argument."""
    if value is None:
        return
    if not value or value.startswith("-") or not value.isprintable() or not is_text(value):
        raise ConfigError(
            f"{name} {value!r} cannot be used; give a text that does not start with -", setting=name
        )
    if name in ("host", "user") and any(letter.isspace() for letter in value):
        raise ConfigError(f"{name} {value!r} has a space in it", setting=name)


def synced_directories(pairs: Mapping[str, str]) -> dict[str, str]:
    """The option `sync`: whole paths here, and there as the home's shell takes them.

    Raises ConfigError.
    """
    found = {}
    for here, there in pairs.items():
        path = os.path.realpath(os.path.expanduser(here))
        if not os.path.isdir(path) or not is_text(path):
            raise ConfigError(f"sync: {here!r} is no directory here", setting="sync")
        if path in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise ConfigError(f"sync: {path} is too much; name a directory in it", setting="sync")
        check_word("sync", there)
        found[path] = there.removeprefix("~/") if there != "~" else "."
    return found
