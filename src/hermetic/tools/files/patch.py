"""The patch tool: a text becomes another in a file, or a patch changes many; all of it or nothing."""

import shlex
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AsyncExitStack

from hermetic.contract.edits import Change, Patched
from hermetic.contract.errors import EditRefused, FileChanged, InvalidArgument, NotPermitted
from hermetic.contract.limits import PATCH_MISSES, REMEMBERED_FILES
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.planning import paths_of
from hermetic.tools.edits.v4a import parse
from hermetic.tools.files.arguments import PATCH_ANSWERS, PATCH_DESCRIPTION, PatchArguments
from hermetic.tools.files.checking import fault, lint, looks_numbered
from hermetic.tools.files.memory import FileMemory, place_of
from hermetic.tools.files.named import NamedFiles
from hermetic.tools.files.protected import read_bounds, write_bounds

AGAIN = (
    "{count} edits of {path} in a row did not fit it: read it again with read_file before the next one, then copy a "
    "few lines exactly, or write the whole file with write_file"
)


HIDDEN = "not shown: read_file does not show this file either"
UNFIT = "the edit does not fit ({reason}); the content of this file is not shown, so ask the user how the line reads"


class PatchTool:
    """The tool's work, and how often edits of a file have missed in a row."""

    def __init__(self, memory: FileMemory, root: str | None) -> None:
        self._memory = memory
        self._bounds = write_bounds(root)
        self._misses: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def run(self, task: Task, asked: PatchArguments) -> Fields:
        """What was changed, or why nothing was."""
        wanted = _wanted(asked)
        try:
            files = NamedFiles(task, _named(wanted), self._bounds)
        except EditRefused as error:
            return self._refused(task, error, task.show(str(error), ""))
        async with task.place(files) as environment, AsyncExitStack() as locks:
            overseer = _Overseer(self._memory, files, environment, locks)
            try:
                done = await environment.patch(**wanted, bounds=self._bounds, oversight=overseer)
            except EditRefused as error:
                named = [path for path in (error.path or asked.path,) if path]
                is_hidden = await _is_hidden(environment, named)
                told = UNFIT.format(reason=error.reason) if is_hidden else task.show(str(error), _reading(named))
                return self._refused(task, error, told, *named)
            except (OSError, FileChanged) as error:
                return {"success": False, "error": str(error)}
            for written in done.written:
                self._memory.wrote(task.id, place_of(environment), written.path, written.signature)
            names = (*done.modified, *done.created, *done.deleted)
            diff = HIDDEN if await _is_hidden(environment, names) else task.show(done.diff, _reading(names))
        for path in names:
            self._misses.pop((task.id, path), None)
        return _answer(done, diff, overseer.lint)

    def _refused(self, task: Task, error: EditRefused, told: str, path: str = "") -> Fields:
        answer: Fields = {"success": False, "error": told, "reason": error.reason}
        if error.reason in ("missing", "ambiguous") and path:
            key = (task.id, path)
            count = self._misses.pop(key, 0) + 1
            self._misses[key] = count
            while len(self._misses) > REMEMBERED_FILES:
                self._misses.popitem(last=False)
            if count >= PATCH_MISSES:
                answer["hint"] = AGAIN.format(count=count, path=path)
        return answer


class _Overseer:
    """Asks the door, keeps others off the files, and sees that no file is broken."""

    def __init__(self, memory: FileMemory, named: NamedFiles, environment: Environment, locks: AsyncExitStack) -> None:
        self._memory, self._named, self._environment, self._locks = memory, named, environment, locks
        self.lint: Fields = {}

    async def allow(self, paths: Sequence[str]) -> None:
        """Raises NotPermitted."""
        await self._named.allow(paths, self._environment)
        await self._locks.aclose()
        await self._locks.enter_async_context(self._memory.working_on(place_of(self._environment), paths))

    def check(self, changes: Sequence[Change]) -> None:
        """Raises EditRefused for one that breaks a file which was whole."""
        self.lint = {}
        for change in changes:
            new = _text(change.after)
            if new is None:
                continue
            old = _text(change.before)
            if (why := fault(change.path, new)) and (old is None or fault(change.path, old) is None):
                raise EditRefused(f"{change.path} would be broken: {why}", reason="broken", path=change.path)
            if (mistake := why or lint(change.path, new)) and (old is None or lint(change.path, old) != mistake):
                self.lint[change.path] = {"status": "error", "output": mistake}


def _wanted(asked: PatchArguments) -> Fields:
    """The arguments of an edit. Raises InvalidArgument that names what is missing."""
    if asked.mode == "patch" or (asked.patch and asked.old_string is None):
        if not asked.patch:
            raise InvalidArgument("mode patch needs patch: the text from *** Begin Patch on", argument="patch")
        return {"patch": asked.patch}
    for name in ("path", "old_string", "new_string"):
        if getattr(asked, name) is None:
            raise InvalidArgument(f"mode replace needs {name}; it takes path, old_string, new_string", argument=name)
    if asked.new_string and looks_numbered(asked.new_string):
        raise InvalidArgument(
            "new_string looks like what read_file shows, with line numbers and bars; give the text without them",
            argument="new_string",
        )
    return {
        "path": asked.path, "old_string": asked.old_string, "new_string": asked.new_string,
        "replace_all": asked.replace_all,
    }  # fmt: skip


def _named(wanted: Fields) -> list[str]:
    """The files that an edit names. Raises EditRefused for a patch that is none."""
    return paths_of(parse(wanted["patch"])) if "patch" in wanted else [wanted["path"]]


def _answer(done: Patched, diff: str, lint: Fields) -> Fields:
    answer: Fields = {"success": True, "diff": diff, "files_modified": list(done.modified)}
    if done.created:
        answer["files_created"] = list(done.created)
    if done.deleted:
        answer["files_deleted"] = list(done.deleted)
    if done.strategy:
        answer |= {"strategy": done.strategy, "lines": list(done.lines)}
    return answer | ({"lint": lint} if lint else {})


async def _is_hidden(environment: Environment, paths: Sequence[str]) -> bool:
    """Whether one of the files is of those that read_file does not show."""
    try:
        for path in paths:
            await environment.file_status(path, missing=True, bounds=read_bounds())
    except NotPermitted:
        return True
    return False


def _reading(paths: Sequence[str]) -> str:
    """A command that shows the files: what is hidden of its output is hidden here."""
    return f"cat {' '.join(map(shlex.quote, paths))}"


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else decode(content)[0]
    except EditRefused:
        return None


def patch_tool(memory: FileMemory, root: str | None) -> Tool[PatchArguments]:
    """The tool, with what its toolbox remembers and the directory that it must not leave, if there is one."""
    return Tool("patch", PATCH_DESCRIPTION, PatchArguments, PatchTool(memory, root).run, answers=PATCH_ANSWERS)
