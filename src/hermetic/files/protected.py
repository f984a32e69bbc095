"""Paths that no tool reads or writes, whoever asks: patterns of true paths, held to by the resident."""

from hermetic.contract.files import Bounds

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
    "~/.config/hermetic/*", "~/.local/state/hermetic/*", "~/.hermes/*", "*/hermetic.toml", "/run/user/*/hermetic/*",
)  # fmt: skip
PROCESSES = ("/proc/*/environ", "/proc/*/mem", "/proc/kcore")
VARIABLES = ("*/.env", "*/.env.local", "*/.env.production", "*/.env.development", "*/.env.staging", "*/.env.test")

READ = Bounds(deny=(*CREDENTIALS, *PROCESSES, *VARIABLES, "~/.config/hermetic/*"))


def write_bounds(root: str | None) -> Bounds:
    """Where a tool may write: below the root, if there is one, and nothing that is protected."""
    return Bounds(root=root, deny=(*CREDENTIALS, *SYSTEM, *OURS))
