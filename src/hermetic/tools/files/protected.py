"""Paths that no tool reads or writes, whoever asks: patterns of true paths, held to by the resident."""

from functools import lru_cache

from hermetic.contract.files import Bounds
from hermetic.registry.records import real_runtime_path

_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud")
_FILES = (".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials")
_HOMES = ("~", "/root", "/home/*")

CREDENTIALS = (
    *(f"*/{folder}/*" for folder in _FOLDERS),
    *(f"{home}/{file}" for home in _HOMES for file in _FILES),
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d/*",
)  # fmt: skip
SYSTEM = (
    "/etc/passwd", "/etc/group", "/etc/systemd/*", "/usr/lib/systemd/*", "/lib/systemd/*", "/boot/*", "/proc/*",
    "/sys/*", "/run/docker.sock", "/var/run/docker.sock", "/run/podman/*", "/run/containerd/*",
)  # fmt: skip
OURS = (
    "~/.config/hermetic/*", "~/.local/state/hermetic/*", "~/.hermes/*", "*/hermetic.toml",
)  # fmt: skip
PROCESSES = ("/proc/*/environ", "/proc/*/mem", "/proc/kcore")
VARIABLES = ("*/.env", "*/.env.local", "*/.env.production", "*/.env.development", "*/.env.staging", "*/.env.test")


def read_bounds() -> Bounds:
    """What no tool reads: credentials, variables of processes, and the records of environments with their tokens."""
    return _read_bounds(real_runtime_path())


@lru_cache(maxsize=16)
def _read_bounds(records: str) -> Bounds:
    return Bounds(deny=(*CREDENTIALS, *PROCESSES, *VARIABLES, *_records(records), "~/.config/hermetic/*"))


def write_bounds(root: str | None) -> Bounds:
    """Where a tool may write: below the root, if there is one, and nothing that is protected."""
    return Bounds(root=root, deny=(*CREDENTIALS, *SYSTEM, *OURS, *_records(real_runtime_path())))


def _records(root: str) -> tuple[str, ...]:
    return "/run/user/*/hermetic/*", f"{root}/*"
