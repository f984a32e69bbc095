"""An apptainer (or singularity) container for each environment, in a user namespace, without
privileges.

The resident is the container's one process and ends with its lease. A watchdog on the host waits
for that and removes what is left there, also when the opener has exited.
"""

import asyncio
import logging
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import (
    EnvironmentRecord,
    Finding,
    Isolation,
    NewEnvironment,
    ResidentConfig,
    Started,
)
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled
from hermetic.contract.limits import INSTANCE
from hermetic.environments.checkup import missing, probe, try_program
from hermetic.environments.child_environment import QUIET
from hermetic.environments.containers.options import LIMIT_FLAGS, limit_arguments
from hermetic.environments.containers.scratch import SETTING as SCRATCH
from hermetic.environments.containers.scratch import scratch_base, warn_of_use
from hermetic.environments.containers.sif import (
    ADVICE,
    HOME,
    NO_NETWORK,
    SEPARATE,
    find_sif,
    has_sif,
    whole_name,
)
from hermetic.environments.isolation.seccomp import bpf
from hermetic.environments.options import ProfileOptions, identity_of, resident_config
from hermetic.environments.profile import ProfileMounts, credential_notes, resolve_mounts
from hermetic.environments.runtime.choice import RuntimeChoice
from hermetic.environments.starting import (
    BOOT_ARGUMENTS,
    StartFailed,
    resident_input,
    start_resident,
)
from hermetic.environments.unix_socket import SocketBackend
from hermetic.environments.watchdog import CONTAINER_SECONDS, Watchdog, watchdog_argv
from hermetic.registry.janitor_process import remove_tree
from hermetic.registry.records import check_own

BINARY = "HERMETIC_APPTAINER_BINARY"
PROGRAMS = ("apptainer", "singularity")

SOCKETS, SPOOL = "/run/hermetic", "/run/hermetic-spool"
# folder of the environment's directory that is mounted inside; the record is outside of it
RESIDENT = "resident"

# The kernel's own files that a command of root could change the host with, though it has no
# capability.
READ_ONLY = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
)

# in what apptainer says of an image for another architecture
FOREIGN = "could not run on the host's"

# A line of the watchdog that holds the overlay's lock; no other environment uses the overlay then.
LOCK_OVERLAY = """\
exec 9> "$overlay/.lock" && flock -n 9 || { echo "overlay $overlay is used by another environment" >&2; exit 1; }"""

# A line of the watchdog that kills the rest of its session: the programs that serve the container's
# file systems.
KILL_SESSION = """\
read -r line < /proc/$$/stat; set -- ${line##*) }; own=$4
for stat in /proc/[0-9]*/stat; do
    read -r line < $stat || continue
    set -- ${line##*) }
    pid=${stat%/stat} pid=${pid#/proc/}
    [ "$4" != "$own" ] || [ $pid = $$ ] || kill -KILL $pid
done 2> /dev/null"""

log = logging.getLogger("hermetic")

Positive = Annotated[int, msgspec.Meta(ge=1)]
Cores = Annotated[float, msgspec.Meta(gt=0)]


class ApptainerOptions(ProfileOptions, frozen=True, kw_only=True):
    """The options of `apptainer`."""

    # a .sif, or the source of one: an archive of `docker save`, a directory, docker://NAME
    image: str
    # directory of this machine that keeps written files; None: they are discarded
    overlay: str | None = None
    cwd: str = HOME
    network: bool = True  # the host's; False: none
    cpu: Cores | None = None
    memory_bytes: Positive | None = None
    pids: Positive | None = None


