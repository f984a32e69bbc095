"""Files of an environment: the methods of a session, and the requests they send, in pieces that fit
a frame.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import BinaryIO, Literal, TypeVar

import msgspec

from hermetic.contract.approval import Guard
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.files import (
    Bounds,
    FileChange,
    FileContent,
    FilePage,
    FileStatus,
    Findings,
    Written,
)
from hermetic.contract.limits import FILE, FRAME_BODY
from hermetic.link import answers
from hermetic.link.calls import Call
from hermetic.link.link import Link
from hermetic.session.arguments import (
    check_count,
    check_positive,
    encode_input,
    encode_path,
    path_text,
)
from hermetic.session.blobs import cut, with_blob
from hermetic.tools.edits.encoding import decode

R = TypeVar("R")


class FileMethods:
    """Files of an environment; a relative path starts at the session's directory."""

    _files: "Files"
    # who has to allow writes; None: the caller is trusted
    _guard: Guard | None

    async def read_file(self, path: str | PathLike[str]) -> str:
        """A file's content as text; invalid UTF-8 is replaced.

        Raises FileNotFoundError and other OSErrors.
        """
        return (await self._files.read(path)).data.decode("utf-8", "replace")

    async def read_bytes(self, path: str | PathLike[str]) -> bytes:
        """A file's content. Raises FileNotFoundError and other OSErrors."""
        return (await self._files.read(path)).data

    async def read_content(
        self, path: str | PathLike[str], *, bounds: Bounds | None = None
    ) -> FileContent:
        """A file's content and status, read atomically. Raises OSErrors, NotPermitted."""
        return await self._files.read(path, bounds)

    async def read_lines(
        self,
        path: str | PathLike[str],
        first: int = 1,
        count: int = 500,
        *,
        width: int = 8000,
        budget: int = FRAME_BODY,
        bounds: Bounds | None = None,
    ) -> FilePage:
        """Lines of a file of any size, and their total number.

        Lines are cut to `width` bytes, the whole to `budget` bytes. Raises OSErrors, NotPermitted.
        """
        check_count(first, "first", least=1)
        return await self._files.lines(
            path, first, check_count(count, "count"), width, budget, bounds
        )

    async def list_names(
        self, path: str | PathLike[str], *, bounds: Bounds | None = None
    ) -> list[str]:
        """The names in a directory, sorted, at most 10,000. Raises OSErrors, NotPermitted."""
        return await self._files.names(path, bounds)

    async def search_files(
        self,
        pattern: str,
        path: str | PathLike[str] = ".",
        *,
        target: Literal["content", "files"] = "content",
        output_mode: Literal["content", "files_only", "count"] = "content",
        glob: str | None = None,
        limit: int = 50,
        offset: int = 0,
        context: int = 0,
        timeout: float = 60.0,
        ripgrep: bool = True,
        bounds: Bounds | None = None,
    ) -> Findings:
        """Lines that match a regular expression, or files whose name matches a glob.

        ripgrep is used where the environment has it, unless `ripgrep=False`. Raises OSErrors,
        TimeoutError, InvalidArgument for a pattern that cannot be searched for, NotPermitted.
        """
        wish: dict[str, object] = {
            "pattern": pattern,
            "target": target,
            "mode": output_mode,
            "glob": glob,
            "ripgrep": ripgrep,
            "limit": check_count(limit, "limit", least=1),
            "offset": check_count(offset, "offset"),
            "context": check_count(context, "context"),
            "seconds": check_positive(timeout, "timeout"),
        }
        return await self._files.search(path, bounds, wish)

    async def file_status(
        self, path: str | PathLike[str], *, missing: bool = False, bounds: Bounds | None = None
    ) -> FileStatus:
        """Status of a file; with `missing` a missing file is no error, and its kind says so.

        Raises: FileNotFoundError and other OSErrors, NotPermitted.
        """
        return await self._files.status(path, missing, bounds)

    async def write_file(
        self,
        path: str | PathLike[str],
        content: str | bytes,
        *,
        expect: str | None = None,
        mode: int | None = None,
        bounds: Bounds | None = None,
    ) -> Written:
        """Writes a whole file atomically; missing parent directories are created.

        A replaced file keeps its owner and mode. With `expect` it is replaced only if it still has
        that signature; "" is the signature of a missing file. Raises: FileChanged, NotPermitted,
        OSErrors.
        """
        data = encode_input(content, "content")
        await self._may_write(path)
        return await self._files.write(path, data, expect=expect, mode=mode, bounds=bounds)

    async def delete_file(
        self, path: str | PathLike[str], *, expect: str | None = None, bounds: Bounds | None = None
    ) -> Written:
        """Deletes a file; a link itself is deleted. Raises FileChanged, NotPermitted, OSErrors."""
        await self._may_write(path)
        return await self._files.delete(path, expect, bounds)

    async def move_file(
        self,
        path: str | PathLike[str],
        target: str | PathLike[str],
        *,
        expect: str | None = None,
        replace: bool = False,
        bounds: Bounds | None = None,
    ) -> Written:
        """Moves a file.

        Raises FileChanged if the target exists and `replace` is False, NotPermitted, OSErrors.
        """
        await self._may_write(path, target)
        return await self._files.move(path, target, expect, replace, bounds)

    async def upload(self, source: str | PathLike[str], path: str | PathLike[str]) -> None:
        """Copies a file of the caller's machine to `path` in the environment."""
        await self._may_write(path)
        await self._files.upload(source, path)

    async def download(self, path: str | PathLike[str], target: str | PathLike[str]) -> None:
        """Copies the file at `path` in the environment to the caller's machine."""
        await self._files.download(path, target)

    async def _may_write(self, *paths: str | PathLike[str]) -> None:
        if self._guard is not None:
            await self._guard.write([path_text(path, "path") for path in paths])


