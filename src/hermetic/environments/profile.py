"""Profiles: credential files, skills and caches that are mounted into environments, and the home of
commands.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from hermetic.contract.errors import ConfigError
from hermetic.contract.variables import is_text
from hermetic.environments.isolation.workspace import lies_in
from hermetic.registry.private import make_private

HomeMode = Literal["auto", "real", "profile"]

DEFAULT = "default"  # the profile in the settings directory itself
INSIDE = ".hermetic"  # directory in the home inside with the profile's files
VARIABLE = "HERMETIC_PROFILE"  # variable of commands with its path
SETTINGS = "config.toml"  # the user's file
USER_FILE = "HERMETIC_CONFIG"  # the variable that names another one

SKILLS = "skills"
CACHES = str.split("""
    cache/documents cache/images cache/audio cache/videos cache/screenshots cache/web
    cache/delegation
""")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Files that give access to more than one service: settings, standing approvals, files with all
# keys.
_MASTERS = str.split("""
    config.toml hermetic.toml approvals.toml decisions.jsonl config.yaml auth.json .env
    secrets.toml secrets.json credentials.toml credentials.json
""")
_OTHERS = "profiles"  # a directory of the settings that holds profiles by name
# They name directories of the real home, whatever HOME is.
_OF_THE_HOME = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


class ProfileMounts(NamedTuple):
    """A profile's files as mounts, and notes on those that are left out."""

    mounts: tuple[tuple[str, str], ...] = ()  # absolute path here → path below INSIDE
    notes: tuple[str, ...] = ()

    def in_home(self, home: str) -> list[tuple[str, str]]:
        """Absolute path here → absolute path inside."""
        return [(source, f"{home}/{INSIDE}/{path}") for source, path in self.mounts]

    def variables(self, home: str) -> dict[str, str]:
        """Variables of commands that name the mounts."""
        return {VARIABLE: f"{home}/{INSIDE}"} if self.mounts else {}


class SelectedProfile(NamedTuple):
    """A selected profile: its directory, if any, and the names of its credential files."""

    directory: str | None
    credential_files: tuple[str, ...]


