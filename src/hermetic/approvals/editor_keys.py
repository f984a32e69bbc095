"""What keys that are typed into an editor or a pager hand to a shell."""

import re
from collections.abc import Iterator, Sequence

MOST_ESCAPES = 20  # of one line of a pager that are looked at
_BACKSPACE = "\x7f\b"
# What stands behind an escape of vim's command line or of its normal mode, of less and of more.
_ESCAPE = re.compile(r":[^!:]{0,200}!(?P<command>.*)|(?:^|\x1b)\d{0,9}!(?P<filter>.*)", re.DOTALL)
_TERMINAL = re.compile(
    r":[ \t]{0,9}(?:sil\w{0,9}!?[ \t]{1,9})?te(?:r\w{0,9})?[ \t]+(.+)"
    r"|\bsystem(?:list)?[ \t]{0,9}\([ \t]{0,9}['\"](.{1,2000}?)['\"][ \t]{0,9}[),]",
    re.DOTALL,
)
# Keys of a pager: `!` and `#` before a command, `|` and a mark before one that gets a part of the
# text.
_PAGER = re.compile(r"[!#]|\|.", re.DOTALL)
_EX = re.compile(r"(?:^|\x1b)[^\s:\x1b]{0,8}:(?P<command>[^\x1b]{1,4000})", re.DOTALL)
# Commands that give a program lines of the text: `:w !sh`, `:%!sh`, `!Gsh`.
_FED = re.compile(
    r":[^!:]{0,200}(?:\bw\w{0,4}[ \t]{1,9}|[%\d.$>}][ \t]{0,9})!(?P<program>.*)", re.DOTALL
)
_INTERPRETER = re.compile(
    r"[ \t]{0,9}(?:sudo[ \t]{1,9})?(?:\S{0,100}/)?(?:(?:ba|da|z|k|a|fi|)sh|python[\d.]{0,5}|perl|ruby|node|lua|php)"
    r"(?:[ \t]{1,9}-\w{0,9})*[ \t]{0,9}"
)
_OPENS = re.compile(
    r":[ \t]{0,9}(?:sil\w{0,9}!?[ \t]{1,9})?(?:sh(?:e(?:ll?)?)?|te(?:r\w{0,9})?)!?[ \t]{0,9}\Z"
)
_EDITORS = re.compile(r"(?:^|/)-?(?:r?g?vi(?:m|mdiff|ew)?|nvim|r?view|ex)(?:[\d.]+|\.\w+)?\Z")


def without_taken_back(keys: str) -> str:
    """The keys without those that a backspace took back."""
    kept: list[str] = []
    for key in keys:
        if key in _BACKSPACE:
            del kept[-1:]
        else:
            kept.append(key)
    return "".join(kept).rstrip("\r\n")


def is_editor(argv: Sequence[str]) -> bool:
    """Whether these are the words of an editor and not of a pager."""
    return bool(argv) and _EDITORS.search(argv[0]) is not None


def escapes(keys: str, *, pager: bool) -> list[str]:
    """The commands that keys may hand to a shell.

    How many keys of a filter name its lines cannot be known.
    """
    found = [text for match in _TERMINAL.finditer(keys) for text in match.groups() if text]
    for match in _ESCAPE.finditer(keys):
        if match["command"] is not None:
            found.append(match["command"].lstrip("! \t"))
        else:
            found += [match["filter"][skipped:] for skipped in range(3)]
    if pager:
        found += [
            keys[match.end() :]
            for _, match in zip(range(MOST_ESCAPES), _PAGER.finditer(keys), strict=False)
        ]
    return [text for text in dict.fromkeys(found) if text.strip()]


def ex_commands(keys: str) -> Iterator[str]:
    """The commands of an editor's command line."""
    for _, match in zip(range(MOST_ESCAPES), _EX.finditer(keys), strict=False):
        yield match["command"].strip()


def is_fed(keys: str) -> bool:
    """Whether an interpreter gets lines of the editor's text, which are not known."""
    fed = [match["program"] for match in _FED.finditer(keys)]
    for match in _ESCAPE.finditer(keys):
        if match["filter"] is not None:
            fed += [match["filter"][skipped:] for skipped in (1, 2)]
    return any(_INTERPRETER.fullmatch(program) for program in fed)


def opens_shell(keys: str, *, pager: bool) -> bool:
    """Whether a shell may read the next lines."""
    return _OPENS.search(keys) is not None or any(
        _INTERPRETER.fullmatch(text) for text in escapes(keys, pager=pager)
    )
