"""Small foreign input takes little work and little memory, and the event loop goes on meanwhile.

The named cases once took seconds to minutes. The random ones repeat the pieces of a format: what is
quadratic, or grows by itself, shows there.
"""

import asyncio
import contextlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.errors import EditRefused, ExecutionError, InvalidArgument
from hermetic.contract.files import Bounds
from hermetic.contract.process import Chunk, Shown
from hermetic.policy import assess, examine_python
from hermetic.policy.budget import Overflow
from hermetic.policy.programs.table import TABLE
from hermetic.policy.shell import Shell
from hermetic.policy.shell.evaluator import Evaluator
from hermetic.redaction.redactor import Redactor
from hermetic.serve.api.files import _differences
from hermetic.serve.workspace import _unpack
from hermetic.session.screen import LAST, Screen, TooMuch
from hermetic.tools.base.show import settle, strip
from hermetic.tools.edits.diff import unified_diff
from hermetic.tools.edits.replacing import replace
from hermetic.tools.edits.v4a import parse
from hermetic.tools.files.documents import as_text
from tests.bounds import cost_of, pauses
from tests.boxes import opened
from tests.sizes import at_full_size, is_full, scale

SECONDS = 3.0  # of processor time for one input; a tenth of it is usual at most
MEMORY = 200 << 20  # bytes
PAUSE = 1.0  # seconds of processor time for which the event loop may stand still
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def zipped(**parts: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/") + ".xml", text)
    return data.getvalue()


def docx(body: str) -> bytes:
    return zipped(word__document=f'<w:document xmlns:w="{WORD}">{body}</w:document>')


def notebook(output: str, count: int) -> bytes:
    outputs = (output + ",") * (count - 1) + output
    return f'{{"cells":[{{"cell_type":"code","source":"x","outputs":[{outputs}]}}]}}'.encode()


def xlsx(rows: str, strings: str = "") -> bytes:
    shared = f'<sst xmlns="{SHEET}">{strings}</sst>'
    return zipped(
        xl__worksheets__sheet1=f'<worksheet xmlns="{SHEET}">{rows}</worksheet>',
        xl__sharedStrings=shared,
    )


def read_document(path: str, data: bytes) -> str:
    try:
        return as_text(path, data)
    except InvalidArgument as error:
        return str(error)


def drawn(data: bytes, rows: int = 24, cols: int = 80) -> Shown:
    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=data[offset:], start=offset, end=len(data), ended=False)

    screen = Screen(read, rows, cols)
    with contextlib.suppress(TooMuch):
        screen._feed(data)
    return screen._shown()


def edit_of(text: str, old: str) -> object:
    try:
        return replace(text, old, old + "x")
    except EditRefused as error:
        return error


def numbered(step: int) -> bytes:
    """A small file whose lines come again and again."""
    return b"".join(b"%d\n" % (number * step % 101) for number in range(16_000))


def sparse(size: int) -> bytes:
    """An archive of one file that is a hole."""
    archive, entry = io.BytesIO(), tarfile.TarInfo("hole")
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    entry.pax_headers |= {"GNU.sparse.name": "hole", "GNU.sparse.realsize": str(size)}
    content = f"1\n{size}\n0\n".encode().ljust(512, b"\0")
    entry.size = len(content)
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as made:
        made.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def unpacked(archive: bytes) -> object:
    try:
        return _unpack(archive)
    except tarfile.TarError as error:
        return error


