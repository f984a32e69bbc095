"""Plain files of the environment: read a range, write one whole."""

from __future__ import annotations

import errno
import os

from . import fields as take
from . import frames
from .resident import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .resident import Resident
    from .server import Request

_ERRORS: dict[int | None, str] = {
    errno.ENOENT: "FileNotFoundError", errno.EISDIR: "IsADirectoryError", errno.ENOTDIR: "NotADirectoryError",
    errno.EACCES: "PermissionError", errno.EPERM: "PermissionError",
}


WORKER_BYTES = 1 << 20  # a larger file is written by a forked child


class FileRequests:
    resident: Resident

    def _path(self, request: Request) -> str:
        session = self.resident.session(take.text(request.fields, "session"))
        return self.resident.resolve_path(session, take.path(request.fields, "path", ""))

    def do_read_file(self, request: Request) -> None:
        path = self._path(request)
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", frames.MAX_BODY, 0, frames.MAX_BODY)
        try:
            # Non-blocking: a FIFO without a writer must not hold the loop.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                data = os.pread(fd, limit, offset)
                status = os.fstat(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _refusal(error, path) from error
        request.reply(
            {"size": status.st_size, "end": offset + len(data), "mode": status.st_mode, "mtime": status.st_mtime}, data)

    def do_write_file(self, request: Request) -> None:
        path = self._path(request)
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        mode = take.number(request.fields, "mode", 0o666, 0, 0o7777) if request.fields.get("mode") is not None else None
        try:
            if take.flag(request.fields, "parents", True):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            source = self._content(request, blob)
            if source is not None and os.fstat(source).st_size > WORKER_BYTES:
                self._replace_in_worker(request, os.path.realpath(path), source, mode)
                return
            size = _replace(os.path.realpath(path), request.body, source, mode)
        except OSError as error:
            raise _refusal(error, path) from error
        request.reply({"size": size})

    @staticmethod
    def _content(request: Request, blob: str | None) -> int | None:
        """The descriptor of a blob, which is used up by this."""
        if blob is None:
            return None
        source = request.client.blobs.pop(blob, None)
        if source is None:
            raise take.invalid("blob", "no such blob on this connection")
        os.lseek(source, 0, os.SEEK_SET)
        return source

    def _replace_in_worker(self, request: Request, path: str, source: int, mode: int | None) -> None:
        """Copied by a forked child: the loop serves others meanwhile."""
        size = os.fstat(source).st_size
        pid = os.fork()
        if pid == 0:
            code = errno.EIO
            try:
                _replace(path, b"", source, mode)
                code = 0
            except OSError as error:
                code = error.errno or errno.EIO
            finally:
                os._exit(code)
        os.close(source)

        def done(status: int) -> None:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else errno.EIO
            if code:
                request.refuse(_refusal(OSError(code, os.strerror(code)), path))
            else:
                request.reply({"size": size})
        self.resident.loop.on_exit(pid, done)


def _replace(path: str, body: bytes, source: int | None, mode: int | None) -> int:
    """Write the body or all of `source` aside and rename it: a reader sees the old or the new, never half of one."""
    try:
        old_mode = os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        umask = os.umask(0o022)
        os.umask(umask)
        old_mode = 0o666 & ~umask
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    aside = "%s.%s.tmp" % (path, os.urandom(4).hex())
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(body)
            file.flush()
            if source is not None:
                with open(source, "rb") as content:
                    while os.sendfile(fd, content.fileno(), None, 1 << 24):
                        pass
            os.fchmod(fd, old_mode if mode is None else mode)
            size = os.fstat(fd).st_size
        os.rename(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return size


def _refusal(error: OSError, path: str) -> Refusal:
    kind = _ERRORS.get(error.errno, "OSError")
    return Refusal(kind, "%s: %s" % (path, error.strerror))
