"""The scratch directory for files of running environments and for built images, and its disk usage."""

import getpass
import logging
import os
import tempfile
import time
from pathlib import Path

from hermetic.contract.errors import ConfigError
from hermetic.registry.private import make_private, spool_base

SETTING = "HERMETIC_SCRATCH_DIR"
SITE = Path("/scratch")  # the usual scratch directory of clusters
GIGABYTE = 10**9
WARN_ABOVE = 500  # gigabytes
LOOK_SECONDS = 0.2  # a tree of many files is not counted to its end

log = logging.getLogger("hermetic")


def scratch_base(site: Path = SITE) -> Path:
    """A private scratch directory, on a disk if there is one. Raises ConfigError."""
    own = f"hermetic-{os.geteuid()}"
    if chosen := os.environ.get(SETTING) or os.environ.get("TERMINAL_SCRATCH_DIR"):
        return make_private(Path(chosen).absolute() / own, SETTING)
    if os.access(site, os.W_OK | os.X_OK):
        return make_private(site / getpass.getuser() / "hermetic", SETTING)
    return spool_base() or make_private(Path(tempfile.gettempdir(), own), SETTING)


def image_cache() -> Path:
    """The directory for built images, in apptainer's own cache. Raises ConfigError."""
    chosen = os.environ.get("APPTAINER_CACHEDIR") or os.environ.get("SINGULARITY_CACHEDIR")
    parent = Path(chosen).absolute() if chosen else scratch_base() / ".apptainer"
    return make_private(parent / "hermetic", "APPTAINER_CACHEDIR")


def warn_of_use(base: Path) -> None:
    """Logs a warning if `base` uses more disk space than the setting."""
    limit = _limit()
    used, is_all = disk_use(base, LOOK_SECONDS, limit * GIGABYTE)
    if used > limit * GIGABYTE:
        least = "" if is_all else "at least "
        log.warning(
            "%s uses %s%.1f GB, more than %g; remove environments that are not needed (hermetic envs, hermetic rm), or "
            "set HERMETIC_DISK_WARNING_GB",
            base,
            least,
            used / GIGABYTE,
            limit,
        )


def disk_use(path: Path, seconds: float, most: float = float("inf")) -> tuple[int, bool]:
    """Bytes on disk below `path`, and whether all was counted before the time was over or `most`
    was passed.
    """
    deadline = time.monotonic() + seconds
    used, folders = 0, [str(path)]
    while folders:
        if used > most or time.monotonic() > deadline:
            return used, False
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    used += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:  # removed meanwhile, or not readable
            continue
    return used, True


def _limit() -> float:
    for name in ("HERMETIC_DISK_WARNING_GB", "TERMINAL_DISK_WARNING_GB"):
        if said := os.environ.get(name):
            try:
                return float(said)
            except ValueError:
                raise ConfigError(
                    f"{name}={said!r} is no number; set it to gigabytes", setting=name
                ) from None
    return WARN_ABOVE
