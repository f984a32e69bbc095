"""The search_files tool: lines or files that match, in pages, within a budget."""

import posixpath
from functools import partial
from itertools import groupby
from typing import Annotated, Literal

import msgspec

from hermetic.contract.files import Findings, Found
from hermetic.contract.limits import GROUPED_MATCHES, MATCH_LINE, SEARCH
from hermetic.contract.tool import Fields, Tool, about
from hermetic.tools.base.task import Task
from hermetic.tools.files.access import FileMemory

DESCRIPTION = """\
Searches files below a directory: target="content" for lines that match a regular expression, \
target="files" for files whose name matches a glob. Hidden files and what .gitignore and .ignore \
files leave out are not searched. Use it instead of grep, rg and find."""
ANSWERS = (
    "{total_count: int, matches?: list[{path: str, line: int, content: str}], matches_text?: str, files?: list[str], "
    "counts?: dict[str, int], truncated?: bool, next_offset?: int, error?: str}"
)
SPARE = 40  # characters of an answer around each result
REPEATED = "the same search was made three times and found the same; use what you have"
REFUSED = "refused: this search was made again and again and finds the same; use what you have, or search for another thing"


class SearchFilesArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `search_files`."""

    pattern: Annotated[
        str, about("A regular expression for one line, or a glob for names such as *.py.")
    ]
    target: Annotated[
        Literal["content", "files"],
        about("Whether lines in files or names of files are looked for."),
    ] = "content"
    path: Annotated[str, about("The directory or file to search.")] = "."
    file_glob: Annotated[
        str | None, about("Only files whose name matches this glob, such as *.py.")
    ] = None
    limit: Annotated[int, about("Most results in the answer.", ge=1)] = 50
    offset: Annotated[int, about("How many results to leave out, to read on.", ge=0)] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"],
        about("Lines that match, only the files they are in, or how many there are in each file."),
    ] = "content"
    context: Annotated[int, about("Lines to show before and after each match.", ge=0)] = 0


async def search_files(memory: FileMemory, task: Task, asked: SearchFilesArguments) -> Fields:
    """The tool's answer: what was found."""
    async with task.environment() as environment, task.alive():
        searching = environment.search_files(
            asked.pattern,
            asked.path,
            target=asked.target,
            output_mode=asked.output_mode,
            glob=asked.file_glob,
            limit=asked.limit,
            offset=asked.offset,
            context=asked.context,
            timeout=SEARCH,
            bounds=memory.read_bounds,
        )
        try:
            found = _fitting(await task.interruptible(searching), task.limits.read)
        except FileNotFoundError:
            return {
                "total_count": 0,
                "error": f"{asked.path} does not exist; name a directory or file that does",
            }
        except TimeoutError as error:
            return {"total_count": 0, "error": f"ended after {SEARCH:g} s: {error}"}
        answer = _answer(task, asked, found)
        if task.is_scripted:
            return answer
        call = ("search_files", memory.system_of(environment), asked)
        repeats = memory.repeats(task.id, call, repr(found))
    if repeats > 2:
        return {"total_count": found.total, "status": "refused", "error": REFUSED}
    return answer | ({"_warning": REPEATED} if repeats == 2 else {})


def _fitting(found: Findings, budget: int) -> Findings:
    """As many results as the budget has characters for; at least one."""
    used = kept = shown = 0
    for line in found.matches:
        used += min(len(line.text), MATCH_LINE) + len(line.path) + SPARE
        if used > budget and shown and line.is_match:
            break
        kept, shown = kept + 1, shown + line.is_match
    counts = 0
    for path, _ in found.counts:
        used += len(path) + SPARE
        if used > budget and counts:
            break
        counts += 1
    if kept == len(found.matches) and counts == len(found.counts):
        return found
    return msgspec.structs.replace(
        found,
        matches=found.matches[:kept],
        counts=found.counts[:counts],
        shown=shown + counts,
        truncated=True,
    )


def _answer(task: Task, asked: SearchFilesArguments, found: Findings) -> Fields:
    answer: Fields = {"total_count": found.total}
    if asked.target == "files" or asked.output_mode == "files_only":
        answer["files"] = [_path(asked, path) for path, _ in found.counts]
    elif asked.output_mode == "count":
        answer["counts"] = {_path(asked, path): count for path, count in found.counts}
    else:
        answer |= _matches(task, asked, found)
    if found.truncated:
        rest = asked.offset + found.shown
        answer |= {
            "truncated": True,
            "next_offset": rest,
            "hint": f"there is more: go on with offset={rest}",
        }
    return answer


def _matches(task: Task, asked: SearchFilesArguments, found: Findings) -> Fields:
    """One entry for each line; from some matches on a text grouped by files, which is shorter."""
    if found.shown < GROUPED_MATCHES:
        shown = [
            {"path": _path(asked, line.path), "line": line.line, "content": _text(task, line)}
            | ({} if line.is_match else {"is_context": True})
            for line in found.matches
        ]
        return {"matches": shown} if shown else {}
    groups = []
    for path, lines in groupby(found.matches, key=lambda line: line.path):
        texts = [f"{line.line}{':' if line.is_match else '-'}{_text(task, line)}" for line in lines]
        groups.append("\n".join([_path(asked, path), *texts]))
    return {
        "matches_text": "\n\n".join(groups),
        "matches_format": "path, then line:text; line-text is context",
    }


def _text(task: Task, line: Found) -> str:
    text = task.show.file(line.text, line.path)
    return text if len(text) <= MATCH_LINE else f"{text[:MATCH_LINE]}…"


def _path(asked: SearchFilesArguments, path: str) -> str:
    """As the caller would write it."""
    if asked.path in (".", "./"):
        return path
    if posixpath.basename(asked.path) == path:  # one file was searched
        return asked.path
    return posixpath.join(asked.path, path)


def search_files_tool(memory: FileMemory) -> Tool[SearchFilesArguments]:
    """The tool, with the toolbox's memory of files."""
    return Tool(
        "search_files",
        DESCRIPTION,
        SearchFilesArguments,
        partial(search_files, memory),
        answers=ANSWERS,
    )
