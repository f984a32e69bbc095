"""Python, by the tree that its own parser makes."""

from __future__ import annotations

import ast
import re
import warnings

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import UNKNOWN_COMMAND, execute
from hermetic.policy.marks import marks_in

from .expressions import TooLarge
from .statements import TextReader

MAX_SOURCE = 30_000
MAX_DEPTH = 6
_RISKY = re.compile(
    r"\b(os|subprocess|shutil|socket|exec|eval|unlink|rmtree|system|popen|ctypes)\b"
)

# Ways to call a function by a name that is computed.
_DYNAMIC = re.compile(
    r"\b(eval|exec|compile|[gs]etattr|globals|locals|vars|__\w+__(?<!__name__)(?<!__main__)|modules|importlib|operator"
    r"|inspect|gc|ctypes|types)\b|import __main__"
)


def judge_python(call: Call, source: str, *, depth: int = 0) -> None:
    """Report what a Python text would do."""
    if depth > MAX_DEPTH or len(source) > MAX_SOURCE:
        call.report(UNKNOWN_COMMAND, "runs Python code too large or nested too deeply to be read")
        return
    if marks_in(source):
        execute(call, source, "Python code")
        return
    text = source.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.lstrip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if _RISKY.search(text):
            call.report(UNKNOWN_COMMAND, "runs Python code that cannot be read")
        return
    reader = _PythonReader(call, "python", depth)
    reader.is_plain = not _DYNAMIC.search(text)
    try:
        try:
            reader.whole(tree)
        except TooLarge:
            _PythonReader(call, "python", depth, is_brief=True).whole(tree)
    except (RecursionError, TooLarge):
        call.report(UNKNOWN_COMMAND, "runs Python code too large to be read")


class _PythonReader(TextReader):
    def judge_again(self, text: str) -> None:
        judge_python(self.call, text, depth=self.depth + 1)
