"""Brace expansion over the pieces of a word, before anything else is expanded."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.marks import UNSET

from .syntax import Lit, Piece, Var, Word

MAX_WORDS = 256
MAX_NESTED = 20
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")

_NAMED = re.compile(r"\w", re.ASCII)
_UNSEEN = Lit(UNSET, True)

Atom = str | Piece  # one active character, or a piece that braces do not look into


def expand_braces(word: Word) -> list[Word]:
    """The words a brace expression stands for.

    What is too long to list becomes a star or unknown.
    """
    if not any(
        isinstance(piece, Lit) and not piece.quoted and "{" in piece.text for piece in word.pieces
    ):
        return [word]
    atoms: list[Atom] = []
    for piece in word.pieces:
        if isinstance(piece, Lit) and not piece.quoted:
            atoms.extend(piece.text)
        else:
            atoms.append(piece)
    expanded = _expand(atoms, 0)
    return [Word(_pieces(one), word.start, word.end) for one in expanded]


def _pieces(atoms: list[Atom]) -> list[Piece]:
    pieces: list[Piece] = []
    for atom in atoms:
        last = pieces[-1] if pieces else None
        if not isinstance(atom, str):
            pieces.append(atom)
        elif isinstance(last, Lit) and not last.quoted:
            pieces[-1] = Lit(last.text + atom, False)
        elif isinstance(last, Var) and last.bare and not last.quoted and _NAMED.match(atom):
            # braces work on the text: `$a{b,c}` names the variables ab and ac
            pieces[-1] = Var(last.name + atom, False, bare=True)
        else:
            pieces.append(Lit(atom, False))
    return pieces


def _expand(atoms: list[Atom], depth: int) -> list[list[Atom]]:
    if depth > MAX_NESTED:
        return [[_UNSEEN]]
    for start, (end, commas) in sorted(_pairs(atoms).items()):
        choices = _choices(atoms, start, end, commas, depth)
        if choices is None:
            continue
        tails = _expand(atoms[end + 1 :], depth + 1)
        out: list[list[Atom]] = []
        for choice in choices:
            for tail in tails:
                out.append([*atoms[:start], *choice, *tail])
                if len(out) > MAX_WORDS:
                    rest = [*atoms[:start], "*", *tails[0]]
                    return [*out, rest if _is_plain(atoms[start:]) else [_UNSEEN]]
        return out
    return [atoms]


def _is_plain(atoms: list[Atom]) -> bool:
    """True when words beyond the bound are plain names, for which a star may stand."""
    return all(isinstance(atom, str) and (atom.isalnum() or atom in "{},.-_") for atom in atoms)


def _choices(
    atoms: list[Atom], start: int, end: int, commas: list[int], depth: int
) -> list[list[Atom]] | None:
    if commas:
        edges = [start, *commas, end]
        parts = [atoms[a + 1 : b] for a, b in itertools.pairwise(edges)]
        return [choice for part in parts for choice in _expand(part, depth + 1)]
    inner = atoms[start + 1 : end]
    if not all(isinstance(atom, str) for atom in inner):
        return None
    return _sequence("".join(str(atom) for atom in inner))


def _pairs(atoms: list[Atom]) -> dict[int, tuple[int, list[int]]]:
    """For each opening brace that is closed: where, and the commas that belong to it."""
    found: dict[int, tuple[int, list[int]]] = {}
    opened: list[tuple[int, list[int]]] = []
    for at, atom in enumerate(atoms):
        if atom == "{":
            opened.append((at, []))
        elif atom == "}" and opened:
            start, commas = opened.pop()
            found[start] = at, commas
        elif atom == "," and opened:
            opened[-1][1].append(at)
    return found


def _sequence(text: str) -> list[list[Atom]] | None:
    match = _RANGE.fullmatch(text)
    if match is None or any(len(part or "") > 18 for part in match.groups()):
        return None
    if match[4]:
        first, last, step = ord(match[4]), ord(match[5]), int(match[6] or 1)
    else:
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    step = (abs(step) or 1) * (1 if last >= first else -1)
    numbers = range(first, last + (1 if step > 0 else -1), step)
    if len(numbers) > MAX_WORDS:
        return [list(match[1]), list(match[2]), ["*"]]
    if match[4]:
        return [[chr(number)] for number in numbers]
    padded = any(re.match(r"-?0\d", match[part]) for part in (1, 2))
    width = max(len(match[1]), len(match[2])) if padded else 0
    return [list(f"{number:0{width}d}" if width else str(number)) for number in numbers]