DOUBLED = "x=aaaaaaaa;" + "x=$x$x;" * 13
ALIASES = "\n".join(f"alias a{i}='a{i + 1} a{i + 1} '" for i in range(40)) + "\na0"
GROWING = "\n".join(f"alias a{i}='a{i + 1} {'x' * 3000} '" for i in range(45)) + "\na0 a0 a0"
NAMED: dict[str, Callable[[], object]] = {
    "nested paragraphs": lambda: read_document(
        "a.docx", docx("<w:p>" * 100_000 + "</w:p>" * 100_000)
    ),
    "empty paragraphs": lambda: read_document("a.docx", docx("<w:p/>" * 150_000)),
    "cells that refer to one long text": lambda: read_document(
        "a.xlsx",
        xlsx(
            "<row>" + '<c t="s"><v>0</v></c>' * 50_000 + "</row>",
            f"<si><t>{'x' * 100_000}</t></si>",
        ),
    ),
    "many cells of a notebook": lambda: read_document(
        "a.ipynb",
        json.dumps({"cells": [{"cell_type": "code", "source": ["x\n"] * 9}] * 10_000}).encode(),
    ),
    "many outputs of a notebook": lambda: read_document("a.ipynb", notebook("{}", 3_000_000)),
    "many numbers for outputs of a notebook": lambda: read_document(
        "a.ipynb", notebook("1", 15_000_000)
    ),
    "many numbers for cells of a notebook": lambda: read_document(
        "a.ipynb", b'{"cells":[' + b"1," * 15_000_000 + b"1]}"
    ),
    "a long attribute": lambda: read_document("a.docx", docx(f"<w:p a='{'x' * 30_000_000}'/>")),
    "a long comment": lambda: read_document("a.docx", docx(f"<!--{'x' * 30_000_000}-->")),
    "a long instruction": lambda: read_document("a.docx", docx(f"<?a {'x' * 30_000_000}?>")),
    "a long name": lambda: read_document("a.docx", docx(f"<{'x' * 30_000_000}/>")),
    "long comments": lambda: read_document("a.docx", docx(f"<!--{'x' * 1_000_000}-->" * 30)),
    "combining marks on a cell": lambda: drawn(b"a" + "\u0301".encode() * 50_000),
    "combining marks on a cell, with moves between": lambda: drawn(
        b"a" + ("\u0301" * 8 + "b\b").encode() * 5000
    ),
    "strings for a terminal that do not end": lambda: drawn(b"\x1bP" * 32_000),
    "a screen filled again and again": lambda: drawn(b"\x1b#8" * 2000),
    "a large screen filled again and again": lambda: drawn(b"\x1b#8" * 400, 250, 400),
    "reversed colours": lambda: drawn(b"\x1b#8" + b"\x1b[?5h\x1b[?5l" * 1500, 250, 400),
    "a filled screen that is erased": lambda: drawn(b"\x1b#8\x1b[2J" * 1000, 250, 400),
    "the second screen of a filled one": lambda: drawn(
        b"\x1b#8" + b"\x1b[?47h\x1b[?47l" * 1000, 250, 400
    ),
    "one long line": lambda: drawn(b"\x1b[4hab\x1b[@\x1b[P\x1b[K" * 1000, 1, 200_000),
    "doubled and replaced": lambda: assess(DOUBLED + "y=${x//a/$x}; echo $y"),
    "doubled and substituted": lambda: assess(DOUBLED + 'sed "s/a/$x/g" <<< "$x"'),
    "doubled in a row": lambda: assess(DOUBLED + "y=" + "$x" * 2000),
    "doubled arrays": lambda: assess(
        "x=(a a a a); " + 'x=("${x[@]}" "${x[@]}");' * 20 + 'echo "${x[*]}"'
    ),
    "appended": lambda: assess("x=aaaaaaaa;" + "x+=$x;" * 40),
    "loops without commands": lambda: assess(
        "set -- {1..200}; for a; do for b; do for c; do ((1)); done; done; done"
    ),
    "a diff of equal lines": lambda: unified_diff(
        "a", "a", "x\n" + "\n\t\n" * 1900, "\t\n\n" * 1900 + "y\n"
    ),
    "an edit of a line of many words": lambda: edit_of(
        f"x\n{' '.join(str(number % 31) for number in range(6000))}\ny\n",
        f"x\n{' '.join(str(number * 7 % 31) for number in range(6000))}\ny\n",
    ),
    "files of a snapshot": lambda: _differences(
        {str(name): numbered(1) for name in range(3)},
        {str(name): numbered(7) for name in range(3)},
        Bounds(),
    ),
    "a sparse file in a snapshot": lambda: unpacked(sparse(1 << 36)),
    "a patch of blank lines": lambda: patch(
        "*** Begin Patch\n*** Update File: a\n@@ a\n" + "\n" * 40_000
    ),
    "an edit of many lines": lambda: edit_of("a b c d\n" * 20_000, "a b  c d e\n" * 4000),
    "aliases of aliases": lambda: assess(ALIASES),
    "aliases that grow": lambda: assess(GROWING),
    "wide formats": lambda: assess("printf '" + "%9999s" * 1000 + "' {1..255}"),
}


@pytest.mark.parametrize("name", NAMED)
def test_known_bombs_are_answered_at_once(name: str) -> None:
    assert cost_of(NAMED[name], most=2 * MEMORY).seconds < SECONDS
    if is_full():  # counting takes several times as long
        assert cost_of(NAMED[name], memory=True).peak_bytes < MEMORY


