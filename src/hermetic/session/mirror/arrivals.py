"""Files that come back from an environment, put below a directory of this machine and nowhere else."""

import os
import re
import secrets
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from hermetic.contract.printable import one_line
from hermetic.contract.variables import is_text
from hermetic.environments.isolation.git_paths import indirections
from hermetic.environments.isolation.workspace import lies_in
from hermetic.session.mirror.tree import FOLDER, LINK, MTIME, Entry, Hashing, look

# What holds secrets of the caller: it may go there, and never comes back.
_CREDENTIALS = re.compile(
    r"(?:^|/)(?:\.ssh|\.aws|\.gnupg|\.kube|\.docker|\.azure|\.config/gh|\.config/gcloud)/"
    r"|(?:^|/)(?:\.env(?:\..*)?|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|credentials(?:\.json)?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|[^/]*\.(?:pem|key|p12|pfx))$"
)
# What programs of the caller run or obey: git's hooks, settings and what leads to others, and
# Hermetic's own settings.
_OBEYED = re.compile(
    r"(?:^|/)\.git/(?:(?:hooks|worktrees)(?:/|$)|config(?:\.worktree)?$|commondir$|gitdir$"
    r"|modules/.*(?:hooks(?:/|$)|/config(?:\.worktree)?$|/commondir$))"
    r"|^hermetic\.toml$|^\.hermetic(?:/|$)",
    re.IGNORECASE,
)
MOST_WARNED = 1000  # characters
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Warn = Callable[[str], None]


class Refused(Exception):
    """One path is left as it is here; the message says why."""


class Arrivals(NamedTuple):
    """Where files arrive: below `root`, compared with what was `sent`."""

    root: str
    sent: dict[str, Entry]
    warn: Warn

    def unpack(self, archive: str) -> dict[str, Entry]:
        """Puts what the archive holds in place; returns each path with its entry. Raises OSError,
        tarfile.TarError.

        What the archive says is not believed: no name leads out, no link is followed, nothing gets
        more rights.
        """
        came: dict[str, Entry] = {}
        named = tuple(path.rstrip("/") for path in indirections(self.root))
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                try:
                    self._check(member, named)
                    came[member.name] = self._put(tar, member)
                except Refused as reason:
                    self._tell(f"{member.name} did not come back to {self.root}: {reason}")
        return came

    def _tell(self, problem: str) -> None:
        """Warns of a problem with a name that commands have chosen, which a terminal may show."""
        self.warn(one_line(problem, MOST_WARNED))

    def _check(self, member: tarfile.TarInfo, named: tuple[str, ...]) -> None:
        """Raises Refused. `named` are paths that git's settings here name."""
        parts = member.name.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\0" in member.name:
            raise Refused("its name leads elsewhere")
        if not (is_text(member.name) and is_text(member.linkname)):
            raise Refused("its name is not UTF-8")
        if not (member.isreg() or member.issym() or member.isdir()) or member.issparse():
            raise Refused("it is neither file, link nor folder")
        if _CREDENTIALS.search(member.name):
            raise Refused("it may hold credentials")
        is_pointer = parts[-1].lower() == ".git" and not member.isdir()
        if (
            is_pointer
            or _OBEYED.search(member.name)
            or any(lies_in(member.name, path) for path in named)
        ):
            raise Refused("programs on this machine would obey it; copy it yourself if you want it")
        if member.issym():
            ends = os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
            if os.path.isabs(member.linkname) or ends.split("/")[0] == "..":
                raise Refused(f"it is a link that leads elsewhere, to {member.linkname}")

    def _put(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
        here = look(os.path.join(self.root, member.name))
        if member.isdir() and here is not None and here.kind == "folder":
            return self._entry(member.name, FOLDER)
        if here is not None and not here.is_as(self.sent.get(member.name)):
            self._tell(f"{member.name} has changed in {self.root} and there: what is there wins")
        *above, name = member.name.split("/")
        with self._folder(above) as fd:
            if member.isdir():
                try:
                    os.mkdir(name, 0o755, dir_fd=fd)
                except FileExistsError:
                    raise Refused("here it is no folder") from None
                return self._entry(member.name, FOLDER)
            if here is not None and here.kind == "folder":
                raise Refused("here it is a folder")
            return self._entry(member.name, self._place(tar, member, name, fd))

    def _place(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, fd: int) -> str:
        """Puts a file or link in place; returns its digest."""
        aside = f".hermetic-sync-{secrets.token_hex(4)}"
        try:
            if member.issym():
                os.symlink(member.linkname, aside, dir_fd=fd)
                digest = f"{LINK}{member.linkname}"
            else:
                digest = self._write(tar, member, aside, fd)
            os.rename(aside, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            os.unlink(aside, dir_fd=fd)
            raise
        return digest

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, fd: int) -> str:
        content = tar.extractfile(member)
        assert content is not None, "it is a file"
        reading = Hashing(content)
        made = os.open(
            name,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=fd,
        )
        with open(made, "wb") as file:
            while piece := reading.read(1 << 20):
                file.write(piece)
            file.flush()
            os.fchmod(made, member.mode & 0o777)
            os.utime(made, ns=(_mtime(member), _mtime(member)))
        return reading.digest.hexdigest()

    def _entry(self, path: str, digest: str) -> Entry:
        if (seen := look(os.path.join(self.root, path))) is None:
            raise Refused("it is gone again")
        return msgspec.structs.replace(seen, digest=digest)

    @contextmanager
    def _folder(self, parts: list[str]) -> Iterator[int]:
        """A descriptor of the folder, made if missing; never by way of a link."""
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                inner = _step(part, fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


def _step(part: str, fd: int) -> int:
    for _ in range(2):
        try:
            return os.open(part, _FOLDER, dir_fd=fd)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=fd)
        except OSError:
            break
    raise Refused(f"here {part} is no folder")


def _mtime(member: tarfile.TarInfo) -> int:
    stamp = member.pax_headers.get(MTIME, "")
    return int(stamp) if stamp.isdigit() and len(stamp) < 20 else int(member.mtime) * 10**9
