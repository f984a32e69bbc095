"""What is typed into a shell or a Python, put together to the texts that they will run."""

import ast
import codeop
import copy
import re
import shlex
import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from hermetic.approvals import editor_keys
from hermetic.contract.verdict import Part, Verdict
from hermetic.policy.acts import Act
from hermetic.policy.assess import (
    Examined,
    Surroundings,
    examine_command,
    examine_input,
    examine_python,
    verdict_of,
)
from hermetic.policy.rules import Finding, Rule
from hermetic.policy.shell.reader import Reader, Unreadable

# input: of another program whose input the policy judges. keys: of an editor or pager with an
# escape to a shell.
Language = Literal["shell", "python", "input", "keys"]

MOST_REMEMBERED = 20_000  # characters of what was typed before
MOST_BEFORE = 4_000  # the same of a program's input
MOST_AT_ONCE = 20_000  # characters of lines of a program's input that are judged as one text
MOST_KEYS = 65_536  # characters of one line at a terminal, with all that was taken back
# of one input that are followed line by line; more count as a text that cannot be followed
MOST_LINES = 400
MOST_INPUT_LINES = 10_000  # the same of other programs, whose lines are judged together
_LINES, _KEYS = re.compile(r"[^\n]+|\n"), re.compile(r"[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")
_BACKSPACE, _CLEAR, _WORD, _ENDS, _END_OF_INPUT = "\x7f\b", "\x15\x03", "\x17", "\r\n\x0f", "\x04"
# the cursor stays at the end
_AT_END = re.compile(r"\x1b[\[O][ABF]|[\x05\x0e\x10\x7f\b\x17\x15]|[^\x00-\x1f\x7f]")
# What an interactive shell replaces by older lines, and what gives keys another meaning.
_UNFOLLOWED = re.compile(
    r"^\s*\^|(?<!\\)!(?![\s=(]|$)|\b(bind|fc)\b|\bstty\b.*\b(erase|kill|werase|lnext|eol2?|intr)\b"
)
_QUOTED = re.compile(r"'[^'\n]*'")
_UNFINISHED = ("not closed", "does not end", "ends after")
# a register or a key's code in a command line
_COMMAND_LINE, _PASTES = re.compile(r"[:!]"), re.compile(r"[\x12\x16]")
_EXAMINE: dict[str, Callable[[str, Surroundings], Examined]] = {
    "shell": examine_command,
    "python": examine_python,
}
NOTHING = Verdict(label="safe", category="safe", severity=0, reason="", start=0, end=0, decoded="")
EDITED = Rule(
    name="edited-line",
    category="opaque-code",
    severity=7,
    effects=("executes unseen code",),
)


class Typed(NamedTuple):
    """A text that is about to run, and what it would do."""

    text: str
    examined: Examined
    is_data: bool = False  # most likely: then only what is never to be done counts


