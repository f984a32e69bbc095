"""The read_file tool: a page of a file with line numbers, within a budget."""

import asyncio
import difflib
import posixpath
from functools import partial
from itertools import accumulate

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.files import FilePage
from hermetic.contract.limits import LARGE_FILE, LONG_LINE, READ_LINES
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.files.arguments import READ_ANSWERS, READ_DESCRIPTION, ReadFileArguments
from hermetic.tools.files.documents import as_text, is_document
from hermetic.tools.files.kinds import BINARY_ENDINGS, image_type
from hermetic.tools.files.memory import FileMemory, place_of
from hermetic.tools.files.named import NamedFiles
from hermetic.tools.files.protected import read_bounds

UNCHANGED = "unchanged since you read these lines before; they are above"
ASKED_AGAIN = "these lines have been read three times and have not changed; use what you have"
REFUSED = "refused: these lines were read again and again and have not changed; use what you have, or read other lines"


async def read_file(memory: FileMemory, task: Task, asked: ReadFileArguments) -> Fields:
    """What the lines are, or why there are none."""
    limit, bounds = min(asked.limit, READ_LINES), read_bounds()
    async with task.place(NamedFiles(task, [asked.path], bounds, writes=False)) as environment:
        path = asked.path
        if is_document(path):
            return await task.interruptible(_document(task, environment, asked, limit))
        try:
            page = await task.interruptible(
                environment.read_lines(
                    path,
                    asked.offset,
                    limit,
                    width=4 * LONG_LINE,
                    budget=4 * task.limits.read,
                    bounds=bounds,
                )
            )
        except FileNotFoundError:
            return await _missing(environment, path)
        except IsADirectoryError:
            return _failed(f"{path} is a directory; list it with the terminal tool, or use search_files")
        if page.status.kind != "file":
            return _other(page, path)
        if page.is_binary or posixpath.splitext(path.lower())[1] in BINARY_ENDINGS:
            return _binary(page, path)
        status, place = page.status, place_of(environment)
        memory.saw(task.id, place, status.path, status.signature)
        if not task.is_scripted:
            question = ("read_file", place, status.path, asked.offset, limit)
            repeats = memory.repeats(task.id, question, status.signature)
            if repeats:
                return _repeated(page, repeats)
        return _shown(task, page)


def _other(page: FilePage, path: str) -> Fields:
    if page.status.kind == "directory":
        return _failed(f"{path} is a directory; list it with the terminal tool, or use search_files")
    return _failed(f"{path} is a device, a socket or a pipe, not a file; read it with a command that has a timeout")


def _repeated(page: FilePage, repeats: int) -> Fields:
    answer: Fields = {
        "content": "", "status": "unchanged", "hint": UNCHANGED, "total_lines": page.total,
        "file_size": page.status.size, "truncated": False,
    }  # fmt: skip
    if repeats == 2:
        answer["_warning"] = ASKED_AGAIN
    elif repeats > 2:
        return _failed(REFUSED) | {"status": "refused"}
    return answer


def _shown(task: Task, page: FilePage) -> Fields:
    """The page as numbered lines, cut to the budget at a line."""
    text = task.show.file(page.text, page.status.path) if page.lines else ""
    lines = _fitting(_numbered(page, text), task.limits.read)
    last = page.first + len(lines) - 1
    answer: Fields = {
        "content": "\n".join(lines), "total_lines": page.total, "file_size": page.status.size,
        "truncated": last < page.total, "is_binary": False, "is_image": False,
    }  # fmt: skip
    if page.first > page.total:
        hint = f"the file has {page.total} lines" if page.total else "the file is empty"
        return answer | {"truncated": False, "hint": hint}
    return answer | _reading_on(page, last) | ({"encoding": page.encoding} if page.encoding != "utf-8" else {})


def _numbered(page: FilePage, text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").removesuffix("\r").split("\n")[: page.lines]
    if not page.cut and max(map(len, lines), default=0) <= LONG_LINE:
        return [f"{number}|{line}" for number, line in enumerate(lines, page.first)]
    return [f"{number}|{_cut(line, page.cut.get(number))}" for number, line in enumerate(lines, page.first)]


def _cut(line: str, whole: int | None) -> str:
    if whole is None and len(line) <= LONG_LINE:
        return line
    size = f"{whole} bytes" if whole is not None else f"{len(line)} characters"
    return f"{line[:LONG_LINE]}… [cut: the line has {size}]"


def _fitting(lines: list[str], most: int) -> list[str]:
    """As many of them as have no more characters, at least one."""
    if sum(map(len, lines)) + len(lines) <= most:
        return lines
    ends = accumulate(len(line) + 1 for line in lines)
    return lines[: max(1, sum(end <= most for end in ends))]


def _reading_on(page: FilePage, last: int) -> Fields:
    if last >= page.total:
        return {}
    more: Fields = {"next_offset": last + 1, "hint": f"read on with offset={last + 1}; there are {page.total} lines"}
    if last < page.first + page.lines - 1 or page.lines == 0:
        more["truncated_by"] = "characters"
    else:
        more["truncated_by"] = "lines"
    if page.status.size > LARGE_FILE:
        more["hint"] += f". The file is large ({page.status.size} bytes): search_files finds the lines you need"
    return more


def _binary(page: FilePage, path: str) -> Fields:
    image = image_type(page.head)
    what = f"an image ({image})" if image else "a binary file"
    answer = {
        "content": "", "total_lines": 0, "file_size": page.status.size, "truncated": False, "is_binary": True,
        "is_image": image is not None, "error": f"{path} is {what}, not text; use a program that reads it",
    }  # fmt: skip
    return answer | ({"mime_type": image} if image else {})


async def _document(task: Task, environment: Environment, asked: ReadFileArguments, limit: int) -> Fields:
    """A notebook or office document, as text."""
    try:
        content = await environment.read_content(asked.path, bounds=read_bounds())
        lines = await asyncio.to_thread(_lines_of, asked.path, content.data)
    except FileNotFoundError:
        return await _missing(environment, asked.path)
    except InvalidArgument as error:
        return _failed(str(error))
    shown = lines[asked.offset - 1 : asked.offset - 1 + limit]
    page = FilePage(
        status=content.status, text="\n".join(shown), first=asked.offset, lines=len(shown), total=len(lines)
    )
    return _shown(task, page) | {"converted": True}


def _lines_of(path: str, data: bytes) -> list[str]:
    return as_text(path, data).split("\n")


async def _missing(environment: Environment, path: str) -> Fields:
    folder, name = posixpath.split(path)
    try:
        names = await environment.list_names(folder or ".", bounds=read_bounds())
    except OSError:
        return _failed(f"{path} does not exist, nor does its directory")
    close = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    lower = [other for other in names if other not in close and name and name.lower() in other.lower()][:3]
    similar = [posixpath.join(folder, other) for other in [*close, *lower]]
    return _failed(f"{path} does not exist") | ({"similar_files": similar} if similar else {})


def _failed(message: str) -> Fields:
    return {"content": "", "error": message}


def read_file_tool(memory: FileMemory) -> Tool[ReadFileArguments]:
    """The tool, with what its toolbox remembers."""
    return Tool("read_file", READ_DESCRIPTION, ReadFileArguments, partial(read_file, memory), answers=READ_ANSWERS)
