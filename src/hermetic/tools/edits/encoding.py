"""Decodes a file for an edit and encodes it again; unchanged parts stay byte for byte."""

import codecs

import msgspec

from hermetic.contract.errors import EditRefused

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Encoding(msgspec.Struct, frozen=True):
    """How a file's bytes spell its text."""

    name: str = "utf-8"
    mark: bytes = b""  # the byte order mark that the file begins with

    def encode(self, text: str) -> bytes:
        """The bytes of a file.

        Raises EditRefused for a character that this encoding does not have.
        """
        errors = "surrogateescape" if self.name == "utf-8" else "strict"
        try:
            return self.mark + text.encode(self.name, errors)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise EditRefused(
                f"the character {character!r} cannot be written in {self.name}, the encoding of this file; "
                "use characters that it has, or convert the file to UTF-8 first",
                reason="encoding",
            ) from None


def decode(data: bytes) -> tuple[str, Encoding]:
    """The text and how it is spelt. Raises EditRefused for what is no text."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(name), Encoding(name, mark)
            except UnicodeDecodeError:
                raise EditRefused(
                    f"it begins like {name} text and is not", reason="binary"
                ) from None
    if b"\0" in data:
        raise EditRefused(
            "it is a binary file; change it with a program in the terminal", reason="binary"
        )
    text = data.decode("utf-8", "surrogateescape")
    if _is_mostly_utf8(text):
        return text, Encoding()
    for name in ("cp1252", "latin-1"):
        try:
            return data.decode(name), Encoding(name)
        except UnicodeDecodeError:
            continue
    raise AssertionError("every byte is a character of latin-1")


def _is_mostly_utf8(text: str) -> bool:
    """True unless more bytes are stray than there are characters beyond ASCII."""
    if text.isascii():
        return True
    stray = sum("\udc80" <= character <= "\udcff" for character in text)
    return 2 * stray <= sum(character >= "\x80" for character in text)