class Files:
    """The files as one session sees them: relative paths start at its cwd."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self._session = session

    async def read(self, path: str | PathLike[str], bounds: Bounds | None = None) -> FileContent:
        """A file's whole content."""
        found: answers.FilePiece | None = None
        pieces = []
        async for said, piece in self._pieces(path, most=FILE, bounds=bounds):
            found = found or said
            pieces.append(piece)
        assert found is not None, "there is always one answer"
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return FileContent(data=data, status=_status(found))

    async def status(
        self, path: str | PathLike[str], missing: bool = False, bounds: Bounds | None = None
    ) -> FileStatus:
        """What a file is like."""
        return (
            await self._ask("file_status", answers.file_status, path, bounds, {"missing": missing})
        )[0]

    async def lines(
        self,
        path: str | PathLike[str],
        first: int,
        count: int,
        width: int,
        budget: int,
        bounds: Bounds | None,
    ) -> FilePage:
        """Some lines of a file."""
        wish: dict[str, object] = {"first": first, "lines": count, "width": width, "budget": budget}
        said, body = await self._ask("read_lines", answers.lines_piece, path, bounds, wish)
        status = _status(said)
        if said.binary:
            return FilePage(status=status, is_binary=True, head=body)
        return FilePage(
            status=status,
            text=_decoded(body, said.encoding),
            first=said.first,
            lines=said.lines,
            total=said.total,
            cut={said.first + number: length for number, length in said.cut},
            encoding=said.encoding,
            mark=said.mark,
        )

    async def names(self, path: str | PathLike[str], bounds: Bounds | None = None) -> list[str]:
        """The names in a directory, sorted."""
        _, body = await self._ask("list_names", answers.done, path, bounds, {})
        return self._link.decode(answers.names, body)

    async def search(
        self, path: str | PathLike[str], bounds: Bounds | None, wish: Mapping[str, object]
    ) -> Findings:
        """What a search below a path finds."""
        _, body = await self._ask("search_files", answers.done, path, bounds, wish)
        return self._link.decode(answers.findings, body)

    async def write(
        self,
        path: str | PathLike[str],
        content: bytes,
        *,
        expect: str | None = None,
        mode: int | None = None,
        bounds: Bounds | None = None,
    ) -> Written:
        """Writes a file as a whole."""
        more = {"expect": expect, "mode": mode}
        if len(content) <= FRAME_BODY:
            return await self._write(path, content, None, bounds, more)
        return await self._write_pieces(path, lambda: cut(content), bounds, more)

    async def delete(
        self, path: str | PathLike[str], expect: str | None, bounds: Bounds | None
    ) -> Written:
        """Takes a file away."""
        written, _ = await self._ask(
            "delete_file", answers.written, path, bounds, {"expect": expect}, repeats=False
        )
        return written

    async def move(
        self,
        path: str | PathLike[str],
        target: str | PathLike[str],
        expect: str | None,
        replace: bool,
        bounds: Bounds | None,
    ) -> Written:
        """Gives a file another path."""
        more = {"expect": expect, "replace": replace, "target": encode_path(target, "target")}
        return (await self._ask("move_file", answers.written, path, bounds, more, repeats=False))[0]

    async def change(
        self, changes: Sequence[FileChange], bounds: Bounds | None
    ) -> Sequence[Written]:
        """Writes and deletes several files: all, or none."""
        content = b"".join(change.content or b"" for change in changes)
        named = [
            {
                "path": encode_path(one.path, "path"),
                "size": None if one.content is None else len(one.content),
                "expect": one.expect,
                "mode": one.mode,
            }
            for one in changes
        ]
        head = msgspec.msgpack.encode(named)
        fields = {
            "op": "change_files",
            "named": len(head),
            "session": self._session,
            **_limits(bounds),
        }

        async def use(blob: str | None, body: bytes = b"") -> Sequence[Written]:
            call = Call({**fields, "blob": blob}, answers.done, head + body, repeats=False)
            return self._link.decode(answers.changed, (await self._link.finish(call))[1])

        if len(head) + len(content) <= FRAME_BODY:
            return await use(None, content)
        return await with_blob(self._link, lambda: cut(content), use)

    async def upload(self, source: str | PathLike[str], path: str | PathLike[str]) -> None:
        """Copies a file of the caller's machine here."""
        with await asyncio.to_thread(open, source, "rb") as file:
            await self._write_pieces(path, lambda: _read_pieces(file), None, {})

    async def download(
        self, path: str | PathLike[str], target: str | PathLike[str], *, most: int | None = None
    ) -> None:
        """Copies a file to the caller's machine: aside first, then renamed, so that no half file is
        seen.

        Links are followed. Raises InvalidArgument for a device, a socket or a pipe.
        """
        file = await asyncio.to_thread(_target_file, target)
        fd, aside = tempfile.mkstemp(prefix=".hermetic-", dir=os.path.dirname(file))
        try:
            async for _, piece in self._pieces(path, most=most):
                await asyncio.to_thread(_write_all, fd, piece)
            os.fchmod(fd, 0o666 & ~_umask())
            os.replace(aside, file)
        except BaseException:
            os.unlink(aside)
            raise
        finally:
            os.close(fd)

    async def _ask(
        self,
        op: str,
        reply: "msgspec.msgpack.Decoder[R]",
        path: str | PathLike[str],
        bounds: Bounds | None,
        more: Mapping[str, object],
        body: bytes = b"",
        *,
        repeats: bool = True,
    ) -> tuple[R, bytes]:
        """The answer to a request about one file."""
        where = {"path": encode_path(path, "path"), "session": self._session, **_limits(bounds)}
        return await self._link.finish(
            Call({"op": op, **more, **where}, reply, body, repeats=repeats)
        )

    async def _pieces(
        self, path: str | PathLike[str], *, most: int | None, bounds: Bounds | None = None
    ) -> AsyncIterator[tuple[answers.FilePiece, bytes]]:
        """The content as it was long when the first piece came."""
        at, size = 0, None
        while size is None or at < size:
            said, data = await self._ask(
                "read_file", answers.file_piece, path, bounds, {"offset": at, "limit": FRAME_BODY}
            )
            if said.end - at != len(data):
                raise self._link.distrust(f"{len(data)} bytes of a file as [{at}, {said.end})")
            size = said.size if size is None else size
            if most is not None and size > most:
                raise InvalidArgument(
                    f"{path} has {size} bytes, the most to read at once is {most}; download it",
                    argument="path",
                )
            if data or at == 0:
                yield said, data
            if not data:
                return
            at = said.end

    async def _write(
        self,
        path: str | PathLike[str],
        content: bytes,
        blob: str | None,
        bounds: Bounds | None,
        more: Mapping[str, object],
    ) -> Written:
        # Asked twice, a write that expects something finds what it wrote itself.
        repeats = blob is None and more.get("expect") is None
        fields = {"blob": blob, **more}
        written, _ = await self._ask(
            "write_file", answers.written, path, bounds, fields, content, repeats=repeats
        )
        return written

    async def _write_pieces(
        self,
        path: str | PathLike[str],
        pieces: Callable[[], Iterable[bytes]],
        bounds: Bounds | None,
        more: Mapping[str, object],
    ) -> Written:
        async def use(blob: str) -> Written:
            return await self._write(path, b"", blob, bounds, more)

        return await with_blob(self._link, pieces, use)


