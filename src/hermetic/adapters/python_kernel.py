"""A Python interpreter that keeps its variables from one piece of code to the next. Runs inside an
environment.

Standard library only, Python 3.8. A request is a line of JSON on stdin, {"code": …}; its answer is
a line of JSON on stdout: what was printed, the value of a last expression, or the exception.
"""

import ast
import json
import os
import sys
import tempfile
import traceback
from typing import Any, Dict  # noqa: UP035

Names = Dict[str, Any]  # noqa: UP006


def _evaluate(code: str, names: Names) -> object:
    """The value of the last expression, or None."""
    tree = ast.parse(code)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<code>", "exec"), names)
        return None
    del tree.body[-1]
    exec(compile(tree, "<code>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<code>", "eval"), names)


def _answer(code: str, names: Names) -> Names:
    try:
        value = _evaluate(code, names)
        return {"value": None if value is None else repr(value)}
    # also of sys.exit and of an interrupt: the next piece of code finds its variables
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        value = getattr(error, "value", None)
        return {
            "error": type(error).__name__,
            "text": text,
            "carried": value if isinstance(value, str) else str(error),
        }


def serve() -> None:
    """Answers requests until stdin ends.

    What code and its child processes print goes to a file first.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    printed = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this process
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    names: Names = {"__name__": "__main__", "__builtins__": __builtins__}
    while True:
        try:
            line = requests.readline()
        except KeyboardInterrupt:  # came too late for the code it was meant for
            continue
        if not line:
            return
        answer = _answer(json.loads(line)["code"], names)
        sys.stdout.flush()
        sys.stderr.flush()
        printed.seek(0)
        answer["printed"] = printed.read().decode("utf-8", "replace")
        printed.seek(0)
        printed.truncate()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
