"""Sandbox on this machine by bubblewrap: the system read-only, one writable workspace, no network."""

import asyncio
import ctypes
import hashlib
import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import (
    EnvironmentRecord,
    Finding,
    Isolation,
    NewEnvironment,
    Started,
)
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    InvalidArgument,
    NotInstalled,
    Unsupported,
)
from hermetic.contract.limits import START
from hermetic.environments.checkup import missing, probe
from hermetic.environments.child_environment import child_environment
from hermetic.environments.isolation.bubblewrap import (
    DESCRIPTORS,
    explained,
    find_program,
    may_mount,
    namespaces,
    with_read_only_devices,
)
from hermetic.environments.isolation.cgroups import (
    PROCS,
    Cgroup,
    ProcessLimits,
    limits_besides,
    make_cgroup,
    remove_cgroup,
)
from hermetic.environments.isolation.mounted import check_mounted
from hermetic.environments.isolation.seccomp import bpf
from hermetic.environments.isolation.view import INSIDE, SPOOL, SYSTEM, View, interpreter, mounts
from hermetic.environments.isolation.workspace import (
    PROTECTED,
    UNGUARD,
    check_shared,
    guard,
    homes,
    lies_in,
    real_directory,
    shared,
    unguard,
    unprotected,
)
from hermetic.environments.options import ProfileOptions, resident_config
from hermetic.environments.profile import ProfileMounts, credential_notes, resolve_mounts
from hermetic.environments.runtime.choice import RuntimeChoice
from hermetic.environments.starting import BOOT_ARGUMENTS, resident_input, start_resident
from hermetic.environments.unix_socket import SocketBackend
from hermetic.environments.watchdog import Watchdog, watchdog_argv
from hermetic.registry.host_process import PASSED, HostProcess
from hermetic.registry.private import spool_base
from hermetic.registry.records import check_own, runtime_root

LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION, SCOPES_SOCKETS = 444, 1, 6

DEVICES, SETTINGS, FILTER, INFO = "dev", "etc", "filter", "info"  # in the environment's directory
# the resident's directory, in that of the environment; the record is not visible inside
PLACE = "place"

# Variables that name sockets of this machine, or directories that do not exist inside.
NOT_PASSED = str.split("""
    SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY
    XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_ID DOCKER_HOST CONTAINER_HOST TMPDIR TEMP TMP
    HERMETIC_RUNTIME_DIR HERMETIC_SPOOL_DIR PWD OLDPWD
""")

Bytes = Annotated[int, msgspec.Meta(ge=64 << 20)]
Count = Annotated[int, msgspec.Meta(ge=16)]


class SandboxOptions(ProfileOptions, frozen=True, kw_only=True):
    """The options of `sandbox`."""

    # the one directory that commands may write to; None: the opener's cwd
    workspace: str | None = None
    cwd: str | None = None  # in the workspace; None: the workspace itself
    network: bool = False
    memory_bytes: Bytes = 5 << 30  # of all processes together, files in memory included
    pids: Count = 512  # most processes and threads
    # paths in the workspace that no command can change or make
    protect: tuple[str, ...] = PROTECTED
    readable: tuple[str, ...] = ()  # more of this machine's directories to see
    passthrough: tuple[
        str, ...
    ] = ()  # names of variables to pass on although they look like credentials or name sockets


class SandboxFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox has on this host, and what is removed with it."""

    directory: str
    spool: str | None
    lock: str  # of the workspace
    cgroups: tuple[str, ...] = ()
    processes: tuple[HostProcess, ...] = ()  # the resident, then the watchdog, once they are known


class Sandbox(SocketBackend):
    """Commands run as the caller, in namespaces of their own."""

    kind = "sandbox"
    option_shape = SandboxOptions
    chosen: SandboxOptions
    # a task that runs with other values of these is not reused
    identity = ("credential_files", "profile")

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        chosen = self.chosen
        self._asked = frozenset(options)
        self._workspace = real_directory(chosen.workspace or ".", "workspace")
        # before commands make any of them
        self._free = unprotected(self._workspace, chosen.protect)
        self.chosen = msgspec.structs.replace(
            chosen,
            workspace=self._workspace,
            cwd=os.path.normpath(os.path.join(self._workspace, chosen.cwd or "")),
            readable=tuple(real_directory(path, "readable") for path in chosen.readable),
        )

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks bwrap, namespaces and limits."""
        try:
            program = find_program()
        except NotInstalled as error:
            return missing(error)
        code, said = await probe(
            [program, *namespaces(program, network=False), "--ro-bind", "/", "/", "true"]
        )
        if code != 0:
            advice = str(explained(EnvironmentUnavailable(said))).partition("\n")[0]
            return Finding(
                state="broken", found=said or f"{program}: exit code {code}", advice=advice
            )
        defaults = SandboxOptions()
        cgroup = make_cgroup(
            f"hermetic-doctor-{secrets.token_hex(4)}", memory_bytes=1 << 30, pids=defaults.pids
        )
        await remove_cgroup(cgroup.directories)
        notes = limits_besides(cgroup, memory_bytes=defaults.memory_bytes, pids=defaults.pids).notes
        return Finding(state="weak" if notes else "ok", found=program, advice="; ".join(notes))

    @property
    def isolation(self) -> Isolation:
        """Files, processes and network apart; the same user, the same kernel, the same disk."""
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=False,
            separate_network=not self.chosen.network,
            shared_paths=(self._workspace,),
            mounts=(self._workspace, *self.chosen.readable, *SYSTEM),
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        free = self._free
        protected = ", ".join(path for path in self.chosen.protect if path not in free) or "nothing"
        notes = [
            f"no disk quota: commands can fill the disk of {self._workspace}",
            "no limit on processor time",
            f"of {self._workspace} only {protected} is read-only: look at what else lies there before you run it, such "
            "as .envrc, .vscode, a Makefile, or a repository inside it",
            *credential_notes(self.chosen.credential_files),
        ]
        if free:
            notes.append(
                f"{', '.join(free)} did not exist in {self._workspace}: what commands make there is theirs, and "
                "programs on this side obey it; look at it before you run git"
            )
        if self.chosen.network:
            notes.append(
                "the network is this machine's own: its ports, its neighbours and metadata services answer"
            )
            if not can_keep_own_sockets():
                notes.append(
                    "abstract sockets of this machine answer too: closing them needs Landlock of Linux 6.12"
                )
        if os.geteuid() == 0:
            notes.append(
                "opened by root: commands can read what only root may in /usr, /opt and readable"
            )
            if not may_mount():
                notes.append(
                    "opened by root without the right to mount: commands can change modes in this /dev"
                )
        return tuple(notes)

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident as the first process of a sandbox.

        Raises: ConfigError and InvalidArgument for paths that do not fit, Unsupported for a limit
        that cannot be set, EnvironmentUnavailable.
        """
        program = find_program()
        self._check_paths()
        profile = self.chosen.selected_profile
        shown = await asyncio.to_thread(resolve_mounts, profile, Path(new.directory))
        choice = RuntimeChoice(self.chosen.runtime, self.kind)
        choice.do_without_ctypes()
        await choice.prepare()
        kept = SandboxFiles(
            directory=new.directory, spool=new.spool, lock=_lock_of(self._workspace)
        )
        try:
            with shared(kept.lock) as lock:
                guards = guard(self._workspace, self.chosen.protect, lock)
                cgroup = self._cgroup(new.id)
                kept = msgspec.structs.replace(kept, cgroups=cgroup.directories)
                limits = self._limits(cgroup)
                bwrap = self._bwrap(
                    program, self._view(kept, guards, cgroup, shown, choice), limits, choice
                )
                config = resident_config(
                    self.chosen,
                    new,
                    environ=self._environ(shown),
                    inherit=False,
                    directory=INSIDE,
                    spool=new.spool and SPOOL,
                    spool_name=new.spool or "",
                    guardian=False,
                    foreground=True,
                    own_cgroup=cgroup.memory is not None,
                    shared=(self._workspace,),
                    keep_path=True,
                    own_sockets=self.chosen.network and can_keep_own_sockets(),
                )
                said = await start_resident(
                    _watched(kept, bwrap),
                    resident_input(choice.configured(config)),
                    seconds=START,
                    afterwards="stays",
                    passed=lock,
                )
            kept = _with_processes(kept)
            shown_here = (self._workspace, *self.chosen.readable)
            check_mounted(_first_process(kept), shown_here, (self._workspace, *guards[2::3]))
            return _checked(said, kept, choice, (*shown.notes, *limits.notes))
        except BaseException as error:
            await _end(_with_processes(kept))
            if isinstance(error, EnvironmentUnavailable):
                known = explained(error)
                raise (choice.explained(error) if known is error else known) from error
            raise

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the processes of the sandbox have ended."""
        processes = _kept(record).processes
        return bool(processes) and not any(process.is_alive for process in processes)

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when resident and watchdog have ended and nothing is left of them on this host."""
        kept = _kept(record)
        check_own(record, kept.lock, _is_lock(kept.lock))
        for path in kept.cgroups:
            check_own(record, path, os.path.basename(path).startswith(f"hermetic-{record.id}-"))
        await _end(kept)
        return "killed the sandbox's processes"

    def _check_paths(self) -> None:
        private = [str(runtime_root()), *([str(base)] if (base := spool_base()) else [])]
        check_shared(self._workspace, "workspace", private)
        for path in self.chosen.readable:
            check_shared(path, "readable", private, is_writable=False)
        cwd = self.chosen.cwd or self._workspace
        if not os.path.isdir(cwd) or not lies_in(os.path.realpath(cwd), self._workspace):
            raise InvalidArgument(
                f"cwd {cwd!r} is no directory in the workspace {self._workspace}", argument="cwd"
            )

    def _cgroup(self, id: str) -> Cgroup:
        name = f"hermetic-{id}-{secrets.token_hex(4)}"
        return make_cgroup(name, memory_bytes=self.chosen.memory_bytes, pids=self.chosen.pids)

    def _limits(self, cgroup: Cgroup) -> ProcessLimits:
        """Limits besides the cgroup.

        Raises Unsupported for an option that the caller set and nothing enforces.
        """
        limits = limits_besides(
            cgroup, memory_bytes=self.chosen.memory_bytes, pids=self.chosen.pids
        )
        if ignored := sorted(self._asked.intersection(limits.missing)):
            raise Unsupported(
                f"nothing here can enforce {' and '.join(ignored)}: no cgroup can be made; leave it out, "
                "or run where a cgroup is handed down (systemd-run --user --scope -p Delegate=yes)",
                capability=ignored[0],
            )
        return limits

    def _view(
        self,
        kept: SandboxFiles,
        guards: list[str],
        cgroup: Cgroup,
        shown: ProfileMounts,
        choice: RuntimeChoice,
    ) -> View:
        place, settings = (os.path.join(kept.directory, name) for name in (PLACE, SETTINGS))
        os.mkdir(place, 0o700)
        os.mkdir(settings)
        Path(kept.directory, FILTER).write_bytes(bpf(may_set_uid=False))
        return View(
            workspace=self._workspace,
            guards=guards,
            readable=self.chosen.readable,
            home=_home(),
            network=self.chosen.network,
            settings=settings,
            place=place,
            spool=kept.spool,
            memory_cgroup=cgroup.memory,
            devices=self._devices(kept.directory),
            memory_bytes=self.chosen.memory_bytes,
            shown=[*choice.mounts, *shown.in_home(_home())],
        )

    def _devices(self, directory: str) -> str | None:
        if os.geteuid() != 0 or not may_mount():
            return None
        devices = os.path.join(directory, DEVICES)
        os.mkdir(devices)
        return devices

    def _bwrap(
        self, program: str, view: View, limits: ProcessLimits, choice: RuntimeChoice
    ) -> list[str]:
        """The command line that becomes the resident."""
        python, installation = (
            (choice.python, None)
            if choice.runtime
            else interpreter((self._workspace, *view.readable))
        )
        if installation is not None:
            view = msgspec.structs.replace(view, readable=(*view.readable, installation))
        apart = [*namespaces(program, network=view.network), *DESCRIPTORS, *mounts(view)]
        argv = [program, *apart, "--", *limits.argv, python, *BOOT_ARGUMENTS]
        return argv if view.devices is None else with_read_only_devices(argv, view.devices)

    def _environ(self, shown: ProfileMounts) -> dict[str, str]:
        """The variables of commands."""
        passed = self.chosen.passthrough
        opener = {
            name: value
            for name, value in os.environ.items()
            if name not in {*NOT_PASSED} - {*passed}
        }
        extra = {**shown.variables(_home()), **self.chosen.env}
        return {**child_environment(opener, passthrough=passed, extra=extra), "HOME": _home()}


def _checked(
    said: Started, kept: SandboxFiles, choice: RuntimeChoice, notes: tuple[str, ...]
) -> Started:
    """The resident's readiness with this host's path of the socket."""
    if said.socket != f"{INSIDE}/s":
        raise EnvironmentUnavailable(f"the resident listens at {said.socket}, not in {INSIDE}")
    return msgspec.structs.replace(
        said,
        socket=os.path.join(kept.directory, PLACE, "s"),
        place={"kept": msgspec.json.encode(kept).decode(), **choice.place},
        notes=notes,
    )


def _watched(kept: SandboxFiles, bwrap: Sequence[str]) -> list[str]:
    """A watchdog that runs bwrap in the sandbox's cgroups, without variables; it inherits the
    workspace's lock.

    bwrap reads its system call filter from descriptor 9 and writes the pid of its child to
    descriptor 7.
    """
    directory, lock = shlex.quote(kept.directory), shlex.quote(kept.lock)
    join = "".join(f"echo 0 >{shlex.quote(path)}/{PROCS} || exit 1; " for path in kept.cgroups)
    return watchdog_argv(
        bwrap,
        directory=kept.directory,
        spool=kept.spool,
        join=f"{join}unset PATH LD_LIBRARY_PATH LC_ALL PWD OLDPWD SHLVL;",
        redirections=f"7>{directory}/{INFO} {PASSED}<&- 9<{directory}/{FILTER}",
        cleanup=[
            *(_remove_cgroup(path) for path in kept.cgroups),
            f"if flock -xn {PASSED}; then set -- {lock}; {UNGUARD}fi",
        ],
    )


def _remove_cgroup(path: str) -> str:
    """A shell line that retries: after bwrap was killed, its processes are still ending, without an
    event.
    """
    quoted = shlex.quote(path)
    return f"tries=0; while [ -d {quoted} ] && ! rmdir {quoted} && [ $tries -lt 2000 ]; do tries=$((tries + 1)); done"


def _first_process(kept: SandboxFiles) -> int:
    """The resident's pid on this host. Raises EnvironmentUnavailable."""
    try:
        info = msgspec.json.decode(Path(kept.directory, INFO).read_bytes(), type=dict[str, int])
        return info["child-pid"]
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise EnvironmentUnavailable("bwrap does not say which process it started") from error


