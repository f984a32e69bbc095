"""Explains why a text was not found: the nearest text, and the difference."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

from hermetic.tools.edits.lines import bare, gist, split_lines

MOST_LINES = 4_000  # of a file in which similar lines are looked for
LONGEST_LIKE = 400  # characters of a line that is compared with another one by one
MOST_SHOWN = 12  # lines of the file
LONGEST = 160  # characters of a line that is shown
_NUMBERED = re.compile(r"[ \t]*\d+[ \t]*[|\u2502:][ \t]?")


def explain(text: str, old: str, new: str, what: str = "old_string") -> str:
    """The error message for a text that is not in the file."""
    message = [f"{what} is not in the file."]
    lines = [bare(line) for line in split_lines(text)]
    wanted = old.replace("\r\n", "\n").split("\n")
    if not text:
        return f"{what} is not in the file, which is empty."
    if len(wanted) > 1 and all(_NUMBERED.match(line) for line in wanted if line.strip()):
        message.append(
            "Its lines begin with numbers, as read_file shows them; leave the numbers out."
        )
    if new.strip() and new in text:
        number = text.count("\n", 0, text.index(new)) + 1
        message.append(f"new_string is there already, at line {number}: was the edit made before?")
    message.append(_nearest(lines, wanted))
    return " ".join(filter(None, message))


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    keys, keys_wanted = [gist(line) for line in lines], [gist(line) for line in wanted]
    at = _likely_start(keys, keys_wanted)
    if at is None:
        return "Nothing in it is like it; read the file again, and see whether it is the right one."
    rows = range(max(at, 0), min(at + len(wanted), len(lines)))
    shown = [f"{number + 1}|{lines[number][:LONGEST]}" for number in rows]
    more = [] if len(shown) <= MOST_SHOWN else [f"… {len(shown) - MOST_SHOWN} more lines"]
    return "\n".join(
        [
            _difference(lines, keys, wanted, keys_wanted, at),
            "The nearest text is:",
            *shown[:MOST_SHOWN],
            *more,
        ]
    )


def _likely_start(keys: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The line where most of the wanted lines follow in their order; may be before the first.

    None where none does.
    """
    numbers: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if key:
            numbers.setdefault(key, []).append(number)
    votes: Counter[int] = Counter()
    for offset, key in enumerate(wanted):
        for number in numbers.get(key, ())[:200]:
            votes[number - offset] += 2 if len(key) > 3 else 1  # a brace alone says little
    if votes:
        best = max(votes.values())
        return min(start for start, count in votes.items() if count == best)
    if len(keys) > MOST_LINES:
        return None
    longest = max(enumerate(wanted), key=lambda line: len(line[1]))
    inside = next(
        (n for n, key in enumerate(keys) if longest[1] and longest[1].lower() in key.lower()), None
    )
    if inside is None and (like := _like(longest[1], numbers)):
        inside = numbers[like[0]][0]
    return None if inside is None else inside - longest[0]


def _like(line: str, lines: Iterable[str]) -> list[str]:
    """The line that is most like this one, if any is."""
    if len(line) > LONGEST_LIKE:
        return []
    return get_close_matches(
        line, [one for one in lines if len(one) <= LONGEST_LIKE], n=1, cutoff=0.5
    )


def _difference(
    lines: Sequence[str],
    keys: Sequence[str],
    wanted: Sequence[str],
    keys_wanted: Sequence[str],
    start: int,
) -> str:
    """The first line that differs, or that the lines are there in another order."""
    have = Counter(key for key in keys if key)
    missing = [line for line, key in zip(wanted, keys_wanted, strict=True) if key and not have[key]]
    if not missing and len(wanted) > 1:
        places = [keys.index(key) + 1 for key in keys_wanted if key]
        return f"All of its lines are in the file, but not in a row like this; they first stand in lines {_named(places)}."
    for offset, (line, key) in enumerate(zip(wanted, keys_wanted, strict=True)):
        number = start + offset
        if key and 0 <= number < len(keys) and key != keys[number]:
            here = _quoted(lines[number])
            return f"Line {number + 1} differs{_kind(key, keys[number])}: it has {_quoted(line)}, the file {here}."
    return (
        f"These lines of it are nowhere: {', '.join(map(_quoted, missing[:3]))}." if missing else ""
    )


def _kind(wanted: str, here: str) -> str:
    if wanted.lower() == here.lower():
        return " in capital letters"
    if wanted.replace(" ", "") == here.replace(" ", ""):
        return " in spaces"
    if wanted in here:
        return ", which has more in it"
    if re.sub(r"\W+", "", wanted) == re.sub(r"\W+", "", here):
        return " in punctuation"
    if max(len(wanted), len(here)) > LONGEST_LIKE:
        return ""
    words = SequenceMatcher(None, wanted.split(), here.split(), False)
    changed = [
        (wanted.split()[i1:i2], here.split()[j1:j2])
        for tag, i1, i2, j1, j2 in words.get_opcodes()
        if tag != "equal"
    ]
    if len(changed) == 1 and max(map(len, changed[0])) <= 3:
        return f" in {' '.join(changed[0][0]) or 'nothing'!r} for {' '.join(changed[0][1]) or 'nothing'!r}"
    return ""


def _named(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:MOST_SHOWN])) + (" …" if len(numbers) > MOST_SHOWN else "")


def _quoted(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= LONGEST else line[:LONGEST] + "…")
