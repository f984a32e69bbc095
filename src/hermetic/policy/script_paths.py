"""Paths that a script puts together: a home directory by whatever name, and joined parts, folded to one string."""

import re

_HOME = re.compile(
    r"""Dir\.home\b(\(\))?|(require\(\s*["'](node:)?os["']\s*\)|\bos)\.homedir\(\)|\bprocess\.env\.HOME\b"""
    r"""|\bENV(\.fetch\(|\[)\s*["']HOME["']\s*[\])]|\$ENV\{["']?HOME["']?\}|\b(os\.|Sys\.)?getenv\(\s*["']HOME["']\s*\)"""
    r"""|\$_(SERVER|ENV)\[["']HOME["']\]|\bDeno\.env\.get\(\s*["']HOME["']\s*\)|\bSystem\.getProperty\("user\.home"\)"""
)
_STRING = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_JOIN = re.compile(
    rf"""\b(?:File|path|Path|os\.path|require\(\s*["'](?:node:)?path["']\s*\)|Pathname)(?:\.|::)"""
    rf"""(?:join|resolve|expand_path|expanduser|normalize|new)\(\s*({_STRING}(?:\s*,\s*{_STRING})*)\s*\)"""
)


def fold_paths(text: str, home: str) -> str:
    """The script with such paths as plain strings."""
    if "ome" not in text and "OME" not in text and not _JOIN.search(text):
        return text
    text = _HOME.sub(lambda _: f'"{home}"', text)
    return _JOIN.sub(lambda match: f'"{_joined(match[1], home)}"', text)


def _joined(strings: str, home: str) -> str:
    parts = [part[1:-1] for part in re.findall(_STRING, strings)]
    whole = "/".join(part.rstrip("/") if part != "/" else "" for part in parts)
    return home + whole[1:] if whole == "~" or whole.startswith("~/") else whole
