"""What is typed into a shell or a Python, put together to the texts that they will run."""

import ast
import codeop
import copy
import re
import shlex
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from hermetic.approvals.editor_keys import escapes, ex_commands, is_editor, is_fed, opens_shell, without_taken_back
from hermetic.contract.verdict import Part, Verdict
from hermetic.policy.assess import (
    Examined,
    Surroundings,
    examine_command,
    examine_input,
    examine_python,
    verdict_of,
)
from hermetic.policy.reader import Reader, Unreadable
from hermetic.policy.rules import Finding, Rule

# input: of another program whose input the policy judges. keys: of an editor or pager with an escape to a shell.
Language = Literal["shell", "python", "input", "keys"]

MOST_REMEMBERED = 20_000  # characters of what was typed before
MOST_BEFORE = 4_000  # the same of a program's input
MOST_AT_ONCE = 20_000  # characters of lines of a program's input that are judged as one text
MOST_KEYS = 65_536  # characters of one line at a terminal, with all that was taken back
MOST_LINES = 400  # of one input that are followed line by line; more count as a text that cannot be followed
MOST_INPUT_LINES = 10_000  # the same of other programs, whose lines are judged together
_LINES, _KEYS = re.compile(r"[^\n]+|\n"), re.compile(r"[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")
_BACKSPACE, _CLEAR, _WORD, _ENDS, _END_OF_INPUT = "\x7f\b", "\x15\x03", "\x17", "\r\n\x0f", "\x04"
_AT_END = re.compile(r"\x1b[\[O][ABF]|[\x05\x0e\x10\x7f\b\x17\x15]|[^\x00-\x1f\x7f]")  # the cursor stays at the end
# What an interactive shell replaces by older lines, and what gives keys another meaning.
_UNFOLLOWED = re.compile(
    r"^\s*\^|(?<!\\)!(?![\s=(]|$)|\b(bind|fc)\b|\bstty\b.*\b(erase|kill|werase|lnext|eol2?|intr)\b"
)
_QUOTED = re.compile(r"'[^'\n]*'")
_UNFINISHED = ("not closed", "does not end", "ends after")
_COMMAND_LINE, _PASTES = re.compile(r"[:!]"), re.compile(r"[\x12\x16]")  # a register or a key's code in a command line
NOTHING = Verdict(label="safe", category="safe", severity=0, reason="", start=0, end=0, decoded="")
EDITED = Rule(
    name="edited-line", category="opaque-code", severity=7, effects=("executes unseen code",),
)  # fmt: skip


class Typed(NamedTuple):
    """A text that is about to run, and what it would do."""

    text: str
    examined: Examined
    is_data: bool = False  # most likely: then only what is never to be done counts


