"""Secrets that are known by where they stand: after a name, in a header, in a URL, in a block."""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from hermetic.environments.child_environment import is_credential
from hermetic.redaction.placeholders import is_example, is_literal

Span = tuple[int, int]

# output: what a program printed. code: source and data that a model reads in order to write it again.
# environment: a listing of variables or credentials.
Content = Literal["output", "code", "environment"]

# Names that a secret follows. They end like this: token_type, secret_name and password_file are something else.
_NAME = (
    r"passw(?:or)?d|passphrase|pass|pwd|secret|client[_-]?secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key"
    r"|private[_-]?key|signing[_-]?key|encryption[_-]?key|master[_-]?key|account[_-]?key|auth[_-]?key|service[_-]?key"
    r"|consumer[_-]?key|credentials?|psk"
)
# Names and headers are searched in the text in lower case: that is ten times as quick as ignoring case.
_ASSIGNED = re.compile(
    rf"""(?P<name>{_NAME}) \\?["']? [ \t]{{0,8}} (?:=>|:=|[:=])(?!=) [ \t]{{0,8}}
    (?: \\" (?P<escaped>[^"\\\r\n]{{1,512}}+) \\"
      | " (?P<double>(?:[^"\\\r\n]|\\.){{1,512}}+) "
      | ' (?P<single>[^'\r\n]{{1,512}}+) '
      | ` (?P<back>[^`\r\n]{{1,512}}+) `
      | (?P<bare>[^\s"'`,;&|<>(){{}}\[\]\\]{{1,512}}+) (?![(\[{{"'`]) )""",
    re.VERBOSE,
)
_FORMS = ("escaped", "double", "single", "back", "bare")
_OPTION = re.compile(rf"--?(?P<name>{_NAME})[ \t]+(?P<bare>[^\s\-\"'`$<\[({{][^\s\"'`]{{5,255}})")
# A name with one of these before it is no secret: nextToken, csrf_token in a form, a public key.
_NOT_SECRET = re.compile(r"(?:next|page|continuation|sync|cancel(?:lation)?|public|max|num|cache)[_-]?$")
# Whose password a name in small letters ends with.
_PASS_OF = re.compile(
    r"(?:db|database|user|smtp|mail|admin|root|mysql|pg|postgres|redis|ftp|ssh|sudo|login|http|proxy|auth|ldap|mongo|rabbit"
    r"|api|app|service|svc|imap|wifi|vpn|key|cert)_$",
    re.IGNORECASE,
)
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

_VALUE = r"[A-Za-z0-9._~+/=|-]"
_SAYS = r"\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?"
# Each behind a text without which it cannot be found: to look for that takes hardly any time.
_HEADERS = (
    (
        "authorization",
        re.compile(rf"authorization{_SAYS}(?:bearer|token|basic|bot|apikey|key)[ \t]+({_VALUE}{{8,4096}})"),
    ),
    ("authorization", re.compile(rf"authorization{_SAYS}({_VALUE}{{20,4096}})")),
    ("bearer", re.compile(rf"(?<![A-Za-z])bearer[ \t]+({_VALUE}{{16,4096}})")),
    (
        "-",
        re.compile(
            r"(?:x-(?:api|access|auth|vault)-(?:key|token)|api-key|private-token|job-token|x-goog-api-key"
            rf"|x-amz-security-token|x-functions-key|ocp-apim-subscription-key){_SAYS}({_VALUE}{{8,4096}})"
        ),
    ),
)
_USERINFO = re.compile(r"://([^\s/?#:@\"'`<>]{0,256}):([^\s/?#@\"'`<>]{1,256})@")
_LOGIN = re.compile(r"(?:[ \t]-u|--user)[ =]?[\"']?([^\s:\"']{1,64}):([^\s\"']{4,128})")
_QUERY = re.compile(
    r"[?&;](?:access_token|refresh_token|id_token|auth_token|token|api_?key|key|client_secret|password|passwd|secret"
    r"|sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&\s\"'`#<>;]{8,4096})"
)
_WEAK_PASSWORDS = frozenset(
    {"password", "passwd", "pass", "pwd", "secret", "user", "username", "admin", "root", "guest", "test", "changeme"}
)
_TEMPLATE = re.compile(r"^[$<%*\[{]|[${%]\w|&[lg]t;")
_ACCOUNT_KEY = re.compile(r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})")

_KEY_BORDER = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,.\- \t\r\n\"]|\\[nr])*")
_KEY_LONGEST = 16_384  # characters
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{40}")  # a block without such a line is an example or a mention

_VARIABLE = re.compile(
    r"^[ \t]*(?:export[ \t]+|declare[ \t]+-\w+[ \t]+|set[ \t]+|-[ \t]+)?"
    r"[\"']?([A-Za-z_][\w.-]{0,100})[\"']?[ \t]*[=:][ \t]*"
    r"(?:\$?\"([^\"\r\n]{1,4096})\"|\$?'([^'\r\n]{1,4096})'|([^\s\"'][^\r\n]{0,4096}))",
    re.MULTILINE,
)
_MORE_NAMES = re.compile(r"(?:^|_)(?:DSN|WEBHOOK(?:_URL)?|BEARER|COOKIE)$", re.IGNORECASE)
_NO_VALUE = re.compile(r"^(?:true|false|yes|no|on|off|none|null|\d{1,4}|\$\{?\w+\}?|/\S*|~/\S*)$", re.IGNORECASE)