class Transcript:
    """One program's input: what it has run, and what waits for its end."""

    def __init__(
        self,
        language: Language,
        *,
        terminal: bool,
        ahead: bool = False,
        half: str = "",
        ran: str = "",
        argv: Sequence[str] = (),
    ) -> None:
        """`argv`: of the program whose input it is.

        `ahead`: another program reads now, and a shell may read what is left: only what is plainly
        bad counts. `half` and `ran` are what was typed ahead of this program, and what it may read
        all the same.
        """
        self.language = language
        self.is_ahead = ahead
        self.half = half  # the line that is not complete yet
        self._argv = tuple(argv)
        self._terminal = terminal
        self._ran = ran  # whole texts, judged before
        self._known: frozenset[tuple[str, str, str]] = frozenset()  # what was found in them
        self._suspects: frozenset[str] = frozenset()  # names that dangerous Python has bound
        self._open = ""  # lines of a text that is not whole yet
        # The line with all that was taken back: the program decides what takes it back.
        self._typed = [half] if half else []
        self._keys = ""  # all that was typed in this line
        self._is_edited = False
        # an editor or a pager has started one that may read what comes next
        self._opened_shell = False
        self._around = Surroundings()

    def __repr__(self) -> str:
        return f"<Transcript of {self.language}: {len(self._ran)} characters ran>"

    @property
    def ahead(self) -> str:
        """Lines that a shell may read when it comes to read."""
        return self._ran if self.is_ahead else ""

    def copy(self) -> "Transcript":
        """Another one that goes on from here: what is refused is never typed, and leaves this one
        as it is.
        """
        other = copy.copy(self)
        other._typed = list(self._typed)
        return other

    def type(self, data: str, around: Surroundings) -> list[Typed]:
        """The texts that this input completes, in order.

        A line typed in pieces is judged when it is complete.
        """
        self._around = around
        found: list[Typed] = []
        lines = 0
        most = MOST_LINES if self.language in ("shell", "python") else MOST_INPUT_LINES
        for piece in (_KEYS if self._terminal else _LINES).findall(data):
            if self._terminal and len(self._keys) < MOST_KEYS:
                self._keys += piece
            elif self._terminal:
                self._is_edited = True  # more keys than a line can have
            if piece in (_ENDS if self._terminal else "\n"):
                lines += 1
                if lines > most:
                    self._open = ""
                    self._take_line()
                    return [*found, self._edited(data, f"more than {most} lines are typed at once")]
                found += self._end_keys() if self.language == "keys" else self._end_line()
            elif self._terminal and piece == _END_OF_INPUT and not self._typed:
                found += self._end_text()
            elif self._terminal and (piece < " " or piece == "\x7f"):
                self._edit(piece)
            else:
                self.half += piece
                self._typed.append(piece)
        return [*found, *self._end_text()] if self.language == "input" else found

    def _edit(self, char: str) -> None:
        """Keys that take back what was typed; after any other, the position of the next letter is
        not known.
        """
        if char == "\x15" and not _AT_END.sub("", self._keys):
            self.half, self._is_edited = "", False
        elif char in _CLEAR and not self._is_edited:
            self.half = ""
        elif char in _BACKSPACE:
            self.half = self.half[:-1]
        elif char in _WORD:
            self.half = re.sub(r"\S*\s*\Z", "", self.half)
        else:
            self._is_edited = True
        self._typed.append(" ")

    def _take_line(self) -> tuple[str, str, str, bool]:
        """The line, the same with all that was taken back, its keys, and whether they cannot be
        followed.
        """
        taken = self.half, "".join(self._typed), self._keys, self._is_edited
        self.half, self._typed, self._keys, self._is_edited = "", [], "", False
        return taken

    def _end_line(self) -> list[Typed]:
        line, typed, _, is_edited = self._take_line()
        if self._terminal and self.language == "shell":
            is_edited = is_edited or bool(
                _UNFOLLOWED.search(line if '"' in line else _QUOTED.sub("", line))
            )
        if self.is_ahead:
            texts = dict.fromkeys((line, typed, f"{self._ran}{line}"))
            if is_whole_shell(line + "\n"):
                self._ran = f"{self._ran[-MOST_REMEMBERED:]}{line}\n"
            bad = next((found for text in texts if (found := self._judge_ahead(text))), [])
            acts = examine_command(line, self._around).acts
            return bad or [Typed(line + "\n", Examined(NOTHING, acts), is_data=True)]
        self._open += line + "\n"
        is_changed = line.strip() != typed.strip()
        if is_edited or (is_changed and self._judge_ahead(typed)):
            text, self._open = self._open, ""
            return [self._edited(typed + "\n" if is_changed else text)]
        if not self._is_whole(self._open):
            return self._judge_ahead(line) if self.language == "shell" else []
        return self._end_text()

    def _end_keys(self) -> list[Typed]:
        """Keys for an editor or a pager: only what they hand to a shell counts."""
        line, _, pressed, _ = self._take_line()
        keys = editor_keys.without_taken_back(pressed if self._terminal else line)
        if (begins := _COMMAND_LINE.search(keys)) and _PASTES.search(keys, begins.end()):
            return [self._edited(keys)]
        if editor_keys.is_fed(keys):
            return [self._edited(keys, "an interpreter gets the editor's text, which is not known")]
        ahead = self._judge_ahead(keys) if self._opened_shell else []
        pager = not editor_keys.is_editor(self._argv)
        self._opened_shell = self._opened_shell or editor_keys.opens_shell(keys, pager=pager)
        judged = [
            (text, examine_command(text, self._around))
            for text in editor_keys.escapes(keys, pager=pager)
        ]
        judged += [(text, _of_editor(text, self._around)) for text in editor_keys.ex_commands(keys)]
        found = [
            Typed(f"{text}\n", examined)
            for text, examined in judged
            if examined.acts or examined.verdict.parts
        ]
        return ahead + found

    def _end_text(self) -> list[Typed]:
        text, self._open = self._open, ""
        if not text.strip():
            return []
        if self.language == "input":
            return self._of_input(text)
        return [Typed(text, self._judged(text))]

    def _of_input(self, text: str) -> list[Typed]:
        """What the program would do with these lines after those before them; nothing for lines
        that do nothing.
        """
        before = self._ran[-MOST_BEFORE:]
        self._ran = before + text
        texts = (before, self._ran, "", text)
        known, whole, started, alone = (
            examine_input(self._argv, one, self._around) for one in texts
        )
        found: dict[tuple[str, str, str], Part] = {}
        acts: dict[Act, None] = {}
        for old, now in ((known, whole), (started, alone)):
            seen = set(map(_key, old.verdict.parts))
            found |= {_key(part): part for part in now.verdict.parts if _key(part) not in seen}
            acts |= dict.fromkeys(act for act in now.acts if act not in old.acts)
        parts = tuple(found.values())
        if not (acts or any(part.label == "dangerous" for part in parts)):
            return []
        return [Typed(text, Examined(_worst(whole.verdict, parts, text), tuple(acts)))]

    def _judge_ahead(self, line: str) -> list[Typed]:
        """The line where it is plainly bad.

        It is most likely data; text that is no shell at all is no command.
        """
        examined = examine_command(line, self._around)
        parts = tuple(part for part in examined.verdict.parts if part.source != "text")
        if not any(part.label == "dangerous" for part in parts):
            return []
        return [
            Typed(
                line + "\n",
                Examined(msgspec.structs.replace(examined.verdict, parts=parts), examined.acts),
            )
        ]

    def _is_whole(self, text: str) -> bool:
        if self.language == "input":
            return len(text) > MOST_AT_ONCE
        return is_whole_shell(text) if self.language == "shell" else _is_whole_python(text)

    def _judged(self, text: str) -> Examined:
        """What the text would do after all that ran before; what was found before is not found
        again.
        """
        if self.language == "python" and not _is_python(text):
            return _not_python(text, self._around)
        before = self._ran[-MOST_REMEMBERED:]
        self._ran = before + text
        is_shell = self.language == "shell"
        examine = _EXAMINE[self.language]
        key = _key if is_shell else _python_key
        again = not is_shell and not self._suspects.isdisjoint(_names_in(text, ast.Load))
        whole, alone = examine(self._ran, self._around), examine(text, self._around)
        parts = tuple(
            part
            for part in whole.verdict.parts
            if again or key(part) not in self._known or (is_shell and part.end > len(before))
        )
        self._known |= set(map(key, parts))
        if not is_shell and any(part.label == "dangerous" for part in parts):
            self._suspects |= _names_in(text, ast.Store)
        return Examined(_worst(whole.verdict, parts, text), alone.acts) if parts else alone

    def _edited(
        self, text: str, why: str = "the line was changed with keys that cannot be followed"
    ) -> Typed:
        examined = examine_command(text, self._around)
        if examined.verdict.hardline:
            return Typed(text, examined)
        finding = Finding(EDITED, why, 0, len(text), text)
        return Typed(text, Examined(verdict_of([finding], text, self._around.isolation)))