class Transcript:
    """One program's input: what it has run, and what waits for its end."""

    def __init__(
        self, language: Language, *, terminal: bool, ahead: bool = False, half: str = "", ran: str = "",
        argv: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`argv`: of the program whose input it is.

        `ahead`: another program reads now, and a shell may read what is left: only what is plainly bad counts.
        `half` and `ran` are what was typed ahead of this program, and what it may read all the same.
        """
        self.language = language
        self.is_ahead = ahead
        self._argv = tuple(argv)
        self._terminal = terminal
        self._ran = ran  # whole texts, judged before
        self._known: frozenset[tuple[str, str, str]] = frozenset()  # what was found in them
        self._suspects: frozenset[str] = frozenset()  # names that dangerous Python has bound
        self._open = ""  # lines of a text that is not whole yet
        self._line = half  # the beginning of a line
        # The same with all that was taken back: what takes it back is the program's to say.
        self._typed = [half] if half else []
        self._keys = ""  # all that was typed in this line
        self._is_edited = False
        self._opened_shell = False  # an editor or a pager has started one that may read what comes next

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
        found: list[Typed] = []
        lines = 0
        most = MOST_LINES if self.language in ("shell", "python") else MOST_INPUT_LINES
        for piece in (_KEYS if self._terminal else _LINES).findall(data):
            if self._terminal:
                self._press(piece)
            if piece in (_ENDS if self._terminal else "\n"):
                lines += 1
                if lines > most:
                    self._open, self._line, self._typed, self._keys = "", "", [], ""
                    return [*found, _edited(data, around, f"more than {most} lines are typed at once")]
                found += self._end_line(around)
            elif self._terminal and piece == _END_OF_INPUT and not self._typed:
                found += self._end_text(around)
            elif self._terminal and (piece < " " or piece == "\x7f"):
                self._edit(piece)
            else:
                self._line += piece
                self._typed.append(piece)
        if self.language == "input":
            found += self._end_text(around)
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
        if self.language == "keys":
            return self._end_keys(around)
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

    def _end_keys(self, around: Surroundings) -> list[Typed]:
        """Keys for an editor or a pager: only what they hand to a shell counts."""
        keys = without_taken_back(self._keys if self._terminal else self._line)
        self._line, self._typed, self._keys, self._is_edited = "", [], "", False
        if (begins := _COMMAND_LINE.search(keys)) and _PASTES.search(keys, begins.end()):
            return [_edited(keys, around)]
        if is_fed(keys):
            return [_edited(keys, around, "an interpreter gets the editor's text, which is not known")]
        ahead = self._judge_ahead(keys, around) if self._opened_shell else []
        pager = not is_editor(self._argv)
        self._opened_shell = self._opened_shell or opens_shell(keys, pager=pager)
        judged = [(text, examine_command(text, around)) for text in escapes(keys, pager=pager)]
        judged += [(text, _of_editor(text, around)) for text in ex_commands(keys)]
        found = [Typed(f"{text}\n", examined) for text, examined in judged if examined.acts or examined.verdict.parts]
        return ahead + found

    def _end_text(self, around: Surroundings) -> list[Typed]:
        text, self._open = self._open, ""
        if not text.strip():
            return []
        if self.language == "input":
            return self._of_input(text, around)
        return [Typed(text, self._judged(text, around))]

    def _of_input(self, text: str, around: Surroundings) -> list[Typed]:
        """What the program would do with these lines after those before them; nothing for lines that do nothing."""
        before = self._ran[-MOST_BEFORE:]
        self._ran = before + text
        found = [self._added(before, self._ran, around), self._added("", text, around)]
        parts = tuple({_key(part): part for examined in found for part in examined.verdict.parts}.values())
        acts = tuple(dict.fromkeys(act for examined in found for act in examined.acts))
        if not (acts or any(part.label == "dangerous" for part in parts)):
            return []
        return [Typed(text, Examined(_worst(found[0].verdict, parts, text), acts))]

    def _added(self, before: str, text: str, around: Surroundings) -> Examined:
        """What the program does with the whole text that it does not do with its beginning."""
        known, whole = (examine_input(self._argv, one, around) for one in (before, text))
        seen = {_key(part) for part in known.verdict.parts}
        parts = tuple(part for part in whole.verdict.parts if _key(part) not in seen)
        acts = tuple(act for act in whole.acts if act not in known.acts)
        return Examined(msgspec.structs.replace(whole.verdict, parts=parts), acts)

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
        if self.language == "input":
            return len(text) > MOST_AT_ONCE
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
            again = not self._suspects.isdisjoint(_names_in(text, ast.Load))
            parts = tuple(part for part in whole.verdict.parts if again or _python_key(part) not in self._known)
            if any(part.label == "dangerous" for part in parts):
                self._suspects |= _names_in(text, ast.Store)
        self._known |= {_key(part) if self.language == "shell" else _python_key(part) for part in parts}
        alone = examine_command(text, around) if self.language == "shell" else examine_python(text, around)
        if not parts:
            return alone
        return Examined(_worst(whole.verdict, parts, text), alone.acts)


def _worst(verdict: Verdict, parts: tuple[Part, ...], text: str) -> Verdict:
    """The verdict with these parts alone."""
    if not parts:
        return msgspec.structs.replace(NOTHING, decoded=text, end=len(text))
    worst = max(parts, key=lambda part: (part.hardline, part.label == "dangerous", part.severity))
    return msgspec.structs.replace(
        verdict, label=worst.label, category=worst.category, severity=worst.severity, reason=worst.reason,
        decoded=worst.decoded, hardline=any(part.hardline for part in parts), parts=parts, start=0, end=len(text),
    )  # fmt: skip


def _of_editor(command: str, around: Surroundings) -> Examined:
    """What a command of an editor's command line does; that an editor runs is nothing new."""
    words = ("vim", "-c", command)
    examined = examine_command(shlex.join(words), around)
    return Examined(examined.verdict, tuple(act for act in examined.acts if act.words[:2] != words[:2]))


def _python_key(part: Part) -> tuple[str, str, str]:
    """The same for a whole text and for one that goes on."""
    return part.rule, part.reason, part.path


def _names_in(text: str, use: type[ast.expr_context]) -> frozenset[str]:
    """The names that a Python text reads or binds."""
    nodes = list(ast.walk(ast.parse(text)))
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, use)}
    if use is ast.Store:
        found |= {
            node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        found |= {(one.asname or one.name).partition(".")[0] for node in nodes for one in getattr(node, "names", ())
                  if isinstance(one, ast.alias)}  # fmt: skip
    return frozenset(found)


def _key(part: Part) -> tuple[str, str, str]:
    return part.rule, part.reason, part.decoded


def _edited(
    text: str, around: Surroundings, why: str = "the line was changed with keys that cannot be followed"
) -> Typed:
    examined = examine_command(text, around)
    if examined.verdict.hardline:
        return Typed(text, examined)
    finding = Finding(EDITED, why, 0, len(text), text)
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
