"""The write_file tool: a whole file, with what the old one had kept."""

from functools import partial

from hermetic.contract.errors import FileChanged, InvalidArgument
from hermetic.contract.files import Bounds, FilePage, FileStatus, Written
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.files.arguments import WRITE_ANSWERS, WRITE_DESCRIPTION, WriteFileArguments
from hermetic.tools.files.checking import fault, lint, looks_numbered
from hermetic.tools.files.memory import FileMemory, place_of
from hermetic.tools.files.named import NamedFiles
from hermetic.tools.files.protected import write_bounds

TRIES = 3  # for a file that others change at the same time
SAMPLE_LINES = 200  # of the old file, by which its line endings are known


async def write_file(memory: FileMemory, root: str | None, task: Task, asked: WriteFileArguments) -> Fields:
    """What was written."""
    if looks_numbered(asked.content):
        raise InvalidArgument(
            "content looks like what read_file shows, with line numbers and bars; give the text without them",
            argument="content",
        )
    if marks := task.show.hidden(asked.content):
        raise InvalidArgument(
            f"content holds {marks[0]} in place of a secret, which would be lost; change the other lines with patch, "
            "or ask the user to write the secret",
            argument="content",
        )
    bounds = write_bounds(root)
    named = NamedFiles(task, [asked.path], bounds)
    async with task.place(named) as environment:
        status = await environment.file_status(asked.path, missing=True, bounds=bounds)
        if status.kind == "directory":
            raise InvalidArgument(f"{asked.path} is a directory; name a file in it", argument="path")
        await named.allow([status.path], environment)
        async with memory.working_on(place_of(environment), [status.path]):
            return await _write(memory, task, environment, status.path, asked.content, bounds)


async def _write(
    memory: FileMemory, task: Task, environment: Environment, path: str, content: str, bounds: Bounds
) -> Fields:
    exact = Bounds(root=bounds.root, deny=bounds.deny, exact=True)
    for last in (False,) * (TRIES - 1) + (True,):
        status = await environment.file_status(path, missing=True, bounds=exact)
        warning = memory.warning(task.id, place_of(environment), path, status.signature) if status.signature else None
        old = await _old(environment, path, status, exact)
        told = _check(path, content, await _old_text(environment, path, old, exact))
        data = _bytes(path, content, old)
        try:
            written = await environment.write_file(path, data, expect=status.signature, bounds=exact)
        except FileChanged:
            if last:
                raise
            continue
        memory.wrote(task.id, place_of(environment), written.path, written.signature)
        return _answer(written, told, warning)
    raise AssertionError("the last try returns or raises")


async def _old(environment: Environment, path: str, status: FileStatus, bounds: Bounds) -> FilePage | None:
    """How the file that is replaced begins; None where there is none that is text."""
    if status.kind != "file":
        return None
    page = await environment.read_lines(path, 1, SAMPLE_LINES, bounds=bounds)
    return None if page.is_binary else page


async def _old_text(environment: Environment, path: str, old: FilePage | None, bounds: Bounds) -> str | None:
    """All of it, where its mistakes matter."""
    if old is None or not path.endswith((".json", ".toml", ".yaml", ".yml", ".py", ".pyi")):
        return None
    if old.lines == old.total:
        return old.text
    return (await environment.read_content(path, bounds=bounds)).data.decode("utf-8", "replace")


def _check(path: str, content: str, old: str | None) -> Fields:
    """What is new to say about the text. Raises InvalidArgument for one that breaks a file which was whole."""
    answer: Fields = {}
    if (why := fault(path, content)) is not None:
        if old is None or fault(path, old) is None:
            raise InvalidArgument(f"{path} was not written: its content is broken: {why}", argument="content")
        answer["lint"] = {"status": "error", "output": f"{why} (the file was broken before)"}
    if (mistake := lint(path, content)) is not None and (old is None or lint(path, old) != mistake):
        answer["lint"] = {"status": "error", "output": mistake}
    return answer


def _bytes(path: str, content: str, old: FilePage | None) -> bytes:
    """Raises InvalidArgument for a text that the file's encoding cannot spell."""
    try:
        return _encoded(content, old)
    except UnicodeEncodeError as error:
        character = content[error.start : error.start + 1]
        raise InvalidArgument(
            f"{path} was not written: {character!a} cannot be written in {error.encoding}, the encoding of the file; "
            "give text that is valid Unicode",
            argument="content",
        ) from None


def _encoded(content: str, old: FilePage | None) -> bytes:
    """The bytes of the file, with line endings, byte order mark and wide encoding of the old one."""
    if old is None:
        return content.encode("utf-8", "surrogateescape")
    lines = old.text.split("\n")[: old.lines]
    windows = sum(line.endswith("\r") for line in lines)
    if windows * 2 > len(lines) and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
    if old.mark and content.startswith("\ufeff"):
        content = content[1:]
    return old.mark + content.encode(old.encoding, "surrogateescape" if old.encoding == "utf-8" else "strict")


def _answer(written: Written, told: Fields, warning: str | None) -> Fields:
    answer: Fields = {
        "bytes_written": written.size, "dirs_created": bool(written.made), "resolved_path": written.path,
        "files_modified": [written.path], **told,
    }  # fmt: skip
    return answer | ({"_warning": warning} if warning else {})


def write_file_tool(memory: FileMemory, root: str | None) -> Tool[WriteFileArguments]:
    """The tool, with what its toolbox remembers and the directory that it must not leave, if there is one."""
    run = partial(write_file, memory, root)
    return Tool("write_file", WRITE_DESCRIPTION, WriteFileArguments, run, answers=WRITE_ANSWERS)