class Apptainer(SocketBackend):
    """Commands run in a container with the caller's uid and no capability, and see none of the
    caller's files.
    """

    kind = "apptainer"
    option_shape = ApptainerOptions
    chosen: ApptainerOptions
    identity = identity_of(ApptainerOptions)

    def __init__(self, options: Mapping[str, Any]) -> None:
        if not options.get("image"):
            raise ConfigError(f"{self.kind!r} needs the option 'image': {ADVICE}", setting="image")
        super().__init__(options)
        chosen = self.chosen
        if not chosen.cwd.startswith("/"):
            raise ConfigError(
                f"cwd {chosen.cwd!r} must be a whole path inside the container", setting="cwd"
            )
        overlay = (
            None if chosen.overlay is None else os.path.abspath(os.path.expanduser(chosen.overlay))
        )
        if overlay is not None:
            _check_path(overlay, "overlay")
        self.chosen = msgspec.structs.replace(
            chosen, image=whole_name(chosen.image), overlay=overlay
        )

    @property
    def isolation(self) -> Isolation:
        """What a container without capabilities separates and shares."""
        options = self.chosen
        notes = ["no disk quota: what is written to /tmp and /root lies on the host's disk"]
        if not options.overlay:
            notes.append(
                "other files are written to memory; the site's `sessiondir max size` limits them"
            )
        if options.network:
            notes.append(
                "the network is the host's: its own ports and abstract sockets can be reached"
            )
        if missing := [name for name in LIMIT_FLAGS if getattr(options, name) is None]:
            notes.append(f"no limit was asked for: {', '.join(missing)}")
        notes += credential_notes(options.credential_files)
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_network=not options.network,
            shared_paths=(options.overlay,) if options.overlay else (),
            mounts=(),
            notes=tuple(notes),
        )

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a container whose one process is the resident.

        Raises ConfigError, EnvironmentUnavailable.
        """
        options, directory, spool = self.chosen, new.directory, new.spool
        program = find_program()
        sif = await find_sif(program, options.image)
        base = scratch_base()
        for path, setting in (
            (directory, "HERMETIC_RUNTIME_DIR"),
            (spool, "HERMETIC_SPOOL_DIR"),
            (base, SCRATCH),
        ):
            _check_path(str(path), setting)
        await asyncio.to_thread(warn_of_use, base)
        choice = RuntimeChoice(options.runtime, f"{sif} {os.stat(sif).st_mtime_ns}")
        config = resident_config(
            options,
            new,
            directory=SOCKETS,
            spool=spool and SPOOL,
            spool_name=spool or "",
            guardian=False,
            foreground=True,
            seccomp=bpf(),
            keep_path=True,
            shared=("/", HOME) if options.overlay else (),
        )
        while True:
            await choice.prepare()
            work = Path(tempfile.mkdtemp(prefix=f"work-{new.id}.", dir=base))
            try:
                return await self._attempt(
                    [program, sif], Path(directory), spool, work, choice, config
                )
            except BaseException as error:
                await asyncio.to_thread(remove_tree, str(work))
                if not isinstance(error, StartFailed):
                    raise
                self._check_architecture(error)
                if not choice.learn(error):
                    raise choice.explained(error) from error
            # by the watchdog of the failed attempt
            for removed in filter(None, (directory, spool)):
                os.makedirs(removed, mode=0o700, exist_ok=True)

    def _check_architecture(self, error: StartFailed) -> None:
        """Raises EnvironmentUnavailable for an image of another architecture than this machine's."""
        if FOREIGN in error.stderr:
            raise EnvironmentUnavailable(
                f"the image {self.chosen.image} is for machines of another architecture; use one for "
                f"{platform.machine()}, or build it on such a machine. {error}"
            ) from error

    async def _attempt(
        self,
        image: Sequence[str],
        directory: Path,
        spool: str | None,
        work: Path,
        choice: RuntimeChoice,
        config: ResidentConfig,
    ) -> Started:
        """One start of the image, which is a program and its SIF, with the programs of the choice."""
        options = self.chosen
        shown = await asyncio.to_thread(resolve_mounts, options.selected_profile, work)
        environ = {**QUIET, **shown.variables(HOME), **options.env}
        config = msgspec.structs.replace(choice.configured(config), environ=environ)
        started = await start_resident(
            self._command(image, directory, spool, work, shown, choice),
            resident_input(config),
            seconds=INSTANCE,
            afterwards="stays",
            environ=_variables(options),
        )
        watchdog = Watchdog.read(str(directory))
        if watchdog is None or started.socket != f"{SOCKETS}/s":
            if watchdog is not None:
                await watchdog.ensure_ended(CONTAINER_SECONDS)
            raise EnvironmentUnavailable(
                f"the resident ended, or listens at {started.socket}, not in {SOCKETS}"
            )
        choice.remember()
        return msgspec.structs.replace(
            started,
            socket=f"{directory}/{RESIDENT}/s",
            place={"watchdog": str(watchdog), "work": str(work), **choice.place},
            notes=(*shown.notes, *_unlimited(options)),
        )

    def _command(
        self,
        image: Sequence[str],
        directory: Path,
        spool: str | None,
        work: Path,
        shown: ProfileMounts,
        choice: RuntimeChoice,
    ) -> list[str]:
        """The watchdog and the container it waits for; makes the directories that are mounted."""
        (directory / RESIDENT).mkdir(mode=0o700, parents=True, exist_ok=True)
        binds = [(str(directory / RESIDENT), SOCKETS), *([(spool, SPOOL)] if spool else [])]
        for source, target in choice.mounts:
            _check_path(source, "XDG_CACHE_HOME")
            binds.append((source, f"{target}:ro"))
        program, sif = image
        command = [program, "--quiet", "exec", *self._apart(work, shown), "--pwd", "/"]
        command += [word for inside in binds for word in ("--bind", ":".join(inside))]
        command += [sif, choice.python, *BOOT_ARGUMENTS]
        overlay = self.chosen.overlay
        return watchdog_argv(
            command,
            directory=str(directory),
            spool=spool,
            redirections="9>&-",
            before=[f"overlay={shlex.quote(overlay)}", LOCK_OVERLAY] if overlay else [],
            cleanup=[KILL_SESSION, f"remove {shlex.quote(str(work))}"],
        )

    def _apart(self, work: Path, shown: ProfileMounts) -> list[str]:
        """Arguments for isolation and limits; makes the container's home."""
        options = self.chosen
        home = Path(options.overlay or work, "home")
        for folder in (home, work / "scratch"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        guards = [
            f"type=bind,source={path},destination={path},ro"
            for path in READ_ONLY
            if os.path.exists(path)
        ]
        guards += _mounts(shown, home)
        return [
            *SEPARATE,
            *("--workdir", str(work / "scratch")),
            *("--home", f"{home}:{HOME}"),
            *(("--overlay", options.overlay) if options.overlay else ("--writable-tmpfs",)),
            *([] if options.network else NO_NETWORK),
            *(word for guard in guards for word in ("--mount", guard)),
            *(limit_arguments(options) if can_limit() else ()),
        ]

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the program, user namespaces, and FUSE for mounting images as an ordinary user."""
        try:
            program = find_program()
        except NotInstalled as error:
            return missing(error)
        except ConfigError as error:
            return Finding(state="missing", found=str(error), advice="install apptainer")
        found = await try_program((program,), ("--version",), install="install apptainer")
        if found.state != "ok":
            return found
        if shutil.which("unshare") and (await probe(["unshare", "--user", "true"]))[0] != 0:
            advice = "allow them: sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns"
            return Finding(
                state="broken",
                found="an ordinary user may not make a user namespace",
                advice=advice,
            )
        if not (shutil.which("squashfuse_ll") or shutil.which("squashfuse")) or not os.access(
            "/dev/fuse", os.W_OK
        ):
            advice = "install squashfuse and fuse-overlayfs, allow /dev/fuse; else images are unpacked at each start"
            return Finding(state="weak", found=found.found, advice=advice)
        return found

    async def has_image(self) -> bool:
        """Whether the image need not be built. Raises ConfigError."""
        return await asyncio.to_thread(has_sif, self.chosen.image)

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the process on this host that the container ends with has ended."""
        return not Watchdog.parse(record.place["watchdog"]).is_alive

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the container and its files on this host are gone."""
        work = record.place["work"]
        check_own(record, work, os.path.basename(work).startswith(f"work-{record.id}."))
        await Watchdog.parse(record.place["watchdog"]).ensure_ended(CONTAINER_SECONDS)
        await asyncio.to_thread(remove_tree, work)
        return "killed the container's processes"


def find_program() -> str:
    """Path of apptainer, else of singularity. Raises EnvironmentUnavailable."""
    chosen = os.environ.get(BINARY)
    if chosen and not shutil.which(chosen):
        raise ConfigError(
            f"{BINARY}={chosen} is no program; set it to apptainer's path, or unset it",
            setting=BINARY,
        )
    found = next(filter(None, map(shutil.which, (chosen,) if chosen else PROGRAMS)), None)
    if found is None:
        raise NotInstalled(
            f"no {' or '.join(PROGRAMS)} on PATH",
            f"install apptainer, or set {BINARY} to where it is",
        )
    return found


def _mounts(shown: ProfileMounts, home: Path) -> Iterator[str]:
    """Mount arguments for a profile's files; makes the mount points in the home."""
    for source, target in shown.in_home(HOME):
        for part in (source, target):
            _check_path(part, "credential_files")
        point = home / os.path.relpath(target, HOME)
        point.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        point.mkdir(exist_ok=True) if os.path.isdir(source) else point.touch()
        yield f"type=bind,source={source},destination={target},ro"


def _check_path(path: str, setting: str) -> None:
    """Raises ConfigError for a path that apptainer would split."""
    if set(path) & set(":,\n"):
        raise ConfigError(
            f"{path!r} has a colon, comma or line end, which apptainer cannot take", setting=setting
        )


def can_limit() -> bool:
    """True where apptainer can create a cgroup as an ordinary user."""
    return os.path.isdir("/run/systemd/system") and os.path.exists(
        "/sys/fs/cgroup/cgroup.controllers"
    )


def _unlimited(options: ApptainerOptions) -> tuple[str, ...]:
    """Notes on requested limits that cannot be set here."""
    given = [name for name in LIMIT_FLAGS if getattr(options, name) is not None and not can_limit()]
    notes = tuple(
        f"{name} is not limited: apptainer needs systemd and cgroups v2 for that" for name in given
    )
    for note in notes:
        log.warning("%s", note)
    return notes


def _variables(options: ApptainerOptions) -> dict[str, str]:
    """apptainer's own variables, without the user's settings for it, which could mount more into
    the container.
    """
    wanted = ["HOME"]
    if any(limit_arguments(options)):
        # the user's systemd creates the cgroup
        wanted += ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"]
    return {name: os.environ[name] for name in wanted if name in os.environ}
