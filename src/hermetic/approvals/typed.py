"""What is typed into a shell or a Python, put together to the texts that they will run."""

import ast
import codeop
import copy
import re
import warnings
from typing import Literal

import msgspec

from hermetic.contract.verdict import Part, Verdict
from hermetic.policy.assess import Examined, Surroundings, examine_command, examine_python, verdict_of
from hermetic.policy.reader import Reader, Unreadable
from hermetic.policy.rules import Finding, Rule

Language = Literal["shell", "python"]

MOST_REMEMBERED = 20_000  # characters of what was typed before
MOST_KEYS = 65_536  # characters of one line at a terminal, with all that was taken back
_LINES, _KEYS = re.compile(r"[^\n]+|\n"), re.compile(r"[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")
_BACKSPACE, _CLEAR, _WORD, _ENDS, _END_OF_INPUT = "\x7f\b", "\x15\x03", "\x17", "\r\n\x0f", "\x04"
_AT_END = re.compile(r"\x1b[\[O][ABF]|[\x05\x0e\x10\x7f\b\x17\x15]|[^\x00-\x1f\x7f]")  # the cursor stays at the end
# What an interactive shell replaces by older lines, and what gives keys another meaning.
_UNFOLLOWED = re.compile(
    r"^\s*\^|(?<!\\)!(?![\s=(]|$)|\b(bind|fc)\b|\bstty\b.*\b(erase|kill|werase|lnext|eol2?|intr)\b"
)
_QUOTED = re.compile(r"'[^'\n]*'")
_UNFINISHED = ("not closed", "does not end", "ends after")
NOTHING = Verdict(label="safe", category="safe", severity=0, reason="", start=0, end=0, decoded="")
EDITED = Rule(
    name="edited-line", category="opaque-code", severity=7, effects=("executes unseen code",),
)  # fmt: skip


class Typed(msgspec.Struct, frozen=True):
    """A text that is about to run, and what it would do."""

    text: str
    examined: Examined
    is_data: bool = False  # most likely: then only what is never to be done counts


