"""Secrets in files and commands of well-known shapes: netrc, pgpass, docker, cookies, options of programs, keys."""

import base64
import binascii
import re
from collections.abc import Iterator

from hermetic.redaction.contexts import Finder, Span
from hermetic.redaction.placeholders import is_example, is_literal

_TEMPLATE = re.compile(r"^[$<%*\[{(]|[${%]\w|^['\"]?$")

# `machine HOST login NAME password VALUE`, on one line or several.
_NETRC = re.compile(
    r"machine(?<!\wmachine)[ \t]+\S{1,255}(?P<login>(?:\s{1,40}(?:login|account)\s{1,40}\S{1,255}){0,2})"
    r"\s{1,40}password[ \t]{1,40}(?P<password>\S{3,255})"
)
_NETRC_DEFAULT = re.compile(
    r"default(?<!\wdefault)(?P<login>(?:\s{1,40}(?:login|account)\s{1,40}\S{1,255}){1,2})"
    r"\s{1,40}password[ \t]{1,40}(?P<password>\S{3,255})"
)
# HOST:PORT:DATABASE:USER:PASSWORD, of which the port tells it from messages of compilers.
_PGPASS = re.compile(r":(?:54\d\d|6432|\*):[^\s:]{1,255}:[^\s:]{1,255}:(?P<password>\S{3,255})$", re.MULTILINE)
_PGPASS_HOST = re.compile(r"(?:^|\n)[^\s:#/]{1,255}\Z")
# "auth": "BASE64 of NAME:PASSWORD", as docker and npm keep it.
_AUTH = re.compile(
    r"auth(?:(?<=[\"']auth)[\"']\s{0,8}:|(?<=_auth)\s{0,8}=)\s{0,8}[\"']?([A-Za-z0-9+/_-]{8,4096}={0,2})"
)
_DOCKER_CONFIG = re.compile(r"\.dockerconfigjson[\"']?\s{0,8}:\s{0,8}[\"']?([A-Za-z0-9+/]{20,65536}={0,2})")

# In lower case, behind a text without which they cannot be found.
_COOKIES = (
    ("cookie", re.compile(r"cookie[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([^\r\n]{1,8192})")),
    ("curl", re.compile(r"curl(?=[ \t])[^\r\n]{0,500}?[ \t](?:-b|--cookie)[ \t=]{0,4}[\"']?([^\r\n]{1,8192})")),
)
_PAIR = re.compile(r"([\w.-]{1,128})=([^;,\s\"']{16,4096})")
_JAR = re.compile(
    r"^(?:#HttpOnly_)?[\w.-]{1,255}\t(?:TRUE|FALSE)\t/\S*\t(?:TRUE|FALSE)\t\d+\t[\w.-]{1,128}\t(\S{8,4096})$",
    re.MULTILINE,
)
_NO_COOKIE = frozenset({"expires", "path", "domain", "max-age", "samesite"})

_QUOTED = r"(?:'([^'\n]{4,255})'|\"([^\"\n]{4,255})\"|([^\s'\"$<|;&]{4,255}))"
# Options of programs whose value is a password: how the program's name begins and ends, and the option.
_OPTIONS = tuple(
    (begin, re.compile(rf"{begin}(?<!\w{begin}){end}[ \t](?:[^\n|;&]{{0,200}}?[ \t])?{option}{_QUOTED}"))
    for begin, end, option in (
        ("sshpass", "", "-p[ \\t]*"),
        ("mysql", "\\w{0,6}", "-p"),
        ("mariadb", "[\\w-]{0,6}", "-p"),
        ("redis-cli", "", "(?:-a|--pass)[ \\t=]+"),
        ("docker login", "", "-p[ \\t]+"),
        ("podman login", "", "-p[ \\t]+"),
        ("mongo", "\\w{0,7}", "-p[ \\t]+"),
        ("ldap", "\\w{3,6}", "-w[ \\t]+"),
        ("smbclient", "", "-U[ \\t]+[^\\s%]{1,64}%"),
        ("openssl", "", "-(?:pass|passin|passout)[ \\t]+pass:"),
        ("7z", "[arz]{0,2}", "-p"),
        ("zip", "\\w{0,5}", "-P[ \\t]*"),
        ("unzip", "", "-P[ \\t]*"),
        ("lftp", "", "(?:-u|--user)[ \\t=]+[^\\s,]{1,64},"),
        ("sqlplus", "", "[\\w.]{1,64}/(?=[^\\s@]{1,128}@)"),
    )
)  # fmt: skip
# A password that sudo reads from a pipe or a string: it stands there for nothing else.
_READS = r"sudo[ \t](?:[^\n|;&]{0,80}[ \t])?-S\b"
_SUDO = (
    re.compile(rf"(?:echo|printf)[ \t]+(?:-\w+[ \t]+|['\"]?%s(?:\\n)?['\"]?[ \t]+)?{_QUOTED}[ \t]*\|[ \t]*{_READS}"),
    re.compile(rf"{_READS}[^\n|;&<]{{0,200}}<<<[ \t]*{_QUOTED}"),
)
# Statements and lines of settings, in lower case: a word of them, and what is before the value.
_STATEMENTS = tuple(
    (word, re.compile(rf"{before}{_QUOTED}", re.MULTILINE))
    for word, before in (
        ("identified", r"identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by[ \t]+(?:password[ \t]+)?"),
        ("password", r"(?:encrypted|with)[ \t]+password[ \t]+(?=['\"])"),
        ("requirepass", r"\brequirepass[ \t]+"),
        ("masterauth", r"\bmasterauth[ \t]+"),
    )
)

