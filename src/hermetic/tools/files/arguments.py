"""What a model may ask of the file tools, and what it is told about them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

READ_DESCRIPTION = """\
Reads a text file by lines, with their numbers: `12|text`. Use it instead of cat, head, tail and sed. A page holds 500 \
lines unless limit says otherwise; total_lines says how many there are, and next_offset where the next page begins. \
Notebooks, docx and xlsx files are shown as text. The numbers and bars are not part of the file."""
WRITE_DESCRIPTION = """\
Writes a whole file, and the directories above it where they are missing. What was there is replaced: to change a part \
of a file use the patch tool. Mode, owner, line endings and byte order mark of an existing file are kept."""
SEARCH_DESCRIPTION = """\
Searches files below a directory: target="content" for lines that match a regular expression, target="files" for files \
whose name matches a glob. Hidden files and what .gitignore and .ignore files leave out are not searched. Use it \
instead of grep, rg and find."""

PATCH_DESCRIPTION = """\
Changes parts of files. mode="replace": old_string, which must stand in one place of the file at path unless \
replace_all, becomes new_string; give a few lines around it, without line numbers. White space, quotes and a line \
between may differ a little. mode="patch": a patch for many files, all of it or nothing:
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
Use it instead of sed. The answer holds a unified diff, or says what stands nearest to a text that is not there."""


class ReadFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `read_file`."""

    path: Annotated[str, Meta(description="The file; a relative path starts at the shell's directory, ~/ at home.")]
    offset: Annotated[int, Meta(description="Number of the first line, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="How many lines, at most 2000.", ge=1)] = 500


class WriteFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `write_file`."""

    path: Annotated[str, Meta(description="The file; a relative path starts at the shell's directory, ~/ at home.")]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


class SearchFilesArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `search_files`."""

    pattern: Annotated[str, Meta(description="A regular expression for one line, or a glob for names such as *.py.")]
    target: Annotated[
        Literal["content", "files"], Meta(description="Whether lines in files or names of files are looked for.")
    ] = "content"
    path: Annotated[str, Meta(description="The directory or file to search.")] = "."
    file_glob: Annotated[str | None, Meta(description="Only files whose name matches this glob, such as *.py.")] = None
    limit: Annotated[int, Meta(description="Most results in the answer.", ge=1)] = 50
    offset: Annotated[int, Meta(description="How many results to leave out, to read on.", ge=0)] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"],
        Meta(description="Lines that match, only the files they are in, or how many there are in each file."),
    ] = "content"
    context: Annotated[int, Meta(description="Lines to show before and after each match.", ge=0)] = 0


class PatchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `patch`."""

    mode: Annotated[
        Literal["replace", "patch"], Meta(description="Replace a text in one file, or apply a patch to many.")
    ] = "replace"
    path: Annotated[
        str | None, Meta(description="replace: the file; relative to the shell's directory, ~/ at home.")
    ] = None
    old_string: Annotated[str | None, Meta(description="replace: the text as it stands in the file.")] = None
    new_string: Annotated[str | None, Meta(description="replace: the text to put there; empty to delete.")] = None
    replace_all: Annotated[bool, Meta(description="replace: change all places, not the only one.")] = False
    patch: Annotated[str | None, Meta(description="patch: the text from *** Begin Patch to *** End Patch.")] = None


READ_ANSWERS = (
    "{content: str, total_lines?: int, file_size?: int, truncated?: bool, next_offset?: int, hint?: str, error?: str}"
)
WRITE_ANSWERS = (
    "{bytes_written: int, dirs_created: bool, resolved_path: str, files_modified: list[str], lint?: dict, error?: str}"
)
PATCH_ANSWERS = (
    "{success: bool, diff?: str, files_modified?: list[str], files_created?: list[str], files_deleted?: list[str], "
    "lint?: dict, error?: str}"
)
SEARCH_ANSWERS = (
    "{total_count: int, matches?: list[{path: str, line: int, content: str}], matches_text?: str, files?: list[str], "
    "counts?: dict[str, int], truncated?: bool, next_offset?: int, error?: str}"
)
