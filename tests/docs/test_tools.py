"""The page of the tools names every argument, action and field of a notice."""

import msgspec

from hermetic.contract.notice import Notice
from hermetic.tools.base.task import ToolLimits
from hermetic.tools.code.arguments import CodeArguments, CodeLimits, CodeOptions
from hermetic.tools.files.arguments import (
    PatchArguments,
    ReadFileArguments,
    SearchFilesArguments,
    WriteFileArguments,
)
from hermetic.tools.process.arguments import ProcessArguments
from hermetic.tools.process.tool import ACTIONS
from hermetic.tools.terminal.arguments import TerminalArguments
from tests.docs.pages import read

SHAPES: tuple[type[msgspec.Struct], ...] = (
    TerminalArguments, ProcessArguments, ReadFileArguments, WriteFileArguments, PatchArguments, SearchFilesArguments,
    CodeArguments,
    CodeLimits, CodeOptions, Notice, ToolLimits,
)  # fmt: skip


def test_every_argument_action_and_field_is_described() -> None:
    page = read("docs/tools.md")
    names = {name for shape in SHAPES for name in shape.__struct_fields__} | {*ACTIONS}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