def _status(said: answers.FilePiece | answers.LinesPiece) -> FileStatus:
    return FileStatus(
        path=said.path,
        kind=said.kind,
        size=said.size,
        mode=said.mode,
        mtime=said.mtime,
        signature=said.signature,
    )


def _decoded(data: bytes, encoding: str) -> str:
    """A page as text; one that is more likely in an old encoding than in UTF-8 is read so."""
    if encoding != "utf-8":
        return data.decode(encoding, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        if b"\0" in data:
            return data.decode("utf-8", "replace")
        return decode(data)[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _limits(bounds: Bounds | None) -> dict[str, object]:
    """The fields of a request that say where files may be read or changed."""
    if bounds is None:
        return {}
    root = {} if bounds.root is None else {"root": encode_path(bounds.root, "root")}
    exact = {"exact": True} if bounds.exact else {}
    return {"deny": "\0".join(bounds.deny).encode("utf-8", "surrogateescape"), **exact, **root}


def _read_pieces(file: BinaryIO) -> Iterable[bytes]:
    file.seek(0)
    yield file.read(FRAME_BODY)
    while piece := file.read(FRAME_BODY):
        yield piece


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _target_file(path: str | PathLike[str]) -> str:
    """The file here that a path leads to. Raises InvalidArgument where none can be written."""
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    if not os.path.isdir(directory):
        raise InvalidArgument(
            f"there is no directory {directory}; make it first", argument="target"
        )
    if os.path.exists(target) and not os.path.isfile(target):
        raise InvalidArgument(
            f"{path} is no file: nothing was changed; name a file", argument="target"
        )
    return target


def _umask() -> int:
    """The process' umask, which can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
