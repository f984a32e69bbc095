"""What a command printed, as a model may see it: no escape sequences, no secrets."""

from hermetic.contract.process import Shown
from hermetic.redaction.redactor import Redactor, hidden_in
from hermetic.redaction.screens import hide
from hermetic.tools.terminal.content import content_of_command, content_of_file
from hermetic.tools.terminal.overwriting import settle


class Showing:
    """Shows texts, whole or in parts; a part that ends within a known secret is not taken for all of it."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self.redactor = redactor  # None: secrets are shown

    def __repr__(self) -> str:
        return f"<Showing {'without' if self.redactor else 'with'} secrets>"

    def __call__(self, text: str, command: str) -> str:
        """The text that this command printed; of a command itself with "" in its place."""
        if self.redactor is None:
            return settle(text)
        return self.redactor.redact(settle(text), content_of_command(command) if command else "output")

    def join(self, before: str, text: str) -> str:
        """The text without the rest of a secret that began in what stands before it."""
        return self.redactor.join(before, text) if self.redactor else text

    def unfinished(self, text: str) -> int:
        """How many characters at its end may be the start of a secret that goes on."""
        return self.redactor.unfinished(text) if self.redactor else 0

    def screen(self, shown: Shown, command: str) -> list[str]:
        """The rows of a terminal that this command draws on."""
        return hide(shown, self.redactor, content_of_command(command)) if self.redactor else list(shown.lines)

    def file(self, text: str, path: str) -> str:
        """Lines of a file with this name: without secrets, all else as it is."""
        return self.redactor.redact(text, content_of_file(path)) if self.redactor else text

    def hidden(self, text: str) -> list[str]:
        """The marks in a text that stand for secrets: whoever writes it does not know them."""
        return hidden_in(text)