_NAMES = r"(?:password|passwd|passphrase|secret|token|api-?_?key|access-?_?key|private-?_?key|secret-?_?key)"
_XML = re.compile(
    rf"<([\w:.-]{{0,100}}?{_NAMES})"
    r"(?:[ \t][^<>]{0,512})?>[ \t]*([^<>\s][^<>\r\n]{3,511}?)[ \t]*</",
    re.IGNORECASE,
)
# The name in one attribute, the value in the next: <property name="password" value="VALUE"/>.
_ATTRIBUTES = re.compile(
    rf"[ \t](?:name|key)=[\"'][\w:.-]{{0,100}}?{_NAMES}[\"']\s{{1,40}}value="
    r"(?:'([^'\n]{1,512})'|\"([^\"\n]{1,512})\")",
    re.IGNORECASE,
)
_LEAST_SALT = 32  # characters of a value with blanks that is no sentence
_DEFINE = re.compile(  # in lower case
    r"define\s{0,8}\(\s{0,8}['\"]\w{0,100}(?:password|passwd|pass|secret|token|key|salt)['\"]\s{0,8},\s{0,8}"
    r"(?:'([^'\n]{1,512})'|\"([^\"\n]{1,512})\")"
)

_BASE64 = re.compile(r"[A-Za-z0-9+/]{1,100}={0,2}")
_OPENSSH = 70  # characters of a line of OpenSSH's private keys, and of no other format's
_LEAST_KEY = 40  # characters of a line of another key
# Three or more lines of 64 characters, with what a page leaves of the line before and the shorter one behind.
_PEM_RUN = re.compile(
    r"(?:\A[A-Za-z0-9+/]{16,63}\r?\n|(?<![^\n]))(?P<line>[A-Za-z0-9+/]{64})\r?\n(?:[A-Za-z0-9+/]{64}\r?\n)+"
    r"[A-Za-z0-9+/]{62}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)(?![^\r\n])(?:\r?\n[A-Za-z0-9+/]{16,63}={0,2}(?![^\r\n]))?"
)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")
_END_BORDER = re.compile(
    r"\s{0,8}(?:=[A-Za-z0-9+/]{4}\s{1,4})?(?:[A-Za-z0-9+/]{1,63}={0,2}\s{1,4})?-----END ([^\n]{0,60})"
)
_LONGEST_BLOCK = 65_536  # characters between a border and lines that are told by it


