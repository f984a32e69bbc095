"""What blocking classes are built from: methods derived from the signatures of their async
counterparts.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar

from hermetic.blocking.portal import Portal

H = TypeVar("H")
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

AsyncMethod = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
Method = Callable[Concatenate[Any, P], T]


class Face(Generic[H]):
    """The blocking counterpart of an object that belongs to a portal's event loop."""

    def __init__(self, portal: Portal, held: H) -> None:
        self._portal = portal
        self._held = held

    def __repr__(self) -> str:
        return repr(self._held)

    def __reduce__(self) -> NoReturn:
        advice = "open it there, or attach to its environment by the id"
        raise TypeError(f"{self!r} cannot be copied or sent to another process; {advice}")


class Closing:
    """Adds `with` to a class that has `close`."""

    def close(self) -> object:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stream(Face[AsyncIterator[T]], Closing):
    """A plain iterator over an async one; `close` it after use, or use `with`."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._portal.call(self._next)
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Ends the stream; the item it gave last counts as taken."""
        if self._portal.is_open:
            self._portal.call(self._end)

    async def _next(self) -> T:
        return await anext(self._held)

    async def _end(self) -> None:
        await self._held.aclose()  # type: ignore[attr-defined]


def waits(method: AsyncMethod[P, T]) -> Method[P, T]:
    """A method that calls its async counterpart and waits for the result."""

    @functools.wraps(method)
    def wait(self: Face[Any], /, *args: P.args, **options: P.kwargs) -> T:
        counterpart: Callable[P, Coroutine[Any, Any, T]] = getattr(self._held, method.__name__)
        return self._portal.call(counterpart, *args, **options)

    return wait


def gives(method: AsyncMethod[P, T], face: Callable[[Portal, T], R]) -> Method[P, R]:
    """As `waits`, with `face` around the result."""

    @functools.wraps(method)
    def wait(self: Face[Any], /, *args: P.args, **options: P.kwargs) -> R:
        return face(
            self._portal, self._portal.call(getattr(self._held, method.__name__), *args, **options)
        )

    return wait


def does(method: Method[P, T]) -> Method[P, T]:
    """A method that calls its counterpart, a plain function, on the event loop."""

    @functools.wraps(method)
    def do(self: Face[Any], /, *args: P.args, **options: P.kwargs) -> T:
        counterpart: Callable[P, T] = getattr(self._held, method.__name__)
        return self._portal.do(counterpart, *args, **options)

    return do


def made_like(
    kind: Callable[P, object],
) -> Callable[[Callable[Concatenate[S, ...], None]], Callable[Concatenate[S, P], None]]:
    """Gives an `__init__` the parameters of another class."""

    def dress(init: Callable[Concatenate[S, ...], None]) -> Callable[Concatenate[S, P], None]:
        return functools.wraps(kind.__init__, assigned=("__annotations__",), updated=())(init)

    return dress


def close(face: Face[Any], *, remove: bool) -> Any:
    """Closes the counterpart, and the portal that it owns; None where the portal is closed already."""
    if not face._portal.is_open:
        return None
    try:
        return face._portal.call(face._held.close, remove=remove)
    finally:
        if face._portal.owner is face._held:
            face._portal.close()