def settings_directory(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The directory of the user's settings, which may not exist; None if no variable names it."""
    if named := environ.get(USER_FILE):
        return Path(named).expanduser().absolute().parent
    base = environ.get("XDG_CONFIG_HOME") or (
        f"{environ['HOME']}/.config" if environ.get("HOME") else ""
    )
    return Path(base, "hermetic") if base else None


def data_directory() -> Path:
    """Directory for files that outlive environments:

    HERMETIC_DATA_DIR, TERMINAL_SANDBOX_DIR, or the user's.
    """
    if chosen := os.environ.get("HERMETIC_DATA_DIR") or os.environ.get("TERMINAL_SANDBOX_DIR"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "hermetic")


def select_profile(profile: str | None, credential_files: Sequence[str]) -> SelectedProfile:
    """The profile with an absolute path. Raises ConfigError for an invalid name or file."""
    files = tuple(dict.fromkeys(_checked(path) for path in credential_files))
    return SelectedProfile(None if profile is None and not files else _directory(profile), files)


def _directory(profile: str | None) -> str:
    settings = settings_directory()
    if profile is not None and os.path.isabs(os.path.expanduser(profile)):
        return os.path.realpath(os.path.expanduser(profile))
    if profile is not None and not _NAME.fullmatch(profile):
        raise ConfigError(
            f"profile {profile!r} is no name; give one such as work, or a directory as a whole path",
            setting="profile",
        )
    if settings is None:
        raise ConfigError(
            f"nothing says where settings lie; set HOME or {USER_FILE}", setting="profile"
        )
    return os.path.realpath(
        settings if profile in (None, DEFAULT) else settings / _OTHERS / str(profile)
    )


def name_of(directory: str | None) -> str:
    """The profile's name:

    "default", a name below `profiles`, or "custom" for any other directory.
    """
    settings = settings_directory()
    if directory is None or (settings is not None and directory == os.path.realpath(settings)):
        return DEFAULT
    by_name = settings is not None and os.path.dirname(directory) == os.path.realpath(
        settings / _OTHERS
    )
    return os.path.basename(directory) if by_name else "custom"


def _checked(path: str) -> str:
    parts = Path(path).parts
    if (
        not parts
        or path.startswith(("/", "~"))
        or ".." in parts
        or "\0" in path
        or not is_text(path)
    ):
        raise ConfigError(
            f"credential_files holds {path!r}; give paths inside the profile's directory, such as tokens/mail.json",
            setting="credential_files",
        )
    _check_purpose(path, parts)
    return str(Path(path))


def _check_target(directory: str, path: str) -> None:
    """Raises ConfigError for a link out of the profile, or to a file that is never mounted."""
    real = os.path.realpath(os.path.join(directory, path))
    if not lies_in(real, directory) or real == directory:
        raise ConfigError(
            f"credential_files: {path} leads out of {directory}, to {real}; copy the file there",
            setting="credential_files",
        )
    _check_purpose(
        path, Path(os.path.relpath(real, directory)).parts, is_settings=_is_settings_file(real)
    )


def _check_purpose(path: str, parts: Sequence[str], *, is_settings: bool = False) -> None:
    if parts[0] == _OTHERS or parts[-1].lower() in _MASTERS or is_settings:
        raise ConfigError(
            f"credential_files: {path} is never shown, because it opens more than one service; "
            "put the one key that is needed into a file of its own",
            setting="credential_files",
        )


def _is_settings_file(path: str) -> bool:
    """Also by another name."""
    own = os.environ.get(USER_FILE) or os.path.join(settings_directory() or "", SETTINGS)
    try:
        return os.path.samefile(path, os.path.expanduser(own))
    except OSError:
        return False


def resolve_mounts(chosen: SelectedProfile, copies: Path) -> ProfileMounts:
    """The mounts of a profile at this moment, with notes on missing files. Raises ConfigError.

    Skills that contain links are mounted as a copy without them, which is made in the directory
    `copies`.
    """
    if chosen.directory is None:
        return ProfileMounts()
    mounts: list[tuple[str, str]] = []
    notes = (
        []
        if os.path.isdir(chosen.directory)
        else [f"the profile {chosen.directory} does not exist"]
    )
    for path in chosen.credential_files:
        _check_target(chosen.directory, path)  # it may have changed since it was named
        whole = os.path.realpath(os.path.join(chosen.directory, path))
        if os.path.isfile(whole):
            mounts.append((whole, path))
        else:
            why = (
                "it is no file"
                if os.path.exists(whole)
                else f"it does not exist in {chosen.directory}"
            )
            notes.append(f"credential file {path} is not shown: {why}")
    for path in (SKILLS, *CACHES):
        try:
            mounts += _folder(chosen.directory, path, copies)
        except OSError as error:
            notes.append(f"{path} of the profile is not shown: {error.strerror or error}")
    return ProfileMounts(tuple(mounts), tuple(notes))


def unsent_notes(chosen: SelectedProfile) -> tuple[str, ...]:
    """Notes on credential files that are missing here, so that they cannot be copied to a host yet.

    Raises ConfigError for a link out of the profile.
    """
    where = chosen.directory or ""
    for path in chosen.credential_files:
        _check_target(where, path)
    missing = [
        path for path in chosen.credential_files if not os.path.isfile(os.path.join(where, path))
    ]
    return tuple(
        f"credential file {path} is not sent: there is no such file in {where}" for path in missing
    )


def credential_notes(credential_files: Sequence[str]) -> tuple[str, ...]:
    """The note of `env.isolation` on credential files."""
    return (
        (f"commands can read these credential files: {', '.join(credential_files)}",)
        if credential_files
        else ()
    )


def _folder(directory: str, path: str, copies: Path) -> Iterator[tuple[str, str]]:
    """The mount of a profile's directory, if it exists."""
    whole = os.path.join(directory, path)
    if not os.path.lexists(whole):
        return
    if os.path.realpath(whole) != whole or not os.path.isdir(whole):
        raise NotADirectoryError("it is no directory, or a link")
    if path == SKILLS and _has_links(whole):
        copy_without_links(whole, str(copies / SKILLS))
        whole = str(copies / SKILLS)
    yield whole, path


def _has_links(folder: str) -> bool:
    return any(
        os.path.islink(os.path.join(at, name))
        for at, folders, names in _walk(folder)
        for name in folders + names
    )


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    def fail(error: OSError) -> None:
        raise error

    return os.walk(folder, onerror=fail)


def copy_without_links(source: str, target: str) -> None:
    """Copies a tree; of links only those that stay inside.

    Raises OSError and leaves nothing then.
    """
    try:
        for at, folders, names in _walk(source):
            there = os.path.join(target, os.path.relpath(at, source))
            os.makedirs(there, mode=0o755, exist_ok=True)
            for name in (
                *names,
                *(folder for folder in folders if os.path.islink(os.path.join(at, folder))),
            ):
                _copy(os.path.join(at, name), os.path.join(there, name), source)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _copy(path: str, target: str, root: str) -> None:
    if not os.path.islink(path):
        if os.path.isfile(path):
            shutil.copy2(path, target, follow_symlinks=False)
        return
    leads = os.readlink(path)
    steps = os.path.normpath(os.path.join(os.path.dirname(path), leads))
    if not os.path.isabs(leads) and all(
        lies_in(end, root) for end in (steps, os.path.realpath(path))
    ):
        os.symlink(leads, target)


def home_of(mode: HomeMode, profile: str | None) -> str | None:
    """The home directory of a profile's commands, made where it is missing; None: the real one.

    Raises ConfigError.
    """
    if mode == "real" or (mode == "auto" and profile is None):
        return None
    name = _home_name(_directory(profile), _directory(None))
    return str(make_private(data_directory() / "homes" / name, "HERMETIC_DATA_DIR"))


def _home_name(directory: str, settings: str) -> str:
    """The same for no two profiles."""
    if directory == settings:
        return DEFAULT
    name = os.path.basename(directory)
    is_by_name = directory == os.path.join(settings, _OTHERS, name)
    return (
        name if is_by_name else f"{name}-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"
    )


def at_home(environ: Mapping[str, str], home: str | None) -> dict[str, str]:
    """The variables with another HOME, without those that name directories of the real one."""
    if home is None:
        return dict(environ)
    return {
        **{name: value for name, value in environ.items() if name not in _OF_THE_HOME},
        "HOME": home,
    }
