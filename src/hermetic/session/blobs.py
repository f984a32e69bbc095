"""Input of any size: sent in pieces to an unnamed file in the environment, which a command then
reads.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import FRAME_BODY
from hermetic.link import answers
from hermetic.link.failures import BrokenOff
from hermetic.link.link import Link

R = TypeVar("R")

TRIES = 3


async def with_blob(
    link: Link, pieces: Callable[[], Iterable[bytes]], use: Callable[[str], Awaitable[R]]
) -> R:
    """Sends the pieces as a blob and returns what `use(blob)` does.

    A blob that is not used, because sending it or the use of it failed or was cancelled, is
    dropped, or goes with its connection; when that breaks before the blob was used, all is sent
    again.
    """
    for last in (False,) * (TRIES - 1) + (True,):
        connection = link.connections
        blob = secrets.token_hex(8)
        try:
            for piece in pieces():
                await link.ask("blob", answers.size, piece, repeats=False, blob=blob)
            return await use(blob)
        except (BrokenOff, InvalidArgument) as error:
            is_lost = isinstance(error, BrokenOff) or (
                error.argument in ("blob", "command") and link.connections != connection
            )
            if last and is_lost and isinstance(error, InvalidArgument):
                raise BrokenOff(
                    f"the connection to {link.environment} broke again and again while input was sent: nothing was done "
                    "with it; try again when the way is better",
                    environment=link.environment,
                ) from error
            if last or not is_lost:
                link.mention("drop_blob", blob=blob)
                raise
        except BaseException:
            link.mention("drop_blob", blob=blob)
            raise
    raise AssertionError("the last try returns or raises")


def cut(data: bytes) -> Iterable[bytes]:
    """The data in pieces that fit a frame; one empty piece when there is none."""
    view = memoryview(data)
    for at in range(0, max(len(view), 1), FRAME_BODY):
        yield bytes(view[at : at + FRAME_BODY])