class Transcript:
    """One program's input: what it has run, and what waits for its end."""

    def __init__(
        self, language: Language, *, terminal: bool, ahead: bool = False, half: str = "", ran: str = ""
    ) -> None:
        """`ahead`: another program reads now, and a shell may read what is left: only what is plainly bad counts.

        `half` and `ran` are what was typed ahead of this program, and what it may read all the same.
        """
        self.language = language
        self.is_ahead = ahead
        self._terminal = terminal
        self._ran = ran  # whole texts, judged before
        self._known: frozenset[tuple[str, str, str]] = frozenset()  # what was found in them
        self._open = ""  # lines of a text that is not whole yet
        self._line = half  # the beginning of a line
        # The same with all that was taken back: what takes it back is the program's to say.
        self._typed = [half] if half else []
        self._keys = ""  # all that was typed in this line
        self._is_edited = False

    def __repr__(self) -> str:
        return f"<Transcript of {self.language}: {len(self._ran)} characters ran>"

    @property
    def ahead(self) -> str:
        """Lines that a shell may read when it comes to read."""
        return self._ran if self.is_ahead else ""

    @property
    def half(self) -> str:
        """The line that is not complete yet."""
        return self._line

    def copy(self) -> "Transcript":
        """Another one that goes on from here: what is refused is never typed, and leaves this one as it is."""
        other = copy.copy(self)
        other._typed = list(self._typed)
        return other

    def type(self, data: str, around: Surroundings) -> list[Typed]:
        """The texts that this input completes, in order. A line typed in pieces is judged when it is complete."""
        found = []
        for piece in (_KEYS if self._terminal else _LINES).findall(data):
            if self._terminal:
                self._press(piece)
            if piece in (_ENDS if self._terminal else "\n"):
                found += self._end_line(around)
            elif self._terminal and piece == _END_OF_INPUT and not self._typed:
                found += self._end_text(around)
            elif self._terminal and (piece < " " or piece == "\x7f"):
                self._edit(piece)
            else:
                self._line += piece
                self._typed.append(piece)
        return found

    def _press(self, piece: str) -> None:
        """A line with more keys than anybody types is one that nobody follows."""
        if len(self._keys) < MOST_KEYS:
            self._keys += piece
        else:
            self._is_edited = True

    def _edit(self, char: str) -> None:
        """Keys that take back what was typed; with any other, nobody can tell where the next letter goes."""
        if char == "\x15" and not _AT_END.sub("", self._keys):
            self._line, self._is_edited = "", False
        elif char in _CLEAR and not self._is_edited:
            self._line = ""
        elif char in _BACKSPACE:
            self._line = self._line[:-1]
        elif char in _WORD:
            self._line = re.sub(r"\S*\s*\Z", "", self._line)
        else:
            self._is_edited = True
        self._typed.append(" ")

    def _end_line(self, around: Surroundings) -> list[Typed]:
        line, typed, edited = self._line, "".join(self._typed), self._is_edited or self._is_unfollowed(self._line)
        self._line, self._typed, self._keys, self._is_edited = "", [], "", False
        if self.is_ahead:
            texts = dict.fromkeys((line, typed, f"{self._ran}{line}"))
            if _is_whole_shell(line + "\n"):
                self._ran = f"{self._ran[-MOST_REMEMBERED:]}{line}\n"
            bad = next((found for text in texts if (found := self._judge_ahead(text, around))), [])
            return bad or [Typed(line + "\n", Examined(NOTHING, examine_command(line, around).acts), is_data=True)]
        self._open += line + "\n"
        if edited or (line.strip() != typed.strip() and self._judge_ahead(typed, around)):
            text, self._open = self._open, ""
            return [_edited(typed + "\n" if typed.strip() != line.strip() else text, around)]
        if not self._is_whole(self._open):
            return self._judge_ahead(line, around) if self.language == "shell" else []
        return self._end_text(around)

    def _end_text(self, around: Surroundings) -> list[Typed]:
        text, self._open = self._open, ""
        return [Typed(text, self._judged(text, around))] if text.strip() else []

    def _is_unfollowed(self, line: str) -> bool:
        if not self._terminal or self.language != "shell":
            return False
        return bool(_UNFOLLOWED.search(line if '"' in line else _QUOTED.sub("", line)))

    def _judge_ahead(self, line: str, around: Surroundings) -> list[Typed]:
        """A line that is most likely data; text that is no shell at all is none of a shell's."""
        examined = examine_command(line, around)
        parts = tuple(part for part in examined.verdict.parts if part.source != "text")
        if not any(part.label == "dangerous" for part in parts):
            return []
        return [Typed(line + "\n", Examined(msgspec.structs.replace(examined.verdict, parts=parts), examined.acts))]

    def _is_whole(self, text: str) -> bool:
        return _is_whole_shell(text) if self.language == "shell" else _is_whole_python(text)

    def _judged(self, text: str, around: Surroundings) -> Examined:
        """What the text would do after all that ran before; what was found before is not found again."""
        if self.language == "python" and not _is_python(text):
            return _not_python(text, around)
        before = self._ran[-MOST_REMEMBERED:]
        self._ran = before + text
        if self.language == "shell":
            whole = examine_command(self._ran, around)
            parts = tuple(
                part for part in whole.verdict.parts if part.end > len(before) or _key(part) not in self._known
            )
        else:
            whole = examine_python(self._ran, around)
            parts = tuple(part for part in whole.verdict.parts if _key(part) not in self._known)
        self._known |= {_key(part) for part in parts}
        alone = examine_command(text, around) if self.language == "shell" else examine_python(text, around)
        if not parts:
            return alone
        worst = max(parts, key=lambda part: (part.hardline, part.label == "dangerous", part.severity))
        verdict = msgspec.structs.replace(
            whole.verdict, label=worst.label, category=worst.category, severity=worst.severity, reason=worst.reason,
            decoded=worst.decoded, hardline=any(part.hardline for part in parts), parts=parts, start=0, end=len(text),
        )  # fmt: skip
        return Examined(verdict, alone.acts)


def _key(part: Part) -> tuple[str, str, str]:
    return part.rule, part.reason, part.decoded


def _edited(text: str, around: Surroundings) -> Typed:
    examined = examine_command(text, around)
    if examined.verdict.hardline:
        return Typed(text, examined)
    finding = Finding(EDITED, "the line was changed with keys that cannot be followed", 0, len(text), text)
    return Typed(text, Examined(verdict_of([finding], text, around.isolation)))


def _is_whole_shell(text: str) -> bool:
    """False while a shell would wait for more: open quotes, loops, a backslash at the end."""
    stripped = text.rstrip("\n")
    if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return False
    reader = Reader(text)
    try:
        reader.read()
    except Unreadable as problem:
        if any(hint in str(problem) for hint in _UNFINISHED):
            return False
        return reader.pos < len(text.rstrip())  # in the middle it is an error, and the shell begins anew
    except RecursionError:
        return True
    return True


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _not_python(text: str, around: Surroundings) -> Examined:
    """What becomes of a line that is no Python: an error, or a shell's where the prompt takes such."""
    line = text.strip()
    if line.startswith(("!", "%")):
        return examine_command(re.sub(r"^(!+|%%?\w+)\s*", "", line), around)
    return examine_python(text, around)


def _is_whole_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command(text.removesuffix("\n"), symbol="single") is not None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return True
