"""The search_files tool: lines or files that match, in pages, within a budget."""

import posixpath
from functools import partial
from itertools import groupby

import msgspec

from hermetic.contract.files import Findings, Found
from hermetic.contract.limits import GROUPED_MATCHES, MATCH_LINE, SEARCH
from hermetic.contract.tool import Fields, Tool
from hermetic.tools.base.task import Task
from hermetic.tools.files.arguments import SEARCH_ANSWERS, SEARCH_DESCRIPTION, SearchFilesArguments
from hermetic.tools.files.memory import FileMemory, place_of
from hermetic.tools.files.protected import read_bounds

SPARE = 40  # characters of an answer around each result
REPEATED = "the same search was made three times and found the same; use what you have"
REFUSED = (
    "refused: this search was made again and again and finds the same; use what you have, or search for another thing"
)


async def search_files(memory: FileMemory, task: Task, asked: SearchFilesArguments) -> Fields:
    """What was found."""
    async with task.place() as environment, task.alive():
        try:
            found = await task.interruptible(
                environment.search_files(
                    asked.pattern,
                    asked.path,
                    target=asked.target,
                    output_mode=asked.output_mode,
                    glob=asked.file_glob,
                    limit=asked.limit,
                    offset=asked.offset,
                    context=asked.context,
                    timeout=SEARCH,
                    bounds=read_bounds(),
                )
            )
        except FileNotFoundError:
            return {"total_count": 0, "error": f"{asked.path} does not exist; name a directory or file that does"}
        except TimeoutError as error:
            return {"total_count": 0, "error": f"ended after {SEARCH:g} s: {error}"}
        found = _fitting(found, task.limits.read)
        answer = _answer(task, asked, found)
        if task.is_scripted:
            return answer
        repeats = memory.repeats(task.id, ("search_files", place_of(environment), asked), repr(found))
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
        found, matches=found.matches[:kept], counts=found.counts[:counts], shown=shown + counts, truncated=True
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
        answer |= {"truncated": True, "next_offset": rest, "hint": f"there is more: go on with offset={rest}"}
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
    return {"matches_text": "\n\n".join(groups), "matches_format": "path, then line:text; line-text is context"}


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
    """The tool, with what its toolbox remembers."""
    run = partial(search_files, memory)
    return Tool("search_files", SEARCH_DESCRIPTION, SearchFilesArguments, run, answers=SEARCH_ANSWERS)
