"""This machine: the resident is a process of the same user, reached by its Unix socket."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from hermetic.contract.environment import EnvironmentRecord, Isolation, NewEnvironment, Started
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.contract.variables import is_text
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local_resident import (
    end_local_resident,
    has_local_resident_ended,
    start_local_resident,
)
from hermetic.environments.options import Options, identity_of, resident_config
from hermetic.environments.profile import VARIABLE, HomeMode, at_home, home_of, select_profile
from hermetic.environments.unix_socket import SocketBackend


class LocalOptions(Options, frozen=True, kw_only=True):
    """The options of `local`."""

    cwd: str | None = None  # None: the opener's
    # names of variables to pass on although they look like credentials
    passthrough: tuple[str, ...] = ()
    home: HomeMode = (
        # of commands: the real one, or one for each profile; auto: the profile's where one is named
        "auto"
    )
    profile: str | None = None  # a name, or a directory as a whole path
    # files that a login shell reads besides the profile
    init_files: tuple[str, ...] = ("~/.bashrc",)


class Local(SocketBackend):
    """Commands run as the caller, on the caller's machine, without isolation."""

    kind = "local"
    option_shape = LocalOptions
    chosen: LocalOptions
    identity = identity_of(LocalOptions)

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        chosen = self.chosen
        mode: HomeMode = "real" if chosen.home == "auto" and chosen.profile is None else chosen.home
        self.chosen = msgspec.structs.replace(
            chosen,
            cwd=_whole_path(chosen.cwd or "."),
            home="profile" if mode == "auto" else mode,
            profile=select_profile(chosen.profile, ()).directory,
        )

    @property
    def isolation(self) -> Isolation:
        """None: commands change this machine."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident on this machine. Raises EnvironmentUnavailable."""
        options = self.chosen
        shown = {VARIABLE: options.profile} if options.profile else {}
        opener = {**at_home(os.environ, home_of(options.home, options.profile)), **shown}
        config = resident_config(
            options,
            new,
            directory=new.directory,
            spool=new.spool,
            cwd=_directory(options.cwd or "."),
            environ=child_environment(opener, passthrough=options.passthrough, extra=options.env),
            inherit=False,
            init_files=options.init_files,
            keep_path=True,
        )
        return await start_local_resident(config)

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the resident's process has ended."""
        return has_local_resident_ended(record)

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the resident and its guardian have ended, and with them all processes."""
        return await end_local_resident(record)


def _whole_path(path: str) -> str:
    try:
        whole = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise ConfigError(
            "the current directory is gone; change to one that exists, or give the option cwd as a whole path",
            setting="cwd",
        ) from None
    if not is_text(whole):
        raise ConfigError(
            f"cwd {whole!r} is not valid UTF-8; open the environment elsewhere and pass this one to run(cwd=…)",
            setting="cwd",
        )
    return whole


def _directory(path: str) -> str:
    if not os.path.isdir(path):
        missing = "is not a directory" if os.path.exists(path) else "does not exist"
        raise InvalidArgument(
            f"cwd {path!r} {missing}; give a directory that exists", argument="cwd"
        )
    return path
