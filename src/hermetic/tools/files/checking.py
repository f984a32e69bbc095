"""Whether a text that is to be written is what its file's name says, and whether it was meant to be written at all."""

import ast
import json
import re
import tomllib
import warnings
from itertools import pairwise

_NUMBERED = re.compile(r"\s*(\d+)\|")
_WITH_COMMENTS = re.compile(r"(^|/)(tsconfig[^/]*|jsconfig[^/]*|devcontainer|\.eslintrc|settings|launch|tasks)\.json$")


def fault(path: str, text: str) -> str | None:
    """Why a JSON, TOML or YAML file with this text could not be read by anybody; None when it could, or is none."""
    try:
        if path.endswith(".json") and not _WITH_COMMENTS.search(path):
            json.loads(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
        elif path.endswith((".yaml", ".yml")):
            return _tab_in(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


def _tab_in(text: str) -> str | None:
    """YAML takes no tab in an indentation; more is left to who reads it."""
    is_literal = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith((" ", "\t")):
            is_literal = bool(re.search(r"[|>][+-]?\d*\s*$", line))
        if not is_literal and re.match(r" *\t\s*[^\s#]", line):
            return f"a tab in the indentation of line {number}"
    return None


def lint(path: str, text: str) -> str | None:
    """The mistake that keeps Python from reading the text; None when there is none, or it is no Python."""
    if not path.endswith((".py", ".pyi")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return None


def looks_numbered(text: str) -> bool:
    """True for what read_file shows: nearly every line begins with its number and a bar."""
    lines = [line for line in text.split("\n") if line.strip()]
    numbers = [int(found[1]) for line in lines if (found := _NUMBERED.match(line))]
    if len(numbers) < 2 or len(numbers) * 10 < len(lines) * 9:
        return False
    return sum(after == before + 1 for before, after in pairwise(numbers)) * 10 >= (len(numbers) - 1) * 8
