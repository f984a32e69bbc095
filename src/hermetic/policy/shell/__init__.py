"""Bash: the reader, expansions, and the evaluator that walks a text without running it.

`reader` parses a text into the nodes of `syntax`; `expansion` turns words into fields; `state` is
what a shell holds while a text is evaluated; `evaluator` walks the nodes and hands every program to
the judges. What a program does lives in the packages beside this one.
"""

from .state import DEFAULT_HOME, DEFAULT_WORKSPACE, SECRET_NAME, Shell, Value

__all__ = ["DEFAULT_HOME", "DEFAULT_WORKSPACE", "SECRET_NAME", "Shell", "Value"]
