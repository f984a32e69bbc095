"""Reads the cases of edits that miss a little: what is in the file, the edit, and what is right.

A family begins with `## `, a case with `# `. A block is a word and a colon, and below it lines that
begin with a bar. `file:` is the file before (left out: that of the case before), `old:` and `new:`
are a replacement, `hunks:` is an update of a patch. What is right is `gives:`, the whole file
after, or `refused:` with the reason. `says:` is a part of the refusal's message, `by:` the way in
which the place is found, `all` stands for replace_all.

Seen as they are: → is a tab, ␍ a carriage return, ␠ a space, ⍽ a space that does not break, ⊘ a
character of no width. Each line of a file ends with a line end, unless ∅ stands there. Texts of an
edit end where they end.
"""

from pathlib import Path

import msgspec

_SEEN = str.maketrans({"→": "\t", "␍": "\r", "␠": " ", "⍽": "\u00a0", "⊘": "\u200b"})
CASES = Path(__file__).with_name("near_miss_cases.txt")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One edit and what is right."""

    name: str
    file: str
    old: str = ""
    new: str = ""
    hunks: str = ""
    gives: str | None = None
    refused: str = ""
    says: str = ""
    by: str = ""
    all: bool = False


def read_cases(path: Path = CASES) -> list[Case]:
    """All cases of a page. Raises AssertionError that names what cannot be read."""
    cases: list[Case] = []
    family, file = "", ""
    for part in path.read_text(encoding="utf-8").split("\n# ")[0:]:
        head, *rest = part.split("\n")
        if cases or family:
            case = _case(family, head, rest, file)
            file = case.file
            cases.append(case)
        family = next(
            (line[3:] for line in reversed(part.split("\n")) if line.startswith("## ")), family
        )
    return cases


def _case(family: str, head: str, lines: list[str], file: str) -> Case:
    blocks: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    current: list[str] = []
    for line in lines:
        if line.startswith("|"):
            current.append(line[1:])
        elif line.endswith(":") and line[:-1] in ("file", "old", "new", "hunks", "gives"):
            current = blocks.setdefault(line[:-1], [])
        elif line == "all":
            words["all"] = "yes"
        elif line and not line.startswith("## "):
            word, colon, rest = line.partition(": ")
            assert f"{word}{colon}" in ("refused: ", "says: ", "by: "), (
                f"{head}: {line!r} cannot be read"
            )
            words[word] = rest
    assert ("gives" in blocks) != ("refused" in words), f"{head}: gives or refused"
    assert "hunks" in blocks or {"old", "new"} <= {*blocks}, f"{head}: hunks, or old and new"
    return Case(
        name=f"{family}: {head}",
        file=_whole(blocks["file"]) if "file" in blocks else file,
        old=_text(blocks.get("old", [])),
        new=_text(blocks.get("new", [])),
        hunks=_text(blocks.get("hunks", [])),
        gives=_whole(blocks["gives"]) if "gives" in blocks else None,
        refused=words.get("refused", ""),
        says=words.get("says", ""),
        by=words.get("by", ""),
        all="all" in words,
    )


def _text(lines: list[str]) -> str:
    return "\n".join(lines).translate(_SEEN)


def _whole(lines: list[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return text.replace("∅\n", "").translate(_SEEN)
