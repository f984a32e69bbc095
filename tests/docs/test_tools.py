"""The page of the tools names every argument, action and field of a notice."""

import msgspec

from hermetic.contract.notice import Notice
from hermetic.tools.base.task import ToolLimits
from hermetic.tools.code.arguments import CodeArguments, CodeLimits, CodeOptions
from hermetic.tools.files.patch import PatchArguments
from hermetic.tools.files.read import ReadFileArguments
from hermetic.tools.files.search import SearchFilesArguments
from hermetic.tools.files.write import WriteFileArguments
from hermetic.tools.process.tool import ACTIONS, ProcessArguments
from hermetic.tools.terminal.tool import TerminalArguments
from hermetic.tools.web.tool import ExtractArguments, SearchArguments
from tests.docs.pages import read

SHAPES: tuple[type[msgspec.Struct], ...] = (
    TerminalArguments,
    ProcessArguments,
    ReadFileArguments,
    WriteFileArguments,
    PatchArguments,
    SearchFilesArguments,
    CodeArguments,
    SearchArguments,
    ExtractArguments,
    CodeLimits,
    CodeOptions,
    Notice,
    ToolLimits,
)


def test_every_argument_action_and_field_is_described() -> None:
    page = read("docs/tools.md")
    names = {name for shape in SHAPES for name in shape.__struct_fields__} | {*ACTIONS}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
