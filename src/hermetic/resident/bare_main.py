"""Start of a resident for a place without Python: the same as any other's, with other parts."""

from __future__ import annotations

from . import main as any_main
from .bare_requests import BareRequests
from .bare_resident import BareResident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, NoReturn


def main(stream: BinaryIO) -> NoReturn:
    """Never returns."""
    any_main.main(stream, BareResident, BareRequests)
