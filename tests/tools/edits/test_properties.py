"""Edits undone give the bytes there were, and a patch made from two texts leads from one to the
other or is refused.
"""

import subprocess
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.diff import unified_diff, within
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.lines import indentation
from hermetic.tools.edits.matching import exact
from hermetic.tools.edits.planning import plan
from hermetic.tools.edits.replacing import replace
from hermetic.tools.edits.v4a import parse
from tests.programs import need
from tests.sizes import scale

MANY = settings(
    max_examples=scale(2000),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
SOME = settings(
    max_examples=scale(300), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

# Few different lines, so that they repeat and resemble each other.
WORDS = st.sampled_from(
    [
        "",
        "a",
        "b",
        "  a",
        "\ta",
        "a ",
        "b b",
        "“a”",
        '"a"',
        "é",
        "x = 1",
        "    x = 1",
        "}",
        "@@ a",
        "-a",
    ]
)
LINES = st.lists(WORDS, max_size=12)
MARKS = st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe"])
ENDS = st.sampled_from(["\n", "\r\n"])


def file_of(lines: list[str], end: str, mark: bytes, has_last_end: bool) -> bytes:
    """A file's bytes."""
    text = end.join(lines) + (end if lines and has_last_end else "")
    return mark + text.encode("utf-16-le" if mark == b"\xff\xfe" else "utf-8")


def hunks_between(olds: list[str], news: list[str], around: int) -> list[str]:
    """The lines of an update with so many lines of context."""
    result = []
    for group in SequenceMatcher(None, olds, news, False).get_grouped_opcodes(around):
        result.append("@@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                result += [" " + line for line in olds[i1:i2]]
            else:
                result += ["-" + line for line in olds[i1:i2]] + [
                    "+" + line for line in news[j1:j2]
                ]
    return result


def update(path: str, hunks: list[str]) -> str:
    return "\n".join(["*** Begin Patch", f"*** Update File: {path}", *hunks, "*** End Patch"])


def patched(patch: str, content: bytes) -> bytes:
    """The file after the patch."""
    [change] = plan(parse(patch), {"f": content})
    assert change.after is not None
    return change.after


def outcome(patch: str, content: bytes) -> bytes | str:
    """The file after the patch, or why it was refused."""
    try:
        return patched(patch, content)
    except EditRefused as error:
        return error.reason


@MANY
@given(LINES, LINES, ENDS, MARKS, st.booleans(), st.integers(1, 3))
def test_a_patch_leads_to_the_other_text_and_back_or_is_refused(
    olds: list[str], news: list[str], end: str, mark: bytes, has_last_end: bool, around: int
) -> None:
    assume(olds != news and olds and news and olds[-1] and news[-1])
    # with the last CRLF the file forgets them
    assume(end == "\n" or has_last_end or min(len(olds), len(news)) > 1)
    before, after = (file_of(lines, end, mark, has_last_end) for lines in (olds, news))
    assert outcome(update("f", hunks_between(olds, news, around)), before) in (after, "ambiguous")
    assert outcome(update("f", hunks_between(news, olds, around)), after) in (before, "ambiguous")


@MANY
@given(
    st.lists(st.integers(0, 99), unique=True, min_size=2, max_size=30),
    st.data(),
    ENDS,
    MARKS,
    st.booleans(),
)
def test_a_patch_of_lines_that_do_not_repeat_is_never_refused(
    numbers: list[int], data: st.DataObject, end: str, mark: bytes, has_last_end: bool
) -> None:
    olds = [f"line {number}" for number in numbers]
    news = list(olds)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(news) - 1))
        news[at : at + data.draw(st.integers(0, 2))] = [f"new {data.draw(st.integers(100, 199))}"]
    assume(olds != news and len(set(news)) == len(news))
    # with the last CRLF the file forgets them
    assume(end == "\n" or has_last_end or min(len(olds), len(news)) > 1)
    before, after = (file_of(lines, end, mark, has_last_end) for lines in (olds, news))
    assert patched(update("f", hunks_between(olds, news, 1)), before) == after
    assert patched(update("f", hunks_between(news, olds, 1)), after) == before


@MANY
@given(LINES, st.data(), ENDS, MARKS, st.booleans())
def test_a_replacement_undone_gives_the_bytes_there_were(
    lines: list[str], data: st.DataObject, end: str, mark: bytes, has_last_end: bool
) -> None:
    content = file_of(lines, end, mark, has_last_end)
    text, encoding = decode(content)
    start = data.draw(st.integers(0, len(text)))
    old = text[start : data.draw(st.integers(start, len(text)))]
    new = "\n".join(data.draw(st.lists(WORDS, min_size=1, max_size=3))) + "#"
    assume(
        old
        and "\r" not in old.replace("\r\n", "")
        and new not in text
        and exact(text, old, new)[1:] == []
    )
    assume(text[start - 1 : start + 1] != "\r\n")  # an edit takes in both halves of a line end
    done = replace(text, old, new)
    assert done.strategy == "exact"
    here = done.text[start : len(done.text) - (len(text) - start - len(old))]
    assume(done.text.count(here) == 1)
    undone = replace(done.text, here, old)
    assert encoding.encode(undone.text) == content


@MANY
@given(LINES, st.data(), ENDS)
def test_a_tolerant_replacement_changes_only_its_own_lines(
    lines: list[str], data: st.DataObject, end: str
) -> None:
    text = file_of(lines, end, b"", True).decode()
    assume(lines)
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first + 1, len(lines)))
    loose = [f"  {line.strip()} " for line in lines[first:last]]
    assume(any(line.strip() for line in loose))
    try:
        done = replace(text, "\n".join(loose), "\n".join([*loose, "added"]))
    except EditRefused:
        return
    assume(done.strategy not in ("escapes", "boundary"))
    rest = done.text.replace("\r\n", "\n").split("\n")
    assert [line.strip() for line in rest].count("added") == 1
    rest.pop(next(at for at, line in enumerate(rest) if line.strip() == "added"))
    assert rest == text.replace("\r\n", "\n").split("\n")


