"""Runs a snippet of Python from a page, and compares what it prints with what the page says it
prints.
"""

import ast
import asyncio
import inspect
import io
import sys
import tokenize
from collections.abc import Awaitable
from typing import Any, cast

import hermetic
from tests.docs.pages import Block
from tests.programs import need_variable

IMAGE = "python:3.12"


class Printed:
    """Stands in for `print` and remembers which line printed what."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}

    def __call__(self, *values: object, end: str = "\n") -> None:
        """As `print`, into memory."""
        self.lines[sys._getframe(1).f_lineno] = " ".join(map(str, values)).rstrip("\n")


def run(block: Block, **given: Any) -> dict[str, Any]:
    """Runs it to its end; returns its names. It sees those that are given, and with `await` an
    environment as `env`.

    Raises AssertionError. A snippet that opens a container runs with the tests' own image, and is
    skipped where docker is missing.
    """
    code = compile(
        with_test_image(block.text), str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    printed = Printed()
    names: dict[str, Any] = {
        "__name__": "__snippet__",
        "hermetic": hermetic,
        "asyncio": asyncio,
        "print": printed,
    }
    names.update(given)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(_run_with_environment(code, names))
    else:
        exec(code, names)
    promised = expected(block.text)
    assert printed.lines == promised, (
        f"{block} prints {printed.lines}, and says that it prints {promised}"
    )
    return names


def with_test_image(text: str) -> str:
    """The text with an image that the tests have. Ends the test where there is none."""
    return text.replace(IMAGE, need_variable("IMAGE_BASE")) if IMAGE in text else text


def expected(text: str) -> dict[int, str]:
    """Line number → the comment behind a `print` on that line."""
    return {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("print(")
    }


async def _run_with_environment(code: Any, names: dict[str, Any]) -> None:
    async with asyncio.timeout(60), hermetic.open("local") as env:
        names["env"] = env
        await cast(Awaitable[None], eval(code, names))