class Finder(NamedTuple):
    """Where secrets of one kind are looked for: only in texts that hold, in lower case, one of its signs."""

    find: Callable[[str, str, bool], Iterator[Span]]  # text, the same in lower case, and whether weak values count too
    signs: tuple[str, ...]
    contents: tuple[Content, ...] = ("output", "code", "environment")


def lower(text: str) -> str:
    """The text in lower case, each character in its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)


def find_assigned(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Values behind a name that says secret: NAME=value, `name: value`, JSON fields, options."""
    for match in _ASSIGNED.finditer(lowered) if ":" in lowered or "=" in lowered else ():
        form = next(form for form in _FORMS if match[form] is not None)
        start, end = match.span(form)
        if not is_literal(text[start:end], match["name"], quoted=form != "bare"):
            continue
        if _means_secret(lowered, match.start()) and _is_password(text, match.span("name")):
            yield start, end
    for match in _OPTION.finditer(lowered) if "-" in lowered else ():
        start, end = match.span("bare")
        if is_literal(text[start:end], match["name"], quoted=False):
            yield start, end


def find_headers(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Credentials in HTTP headers, as programs print them or as code writes them."""
    for word, pattern in _HEADERS:
        for match in pattern.finditer(lowered) if word in lowered else ():
            start, end = match.span(1)
            value = text[start:end]
            if not is_example(value) and _is_credential_value(value):
                yield start, end


def find_in_urls(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Passwords and tokens in URLs and logins; with `weak` also those that everybody uses as an example."""
    for pattern in (_USERINFO, _LOGIN) if "curl" in lowered else (_USERINFO,):
        for match in pattern.finditer(text):
            if not _TEMPLATE.search(match[2]) and (weak or not _is_weak(match[1], match[2])):
                yield match.span(2)
    for match in _QUERY.finditer(lowered) if "=" in lowered else ():
        start, end = match.span(1)
        if is_literal(text[start:end], "\0", quoted=True):
            yield start, end
    for match in _ACCOUNT_KEY.finditer(text) if "Key=" in text else ():
        if not is_example(match[1]):
            yield match.span(1)


def find_private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys, also where the start or the end of the block is missing."""
    if "PRIVATE KEY" not in text:
        return
    borders = list(_KEY_BORDER.finditer(text))
    for at, border in enumerate(borders):
        if border[1] == "BEGIN":
            start = border.end()
            limit = borders[at + 1].start() if at + 1 < len(borders) else len(text)
            body = _KEY_BODY.match(text, start, min(limit, start + _KEY_LONGEST))
            end = body.end() if body else start
        elif at and borders[at - 1][1] == "BEGIN" and border.start() - borders[at - 1].end() <= _KEY_LONGEST:
            continue
        else:
            start, end = _body_before(text, border.start()), border.start()
        if span := _trimmed(text, start, end):
            yield span


def find_variables(text: str, lowered: str, weak: bool) -> Iterator[Span]:
    """Values of a listing of variables: whatever stands behind a credential's name, weak or not."""
    for match in _VARIABLE.finditer(text):
        name = match[1].replace("-", "_").replace(".", "_")
        group = next(group for group in (2, 3, 4) if match[group] is not None)
        if (is_credential(name) or _MORE_NAMES.search(name)) and not _NO_VALUE.match(match[group].strip()):
            start, end = match.span(group)
            yield start, start + len(text[start:end].rstrip())


def _is_password(text: str, name: Span) -> bool:
    """False for `pass` alone and for names of runs: first_pass. DB_PASS and smtp_pass are passwords."""
    start, end = name
    if end - start != len("pass"):
        return True
    before = text[max(0, start - 24) : start]
    return before.endswith("_") and (text[start:end] == "PASS" or _PASS_OF.search(before) is not None)


def _means_secret(text: str, at: int) -> bool:
    """False when what stands before the name makes it another thing."""
    return _NOT_SECRET.search(text[max(0, at - 16) : at]) is None


def _is_weak(user: str, password: str) -> bool:
    """True for the passwords of examples and of services on somebody's own machine."""
    lowered = password.lower()
    if len(password) < 4 or lowered == user.lower():
        return True
    return lowered in _WEAK_PASSWORDS or is_example(password + "abcdef")


def _is_credential_value(value: str) -> bool:
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    return (letters and digits) or len(value) >= 32 or (value != value.lower() and value != value.capitalize())


def _body_before(text: str, end: int) -> int:
    """Where the lines of base64 before a block's end begin."""
    start = end
    while start > max(0, end - _KEY_LONGEST):
        line = text.rfind("\n", max(0, start - 200), start - 1) + 1 or max(0, start - 200)
        if not re.fullmatch(r"[A-Za-z0-9+/=]{1,100}\s*", text[line:start]):
            break
        start = line
    return start


def _trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without blanks around it; None when there is too little for a key."""
    body = text[start:end]
    if not _KEY_LINE.search(body) or is_example(body.replace("\\n", "")[:200]):
        return None
    left = len(body) - len(body.lstrip(' \t\r\n"\\'))
    if body[left:].startswith("n") and body[:left].endswith("\\"):
        left += 1
    return start + left, start + len(body.rstrip(' \t\r\n"'))


FINDERS = (
    Finder(find_headers, ("authorization", "bearer", "-key", "-token")),
    Finder(find_in_urls, ("://", "curl", "=")),
    Finder(find_assigned, ("=", ":", "-"), ("output", "environment")),
    Finder(find_variables, ("=", ":"), ("environment",)),
)
