"""What an edit of files did."""

import msgspec


class Patched(msgspec.Struct, frozen=True, kw_only=True):
    """What changed. Paths are as they were given."""

    diff: str  # unified, cut to a budget
    modified: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    strategy: str = ""  # replace: how the place was found
    lines: tuple[int, ...] = ()  # replace: where the replaced stretches began, from 1
    notes: tuple[str, ...] = ()
