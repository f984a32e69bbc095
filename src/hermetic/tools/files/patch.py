"""The patch tool: a text becomes another in a file, or a patch changes many; all of it or nothing."""

import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Literal

import msgspec

from hermetic.contract.edits import Change
from hermetic.contract.errors import EditRefused, FileChanged, InvalidArgument, NotPermitted
from hermetic.contract.limits import PATCH_MISSES, REMEMBERED_FILES
from hermetic.contract.printable import os_error_text
from hermetic.contract.tool import Fields, Tool, about
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Recent, Task
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.planning import paths_of
from hermetic.tools.edits.v4a import parse
from hermetic.tools.files.access import FileMemory, WriteJudge, write_bounds
from hermetic.tools.files.write import fault, lint, looks_numbered

DESCRIPTION = """\
Changes parts of files. mode="replace": old_string, which must stand in one place of the file at \
path unless replace_all, becomes new_string; give a few lines around it, without line numbers. \
White space, quotes and a line between may differ a little. mode="patch": a patch for many \
files, all of it or nothing:
*** Begin Patch
*** Update File: a.py
@@ def f():
 a line that stays
-a line that goes
+a line that comes
*** Add File: b.txt
+its text
*** Delete File: c.txt
*** Move File: d.txt -> e.txt
*** End Patch
Use it instead of sed. The answer holds a unified diff, or says what stands nearest to a text \
that is not there."""
ANSWERS = (
    "{success: bool, diff?: str, files_modified?: list[str], files_created?: list[str], files_deleted?: list[str], "
    "lint?: dict, error?: str}"
)
AGAIN = (
    "{count} edits of {path} in a row did not fit it: read it again with read_file before the next one, then copy a "
    "few lines exactly, or write the whole file with write_file"
)
HIDDEN = "not shown: read_file does not show this file either"
UNFIT = "the edit does not fit ({reason}); the content of this file is not shown, so ask the user how the line reads"


class PatchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `patch`."""

    mode: Annotated[
        Literal["replace", "patch"], about("Replace a text in one file, or apply a patch to many.")
    ] = "replace"
    path: Annotated[
        str | None, about("replace: the file; relative to the shell's directory, ~/ at home.")
    ] = None
    old_string: Annotated[str | None, about("replace: the text as it stands in the file.")] = None
    new_string: Annotated[str | None, about("replace: the text to put there; empty to delete.")] = (
        None
    )
    replace_all: Annotated[bool, about("replace: change all places, not the only one.")] = False
    patch: Annotated[
        str | None, about("patch: the text from *** Begin Patch to *** End Patch.")
    ] = None


class PatchTool:
    """The tool's work, and how often edits of a file have missed in a row."""

    def __init__(self, memory: FileMemory, root: str | None) -> None:
        self._memory = memory
        self._bounds = write_bounds(root)
        self._misses: Recent[tuple[str, str], int] = Recent(REMEMBERED_FILES)

    async def run(self, task: Task, asked: PatchArguments) -> Fields:
        """What was changed, or why nothing was."""
        wanted = _wanted(asked)
        try:
            # A malformed patch is refused before an environment is opened.
            paths = paths_of(parse(wanted["patch"])) if "patch" in wanted else [wanted["path"]]
        except EditRefused as error:
            return self._refused(task, error, task.show(str(error), ""))
        judge = WriteJudge(task, paths, self._bounds)
        async with task.environment(judge) as environment, AsyncExitStack() as locks:
            overseer = _Overseer(self._memory, judge, environment, locks)
            try:
                done = await environment.patch(**wanted, bounds=self._bounds, oversight=overseer)
            except EditRefused as error:
                named = [path for path in (error.path or asked.path,) if path]
                if await self._is_hidden(environment, named):
                    return self._refused(task, error, UNFIT.format(reason=error.reason), *named)
                return self._refused(task, error, task.show(str(error), _reading(named)), *named)
            except FileChanged as error:
                return {"success": False, "error": str(error)}
            except OSError as error:
                return {"success": False, "error": os_error_text(error)}
            for written in done.written:
                system = self._memory.system_of(environment)
                self._memory.wrote(task.id, system, written.path, written.signature)
            names = (*done.modified, *done.created, *done.deleted)
            is_hidden = await self._is_hidden(environment, names)
        for path in names:
            self._misses.pop((task.id, path), None)
        diff = HIDDEN if is_hidden else task.show(done.diff, _reading(names))
        answer: Fields = {"success": True, "diff": diff, "files_modified": list(done.modified)}
        if done.created:
            answer["files_created"] = list(done.created)
        if done.deleted:
            answer["files_deleted"] = list(done.deleted)
        if done.strategy:
            answer |= {"strategy": done.strategy, "lines": list(done.lines)}
        return answer | ({"lint": overseer.lint} if overseer.lint else {})

    async def _is_hidden(self, environment: Environment, paths: Sequence[str]) -> bool:
        """Whether read_file does not show one of the files."""
        try:
            for path in paths:
                await environment.file_status(path, missing=True, bounds=self._memory.read_bounds)
        except NotPermitted:
            return True
        return False

    def _refused(self, task: Task, error: EditRefused, why: str, path: str = "") -> Fields:
        answer: Fields = {"success": False, "error": why, "reason": error.reason}
        if error.reason in ("missing", "ambiguous") and path:
            count = self._misses[task.id, path] = self._misses.get((task.id, path), 0) + 1
            if count >= PATCH_MISSES:
                answer["hint"] = AGAIN.format(count=count, path=path)
        return answer


