"""Edits of files in an environment: read, worked out in memory, and written together, or not at
all.
"""

import asyncio
import contextlib
import errno
import posixpath
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hermetic.contract.approval import Guard
from hermetic.contract.edits import Change, Oversight, Patched
from hermetic.contract.errors import EditRefused, ExecutionError, FileChanged
from hermetic.contract.files import Bounds, FileChange, FileContent, Written
from hermetic.contract.limits import PATCH_DIFF, PATCH_TRIES, PATCHED_FILE, PATCHED_FILES
from hermetic.link.failures import BrokenOff
from hermetic.session.files import Files
from hermetic.tools.edits.diff import within
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.planning import diff_of, paths_of, plan
from hermetic.tools.edits.replacing import Replaced, replace
from hermetic.tools.edits.v4a import parse

# of files and edit; what is longer is worked out in a thread, so that the event loop goes on
QUICK_BYTES = 2048

Found = Mapping[str, FileContent | None]


class Patching:
    """Edits through one session's files."""

    def __init__(
        self,
        files: Files,
        bounds: Bounds | None,
        guard: Guard | None,
        oversight: Oversight | None,
        editing: asyncio.Lock,
    ) -> None:
        self._files = files
        # held from reading to writing: who else edits here then finds what is new
        self._editing = editing
        self._given = bounds or Bounds()
        # From when a file's true path is known on, no link may lead elsewhere.
        self._bounds = msgspec.structs.replace(self._given, exact=True)
        self._guard = guard
        self._oversight = oversight
        self._allowed: set[str] = set()

    async def replace(self, path: str, old: str, new: str, *, replace_all: bool) -> Patched:
        """Puts one text in the place of another in a file."""
        done: list[Replaced] = []

        def think(found: Found) -> list[Change]:
            content = found[path]
            if content is None:
                raise FileNotFoundError(
                    errno.ENOENT,
                    "there is no such file; look for its right path, or write it",
                    path,
                )
            done[:], change = _replaced(path, content.data, old, new, replace_all)
            return [change]

        patched = await self._edit([path], think, len(old) + len(new))
        return msgspec.structs.replace(patched, strategy=done[0].strategy, lines=done[0].lines)

    async def patch(self, text: str) -> Patched:
        """Does what a patch in the V4A form asks for."""
        operations = parse(text)
        paths = paths_of(operations)
        if len(paths) > PATCHED_FILES:
            raise EditRefused(
                f"the patch names {len(paths)} files, the most is {PATCHED_FILES}; split it",
                reason="too_large",
                argument="patch",
            )

        def think(found: Found) -> list[Change]:
            return plan(
                operations,
                {path: None if file is None else file.data for path, file in found.items()},
            )

        return await self._edit(paths, think, len(text))

    async def _edit(
        self, paths: Sequence[str], think: Callable[[Found], list[Change]], size: int
    ) -> Patched:
        """Reads, thinks and writes, again where another writer was faster. Raises EditRefused."""
        for _ in range(PATCH_TRIES):
            with contextlib.suppress(FileChanged, FileExistsError):
                true = await self._true_paths(paths)
                async with self._editing:
                    return await self._try(paths, true, think, size)
        raise EditRefused(
            f"{', '.join(paths)}: others change it again and again; nothing was written, try later",
            reason="stale",
            path=paths[0],
        )

    async def _try(
        self,
        paths: Sequence[str],
        true: Mapping[str, str],
        think: Callable[[Found], list[Change]],
        size: int,
    ) -> Patched:
        found = {path: await self._read(path, true[path]) for path in paths}
        size += sum(len(file.data) for file in found.values() if file is not None)
        changes = await asyncio.to_thread(think, found) if size > QUICK_BYTES else think(found)
        await self._refuse_links([change.path for change in changes if change.after is None], true)
        if self._oversight is not None:
            self._oversight.check(changes)
        return Patched(
            written=tuple(await self._write(changes, found, true)),
            diff=within(diff_of(changes), PATCH_DIFF),
            modified=tuple(
                one.path for one in changes if one.before is not None and one.after is not None
            ),
            created=tuple(one.path for one in changes if one.before is None),
            deleted=tuple(one.path for one in changes if one.after is None),
        )

    async def _true_paths(self, paths: Sequence[str]) -> dict[str, str]:
        """Each path as it is without links.

        Raises EditRefused where two are the same file, NotPermitted.
        """
        true: dict[str, str] = {}
        for path in paths:
            status = await self._files.status(path, True, self._given)
            if status.path in true.values():
                twin = next(other for other, known in true.items() if known == status.path)
                raise EditRefused(
                    f"{twin} and {path} are the same file; name it once",
                    reason="conflict",
                    path=path,
                    argument="patch",
                )
            true[path] = status.path
        if not self._allowed.issuperset(true.values()):
            if self._guard is not None:
                await self._guard.write(list(true.values()))
            if self._oversight is not None:
                await self._oversight.allow(list(true.values()))
            self._allowed = set(true.values())
        return true

    async def _refuse_links(self, paths: Sequence[str], true: Mapping[str, str]) -> None:
        """What would go by these paths is what they lead to, and the links would lead nowhere."""
        for path in paths:
            directory, name = posixpath.split(posixpath.normpath(path))
            above = await self._files.status(directory or ".", True, self._given)
            if posixpath.join(above.path, name) != true[path]:
                raise EditRefused(
                    f"{path} is a link to {true[path]}; name that file, or remove the link in the terminal",
                    reason="conflict",
                    path=path,
                    argument="patch",
                )

    async def _read(self, path: str, true: str) -> FileContent | None:
        status = await self._files.status(true, True, self._bounds)
        if status.kind == "missing":
            return None
        if status.kind == "file" and status.size > PATCHED_FILE:
            raise EditRefused(
                f"{path} has {status.size:,} bytes, the most to edit is {PATCHED_FILE:,}; "
                "use sed or a script in the terminal",
                reason="too_large",
                path=path,
            )
        if status.kind == "other":
            raise EditRefused(f"{path} is a device, a socket or a pipe", reason="binary", path=path)
        return await self._files.read(true, self._bounds)

    async def _write(
        self, changes: Sequence[Change], found: Found, true: Mapping[str, str]
    ) -> Sequence[Written]:
        steps = [_step(change, found, true) for change in changes]
        try:
            written = await self._written(steps)
        except BrokenOff:  # the answer was lost on its way; it was all done or nothing
            now = [await self._read(step.path, step.path) for step in steps]
            if [None if file is None else file.data for file in now] != [
                step.content for step in steps
            ]:
                raise
            return [Written(path=step.path) for step in steps]
        for step, said in zip(steps, written, strict=True):
            await self._verify(step, said)
        return written

    async def _written(self, steps: Sequence[FileChange]) -> Sequence[Written]:
        step = steps[0]
        if len(steps) > 1 or step.content is None:
            return await self._files.change(steps, self._bounds)
        return [
            await self._files.write(
                step.path, step.content, expect=step.expect, mode=step.mode, bounds=self._bounds
            )
        ]

    async def _verify(self, step: FileChange, said: Written) -> None:
        """Reads back what was written; a later change by another writer is no error."""
        if step.content is None:
            return
        with contextlib.suppress(FileNotFoundError, FileChanged):
            now = await self._files.read(step.path, self._bounds)
            if now.status.signature == said.signature and now.data != step.content:
                raise ExecutionError(
                    f"{step.path} was written and does not hold what was written; look at the disk"
                )


def _replaced(
    path: str, data: bytes, old: str, new: str, replace_all: bool
) -> tuple[list[Replaced], Change]:
    try:
        text, encoding = decode(data)
        done = replace(text, old, new, replace_all=replace_all)
        return [done], Change(path=path, before=data, after=encoding.encode(done.text))
    except EditRefused as error:
        raise EditRefused(
            f"{path}: {error}", reason=error.reason, path=path, argument="old_string"
        ) from None


def _step(change: Change, found: Found, true: Mapping[str, str]) -> FileChange:
    before = found[change.path]
    source = found[change.source] if change.source is not None else None
    return FileChange(
        path=true[change.path],
        content=change.after,
        expect="" if before is None else before.status.signature,
        mode=None if source is None else source.status.mode,
    )
