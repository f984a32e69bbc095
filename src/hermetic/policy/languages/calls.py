"""The table of calls: loads calls.toml and finds the row of a call by its dotted name."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import msgspec

from hermetic.policy.marks import UNSET
from hermetic.policy.programs.table import TABLE, load

from .values import Obj, Value, items_of, marks_of, text_of

FILE = Path(__file__).parent / "rows" / "calls.toml"
LANGUAGES = ("python", "perl", "ruby", "javascript", "php", "lua")
COMPILED = frozenset(pair.partition(":")[2] for pair in TABLE.words("sources"))
Where = int | str | list[int | str] | None


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some calls do; calls.toml explains the fields."""

    python: str = ""
    perl: str = ""
    ruby: str = ""
    javascript: str = ""
    php: str = ""
    lua: str = ""
    any: str = ""
    run: Where = None
    repeats: bool = False
    code: Where = None
    calls: Where = None
    read: Where = None
    write: Where = None
    data: Where = None
    append: bool = False
    fetches: bool = False
    delete: Where = None
    tree: bool = False
    like: str = ""
    url: Where = None
    send: Where = None
    sql: Where = None
    raises: str = ""
    reason: str = ""
    unless_arguments: bool = False
    forks: str = ""
    gives: str = ""
    fold: str = ""
    hook: str = ""
    catches: list[str] = []
    spares: list[str] = []

    @property
    def is_harmful(self) -> bool:
        """True where a callee that is given the function could do harm with it."""
        return None is not (self.run if self.run is not None else self.delete or self.code)


class Table(msgspec.Struct):
    """The rows of one language by name."""

    exact: dict[str, Row]
    methods: dict[str, Row]  # by the last part of a name
    modules: dict[str, Row]

    def find(self, name: str) -> Row | None:
        """The row of a call: by its whole name, its module, or its last part."""
        if (row := self.exact.get(name)) is not None:
            return row
        prefix, _, last = name.rpartition(".")
        while prefix:
            if (row := self.modules.get(prefix)) is not None:
                return row
            prefix = prefix.rpartition("/" if "/" in prefix else ".")[0]
        return self.methods.get(last)


@lru_cache(1)
def rows() -> list[Row]:
    """All rows of calls.toml."""
    tables = load(FILE)
    computed = [{**names, "fold": fold} for fold, names in tables["fold"].items()]
    return msgspec.convert([*tables["call"], *computed], list[Row])


@lru_cache(16)
def table_of(language: str) -> Table:
    """The calls of a language; `any` names count where a row does not list the language."""
    found = Table({}, {}, {})
    for row in rows():
        own = getattr(row, language) if language in LANGUAGES else ""
        for name in (own or (row.any if language not in LANGUAGES else "")).split():
            if name.startswith("."):
                found.methods.setdefault(name[1:], row)
            elif name.endswith((".*", "/*")):
                found.modules.setdefault(name[:-2], row)
            else:
                found.exact.setdefault(name, row)
    return found


class Invocation(msgspec.Struct, eq=False):
    """A call with its arguments; `owner` is the object whose method it is."""

    name: str
    owner: Obj | None
    args: list[Value]
    keywords: dict[str, Value]

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def marks(self) -> str:
        """The origins of unknown text in all arguments."""
        return marks_of([*self.args, *self.keywords.values()])

    def pick(self, where: Where) -> list[Value]:
        """The arguments that a row names; lists among them by their items."""
        if where is None:
            return []
        if isinstance(where, list):
            return next((found for one in where if (found := self.pick(one))), [])
        if where == "self":
            return [self.owner.path] if self.owner is not None and self.owner.path else []
        if isinstance(where, int):
            chosen = self.args[where : where + 1]
        elif where.endswith("*"):
            chosen = self.args[int(where[:-1] or 0) :]
        else:
            chosen = [self.keywords[where]] if where in self.keywords else []
        return [
            item for one in chosen for item in (items_of(one) if isinstance(one, list) else [one])
        ]

    def command(self, like: str) -> list[str]:
        """The words of a shell command with arguments put in; none where an argument is missing."""
        words: list[str] = []
        for word in like.split():
            place = _PLACE.fullmatch(word)
            if place is None:
                words.append(word)
                continue
            if place[2] == "*":
                words += map(text_of, self.pick(word) or [UNSET])
                continue
            found = self.pick([int(place[1]), place[3] or "?"] if place[1] else "self")
            if not found and not place[2]:
                return []
            mode = found[0] if found else None
            octal = format(mode, "o") if isinstance(mode, int) else "777"
            words.append(octal if place[2] else text_of(mode))
        return words


_PLACE = re.compile(r"(\d+)([o*]?)(?:,(\w+))?|self")  # in `like`
