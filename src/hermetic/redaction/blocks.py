"""Secrets on the lines below their name: blocks of YAML, and texts within three quotes."""

import re
from collections.abc import Iterator

from hermetic.redaction.patterns import is_secret_name, is_secret_value
from hermetic.redaction.private_keys import Span

_LONGEST = 200  # lines of a block

# The end of a line that the next expression may match, which is quicker to find.
_END = re.compile(r":[ \t]*(?:[|>!&#][^\n]*+)?\r?(?:\n|\Z)")
# `name: |`, with a tag, an anchor and a comment, and no statement of code. Without `style` the value is one plain line.
_HEAD = re.compile(
    r"""(?P<before>[ \t]{0,200}(?:-[ \t]{1,8}){0,4})
    (?!(?:if|elif|while|for|case|when|with|def)[ ]) ["']?(?P<name>[A-Za-z][\w. -]{0,100})["']? [ \t]{0,8}:[ \t]{0,8}
    (?:!{1,2}[\w-]{1,32}[ \t]{1,8}|&[\w-]{1,64}[ \t]{1,8}){0,2}
    (?P<style>[|>][-+1-9]{0,2})? [ \t]{0,8}(?:\#[^\n]{0,512})?\r?\n""",
    re.VERBOSE,
)
_LINE = re.compile(r"(?P<indent>[ \t]*+)(?P<text>[^\r\n]*)\r?(?:\n|\Z)")
# An item of a list, or a field with a value of its own.
_NESTED = re.compile(r"[-?](?:\s|$)|[^:]{1,200}:(?:\s|$)")
_QUOTED = re.compile(
    r"""\b(?P<name>[A-Za-z][\w.-]{0,100})["']?[ \t]{0,8}[:=][ \t]{0,8}(?P<quotes>"{3}|'{3})\s{0,8}
    (?P<text>[^"'\s][^"'\r\n]{0,512})\s{0,8}(?P=quotes)""",
    re.VERBOSE,
)


def find_blocks(text: str, weak: bool) -> Iterator[Span]:
    """The secret lines below their names; `weak`: values that look like words count too."""
    block_end = 0  # of the last block; what looks like a head in it is text
    for end in _END.finditer(text):
        if end.start() < block_end:
            continue
        head = _HEAD.match(text, text.rfind("\n", 0, end.start()) + 1)
        if head is None or not is_secret_name(head["name"], weak):
            continue
        is_plain = head["style"] is None
        lines = _lines_below(text, head.end(), len(head["before"]), 2 if is_plain else _LONGEST)
        if is_plain and (len(lines) != 1 or _NESTED.match(text, *lines[0])):
            continue
        block_end = lines[-1][1] if lines else 0
        yield from (
            line for line in lines if is_secret_value(text[slice(*line)], head["name"], weak)
        )
    if '"""' in text or "'''" in text:
        for quoted in _QUOTED.finditer(text):
            value = quoted["text"].rstrip()
            if is_secret_name(quoted["name"], weak) and is_secret_value(
                value, quoted["name"], weak
            ):
                yield quoted.start("text"), quoted.start("text") + len(value)


def _lines_below(text: str, at: int, column: int, most: int) -> list[Span]:
    """The first lines with text that are indented deeper than this column."""
    lines: list[Span] = []
    for _ in range(_LONGEST):
        line = _LINE.match(text, at)
        if line is None or at == len(text):
            break
        start, end = line.span("text")
        end = start + len(line["text"].rstrip())
        if end > start:
            if len(line["indent"]) <= column:
                break
            lines.append((start, end))
            if len(lines) == most:
                break
        at = line.end()
    return lines
