"""Settings in YAML, JSON, TOML, XML and INI: texts, each list of them with the keys that lead there."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from hermetic.policy.tables import regex

Setting = tuple[tuple[str, ...], list[str]]  # keys, and a text or the texts of a list
_COMMENTS = regex(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[\]}])')
_ELEMENT = regex(r"<([\w:.-]+)((?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*)\s*/?>([^<]*)")
_ATTRIBUTE = regex(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_LINE = regex(
    r"(?P<indent>[ \t]*(?:-[ \t]+)*)"
    r"(?:(?P<key>\"[^\"\n]*\"|'[^'\n]*'|[\w.@/$*][\w .@/$*:-]*?)[ \t]*(?P<mark>:(?=\s|$)|\+?=(?!=))[ \t]*)?(?P<value>.*)"
)
_ASSIGNED = regex(r"([\w-]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\")")
_FLOW = regex(
    r"([\w.-]+)\s*:\s*(\"[^\"]*\"|'[^']*'|[^,{}]+)|(\"[^\"]*\"|'[^']*'|[^\s,{}\[\]][^,{}\[\]]*)"
)


def settings_in(text: str) -> Iterator[Setting]:
    """The settings of a text, in whichever of the formats it is written."""
    text = text.strip("\ufeff\n")
    begin = text.lstrip()[:1]
    if begin == "<":
        yield from _of_elements(text)
        return
    try:
        loaded = (
            json.loads(re.sub(_COMMENTS.pattern, lambda one: one[1] or "", text, flags=re.DOTALL))
            if begin in ("{", "[")
            else tomllib.loads(text)
        )
    except ValueError:
        yield from _of_lines(text)
    else:
        yield from _walk((), loaded)


def _walk(keys: tuple[str, ...], value: object) -> Iterator[Setting]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _walk((*keys, key), one)
    elif isinstance(value, list):
        if texts := [one for one in value if isinstance(one, str)]:
            yield keys, texts
        for one in value:
            if not isinstance(one, str):
                yield from _walk(keys, one)
    else:
        yield keys, [value if isinstance(value, str) else str(value).lower()]


def _of_elements(text: str) -> Iterator[Setting]:
    """Attributes and texts; those of one name that follow each other are a list."""
    text = re.sub(r"(?s)<!--.*?-->|<!\[CDATA\[(.*?)\]\]>", lambda one: _escaped(one[1] or ""), text)
    found: list[tuple[tuple[str, ...], str]] = []
    for tag, attributes, inner in _ELEMENT.findall(text):
        pairs = (
            (name, double or single) for name, double, single in _ATTRIBUTE.findall(attributes)
        )
        found += [((tag, name), _unescaped(value)) for name, value in pairs]
        if inner.strip():
            found.append(((tag,), _unescaped(inner.strip())))
    for keys, group in groupby(found, itemgetter(0)):
        yield keys, [value for _, value in group]


_SIGNS = (("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;"))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _unescaped(text: str) -> str:
    for sign, entity in _SIGNS:
        text = text.replace(entity, sign)
    return text.replace("&amp;", "&")


def _of_lines(text: str) -> Iterator[Setting]:
    """Lines with a key and a value, items of lists, and the lines of indented texts."""
    path: list[tuple[int, str]] = []
    items: list[str] = []
    lines = iter(enumerate(all_lines := text.replace("\\\n", " ").split("\n")))
    for at, line in lines:
        match = _LINE.match(line)
        if match is None or not line.strip() or line.lstrip()[0] in "#;":
            continue
        column, key, value = len(match["indent"]), match["key"], match["value"]
        if (
            match["mark"] != ":" and "-" in match["indent"]
        ):  # an item of a list may be `A=b command`
            key, value = None, line[column:]
        if items and (key is not None or "-" not in match["indent"]):
            yield tuple(one for _, one in path), items
            items = []
        if section := re.fullmatch(r"\[+([^\[\]]+)\]+\s*", line):
            path = [(-1, section[1])]
            continue
        while path and path[-1][0] >= column - (key is None and "-" in match["indent"]):
            path.pop()
        if key is not None:
            path.append((column, key.strip("\"'")))
        keys = tuple(one for _, one in path)
        if re.fullmatch(r"[|>][-+\d]*\s*(#.*)?", value):
            block = _block(all_lines, at, column)
            for _ in block:
                next(lines, None)
            yield keys, ["\n".join(block).strip()]
        elif value[:1] in ("[", "{") and value[:2] not in ("{{", "[["):
            yield from _flow(keys, value)
        elif key is None and "-" in match["indent"]:
            items.append(_bare(value))
        elif value:
            yield keys, [_bare(value)]
        if "{" in line:  # of blocks on a line
            yield from (((one[1],), [_bare(one[2])]) for one in _ASSIGNED.finditer(line))
    if items:
        yield tuple(one for _, one in path), items


def _block(lines: list[str], at: int, column: int) -> list[str]:
    """The lines behind one that are indented more than a column."""
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][: column + 1].isspace()):
        end += 1
    return [line.strip() for line in lines[at + 1 : end]]


def _flow(keys: tuple[str, ...], text: str) -> Iterator[Setting]:
    """The settings of `[a, b]` and `{a: b}`."""
    items: list[str] = []
    for key, value, item in _FLOW.findall(text):
        if key:
            yield (*keys, key), [_bare(value)]
        else:
            items.append(_bare(item))
    if items:
        yield keys, items


def _bare(value: str) -> str:
    """A value without quotes around it, or without a comment behind it."""
    value = value.strip().rstrip(",")
    if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
        inner = value[1:-1]
        return re.sub(r'\\(["\\])', r"\1", inner) if value[0] == '"' else inner.replace("''", "'")
    return re.sub(r"\s#\s.*$", "", value)
