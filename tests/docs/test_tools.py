"""The page of the tools names every argument, action and field of a notice."""

import msgspec
import pytest

from hermetic.codemode.arguments import CodeArguments, CodeLimits, CodeOptions
from hermetic.contract.notice import Notice
from hermetic.files.arguments import PatchArguments, ReadFileArguments, SearchFilesArguments, WriteFileArguments
from hermetic.processes.arguments import ProcessArguments
from hermetic.processes.tool import ACTIONS
from hermetic.session.task import ToolLimits
from hermetic.terminal.arguments import TerminalArguments
from tests.docs.pages import read

SHAPES: tuple[type[msgspec.Struct], ...] = (
    TerminalArguments, ProcessArguments, ReadFileArguments, WriteFileArguments, PatchArguments, SearchFilesArguments,
    CodeArguments,
    CodeLimits, CodeOptions, Notice, ToolLimits,
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({name for shape in SHAPES for name in shape.__struct_fields__} | {*ACTIONS}))
def test_it_is_described(name: str) -> None:
    assert f"`{name}`" in read("docs/tools.md")