def _with_processes(kept: SandboxFiles) -> SandboxFiles:
    """The same with the resident and the watchdog, as far as they run."""
    found: list[HostProcess | None] = []
    with suppress(OSError, EnvironmentUnavailable):
        found.append(HostProcess.find(_first_process(kept)))
    if watchdog := Watchdog.read(kept.directory):
        found.append(HostProcess(watchdog.pid, watchdog.born))
    return msgspec.structs.replace(kept, processes=tuple(filter(None, found)))


async def _end(kept: SandboxFiles) -> None:
    """Returns when no process of the sandbox is left, and does what a killed watchdog left undone."""
    for process in kept.processes:
        await process.ensure_ended()
    await remove_cgroup(kept.cgroups)
    unguard(kept.lock)


def _kept(record: EnvironmentRecord) -> SandboxFiles:
    return msgspec.json.decode(record.place["kept"], type=SandboxFiles)


def can_keep_own_sockets() -> bool:
    """Whether Landlock can close abstract sockets of this machine, which the shared network
    exposes.
    """
    return bool(
        ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
        >= SCOPES_SOCKETS
    )


def _home() -> str:
    """The home of commands: the caller's path, with other content."""
    home = homes()[0]
    return "/tmp" if home == "/" else home


def _is_lock(path: str) -> bool:
    """Whether a path is that of some workspace's lock."""
    name = os.path.basename(path)
    return (
        path == str(runtime_root() / name)
        and name.startswith("workspace-")
        and name.endswith(".lock")
    )


def _lock_of(workspace: str) -> str:
    """The lock file of a workspace, shared by this user's sandboxes; no command can reach it."""
    return str(
        runtime_root() / f"workspace-{hashlib.sha256(workspace.encode()).hexdigest()[:16]}.lock"
    )