async def test_the_event_loop_goes_on_while_a_screen_is_drawn() -> None:
    data = ("\u65e5e\u0301\x1b[31m" * 6_000).encode()

    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=data[offset:], start=offset, end=len(data), ended=False)

    async with pauses() as found:
        await Screen(read, 24, 80).look(len(data))
    assert found.longest < PAUSE / 4


async def test_the_event_loop_goes_on_while_a_tool_reads_and_judges(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(docx("<w:p/>" * 100_000))
    async with opened(tmp_path) as box:
        await box.terminal("true")
        async with pauses() as found:
            assert "error" not in await box.call("read_file", path="a.docx")
            loops = "set -- {1..200}; for a; do for b; do for c; do ((1)); done; done; done"
            assert (await box.terminal(loops))["status"] == "blocked"
            assert (await box.terminal(ALIASES))["status"] == "blocked"
            assert (await box.call("execute_code", code="x = [1, 2]\n" * 3000))[
                "status"
            ] == "blocked"
    assert found.longest < PAUSE


@pytest.mark.parametrize(
    "filling", [b"\x1b#8", *at_full_size(b"\x1b[?1049h\x1b[?1049l", b"\x1b#8\x1b[?3h\x1b[?3l")]
)
async def test_a_screen_is_drawn_from_the_last_output_where_all_is_too_much(filling: bytes) -> None:
    data = filling * 4000 + b"\x1b[H\x1b[2J" + b"x\r\n" * (LAST // 3) + b"the end"

    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=data[offset:], start=offset, end=len(data), ended=False)

    screen = Screen(read, 250, 400)
    shown = await screen.look(len(data))
    assert shown.lines[-1] == "the end"
    assert "last part" in shown.note
    data += filling * 4000
    assert (await screen.look(len(data))).note
    data += b"\x1b[H\x1b[2Jthen"
    shown = await screen.look(len(data))
    assert (shown.lines[0], shown.note, screen.position) == ("then", "", len(data))


async def test_a_cancelled_look_leaves_a_screen_that_goes_on() -> None:
    data = b"text\x1b[H" * 20_000

    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=data[offset:], start=offset, end=len(data), ended=False)

    screen = Screen(read, 4, 20)
    look = asyncio.create_task(screen.look(len(data)))
    await asyncio.sleep(0.01)
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert (await screen.look(len(data))).lines[0] == "text"


async def test_a_terminal_too_large_for_a_screen_says_so() -> None:
    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=b"", start=offset, end=offset, ended=False)

    with pytest.raises(ExecutionError, match="resize"):
        await Screen(read, 10_000, 10_000).look(0)


# -- random input
def repeated(chance: random.Random, pieces: Sequence[str], most: int) -> str:
    """A few pieces, each of them many times, and the whole of it again."""
    parts = [
        chance.choice(pieces) * chance.choice((1, 1, 3, 60, 5000))
        for _ in range(chance.randint(1, 6))
    ]
    return ("".join(parts) * chance.choice((1, 1, 20)))[:most]


