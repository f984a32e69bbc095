"""Rows of programs and rules, read from the TOML files in `rows`.

A file is compiled once and kept as bytecode in `__pycache__`, as Python keeps modules: reading TOML
takes a hundred times longer than loading the result. No module has the name of a file there, as
both would have the same place in that cache.
"""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import msgspec

from hermetic.policy.rules import Rule
from hermetic.policy.tables import names, regex

# Fields that say what a program does. Of a program with none of them the generic rule judges the
# rest.
_JUDGED = frozenset(
    names("dry rules operands reads writes sends code program prints run hook language")
)
# Fields of options that take a value.
_VALUED = names(
    """values last cwd reads writes output sends code program serves text script body upload header
    login method target folder"""
)
FILES = tuple(sorted(Path(__file__).parent.glob("rows/*.toml")))


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A pattern over a program's words, or over all its arguments with `!` before it, and what a
    match means.
    """

    pattern: str
    rule: str = ""  # empty: a match is harmless, and entries behind this one do not count
    reason: str = ""  # empty: that of the rule
    when: str = ""  # a condition of interpret.py that has to hold as well


class Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is known of a program.

    Strings of several names are separated by blanks; options stand without dashes.
    """

    # How its arguments are read.
    values: str = ""  # options that take a value; those with a role below need not be repeated
    help: str = "--help --version -h help"  # arguments by which it only shows its help
    early: bool = False  # its options end at the first operand
    dash: bool = False  # long options have one dash
    glued: str = ""  # letters that take the rest of their word alone, such as -i.bak
    last: str = ""  # options with a value behind which nothing is an option: `python -m MODULE …`
    # What it does.
    dry: str = ""  # pattern over all arguments: nothing happens
    rules: tuple[Entry, ...] = ()  # the first that matches is reported
    # all that match are reported, also where a hook judges the program
    checks: tuple[Entry, ...] = ()
    operands: str = ""  # the roles of its operands in order; `*` behind a role: all that remain
    cwd: str = ""  # options that name the directory it works in
    reads: str = ""
    writes: str = ""
    output: str = ""  # options that name a file it writes; reported outside the workspace alone
    outputs: str = ""  # operands that are such files: `last` of several, or `all`
    needs: str = ""  # beginnings of arguments without which it writes no output
    # options by which it acts on directories with all below them; `-`: it always does
    tree: str = ""
    sends: str = ""  # options that name a file which goes to another machine
    code: str = ""  # options whose value is shell code
    program: str = ""  # options whose value is a program that it runs
    # where its output comes from: a mark's name, `input`, `read` for what it has read, or `queries`
    prints: str = ""
    run: str = ""  # verbs behind which a command follows
    skip: int = 0  # words between such a verb and the command
    elsewhere: bool = False  # that command runs on another machine
    # options of clients of HTTP: what they send, by which method, and where an answer is put
    body: str = ""
    upload: str = ""
    header: str = ""
    login: str = ""
    method: str = ""
    target: str = ""
    folder: str = ""
    language: str = ""  # of the code it runs, from texts.toml or `languages`:
    text: str = ""  # options whose value is such code
    evals: str = ""  # verbs behind which it stands
    script: str = ""  # options that name a file of it
    hook: str = ""  # the function of hooks that judges it
    # What else it is.
    traits: str = ""
    verbs: int = 0  # so many words say what it does; reported when they cannot be known
    picks: str = ""  # files that it runs without being told to
    exact: str = ""  # options with which its output is computed; `-`: it never is
    # options, with their dashes, whose value is a host, perhaps with a port or as an address
    host: str = ""
    # words that name hosts: a verb before them, or none, and a pattern with the host as its group
    addresses: tuple[tuple[str, str], ...] = ()
    serves: str = ""  # options that name the directory it serves
    # Derived.
    short: str = ""
    long: tuple[str, ...] = ()
    last_options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = " ".join(getattr(self, field) for field in _VALUED).split()
        self.short = "".join(name for name in named if len(name) == 1)
        self.long = tuple(name for name in named if len(name) > 1)
        self.last_options = tuple(self.last.split())

    def has(self, trait: str) -> bool:
        """True when the program has a trait."""
        return trait in self.traits.split()


_NOTHING = Row()
pattern = cache(re.compile)


class _Loader(SourceFileLoader):
    """Loads a TOML file as a module with one value, so that it is cached as modules are."""

    def source_to_code(  # type: ignore[override]
        self, data: bytes, path: str, *, _optimize: int = -1
    ) -> types.CodeType:
        text = f"ROWS = {tomllib.loads(data.decode())!r}"
        return compile(text, path, "exec", dont_inherit=True, optimize=_optimize)


def load(path: Path) -> dict[str, Any]:
    """The tables of a file."""
    loader = _Loader(f"hermetic.policy.programs.{path.stem}", str(path))
    code = loader.get_code(loader.name)
    assert code is not None
    module: dict[str, Any] = {}
    exec(code, module)
    rows: dict[str, Any] = module["ROWS"]
    return rows


class Table:
    """The rules and rows of some files. Several rows of one program add up.

    A table of a file is named after its programs, or has them in its field `programs`.
    """

    def __init__(self, files: dict[str, dict[str, Any]]) -> None:
        self.rules: dict[str, Rule] = {}
        self.texts: dict[str, list[Entry]] = {}  # what code of a small language does, by patterns
        self.lists: dict[str, str] = {}  # names of one kind, such as places and variables
        self.known: set[str] = set()  # programs that a row or a hook judges
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self.sources: dict[str, list[str]] = {}  # files that have a row of a program
        for source, tables in files.items():
            for name, fields in tables.items():
                if name == "rules":
                    for key, rule in fields.items():
                        self.rules[key] = msgspec.convert({"name": key, **rule}, Rule)
                elif name == "lists":
                    self.lists.update(fields)
                elif name == "texts":
                    self.texts.update(msgspec.convert(fields, dict[str, list[Entry]]))
                else:
                    programs = fields.pop("programs", name).split()
                    for program in programs:
                        self._rows.setdefault(program, []).append(fields)
                        self.sources.setdefault(program, []).append(source)
                    if not _JUDGED.isdisjoint(fields):
                        self.known.update(programs)
        self._built: dict[str, Row] = {}

    def __contains__(self, program: str) -> bool:
        return program in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def row(self, program: str) -> Row:
        """The row of a program, of all that is written about it; an empty one when nothing is."""
        if program not in self._rows:
            return _NOTHING
        if program not in self._built:
            self._built[program] = self._merge(program)
        return self._built[program]

    def words(self, name: str) -> tuple[str, ...]:
        """The names of a list."""
        return tuple(self.lists[name].split())

    def _merge(self, program: str) -> Row:
        merged: dict[str, Any] = {}
        for fields in self._rows[program]:
            for key, value in fields.items():
                if key not in merged or isinstance(value, bool | int):
                    merged[key] = value
                elif isinstance(value, list):
                    merged[key] = [*merged[key], *value]
                else:
                    merged[key] = f"{merged[key]} {value}"
        return msgspec.convert(merged, Row)


TABLE = Table({path.stem: load(path) for path in FILES})


def alternatives(name: str) -> re.Pattern[str]:
    """A pattern of which a list holds the alternatives."""
    return regex("|".join(TABLE.words(name)))


def rule(name: str) -> Rule:
    """A rule by its name."""
    return TABLE.rules[name]
