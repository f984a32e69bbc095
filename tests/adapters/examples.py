"""Runs the examples of docs/how-to/use-from-a-framework.md with the frameworks."""

from typing import Any

from tests.docs.pages import blocks
from tests.docs.snippets import run

PAGE = "docs/how-to/use-from-a-framework.md"


def run_example(heading: str, **names: Any) -> dict[str, Any]:
    """Runs the Python code below a heading, which sees these names, and returns its own.

    Raises AssertionError.
    """
    (block,) = blocks(PAGE, "python", heading)
    return run(block, **names)
