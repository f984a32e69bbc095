"""Notebooks and office documents as text: one pass over the file, with bounds on work, memory and
result.
"""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator
from xml.parsers import expat

import msgspec

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import DOCUMENT, DOCUMENT_ELEMENTS, DOCUMENT_TEXT

PIECE = 1 << 16  # bytes that are parsed at a time
MOST_NESTED = 500  # elements of one another
MOST_PARTS = 10_000  # of an archive
MOST_OBJECTS = 300_000  # of a notebook: its cells, their outputs, and all that lies in them
# Bytes of a tag or a comment; the parser begins anew with it for every piece.
MOST_OF_A_TOKEN = 1 << 20
MOST_OF_A_CELL = 1 << 18  # bytes of a source or an output of a notebook that are shown
CUT = "… [cut: the document has more text than is shown; use a program]"

# Of files that are shown as text though they are none.
DOCUMENT_ENDINGS = (".ipynb", ".docx", ".xlsx")
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main "
_MARKS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n"}
_BROKEN = (
    *(ValueError, KeyError, IndexError, RecursionError, EOFError, OSError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError),
)
# "start", "end" or "text"; the tag or the text; attributes of a start.
Event = tuple[str, str, dict[str, str]]


class _Full(Exception):
    """The text, or the work for it, has reached its bound."""


def as_text(path: str, data: bytes) -> str:
    """The text of a document, cut at a bound.

    Raises InvalidArgument for one that is broken or too large.
    """
    lines = _Lines()
    try:
        if len(data) > DOCUMENT:
            raise ValueError(f"it has more than {DOCUMENT} bytes")
        _READERS[path.lower()[-5:].lstrip(".")](data, lines)
    except _Full:
        lines.cut()
    except _BROKEN as error:
        raise InvalidArgument(
            f"{path} cannot be read as {posixpath.splitext(path)[1]}: {error}; look at it with a program",
            argument="path",
        ) from None
    return lines.text()


