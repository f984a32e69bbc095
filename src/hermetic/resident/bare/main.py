"""Start of a resident for a place without Python: the same as any other's, with other parts."""

from __future__ import annotations

from ..life import main as any_main
from .requests import BareRequests
from .resident import BareResident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, NoReturn


def main(stream: BinaryIO) -> NoReturn:
    """Never returns."""
    any_main.main(stream, BareResident, BareRequests)