def _worst(verdict: Verdict, parts: tuple[Part, ...], text: str) -> Verdict:
    """The verdict with these parts alone."""
    if not parts:
        return msgspec.structs.replace(NOTHING, decoded=text, end=len(text))
    worst = max(parts, key=lambda part: (part.hardline, part.label == "dangerous", part.severity))
    return msgspec.structs.replace(
        verdict,
        label=worst.label,
        category=worst.category,
        severity=worst.severity,
        reason=worst.reason,
        decoded=worst.decoded,
        hardline=any(part.hardline for part in parts),
        parts=parts,
        start=0,
        end=len(text),
    )


def _of_editor(command: str, around: Surroundings) -> Examined:
    """What a command of an editor's command line does; that an editor runs is nothing new."""
    words = ("vim", "-c", command)
    examined = examine_command(shlex.join(words), around)
    return Examined(
        examined.verdict, tuple(act for act in examined.acts if act.words[:2] != words[:2])
    )


def _python_key(part: Part) -> tuple[str, str, str]:
    """The same for a whole text and for one that goes on."""
    return part.rule, part.reason, part.path


def _names_in(text: str, use: type[ast.expr_context]) -> frozenset[str]:
    """The names that a Python text reads or binds."""
    nodes = list(ast.walk(ast.parse(text)))
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, use)}
    if use is ast.Store:
        found |= {
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        found |= {
            (one.asname or one.name).partition(".")[0]
            for node in nodes
            for one in getattr(node, "names", ())
            if isinstance(one, ast.alias)
        }
    return frozenset(found)


def _key(part: Part) -> tuple[str, str, str]:
    return part.rule, part.reason, part.decoded


def is_whole_shell(text: str) -> bool:
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
        # in the middle it is an error, and the shell begins anew
        return reader.pos < len(text.rstrip())
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
