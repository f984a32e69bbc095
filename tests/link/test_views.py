"""Pieces of output on their short way to a view."""

import asyncio

import pytest

from hermetic.link.calls import Viewing, Views
from hermetic.resident.wire.frames import EVENT, FrameError, LogPieces, pack_frame

ID = 300  # a number of more than one byte


async def opened() -> tuple[Views, Viewing, list[tuple[int, bytes]]]:
    """A view of at most 100 bytes from byte 1000, and what it gets."""
    came: list[tuple[int, bytes]] = []
    view = Viewing(
        "p", 1000, lambda start, data: came.append((start, data)), until=1100, pace=False
    )
    view.id, view.future = ID, asyncio.get_running_loop().create_future()
    view.frame()
    views = Views()
    views.add(view)
    return views, view, came


def piece(start: int, data: bytes) -> bytes:
    """A piece as a resident sends it."""
    return b"".join(LogPieces(ID).parts(start, data))


async def test_a_piece_that_comes_alone_is_taken() -> None:
    views, view, came = await opened()
    assert views.take(piece(1000, b"k"))
    assert views.take(piece(1001, b"l"))
    assert came == [(1000, b"k"), (1001, b"l")]
    assert view.position == 1002


async def test_all_else_is_left_to_the_parser() -> None:
    views, _, came = await opened()
    whole = piece(1000, b"k")
    for data in (
        whole + whole,
        whole + b"x",
        *(whole[:size] for size in range(len(whole))),
        b"".join(LogPieces(ID + 1).parts(1000, b"k")),
        pack_frame(EVENT, ID, {"start": 1000}, b"k").replace(b"start", b"stare"),
        whole[:4] + (len(whole) + 9).to_bytes(2, "big") + whole[6:],
    ):
        assert not views.take(data)
    assert came == []


async def test_bytes_that_were_not_asked_for_are_an_error() -> None:
    views, _, came = await opened()
    for data in (piece(999, b"k"), piece(1000, b"k" * 101)):
        with pytest.raises(FrameError):
            views.take(data)
    assert came == []


async def test_a_view_that_was_answered_takes_nothing_more() -> None:
    views, view, came = await opened()
    view.future.cancel()
    await asyncio.sleep(0)
    assert not views.take(piece(1000, b"k"))
    assert came == []
