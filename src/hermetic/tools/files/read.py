"""The read_file tool: a page of a file with line numbers, within a budget."""

import asyncio
import difflib
import posixpath
from functools import partial
from itertools import accumulate
from typing import Annotated

import msgspec

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.files import FilePage
from hermetic.contract.limits import LARGE_FILE, LONG_LINE, READ_LINES
from hermetic.contract.tool import Fields, Tool, about
from hermetic.session.environment import Environment
from hermetic.tools.base.show import content_of_file
from hermetic.tools.base.task import Task
from hermetic.tools.files.access import FileMemory, check_unopened
from hermetic.tools.files.documents import DOCUMENT_ENDINGS, as_text

DESCRIPTION = """\
Reads a text file by lines, with their numbers: `12|text`. Use it instead of cat, head, tail and \
sed. A page holds 500 lines unless limit says otherwise; total_lines says how many there are, \
and next_offset where the next page begins. Notebooks, docx and xlsx files are shown as text. \
The numbers and bars are not part of the file."""
ANSWERS = "{content: str, total_lines?: int, file_size?: int, truncated?: bool, next_offset?: int, hint?: str, error?: str}"
UNCHANGED = "unchanged since you read these lines before; they are above"
READ_THRICE = "these lines have been read three times and have not changed; use what you have"
REFUSED = "refused: these lines were read again and again and have not changed; use what you have, or read other lines"
DIRECTORY = "{} is a directory; list it with the terminal tool, or use search_files"
DEVICE = "{} is a device, a socket or a pipe, not a file; read it with a command that has a timeout"

BINARY_ENDINGS = frozenset(
    str.split("""
    .pdf .zip .gz .bz2 .xz .zst .7z .rar .tar .tgz .jar .war .whl .exe .dll .so .dylib .o .a .lib
    .bin .class .pyc .pyo .wasm .png .jpg .jpeg .gif .bmp .webp .ico .tiff .mp3 .mp4 .wav .ogg
    .flac .avi .mov .mkv .webm .ttf .otf .woff .woff2 .eot .sqlite .sqlite3 .db .doc .xls .ppt .pptx
    .odt .ods .parquet .npy .npz .pt .onnx
    """)
)
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"\0\0\1\0": "image/x-icon",
}


class ReadFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `read_file`."""

    path: Annotated[
        str, about("The file; a relative path starts at the shell's directory, ~/ at home.")
    ]
    offset: Annotated[int, about("Number of the first line, from 1.", ge=1)] = 1
    limit: Annotated[int, about("How many lines, at most 2000.", ge=1)] = 500


async def read_file(memory: FileMemory, task: Task, asked: ReadFileArguments) -> Fields:
    """The lines of a page, or why there are none."""
    path, limit, bounds = asked.path, min(asked.limit, READ_LINES), memory.read_bounds
    async with task.environment(partial(check_unopened, [path], bounds)) as environment:
        try:
            if path.lower().endswith(DOCUMENT_ENDINGS):
                return await task.interruptible(_document(memory, task, environment, asked, limit))
            reading = environment.read_lines(
                path,
                asked.offset,
                limit,
                width=4 * LONG_LINE,
                budget=4 * task.limits.read,
                bounds=bounds,
            )
            page = await task.interruptible(reading)
        except FileNotFoundError:
            return await _missing(memory, environment, path)
        except IsADirectoryError:
            return _failed(DIRECTORY.format(path))
        if page.status.kind != "file":
            return _failed((DIRECTORY if page.status.kind == "directory" else DEVICE).format(path))
        if page.is_binary or posixpath.splitext(path.lower())[1] in BINARY_ENDINGS:
            return _binary(page, path)
        status, system = page.status, memory.system_of(environment)
        memory.saw(task.id, system, status.path, status.signature)
        if not task.is_scripted:
            call = ("read_file", system, status.path, asked.offset, limit)
            if repeats := memory.repeats(task.id, call, status.signature):
                return _repeated(page, repeats)
        return _shown(task, page)


def _repeated(page: FilePage, repeats: int) -> Fields:
    if repeats > 2:
        return _failed(REFUSED) | {"status": "refused"}
    answer: Fields = {
        "content": "",
        "status": "unchanged",
        "hint": UNCHANGED,
        "total_lines": page.total,
        "file_size": page.status.size,
        "truncated": False,
    }
    return answer | ({"_warning": READ_THRICE} if repeats == 2 else {})


def _shown(task: Task, page: FilePage) -> Fields:
    """The page as numbered lines, cut to the budget at a line."""
    redactor, text = task.show.redactor, page.text if page.lines else ""
    if redactor is not None:
        text = redactor.redact(text, content_of_file(page.status.path))
    lines = _fitting(_numbered(page, text), task.limits.read)
    last = page.first + len(lines) - 1
    answer: Fields = {
        "content": "\n".join(lines),
        "total_lines": page.total,
        "file_size": page.status.size,
        "truncated": last < page.total,
        "is_binary": False,
        "is_image": False,
    }
    if page.first > page.total:
        hint = f"the file has {page.total} lines" if page.total else "the file is empty"
        return answer | {"truncated": False, "hint": hint}
    if page.encoding != "utf-8":
        answer["encoding"] = page.encoding
    if last < page.total:
        answer["next_offset"] = last + 1
        answer["hint"] = f"read on with offset={last + 1}; there are {page.total} lines"
        is_cut = last < page.first + page.lines - 1 or page.lines == 0
        answer["truncated_by"] = "characters" if is_cut else "lines"
        if page.status.size > LARGE_FILE:
            large = f". The file is large ({page.status.size} bytes): search_files finds the lines you need"
            answer["hint"] += large
    return answer


def _numbered(page: FilePage, text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").removesuffix("\r").split("\n")[: page.lines]
    if not page.cut and max(map(len, lines), default=0) <= LONG_LINE:
        return [f"{number}|{line}" for number, line in enumerate(lines, page.first)]
    return [
        f"{number}|{_cut(line, page.cut.get(number))}"
        for number, line in enumerate(lines, page.first)
    ]


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


def image_type(head: bytes) -> str | None:
    """The media type of an image that starts with these bytes; None for other files."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGES.items() if head.startswith(start)), None)


def _binary(page: FilePage, path: str) -> Fields:
    image = image_type(page.head)
    what = f"an image ({image})" if image else "a binary file"
    answer = {
        "content": "",
        "total_lines": 0,
        "file_size": page.status.size,
        "truncated": False,
        "is_binary": True,
        "is_image": image is not None,
        "error": f"{path} is {what}, not text; use a program that reads it",
    }
    return answer | ({"mime_type": image} if image else {})


async def _document(
    memory: FileMemory, task: Task, environment: Environment, asked: ReadFileArguments, limit: int
) -> Fields:
    """A notebook or office document, as text."""
    try:
        content = await environment.read_content(asked.path, bounds=memory.read_bounds)
        lines = await asyncio.to_thread(lambda: as_text(asked.path, content.data).split("\n"))
    except InvalidArgument as error:
        return _failed(str(error))
    shown = lines[asked.offset - 1 : asked.offset - 1 + limit]
    page = FilePage(
        status=content.status,
        text="\n".join(shown),
        first=asked.offset,
        lines=len(shown),
        total=len(lines),
    )
    return _shown(task, page) | {"converted": True}


async def _missing(memory: FileMemory, environment: Environment, path: str) -> Fields:
    folder, name = posixpath.split(path)
    try:
        names = await environment.list_names(folder or ".", bounds=memory.read_bounds)
    except OSError:
        return _failed(f"{path} does not exist, nor does its directory")
    close = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    lower = [
        other for other in names if other not in close and name and name.lower() in other.lower()
    ][:3]
    similar = [posixpath.join(folder, other) for other in [*close, *lower]]
    return _failed(f"{path} does not exist") | ({"similar_files": similar} if similar else {})


def _failed(message: str) -> Fields:
    return {"content": "", "error": message}


def read_file_tool(memory: FileMemory) -> Tool[ReadFileArguments]:
    """The tool, with the toolbox's memory of files."""
    return Tool(
        "read_file", DESCRIPTION, ReadFileArguments, partial(read_file, memory), answers=ANSWERS
    )