STATEMENTS = (
    "x=$x$x;",
    "x=a$x;",
    "x=${x//a/$x};",
    "x=${x/%a/$x$x};",
    'x="$x$x$x";',
    'a=("${a[@]}" "${a[@]}" b);',
    "x=${a[*]};",
    "x+=$x;",
    "x=$(echo $x$x);",
    'x=$(printf "%s%s" "$x" "$x");',
    "set -- $x $x b;",
    "x=${x^^};",
    "x=${x%%*a*};",
    "x=${x@Q};",
    "((i+=i+1));",
    "printf -v x '%5000s' $x;",
    "x=$(seq 60);",
    "echo {a,b}{a,b}$x;",
    'sed "s/a/$x/g" <<< "$x";',
    "for i in $x; do :; done;",
    "while read l; do x=$x$l; done <<< $x;",
    "f() { g; g; };",
    "g() { f; :; };",
    "f;",
    'eval "$x";',
    "if [ $x ]; then x=$x$x; else x=b; fi;",
    "case $x in a) x=b;; *) x=$x$x;; esac;",
    "x=$x$x && x=b || x=c;",
    "echo $x >> f;",
    "cat f f;",
    "(x=$x$x);",
    "x=$x | cat;",
    "tr a b <<< $x;",
    "rev <<< $x;",
    "cut -d, -f1,2,3 <<< $x;",
    "a[$x]=b;",
    "x=${!x};",
    'sh -c "$x";',
    'python3 -c "$x";',
    'awk "$x" f;',
    "echo $x | xargs rm;",
    "find . -exec $x \\;;",
    "x=\"'$x'\";",
    'alias f="$x";',
)
PYTHON = (
    "x = 'a'\n",
    "x += x\n",
    "x = x * 9\n",
    "x = [x, x]\n",
    "x = x + x\n",
    "x = {'a': x, 'b': x}\n",
    "x = [*x, *x]\n",
    "x = '%9999999s' % x\n",
    "x = '{:>9999999}'.format(x)\n",
    "x = f'{x:>99999999}'\n",
    "x = x.replace('a', x)\n",
    "x = x.join([x, x])\n",
    "x = 'a'.zfill(99999999)\n",
    "for i in range(60): x += x\n",
    "for i in x: exec(x)\n",
    "exec('for i in range(9): exec(x)')\n",
    "f = lambda: f(f)\n",
    "f()\n",
    "x = [y for y in x for z in x]\n",
    "import os; os.system(x)\n",
    "x = bytes(x)\n",
    "x(os.system, os.system, os.system, x, key=os.system)\n",
    "import operator; x = operator.methodcaller('a', x)(os)\n",
    "x = [os.system, *x]\n",
    "x.append(x)\n",
    "class A:\n def f(self): self.f(); self.f()\n",
    "A().f()\n",
    "x = x or f or A\n",
    "x(x)(x)(x)\n",
    "x = (x if x else [x])\n",
    "def g(a=x): return g(a) + g(a)\n",
    "g(x)\n",
    "match x:\n case [a, b]: x = a + b\n",
    "try: x = x + x\nexcept E: x = x * 2\n",
)
CONTROLS = (
    "a",
    "\u65e5",
    "e\u0301",
    "\u0301",
    "\x1b[",
    "\x1b[1;1H",
    "\x1b[9999@",
    "\x1b[9999L",
    "\x1b[2J",
    "\x1b]0;t",
    "\x07",
    "\x1bP",
    "\x1b\\",
    "\x1b_",
    "\r",
    "\n",
    "\b",
    "\t",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[31m",
    "\x1b[;;;;;m",
    "1;",
    "\x9b",
    "\x9d",
    "\x1b",
    "\x1b[999b",
    "\x1b[r",
    "\x1bM",
    "\x1bPtmux;",
    "\x1b#8",
    "\x1b[?5h",
    "\x1b[?5l",
    "\x1b[?3h",
    "\x1b[?3l",
    "\x1b[4h",
    "\x1b[J",
    "\x1b[1J",
    "\x1b[K",
    "\x1b[9999P",
    "\x1b[9999X",
    "\x1b[9999M",
    "\x1bc",
    "\x1bD",
    "\x1bH",
    "\x1b7",
    "\x1b8",
)
MARKUP = (
    "<w:p>",
    "</w:p>",
    "<w:p/>",
    "<w:r>",
    "</w:r>",
    "<w:t>a</w:t>",
    "<w:t>",
    "</w:t>",
    "<w:tab/>",
    "&amp;",
    "<!-- -->",
    "<![CDATA[a]]>",
    "<x y='1'/>",
    "<?a b?>",
    "a",
)
CELLS = (
    "<row>",
    "</row>",
    '<c t="s"><v>0</v></c>',
    '<c t="inlineStr"><is><t>a</t></is></c>',
    "<c><v>1</v></c>",
    "<v>0</v>",
    "<c>",
    "</c>",
)
JSON = (
    '{"cells":[',
    '{"cell_type":"code","source":["a"]},',
    '{"cell_type":"code","source":"',
    "[",
    "]",
    "{",
    "}",
    '"a":',
    '"a",',
    "1,",
    "\\u0061",
    "]}",
)
TEXTS = (
    "a",
    "a b ",
    " ",
    "\n",
    "\t",
    "x = 1\n",
    "  y = 2\n",
    "token=",
    "password: ",
    "Bearer ",
    "AKIA",
    "sk-",
    "://a:b@",
    "-----BEGIN PRIVATE KEY-----\n",
    "eyJ",
    ".",
    "'",
    '"',
    "=",
    "0123456789abcdef",
    "A1b2C3d4E5f6",
    "{",
    "}",
    "\\n",
    "$",
    "\u201c",
    "e\u0301",
    "\r\n",
)
PATCHES = (
    "*** Begin Patch\n",
    "*** Update File: a\n",
    "*** Add File: b\n",
    "*** End Patch\n",
    "@@ a\n",
    "@@\n",
    "-a\n",
    "+b\n",
    " c\n",
    "\n",
    "*** Move to: c\n",
)


def edit(text: str, chance: random.Random) -> object:
    return edit_of(text, repeated(chance, TEXTS, 2000))


def patch(text: str) -> object:
    try:
        return parse(text)
    except EditRefused as error:
        return error


def aliases(chance: random.Random) -> str:
    """Aliases that name later ones, several times each, with and without a blank at the end."""
    count = chance.randint(2, 60)
    values = [[f"a{i + chance.randint(1, 3)}"] * chance.randint(1, 4) for i in range(count)]
    ends = [chance.choice(("", " ", " ", " ", " ", " ")) for _ in values]
    lines = [
        f"alias a{i}='{' '.join(words)}{end}'"
        for i, (words, end) in enumerate(zip(values, ends, strict=True))
    ]
    return "\n".join([*lines, repeated(chance, ("a0 ", "a1 ", "x;"), 200)])


PROGRAMS = sorted(
    {TABLE.row(name).hook or TABLE.row(name).language: name for name in sorted(TABLE)}.values()
)
PARTS = (
    "a",
    " ",
    "\n",
    "'",
    '"',
    "/",
    "\\",
    "(",
    "{{",
    "$(",
    "x=",
    "-",
    ";",
    "s/",
    "a b ",
    "http://",
    "!",
    "print ",
)


def judge_programs(chance: random.Random, count: int) -> None:
    """Programs with a long argument or input, past the reader of shell."""
    for _ in range(count):
        name, text = chance.choice(PROGRAMS), chance.choice(PARTS) * 2000
        given = chance.choice(([text], ["-c", text], ["-e", text], [text[:2]] * 1000, []))
        with contextlib.suppress(Overflow, RecursionError):
            Evaluator().run_argv(
                [name, *given], Shell(None, None, None), text if not given else None, {}
            )


READERS: dict[str, Callable[[random.Random], Callable[[], Any]]] = {
    "shell": lambda chance: lambda: assess(repeated(chance, STATEMENTS, 10_000)),
    "aliases": lambda chance: lambda: assess(aliases(chance)),
    "programs": lambda chance: lambda: judge_programs(chance, 20),
    "python": lambda chance: lambda: examine_python(repeated(chance, PYTHON, 6_000)),
    "screen": lambda chance: lambda: drawn(repeated(chance, CONTROLS, 16_000).encode()),
    "large screen": lambda chance: (
        lambda: drawn(repeated(chance, CONTROLS, 1_000).encode(), 500, 500)
    ),
    "ansi": lambda chance: (
        lambda: (strip(text := repeated(chance, CONTROLS, 60_000)), settle(text))
    ),
    "docx": lambda chance: lambda: read_document("a.docx", docx(repeated(chance, MARKUP, 200_000))),
    "xlsx": lambda chance: (
        lambda: read_document(
            "a.xlsx", xlsx(repeated(chance, CELLS, 100_000), f"<si><t>{'x' * 5000}</t></si>")
        )
    ),
    "notebook": lambda chance: (
        lambda: read_document("a.ipynb", repeated(chance, JSON, 200_000).encode())
    ),
    "redaction": lambda chance: (
        lambda: Redactor().redact(repeated(chance, TEXTS, 60_000), "output")
    ),
    "edit": lambda chance: lambda: edit(repeated(chance, TEXTS, 20_000), chance),
    "patch": lambda chance: lambda: patch("*** Begin Patch\n" + repeated(chance, PATCHES, 40_000)),
    "diff": lambda chance: (
        lambda: unified_diff(
            "a", "a", repeated(chance, TEXTS, 40_000), repeated(chance, TEXTS, 40_000)
        )
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_random_repeats_cost_little(reader: str) -> None:
    for seed in range(scale(200)):
        assert cost_of(READERS[reader](random.Random(seed))).seconds < SECONDS, seed
    for seed in range(scale(20)):
        assert cost_of(READERS[reader](random.Random(seed)), memory=True).peak_bytes < MEMORY, seed