@MANY
@given(st.binary(max_size=200))
def test_bytes_are_the_same_after_reading_and_writing_them(content: bytes) -> None:
    try:
        text, encoding = decode(content)
    except EditRefused:
        return
    assert encoding.encode(text) == content


@SOME
@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_is_what_git_takes(
    tmp_path_factory: pytest.TempPathFactory,
    olds: list[str],
    news: list[str],
    one: bool,
    other: bool,
) -> None:
    before, after = file_of(olds, "\n", b"", one).decode(), file_of(news, "\n", b"", other).decode()
    assume(before != after and before and after)
    directory: Path = tmp_path_factory.mktemp("diff")
    (directory / "f").write_bytes(before.encode())
    diff = unified_diff("f", "f", before, after)
    command = [need("git"), "apply", "--whitespace=nowarn", "--unidiff-zero", "-"]
    subprocess.run(command, cwd=directory, input=diff.encode(), check=True, capture_output=True)
    assert (directory / "f").read_bytes() == after.encode()


def test_a_long_diff_is_cut_at_a_line_and_says_so() -> None:
    diff = unified_diff("f", "f", "", "".join(f"line {number}\n" for number in range(1000)))
    cut = within(diff, 500)
    assert len(cut) < 600
    assert (
        cut.splitlines()[-1]
        == f"… {1000 + 3 - len(cut.splitlines()) + 1} more lines of this diff; read the files to see them"
    )


def curled(line: str) -> str:
    """With quotes and dashes as printers set them."""
    return line.replace('"', "“", 1).replace('"', "”", 1).replace("-", "–")


NOISES: dict[str, Callable[[list[str]], list[str]]] = {
    "none": lambda lines: lines,
    "trailing spaces": lambda lines: [line + "  " for line in lines],
    "deeper": lambda lines: ["    " + line for line in lines],
    "at the margin": lambda lines: [line.lstrip() for line in lines],
    "tabs": lambda lines: [line.replace("    ", "\t") for line in lines],
    "wide": lambda lines: [line.replace(" = ", "  =  ") for line in lines],
    "curly quotes": lambda lines: [curled(line) for line in lines],
    "escaped quotes": lambda lines: [line.replace('"', '\\"') for line in lines],
    "all of it": lambda lines: ["  " + curled(line).replace(" = ", "  = ") + " " for line in lines],
}


@MANY
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 999)),
        min_size=1,
        max_size=15,
        unique_by=lambda it: it[1],
    ),
    st.data(),
    st.sampled_from(sorted(NOISES)),
    ENDS,
    st.booleans(),
)
def test_an_edit_with_noise_changes_its_line_and_no_other(
    shape: list[tuple[int, int]], data: st.DataObject, noise: str, end: str, in_file: bool
) -> None:
    """The noise is in the edit, or in the file."""
    clean = [f'{"    " * depth}x{number} = "a-{number}" #{number};' for depth, number in shape]
    first = data.draw(st.integers(0, len(clean) - 1))
    last = data.draw(st.integers(first + 1, len(clean)))
    target = data.draw(st.integers(first, last - 1))
    lines = NOISES[noise](clean) if in_file else clean
    given_lines = clean if in_file else NOISES[noise](clean)
    assume(not (in_file and noise == "escaped quotes"))
    old = given_lines[first:last]
    new = list(old)
    new[target - first] = old[target - first].replace(f"#{shape[target][1]};", "#CHANGED;")
    text = end.join(lines) + end
    done = replace(text, "\n".join(old), "\n".join(new)).text.split(end)
    assert [line for at, line in enumerate(done) if at != target] == [
        line for at, line in enumerate([*lines, ""]) if at != target
    ]
    assert (
        done[target].split() == lines[target].replace(f"#{shape[target][1]};", "#CHANGED;").split()
    )
    assert indentation(done[target]) == indentation(lines[target])


ODD = st.text(
    st.sampled_from("ab \t\r\n\\\"'`“”’–…\u00a0\u200b\u0301é.x1{}|@*-+\x0b\x0c\x85\u2028"),
    max_size=40,
)


@MANY
@given(ODD, ODD, ODD, st.booleans())
def test_whatever_is_replaced_is_done_or_refused(
    text: str, old: str, new: str, replace_all: bool
) -> None:
    try:
        done = replace(text, old, new, replace_all=replace_all)
    except EditRefused:
        return
    assert done.text != text
    assert done.lines == tuple(sorted(done.lines))


@MANY
@given(
    st.lists(
        st.sampled_from(
            [
                "*** Update File: f",
                "*** Add File: g",
                "*** Delete File: f",
                "*** Move File: f -> h",
                "*** Move to: i",
                "@@",
                "@@ a",
                " a",
                "-a",
                "+b",
                "",
                "*** End of File",
                "*** End Patch",
                "b",
                " ",
                "-",
                "+",
            ]
        ),
        max_size=12,
    ),
    ODD,
)
def test_whatever_a_patch_says_is_done_or_refused(lines: list[str], text: str) -> None:
    content = text.encode()
    try:
        changes = plan(parse("\n".join(lines)), {"f": content, "g": None, "h": None, "i": None})
    except EditRefused:
        return
    assert changes
    assert all(change.before != change.after for change in changes)