def find_in_files(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Passwords in the formats of netrc, pgpass, docker and npm; with `weak` also those that look like words."""
    for word, pattern in (("machine", _NETRC), ("default", _NETRC_DEFAULT)):
        for match in pattern.finditer(text) if word in text else ():
            if _may_be(match["password"], weak=weak or bool(match["login"])):
                yield match.span("password")
    for match in _PGPASS.finditer(text):
        host = text[max(0, match.start() - 256) : match.start()]
        if _PGPASS_HOST.search(host) and _may_be(match["password"], weak=weak):
            yield match.span("password")
    for match in _AUTH.finditer(text) if "auth" in text else ():
        if _is_login(match[1]):
            yield match.span(1)
    for match in _DOCKER_CONFIG.finditer(text) if ".dockerconfigjson" in text else ():
        yield match.span(1)


def find_cookies(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Values of cookies that are long enough for a session: in headers, in options of curl, in a jar of cookies."""
    for word, pattern in _COOKIES:
        for header in pattern.finditer(lowered) if word in lowered else ():
            for pair in _PAIR.finditer(text, *header.span(1)):
                if pair[1].lower() not in _NO_COOKIE and _is_random(pair[2]) and not is_example(pair[2]):
                    yield pair.span(2)
    for match in _JAR.finditer(text) if "\tTRUE\t" in text or "\tFALSE\t" in text else ():
        yield match.span(1)


def find_options(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Passwords among the arguments of programs, as `ps` and `set -x` show them."""
    for word, pattern in _OPTIONS:
        for match in pattern.finditer(text) if word in text else ():
            yield from _literal(match, (1, 2, 3))
    for pattern in _SUDO if "sudo" in text else ():
        for match in pattern.finditer(text):
            group = next(group for group in (1, 2, 3) if match[group] is not None)
            if _may_be(match[group], weak=True) and not is_example(match[group] + "abcdef"):
                yield match.span(group)


def find_statements(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Passwords in SQL statements and in lines of settings without a sign between name and value."""
    for word, pattern in _STATEMENTS:
        for match in pattern.finditer(lowered) if word in lowered else ():
            group = next(group for group in (1, 2, 3) if match[group] is not None)
            start, end = match.span(group)
            if is_literal(text[start:end], "\0", quoted=True):
                yield start, end


def find_elements(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Values of XML elements and of PHP's constants whose names say secret."""
    for match in _XML.finditer(text) if "</" in text else ():
        yield from _literal(match, (2,))
    for match in _ATTRIBUTES.finditer(text) if "value=" in lowered else ():
        yield from _literal(match, (1, 2))
    for match in _DEFINE.finditer(lowered) if "define" in lowered else ():
        start, end = match.span(1 if match[1] is not None else 2)
        value = text[start:end]
        if is_literal(value.replace(" ", "_") if len(value) >= _LEAST_SALT else value, "\0", quoted=True):
            yield start, end


def find_key_runs(text: str) -> Iterator[Span]:
    """Lines in a row as PEM has them, with neither border in sight: a page from the middle of a key.

    A certificate's look the same: they are taken too, unless a border says that the block is public.
    """
    for match in _PEM_RUN.finditer(text):
        first = match["line"]
        is_hex = _HEXADECIMAL.fullmatch(first) is not None or first in (first.lower(), first.upper())
        if not is_hex and not is_example(first) and not _is_public(text, *match.span()):
            yield match.span()


def _is_public(text: str, start: int, end: int) -> bool:
    """Whether the border before or behind these lines is that of something else than a private key."""
    if behind := _END_BORDER.match(text, end):
        return "PRIVATE" not in behind[1]
    border = text.rfind("-----BEGIN ", max(0, start - _LONGEST_BLOCK), start)
    return border >= 0 and "-----END " not in text[border:start] and "PRIVATE" not in text[border : border + 60]


def find_key_lines(text: str, is_key_file: bool) -> Iterator[Span]:
    """Lines of a private key without the borders of its block.

    Of a file that holds keys all long lines of base64 are taken, but for public blocks; elsewhere lines as OpenSSH has.
    """
    place, is_public, lines = 0, False, text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("-----"):
            is_public = "BEGIN" in line and "PRIVATE" not in line
        elif len(line) == _OPENSSH if not is_key_file else len(line) >= _LEAST_KEY and not is_public:
            near = (*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2])
            is_one = is_key_file or any(len(other) == _OPENSSH and _BASE64.fullmatch(other) for other in near)
            if is_one and _BASE64.fullmatch(line) and not is_example(line):
                yield place, place + len(line)
        place += len(line) + 1


def _may_be(value: str, *, weak: bool) -> bool:
    return not _TEMPLATE.search(value) and (weak or is_literal(value, "\0", quoted=True))


def _literal(match: "re.Match[str]", groups: tuple[int, ...]) -> Iterator[Span]:
    group = next((group for group in groups if match[group] is not None), None)
    if group is not None and is_literal(match[group], "\0", quoted=True):
        yield match.span(group)


def _is_login(value: str) -> bool:
    """True for base64 of a name, a colon and a password."""
    try:
        name, colon, password = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    return bool(name and colon and password) and name.isalnum() and not password.startswith(b"//")


def _is_random(value: str) -> bool:
    return any(char.isalpha() for char in value) and any(char.isdigit() for char in value)


FINDERS = (
    Finder(find_in_files, ("machine", "default", ":", "auth")),
    Finder(find_cookies, ("cookie", "curl", "\ttrue\t", "\tfalse\t")),
    Finder(find_options, ("sudo", *(begin.lower() for begin, _ in _OPTIONS)), ("output", "environment")),
    Finder(find_elements, ("</", "value=", "define"), ("output", "environment")),
    Finder(find_statements, tuple(word for word, _ in _STATEMENTS), ("output", "environment")),
)
