"""Files of the environment, read and written in pieces that fit a frame."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from typing import BinaryIO

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import FILE, FRAME_BODY
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.session.arguments import encode_path
from hermetic.session.blobs import cut, with_blob


class Files:
    """The files as one session sees them: relative paths start at its cwd."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self._session = session

    async def read(self, path: str) -> bytes:
        """A file's whole content."""
        pieces = [piece async for piece in self._pieces(path, most=FILE.value)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def write(self, path: str, content: bytes) -> None:
        """Writes a file as a whole."""
        if len(content) <= FRAME_BODY.value:
            await self._write(path, content, None)
        else:
            await self._write_pieces(path, lambda: cut(content))

    async def upload(self, source: str, path: str) -> None:
        """Copies a file of the caller's machine here."""
        with await asyncio.to_thread(open, source, "rb") as file:
            await self._write_pieces(path, lambda: _read_pieces(file))

    async def download(self, path: str, target: str, *, most: int | None = None) -> None:
        """Copies a file to the caller's machine: aside first, then renamed, so that no half file is seen."""
        fd, aside = tempfile.mkstemp(prefix=".hermetic-", dir=os.path.dirname(target) or ".")
        try:
            async for piece in self._pieces(path, most=most):
                await asyncio.to_thread(_write_all, fd, piece)
            os.fchmod(fd, 0o666 & ~_umask())
            os.replace(aside, target)
        except BaseException:
            os.unlink(aside)
            raise
        finally:
            os.close(fd)

    async def _pieces(self, path: str, *, most: int | None) -> AsyncIterator[bytes]:
        """The content as it was long when the first piece came."""
        at, size = 0, None
        while size is None or at < size:
            said, data = await self._link.ask(
                "read_file",
                answers.file_piece,
                path=encode_path(path, "path"),
                session=self._session,
                offset=at,
                limit=FRAME_BODY.value,
            )
            if said.end - at != len(data):
                raise self._link.distrust(f"{len(data)} bytes of a file as [{at}, {said.end})")
            size = said.size if size is None else size
            if most is not None and size > most:
                raise InvalidArgument(
                    f"{path} has {size} bytes, the most to read at once is {most}; download it", argument="path"
                )
            if not data:
                return
            yield data
            at = said.end

    async def _write(self, path: str, content: bytes, blob: str | None) -> None:
        await self._link.ask(
            "write_file",
            answers.size,
            content,
            repeats=blob is None,
            path=encode_path(path, "path"),
            session=self._session,
            blob=blob,
        )

    async def _write_pieces(self, path: str, pieces: Callable[[], Iterable[bytes]]) -> None:
        async def use(blob: str) -> None:
            await self._write(path, b"", blob)

        await with_blob(self._link, pieces, use)


def _read_pieces(file: BinaryIO) -> Iterable[bytes]:
    file.seek(0)
    yield file.read(FRAME_BODY.value)
    while piece := file.read(FRAME_BODY.value):
        yield piece


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _umask() -> int:
    """The process' umask, which can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
