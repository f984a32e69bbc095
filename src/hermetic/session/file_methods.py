"""The methods of a session that read, search, write and edit files."""

import asyncio
from typing import TYPE_CHECKING, Literal

from hermetic.contract.approval import Guard
from hermetic.contract.edits import Oversight, Patched
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.files import Bounds, FileContent, FilePage, FileStatus, Findings, Written
from hermetic.contract.limits import FRAME_BODY
from hermetic.resident.lazy import Lazy
from hermetic.session.arguments import check_count, check_positive, encode_input
from hermetic.session.files import Files

if TYPE_CHECKING:
    from hermetic.session import patching
else:
    patching = Lazy("hermetic.session.patching")  # most callers edit nothing

Fields = dict[str, object]


class FileMethods:
    """Files of an environment; a relative path starts at the session's directory."""

    _files: Files
    # who has to allow writes; None: the caller is trusted
    _guard: Guard | None
    # edits of this caller wait for each other, and need not try again
    _editing: asyncio.Lock

    async def read_file(self, path: str) -> str:
        """A file's content as text; invalid UTF-8 is replaced.

        Raises FileNotFoundError and other OSErrors.
        """
        return (await self._files.read(path)).data.decode("utf-8", "replace")

    async def read_bytes(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError and other OSErrors."""
        return (await self._files.read(path)).data

    async def read_content(self, path: str, *, bounds: Bounds | None = None) -> FileContent:
        """A file's content and status, read atomically. Raises OSErrors, NotPermitted."""
        return await self._files.read(path, bounds)

    async def read_lines(
        self,
        path: str,
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

    async def list_names(self, path: str, *, bounds: Bounds | None = None) -> list[str]:
        """The names in a directory, sorted, at most 10,000. Raises OSErrors, NotPermitted."""
        return await self._files.names(path, bounds)

    async def search_files(
        self,
        pattern: str,
        path: str = ".",
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
        wish: Fields = {
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
        self, path: str, *, missing: bool = False, bounds: Bounds | None = None
    ) -> FileStatus:
        """Status of a file; with `missing` a missing file is no error, and its kind says so.

        Raises: FileNotFoundError and other OSErrors, NotPermitted.
        """
        return await self._files.status(path, missing, bounds)

    async def write_file(
        self,
        path: str,
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
        self, path: str, *, expect: str | None = None, bounds: Bounds | None = None
    ) -> Written:
        """Deletes a file; a link itself is deleted. Raises FileChanged, NotPermitted, OSErrors."""
        await self._may_write(path)
        return await self._files.delete(path, expect, bounds)

    async def move_file(
        self,
        path: str,
        target: str,
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

    async def patch(
        self,
        path: str | None = None,
        old_string: str | None = None,
        new_string: str | None = None,
        *,
        replace_all: bool = False,
        patch: str | None = None,
        bounds: Bounds | None = None,
        oversight: Oversight | None = None,
    ) -> Patched:
        """Edits files, all or none: replaces `old_string` by `new_string` at `path`, or applies a
        V4A `patch`.

        The old text must occur once, unless `replace_all`; white space and typography may differ.
        Raises: EditRefused, NotPermitted, OSErrors.
        """
        edits = patching.Patching(self._files, bounds, self._guard, oversight, self._editing)
        if patch is not None:
            if (path, old_string, new_string) != (None, None, None):
                raise InvalidArgument(
                    "give either patch, or path, old_string and new_string", argument="patch"
                )
            return await edits.patch(patch)
        if path is None or old_string is None or new_string is None:
            raise InvalidArgument("give path, old_string and new_string, or patch", argument="path")
        return await edits.replace(path, old_string, new_string, replace_all=replace_all)

    async def upload(self, source: str, path: str) -> None:
        """Copies a file of the caller's machine to `path` in the environment."""
        await self._may_write(path)
        await self._files.upload(source, path)

    async def download(self, path: str, target: str) -> None:
        """Copies the file at `path` in the environment to the caller's machine."""
        await self._files.download(path, target)

    async def _may_write(self, *paths: str) -> None:
        if self._guard is not None:
            await self._guard.write(paths)
