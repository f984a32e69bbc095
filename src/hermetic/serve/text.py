"""Output of programs as plain text: decoded, without control sequences and secrets."""

from hermetic.contract.printable import escaped
from hermetic.redaction.redactor import Redactor
from hermetic.tools.base.show import settle

_REDACTOR = Redactor()


def plain(data: bytes) -> str:
    """The text of output as a terminal would leave it, with secrets hidden."""
    return _REDACTOR.redact(escaped(settle(data.decode("utf-8", "replace"))))


def last_lines(text: str, lines: int, width: int) -> str:
    """The last lines of a text, each cut to a width."""
    kept = text.rstrip("\n").split("\n")[-lines:]
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in kept)
