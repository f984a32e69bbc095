"""Computes the new content of every file of a patch in memory, before anything is written."""

import posixpath
from collections.abc import Mapping, Sequence

from hermetic.contract.edits import Change
from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.diff import unified_diff
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.hunks import apply_hunks
from hermetic.tools.edits.v4a import Add, Delete, Operation, Update


def paths_of(operations: Sequence[Operation]) -> list[str]:
    """Every path that the operations touch, once each."""
    named = [
        path
        for one in operations
        for path in (one.path, one.to if isinstance(one, Update) else None)
        if path
    ]
    return list(dict.fromkeys(named))


def plan(operations: Sequence[Operation], files: Mapping[str, bytes | None]) -> list[Change]:
    """One change for each file that is another afterwards, in the order they are named.

    Raises EditRefused.
    """
    now = dict(files)
    sources: dict[str, str] = {}
    for operation in operations:
        try:
            _do(operation, now, sources)
        except EditRefused as error:
            raise EditRefused(
                f"{operation.path}: {error}",
                reason=error.reason,
                path=operation.path,
                argument="patch",
            ) from None
    changes = [
        Change(path=path, before=files[path], after=now[path], source=sources.get(path))
        for path in files
        if now[path] != files[path]
    ]
    if not changes:
        raise EditRefused(
            "the patch would leave every file as it is", reason="unchanged", argument="patch"
        )
    return changes


def _do(operation: Operation, now: dict[str, bytes | None], sources: dict[str, str]) -> None:
    content = now[operation.path]
    if isinstance(operation, Add):
        if content is not None:
            raise EditRefused(
                "it is there already; update it, or delete it in this patch first",
                reason="conflict",
            )
        now[operation.path] = operation.text.encode("utf-8", "surrogateescape")
    elif content is None:
        raise EditRefused(
            "there is no such file; look for its right path, or add it", reason="missing"
        )
    elif isinstance(operation, Delete):
        now[operation.path] = None
    else:
        _update(operation, content, now, sources)


def _update(
    operation: Update, content: bytes, now: dict[str, bytes | None], sources: dict[str, str]
) -> None:
    if operation.hunks:
        text, encoding = decode(content)
        updated = encoding.encode(apply_hunks(text, operation.hunks))
        if updated == content and operation.to is None:
            raise EditRefused("the patch would leave it as it is", reason="unchanged")
        content = updated
    if operation.to is None or posixpath.normpath(operation.to) == posixpath.normpath(
        operation.path
    ):
        now[operation.path] = content
        return
    if now[operation.to] is not None:
        raise EditRefused(
            f"{operation.to} is there already; move it to another name", reason="conflict"
        )
    now[operation.path], now[operation.to] = None, content
    sources[operation.to] = sources.pop(operation.path, operation.path)


def diff_of(changes: Sequence[Change]) -> str:
    """All changes as one diff; a file that moved is shown under both names, once."""
    moved = {change.source for change in changes if change.source is not None}
    before = {change.path: change.before for change in changes}
    parts = []
    for change in changes:
        if change.after is None and change.path in moved:
            continue
        old_path = change.source or (None if change.before is None else change.path)
        old = before.get(change.source, change.before) if change.source else change.before
        new_path = None if change.after is None else change.path
        text = unified_diff(old_path, new_path, _shown(old), _shown(change.after))
        renamed = f"rename from {old_path}\nrename to {new_path}\n" if change.source else ""
        parts.append(renamed + text)
    return "".join(parts)


def _shown(content: bytes | None) -> str:
    if content is None:
        return ""
    try:
        return decode(content)[0]
    except EditRefused:
        return ""  # a binary file that moves or goes: its name says enough
