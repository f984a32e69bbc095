"""The write_file tool: a whole file, keeping what the old one had; and checks of a text before it
is written.
"""

import ast
import json
import re
import tomllib
import warnings
from functools import partial
from itertools import pairwise
from typing import Annotated

import msgspec

from hermetic.contract.errors import FileChanged, InvalidArgument
from hermetic.contract.files import Bounds, FilePage, FileStatus
from hermetic.contract.tool import Fields, Tool, about
from hermetic.redaction.redactor import hidden_in
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.files.access import FileMemory, WriteJudge, write_bounds

DESCRIPTION = """\
Writes a whole file, and the directories above it where they are missing. What was there is \
replaced: to change a part of a file use the patch tool. Mode, owner, line endings and byte \
order mark of an existing file are kept."""
ANSWERS = "{bytes_written: int, dirs_created: bool, resolved_path: str, files_modified: list[str], lint?: dict, error?: str}"
TRIES = 3  # for a file that others change at the same time
SAMPLE_LINES = 200  # of the old file, by which its line endings are known
CHECKED = (".json", ".toml", ".yaml", ".yml", ".py", ".pyi")

_NUMBERED = re.compile(r"\s*(\d+)\|")
_WITH_COMMENTS = re.compile(
    r"(^|/)(tsconfig[^/]*|jsconfig[^/]*|devcontainer|\.eslintrc|settings|launch|tasks)\.json$"
)


def fault(path: str, text: str) -> str | None:
    """The syntax error of a JSON, TOML or YAML file with this text; None where there is none."""
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
    """The error of a tab in an indentation, which YAML does not allow; nothing else is checked."""
    is_literal = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith((" ", "\t")):
            is_literal = bool(re.search(r"[|>][+-]?\d*\s*$", line))
        if not is_literal and re.match(r" *\t\s*[^\s#]", line):
            return f"a tab in the indentation of line {number}"
    return None


def lint(path: str, text: str) -> str | None:
    """The syntax error of a Python file with this text; None where there is none."""
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
    return (
        sum(after == before + 1 for before, after in pairwise(numbers)) * 10
        >= (len(numbers) - 1) * 8
    )


class WriteFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `write_file`."""

    path: Annotated[
        str, about("The file; a relative path starts at the shell's directory, ~/ at home.")
    ]
    content: Annotated[str, about("All that the file is to hold.")]


async def write_file(
    memory: FileMemory, root: str | None, task: Task, asked: WriteFileArguments
) -> Fields:
    """The tool's answer: what was written."""
    if looks_numbered(asked.content):
        raise InvalidArgument(
            "content looks like what read_file shows, with line numbers and bars; give the text without them",
            argument="content",
        )
    if marks := hidden_in(asked.content):
        raise InvalidArgument(
            f"content holds {marks[0]} in place of a secret, which would be lost; change the other lines with patch, "
            "or ask the user to write the secret",
            argument="content",
        )
    bounds = write_bounds(root)
    judge = WriteJudge(task, [asked.path], bounds)
    async with task.environment(judge) as environment:
        status = await environment.file_status(asked.path, missing=True, bounds=bounds)
        if status.kind == "directory":
            raise InvalidArgument(
                f"{asked.path} is a directory; name a file in it", argument="path"
            )
        await judge.allow([status.path], environment)
        system = memory.system_of(environment)
        async with memory.working_on(system, [status.path]):
            exact = Bounds(root=bounds.root, deny=bounds.deny, exact=True)
            for tries_left in reversed(range(TRIES)):
                try:
                    return await _write(
                        memory, task, environment, status.path, asked.content, exact
                    )
                except FileChanged:
                    if not tries_left:
                        raise
            raise AssertionError("the last try returns or raises")


async def _write(
    memory: FileMemory,
    task: Task,
    environment: Environment,
    path: str,
    content: str,
    bounds: Bounds,
) -> Fields:
    """Writes the file as it is now. Raises FileChanged when another writer was faster."""
    system = memory.system_of(environment)
    status = await environment.file_status(path, missing=True, bounds=bounds)
    warning = memory.warning(task.id, system, path, status.signature) if status.signature else None
    old = await _old(environment, path, status, bounds)
    lint = _check(path, content, await _old_text(environment, path, old, bounds))
    written = await environment.write_file(
        path, _bytes(path, content, old), expect=status.signature, bounds=bounds
    )
    memory.wrote(task.id, system, written.path, written.signature)
    answer: Fields = {
        "bytes_written": written.size,
        "dirs_created": bool(written.made),
        "resolved_path": written.path,
        "files_modified": [written.path],
    }
    return answer | lint | ({"_warning": warning} if warning else {})


async def _old(
    environment: Environment, path: str, status: FileStatus, bounds: Bounds
) -> FilePage | None:
    """The first lines of the file that is replaced; None where there is no text file."""
    if status.kind != "file":
        return None
    page = await environment.read_lines(path, 1, SAMPLE_LINES, bounds=bounds)
    return None if page.is_binary else page


async def _old_text(
    environment: Environment, path: str, old: FilePage | None, bounds: Bounds
) -> str | None:
    """The text of the file that is replaced, if its syntax is checked."""
    if old is None or not path.endswith(CHECKED):
        return None
    if old.lines == old.total:
        return old.text
    return (await environment.read_content(path, bounds=bounds)).data.decode("utf-8", "replace")


def _check(path: str, content: str, old: str | None) -> Fields:
    """New syntax errors for the answer.

    Raises InvalidArgument for a text that breaks a valid file.
    """
    if (why := fault(path, content)) is not None:
        if old is None or fault(path, old) is None:
            raise InvalidArgument(
                f"{path} was not written: its content is broken: {why}", argument="content"
            )
        return {"lint": {"status": "error", "output": f"{why} (the file was broken before)"}}
    if (mistake := lint(path, content)) is not None and (old is None or lint(path, old) != mistake):
        return {"lint": {"status": "error", "output": mistake}}
    return {}


def _bytes(path: str, content: str, old: FilePage | None) -> bytes:
    """The file's bytes, with line endings, byte order mark and encoding of the old one.

    Raises InvalidArgument.
    """
    encoding, mark = ("utf-8", b"") if old is None else (old.encoding, old.mark)
    if old is not None:
        lines = old.text.split("\n")[: old.lines]
        is_windows = sum(line.endswith("\r") for line in lines) * 2 > len(lines)
        if is_windows and "\r\n" not in content:
            content = content.replace("\n", "\r\n")
        if mark:
            content = content.removeprefix("\ufeff")
    try:
        return mark + content.encode(
            encoding, "surrogateescape" if encoding == "utf-8" else "strict"
        )
    except UnicodeEncodeError as error:
        character = content[error.start : error.start + 1]
        raise InvalidArgument(
            f"{path} was not written: {character!a} cannot be written in {error.encoding}, the encoding of the file; "
            "give text that is valid Unicode",
            argument="content",
        ) from None


def write_file_tool(memory: FileMemory, root: str | None) -> Tool[WriteFileArguments]:
    """The tool, with the toolbox's memory of files and the directory that it must not leave, if
    there is one.
    """
    return Tool(
        "write_file",
        DESCRIPTION,
        WriteFileArguments,
        partial(write_file, memory, root),
        answers=ANSWERS,
    )