class _Overseer:
    """Oversees an edit: asks the gate, locks the files, and refuses to break their syntax."""

    def __init__(
        self, memory: FileMemory, judge: WriteJudge, environment: Environment, locks: AsyncExitStack
    ) -> None:
        self._memory = memory
        self._judge = judge
        self._environment = environment
        self._locks = locks
        self.lint: Fields = {}

    async def allow(self, paths: Sequence[str]) -> None:
        """Raises NotPermitted."""
        await self._judge.allow(paths, self._environment)
        await self._locks.aclose()
        system = self._memory.system_of(self._environment)
        await self._locks.enter_async_context(self._memory.working_on(system, paths))

    def check(self, changes: Sequence[Change]) -> None:
        """Raises EditRefused for a change that breaks a valid file."""
        self.lint = {}
        for change in changes:
            new = _text(change.after)
            if new is None:
                continue
            old = _text(change.before)
            if (why := fault(change.path, new)) and (
                old is None or fault(change.path, old) is None
            ):
                raise EditRefused(
                    f"{change.path} would be broken: {why}", reason="broken", path=change.path
                )
            if (mistake := why or lint(change.path, new)) and (
                old is None or lint(change.path, old) != mistake
            ):
                self.lint[change.path] = {"status": "error", "output": mistake}


def _wanted(asked: PatchArguments) -> Fields:
    """The arguments of an edit. Raises InvalidArgument that names what is missing."""
    if asked.mode == "patch" or (asked.patch and asked.old_string is None):
        if not asked.patch:
            raise InvalidArgument(
                "mode patch needs patch: the text from *** Begin Patch on", argument="patch"
            )
        return {"patch": asked.patch}
    for name in ("path", "old_string", "new_string"):
        if getattr(asked, name) is None:
            raise InvalidArgument(
                f"mode replace needs {name}; it takes path, old_string, new_string", argument=name
            )
    if asked.new_string and looks_numbered(asked.new_string):
        raise InvalidArgument(
            "new_string looks like what read_file shows, with line numbers and bars; give the text without them",
            argument="new_string",
        )
    names = ("path", "old_string", "new_string", "replace_all")
    return {name: getattr(asked, name) for name in names}


def _reading(paths: Sequence[str]) -> str:
    """A command that shows the files: what is hidden of its output is hidden here."""
    return f"cat {' '.join(map(shlex.quote, paths))}"


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else decode(content)[0]
    except EditRefused:
        return None


def patch_tool(memory: FileMemory, root: str | None) -> Tool[PatchArguments]:
    """The tool, with the toolbox's memory of files and the directory that it must not leave, if
    there is one.
    """
    return Tool("patch", DESCRIPTION, PatchArguments, PatchTool(memory, root).run, answers=ANSWERS)