class _Lines:
    """The lines of the result; each grows until the text has reached its bound."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = []
        self._left = DOCUMENT_TEXT

    def start(self, *texts: str) -> int:
        """Begin a line; returns its number."""
        self._lines.append([])
        self._left -= 1  # its end counts, too
        for text in texts:
            self.add(text)
        return len(self._lines) - 1

    def add(self, text: str, number: int = -1) -> None:
        """Append to a line."""
        self._left -= len(text)
        if self._left < 0:
            raise _Full
        self._lines[number].append(text)

    def cut(self) -> None:
        self._lines.append([CUT])

    def text(self) -> str:
        return "\n".join(map("".join, self._lines))


# -- notebooks What is not shown is skipped by the decoder, and each text is decoded by itself: one
# call of the decoder holds the interpreter, so no call may do much.
class _Data(msgspec.Struct):
    plain: msgspec.Raw = msgspec.field(name="text/plain", default=msgspec.Raw(b'""'))


class _Output(msgspec.Struct):
    text: msgspec.Raw = msgspec.Raw(b'""')
    data: _Data = msgspec.field(default_factory=_Data)
    traceback: msgspec.Raw = msgspec.Raw(b'""')


class _Cell(msgspec.Struct):
    cell_type: str
    source: msgspec.Raw
    outputs: list[_Output] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


_notebook = msgspec.json.Decoder(_Notebook)
_text = msgspec.json.Decoder(str | list[str] | None)


def _read_notebook(data: bytes, lines: _Lines) -> None:
    # Cells and outputs are objects, and a list of anything else is refused.
    if data.count(b"{") > MOST_OBJECTS:
        raise ValueError(f"it has more than {MOST_OBJECTS} objects")
    for number, cell in enumerate(_notebook.decode(data).cells, 1):
        if number > 1:
            lines.start()
        _write_part(lines, f"# [{number}] {cell.cell_type}", _joined(cell.source))
        for output in cell.outputs:
            if (
                text := _joined(output.text)
                or _joined(output.data.plain)
                or _joined(output.traceback)
            ):
                lines.start()
                _write_part(lines, f"# [{number}] output", text)


def _write_part(lines: _Lines, head: str, text: str) -> None:
    lines.start(head)
    lines.start(text)


def _joined(raw: msgspec.Raw) -> str:
    if len(memoryview(raw)) > MOST_OF_A_CELL:
        return f"… [cut: {len(memoryview(raw)):,} bytes]"
    text = _text.decode(raw)
    return text if isinstance(text, str) else "".join(text or ())


# -- office documents
class _Archive:
    """The parts of a zip file, unpacked within one bound for all of them."""

    def __init__(self, data: bytes) -> None:
        if data.count(b"PK\x01\x02") > MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS} parts")
        self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._left = DOCUMENT
        self._elements = DOCUMENT_ELEMENTS

    def names(self) -> list[str]:
        return self._zip.namelist()

    def events(self, name: str) -> Iterator[Event]:
        """The elements and texts of one part, in order."""
        depth = 0
        events: list[Event] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            self._elements -= 1
            if depth > MOST_NESTED:
                raise ValueError(f"its elements are nested more than {MOST_NESTED} deep")
            if self._elements >= 0:
                events.append(("start", tag, attributes))

        def end(tag: str) -> None:
            nonlocal depth
            depth -= 1
            events.append(("end", tag, {}))

        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.CharacterDataHandler = lambda text: events.append(("text", text, {}))
        parser.StartDoctypeDeclHandler = _refuse_doctype
        fed = 0
        for piece in self._pieces(name):
            parser.Parse(piece, False)
            fed += len(piece)
            if fed - parser.CurrentByteIndex > MOST_OF_A_TOKEN:
                raise ValueError(f"a tag or comment in it has more than {MOST_OF_A_TOKEN} bytes")
            yield from events
            events.clear()
            if self._elements < 0:
                raise _Full
        parser.Parse(b"", True)
        yield from events

    def _pieces(self, name: str) -> Iterator[bytes]:
        info = self._zip.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} in it is packed in a way that no office program uses")
        with self._zip.open(info) as file:
            while piece := file.read(PIECE):
                self._left -= len(piece)
                if self._left < 0:
                    raise ValueError(f"it unpacks to more than {DOCUMENT} bytes")
                yield piece


def _refuse_doctype(*declared: object) -> None:
    raise ValueError("a part of it declares entities, which no office program does")


def _read_word(data: bytes, lines: _Lines) -> None:
    paragraphs: list[int] = []  # those that are open, by the numbers of their lines
    is_text = False
    for event, value, _ in _Archive(data).events("word/document.xml"):
        if event == "text":
            if is_text and paragraphs:
                lines.add(value, paragraphs[-1])
            continue
        is_text = event == "start" and value == f"{_WORD}t"
        if value == f"{_WORD}p":
            if event == "start":
                paragraphs.append(lines.start())
            else:
                paragraphs.pop()
        elif event == "start" and value in _MARKS and paragraphs:
            lines.add(_MARKS[value], paragraphs[-1])


def _read_sheets(data: bytes, lines: _Lines) -> None:
    archive = _Archive(data)
    shared = _shared_strings(archive) if "xl/sharedStrings.xml" in archive.names() else []
    names = sorted(name for name in archive.names() if name.startswith("xl/worksheets/sheet"))
    for number, name in enumerate(names, 1):
        lines.start(f"# sheet {number}")
        _read_sheet(archive.events(name), shared, lines)


def _shared_strings(archive: _Archive) -> list[str]:
    """The texts that cells refer to by number."""
    found: list[list[str]] = []
    is_text = False
    for event, value, _ in archive.events("xl/sharedStrings.xml"):
        if event == "text":
            if is_text and found:
                found[-1].append(value)
            continue
        is_text = event == "start" and value == f"{_SHEET}t"
        if event == "start" and value == f"{_SHEET}si":
            found.append([])
    return list(map("".join, found))


def _read_sheet(events: Iterator[Event], shared: list[str], lines: _Lines) -> None:
    """Reads the rows of one sheet into lines, the cells apart by tabs."""
    kind, cell, is_value, gap = None, "", False, ""  # of the cell that is open
    for event, value, attributes in events:
        if event == "text":
            cell += value if is_value else ""
            continue
        is_value = False
        if event == "start" and value == f"{_SHEET}row":
            lines.start()
            gap = ""
        elif event == "start" and value == f"{_SHEET}c":
            kind, cell = attributes.get("t", "n"), ""
        elif event == "start" and kind is not None:
            is_value = value == _SHEET + ("t" if kind == "inlineStr" else "v")
        elif event == "end" and value == f"{_SHEET}c" and kind is not None:
            lines.add(gap + (shared[int(cell)] if kind == "s" and cell else cell))
            kind, gap = None, "\t"


_READERS: dict[str, Callable[[bytes, _Lines], None]] = {
    "ipynb": _read_notebook,
    "docx": _read_word,
    "xlsx": _read_sheets,
}
