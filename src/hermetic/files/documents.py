"""Notebooks and office documents as text."""

import io
import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import msgspec

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import DOCUMENT

_ENDINGS = (".ipynb", ".docx", ".xlsx")
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def is_document(path: str) -> bool:
    """True for files that are shown as text though they are none."""
    return path.lower().endswith(_ENDINGS)


def as_text(path: str, data: bytes) -> str:
    """What a person would read in it. Raises InvalidArgument for one that is broken or too large."""
    try:
        if path.lower().endswith(".ipynb"):
            return "\n\n".join(_cells(data))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if path.lower().endswith(".docx"):
                return "\n".join(_paragraphs(archive))
            return "\n".join(_sheets(archive))
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        ElementTree.ParseError,
    ) as error:
        raise InvalidArgument(
            f"{path} cannot be read as {posixpath.splitext(path)[1]}: {error}; look at it with a program",
            argument="path",
        ) from None


def _cells(data: bytes) -> Iterator[str]:
    for number, cell in enumerate(msgspec.json.decode(data)["cells"], 1):
        yield f"# [{number}] {cell['cell_type']}\n{_joined(cell['source'])}"
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain") or output.get("traceback")
            if text:
                yield f"# [{number}] output\n{_joined(text)}"


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text)


def _part(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    """One part, parsed; nothing that unpacks without end, and nothing that refers elsewhere."""
    if archive.getinfo(name).file_size > DOCUMENT.value:
        raise ValueError(f"{name} in it has more than {DOCUMENT.value} bytes")
    with archive.open(name) as file:
        data = file.read(DOCUMENT.value + 1)
    if len(data) > DOCUMENT.value or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError(f"{name} in it is not what an office program writes")
    return ElementTree.fromstring(data)


def _paragraphs(archive: zipfile.ZipFile) -> Iterator[str]:
    for paragraph in _part(archive, "word/document.xml").iter(f"{_WORD}p"):
        yield "".join(_word(node) for node in paragraph.iter())


def _word(node: ElementTree.Element) -> str:
    if node.tag == f"{_WORD}t":
        return node.text or ""
    return {f"{_WORD}tab": "\t", f"{_WORD}br": "\n"}.get(node.tag, "")


def _sheets(archive: zipfile.ZipFile) -> Iterator[str]:
    shared: list[str] = []
    if "xl/sharedStrings.xml" in archive.namelist():
        items = _part(archive, "xl/sharedStrings.xml").iter(f"{_SHEET}si")
        shared = ["".join(node.text or "" for node in item.iter(f"{_SHEET}t")) for item in items]
    names = sorted(name for name in archive.namelist() if name.startswith("xl/worksheets/sheet"))
    for number, name in enumerate(names, 1):
        yield f"# sheet {number}"
        for row in _part(archive, name).iter(f"{_SHEET}row"):
            yield "\t".join(_value(cell, shared) for cell in row.iter(f"{_SHEET}c"))


def _value(cell: ElementTree.Element, shared: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        return "".join(node.text or "" for node in cell.iter(f"{_SHEET}t"))
    value = cell.findtext(f"{_SHEET}v") or ""
    return shared[int(value)] if cell.get("t") == "s" and value else value
