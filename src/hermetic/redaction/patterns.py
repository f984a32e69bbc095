"""Secrets that are recognised by their surroundings: a name, a header, a URL, a file format, an
option of a program.

`PATTERNS` is the table. In each expression the last group that matches is the value.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from hermetic.environments.child_environment import is_credential
from hermetic.redaction.placeholders import is_example, is_literal
from hermetic.redaction.private_keys import Span

# output: what a program printed. code: source and data that a model reads in order to write it
# again. environment: a listing of variables or credentials.
Content = Literal["output", "code", "environment"]

# Names that a secret follows. They end like this: token_type, secret_name and password_file are
# something else.
_NAME = (
    r"passw(?:or)?d|passphrase|pass|pwd|secret|client[_-]?secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|secret[_-]?key(?:[_-]?base)?"
    r"|private[_-]?key|signing[_-]?key|encryption[_-]?key|master[_-]?key|account[_-]?key|auth[_-]?key|service[_-]?key"
    r"|consumer[_-]?key|credentials?|psk|passcode|pw"
)
_NAME_AT_END = re.compile(rf"(?:{_NAME})$")
_ASSIGNED = re.compile(
    rf"""(?P<name>{_NAME}) \*{{0,2}} \\?["']? \]? [ \t]{{0,8}}
    (?:=>|:=|[:=])(?!=) \*{{0,2}} [ \t]{{0,40}} (?:!![a-z]{{1,16}}[ \t]{{1,8}}|&[\w-]{{1,64}}[ \t]{{1,8}}){{0,2}}
    (?: \\" (?P<escaped>[^"\\\r\n]{{1,512}}+) \\"
      | " (?P<double>(?:[^"\\\r\n]|\\.){{1,512}}+) "
      | ' (?P<single>[^'\r\n]{{1,512}}+) '
      | ` (?P<back>[^`\r\n]{{1,512}}+) `
      | (?P<bare>[^\s"'`,;&|<>(){{}}\[\]\\]{{1,512}}+) (?![(\[{{`]|["'][^\s,;)\]}}|&]) )""",
    re.VERBOSE,
)
_OPTION = re.compile(rf"--?(?P<name>{_NAME})[ \t]+(?P<bare>[^\s\-\"'`$<\[({{][^\s\"'`]{{5,255}})")
# A name with one of these before it is no secret: nextToken, csrf_token in a form, a public key.
_NOT_SECRET = re.compile(
    r"(?:next|page|continuation|sync|cancel(?:lation)?|public|max|num|cache)[_-]?$"
)
_SHORT_NAMES = frozenset({"pass", "pw"})  # mean other things too
_BREAKS = re.compile(r"[. -]")
# Whose password a name in small letters ends with.
_PASS_OF = re.compile(
    r"(?:db|database|user|smtp|mail|admin|root|mysql|pg|postgres|redis|ftp|ssh|sudo|login|http|proxy|auth|ldap|mongo|rabbit"
    r"|api|app|service|svc|imap|wifi|vpn|key|cert)_$",
    re.IGNORECASE,
)

# Before `pass` as a field of YAML or JSON, and as a word or an option that `=` follows.
_FIELD = re.compile(r"(?:^|[\n{,])[ \t]{0,200}(?:-[ \t]{1,8})?(?:\\?[\"'])?\Z")
_WORD = re.compile(r"(?:^|[\s\"'{,;&?(])(?:--?)?\Z")
_FIELD_ENDS = re.compile(r"\\?[\"'`]?[ \t]{0,200}(?:[,;}\]#\r\n]|\Z)")
_LOGIN_FIELD = re.compile(
    r"(?:user(?:_?name)?|login|account|host(?:name)?|e?mail)\\?[\"']?[ \t]{0,8}[:=]", re.IGNORECASE
)
_FAILED = re.compile(r"\b(?:fail(?:ed|ures?)?|skip(?:ped)?)\b", re.IGNORECASE)
_LEAST_STRONG = 8  # characters
_NEAR = 256  # characters around a password, within which its login is

_VALUE = r"[A-Za-z0-9._~+/=|-]"
_SAYS = r"\\?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\?[\"']?"
_USERINFO = re.compile(r"://([^\s/?#:@\"'`<>]{0,256}):([^\s/?#@\"'`<>]{1,256})@")
_LOGIN = re.compile(
    r"(?:[ \t]-[uU]|--(?:proxy-)?user)[ =]?[\"']?([^\s:\"']{1,64}):([^\s\"']{4,128})"
)
_QUERY = re.compile(
    r"[?&;](?:access_token|refresh_token|id_token|auth_token|token|api_?key|key|client_secret|password|passwd|secret"
    r"|sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&\s\"'`#<>;]{8,4096})"
)

_ACCOUNT_KEY = re.compile(r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})")

_VARIABLE = re.compile(
    r"^[ \t]*(?:export[ \t]+|declare[ \t]+-\w+[ \t]+|set[ \t]+|-[ \t]+)?"
    r"[\"']?([A-Za-z_][\w.-]{0,100})[\"']?[ \t]*[=:][ \t]*"
    r"(?:\$?\"([^\"\r\n]{1,4096})\"|\$?'([^'\r\n]{1,4096})'|([^\s\"'][^\r\n]{0,4096}))",
    re.MULTILINE,
)
# Ends of a variable's name that mean a secret in capital letters alone.
_CAPITALS = re.compile(
    r"\b(?:[A-Z][A-Z0-9_]{0,100}_)?(?:PAT|SK|RK|BEARER|JWT|SAS|WEBHOOK(?:_URL)?)="
    r"(?:\"([^\"\r\n]{8,4096})\"|'([^'\r\n]{8,4096})'|([^\s\"'`,;&|<>(){}\\]{8,4096}))"
)
_MORE_NAMES = re.compile(r"(?:^|_)(?:DSN|WEBHOOK(?:_URL)?|BEARER|COOKIE)$", re.IGNORECASE)
_NO_VALUE = re.compile(
    r"^(?:true|false|yes|no|on|off|none|null|\d{1,4}|\$\{?\w+\}?|/\S*|~/\S*"
    r"|(?:[!&]\S{1,64}[ \t]+){0,2}[|>][-+1-9]{0,2}(?:[ \t]+#.*)?)$",  # the head of a block of YAML
    re.IGNORECASE,
)

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
_PGPASS = re.compile(
    r":(?:54\d\d|6432|\*):[^\s:]{1,255}:[^\s:]{1,255}:(?P<password>\S{3,255})$", re.MULTILINE
)
_PGPASS_HOST = re.compile(r"(?:^|\n)[^\s:#/]{1,255}\Z")
# "auth": "BASE64 of NAME:PASSWORD", as docker and npm keep it.
_AUTH = re.compile(
    r"auth(?:(?<=[\"']auth)[\"']\s{0,8}:|(?<=_auth)\s{0,8}=)\s{0,8}[\"']?([A-Za-z0-9+/_-]{8,4096}={0,2})"
)
_DOCKER_CONFIG = re.compile(
    r"\.dockerconfigjson[\"']?\s{0,8}:\s{0,8}[\"']?([A-Za-z0-9+/]{20,65536}={0,2})"
)
# The token in the record of an environment, also within JSON that is itself a text.
_RECORD = re.compile(
    r"\\{0,3}\"socket\\{0,3}\":\s?\\{0,3}\"[^\"\n]{0,512}\",\s?\\{0,3}\"token\\{0,3}\":\s?\\{0,3}\"([A-Za-z0-9+/]{8,256}={0,2})"
)

_PAIR = re.compile(r"([\w.-]{1,128})=([^;,\s\"']{16,4096})")
_JAR = re.compile(
    r"^(?:#HttpOnly_)?[\w.-]{1,255}\t(?:TRUE|FALSE)\t/\S*\t(?:TRUE|FALSE)\t\d+\t[\w.-]{1,128}\t(\S{8,4096})$",
    re.MULTILINE,
)
_NO_COOKIE = frozenset({"expires", "path", "domain", "max-age", "samesite"})


_QUOTED = r"(?:'([^'\n]{4,255})'|\"([^\"\n]{4,255})\"|([^\s'\"$<|;&]{4,255}))"
# A password that a program reads from a pipe or a string: it stands there for nothing else.
_READS = (
    r"(?:sudo[ \t](?:[^\n|;&]{0,80}[ \t])?-S\b|[a-z][^\n|;&]{0,120}[ \t]--password-stdin\b"
    r"|(?:sudo[ \t]+)?(?:chpasswd\b|passwd[ \t][^\n|;&]{0,80}--stdin\b))"
)
_READ_PIPE = re.compile(
    rf"(?:echo|printf)[ \t]+(?:-\w+[ \t]+|['\"]?%s(?:\\n)?['\"]?[ \t]+)?{_QUOTED}[ \t]*\|[ \t]*{_READS}"
)
_READ_STRING = re.compile(rf"{_READS}[^\n|;&<]{{0,200}}<<<[ \t]*{_QUOTED}")

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
# The same in YAML and JSON.
_NAMED = re.compile(
    r"""(?:^|[{,\s-])["']?(?:[Nn]ame|[Kk]ey)["']?[ ]?:[ \t]{0,8}["']?(?P<name>[A-Za-z][\w.-]{1,100})["']?
    ,?\s{1,40}["']?[Vv]alue["']?[ ]?:[ \t]{0,8}(?:"([^"\n]{1,512})"|'([^'\n]{1,512})'|([^\s"'{}\[\],]{1,512}))""",
    re.VERBOSE,
)
_LEAST_SALT = 32  # characters of a value with blanks that is no sentence
_DEFINE = re.compile(  # in lower case
    r"define\s{0,8}\(\s{0,8}['\"]\w{0,100}(?:password|passwd|pass|secret|token|key|salt)['\"]\s{0,8},\s{0,8}"
    r"(?:'([^'\n]{1,512})'|\"([^\"\n]{1,512})\")"
)

_TEMPLATE = re.compile(r"^[$<%*\[{(]|[${%]\w|^['\"]?$")
_URL_TEMPLATE = re.compile(r"^[$<%*\[{]|[${%]\w|&[lg]t;")
_WEAK_PASSWORDS = frozenset(
    str.split("password passwd pass pwd secret user username admin root guest test changeme")
)


class Candidate(NamedTuple):
    """A candidate: the match, its value and the text around it."""

    text: str
    match: re.Match[str]
    start: int
    value: str
    weak: bool  # values that look like words or examples count too


class Pattern(NamedTuple):
    """One row of the table.

    The expression is tried only on texts that hold `sign`, in lower case; "": `=` or `:`.
    """

    sign: str
    expression: re.Pattern[str]
    accepts: Callable[[Candidate], bool]
    # Tried on the text in lower case, which is ten times as quick as ignoring case.
    lowered: bool = False
    inner: re.Pattern[str] | None = None  # finds the values within the match
    contents: tuple[Content, ...] = ("output", "code", "environment")

    def find(self, text: str, lowered: str, weak: bool) -> Iterator[Span]:
        """The places of its values in the text."""
        for outer in self.expression.finditer(lowered if self.lowered else text):
            inner = (
                (outer,)
                if self.inner is None
                else self.inner.finditer(text, *outer.span(outer.lastindex or 0))
            )
            for match in inner:
                start, end = match.span(match.lastindex or 0)
                value = text[start:end].rstrip()
                if self.accepts(Candidate(text, match, start, value, weak)):
                    yield start, start + len(value)


def _any(found: Candidate) -> bool:
    return True


def _literal(found: Candidate) -> bool:
    return is_literal(found.value, "\0", quoted=True)


def _no_example(found: Candidate) -> bool:
    return not is_example(found.value)


def _assigned(found: Candidate) -> bool:
    """True for NAME=value, `name: value` and JSON fields whose name means a secret."""
    match = found.match
    if not is_literal(found.value, match["name"], quoted=match.lastgroup != "bare"):
        return False
    before = match.string[max(0, match.start() - 16) : match.start()]
    return _NOT_SECRET.search(before) is None and _is_password(found, match.span("name"))


def _is_password(found: Candidate, name: Span) -> bool:
    """False for `pass` where it counts or names runs: `PASS: test1`, first_pass.

    DB_PASS and smtp_pass are passwords, and so is the field `pass` beside a login or before a random value.
    """
    text, (start, end) = found.text, name
    if text[start:end].lower() not in _SHORT_NAMES:
        return True
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    if before.endswith("_"):
        return text[start:end].isupper() or _PASS_OF.search(before) is not None
    if "=" in text[end : found.start]:
        stands_alone = _WORD.search(before) is not None
    else:
        is_field = not text[start:end].isupper() and _FIELD.search(before) is not None
        stands_alone = (
            is_field and _FIELD_ENDS.match(text, found.start + len(found.value)) is not None
        )
    if not stands_alone or _FAILED.search(before) or _FAILED.search(after):
        return False
    is_beside_login = _LOGIN_FIELD.search(before) or _LOGIN_FIELD.search(after)
    return is_beside_login is not None or _is_strong(found.value)


def _option_value(found: Candidate) -> bool:
    return is_literal(found.value, found.match["name"], quoted=False)


def _header(found: Candidate) -> bool:
    value = found.value
    is_mixed = value != value.lower() and value != value.capitalize()
    return not is_example(value) and (_is_random(value) or len(value) >= 32 or is_mixed)


def _url_password(found: Candidate) -> bool:
    """False for templates, and for passwords of examples and of services on a developer's machine."""
    user, password = found.match[1], found.value
    if _URL_TEMPLATE.search(password):
        return False
    lowered = password.lower()
    is_weak = len(password) < 4 or lowered == user.lower() or lowered in _WEAK_PASSWORDS
    return found.weak or not (is_weak or is_example(password + "abcdef"))


def _variable(found: Candidate) -> bool:
    """True for any value of a variable with a credential's name, weak or not."""
    return is_secret_name(found.match[1], weak=True) and not _NO_VALUE.match(found.value.strip())


def is_secret_name(name: str, weak: bool) -> bool:
    """True for the name of a field or variable that holds a secret."""
    if weak:
        variable = _BREAKS.sub("_", name)
        return is_credential(variable) or _MORE_NAMES.search(variable) is not None
    end = _NAME_AT_END.search(name.lower())
    if end is None or _NOT_SECRET.search(name.lower()[: end.start()]):
        return False
    before = name[: end.start()]
    return (
        end[0] not in _SHORT_NAMES
        or not before
        or _PASS_OF.search(before) is not None
        or (before.endswith("_") and name.isupper())
    )


def is_secret_value(value: str, name: str, weak: bool) -> bool:
    """True for the value of such a field: any but a word of settings if weak, else a random one."""
    value = value.strip("\"'")
    if weak:
        return not _NO_VALUE.match(value)
    return is_literal(value, name, quoted=True)


def _named(found: Candidate) -> bool:
    """True for the value of a name that is a value itself: `name: DB_PASSWORD`, `value: VALUE`."""
    name = found.match["name"]
    return is_secret_name(name, found.weak) and is_secret_value(found.value, name, found.weak)


def _file_password(found: Candidate) -> bool:
    has_login = bool(found.match.groupdict().get("login"))
    return not _TEMPLATE.search(found.value) and (found.weak or has_login or _literal(found))


def _pgpass(found: Candidate) -> bool:
    start = found.match.start()
    return _PGPASS_HOST.search(
        found.text[max(0, start - 256) : start]
    ) is not None and _file_password(found)


def _basic_login(found: Candidate) -> bool:
    """True for base64 of a name, a colon and a password."""
    value = found.value
    try:
        name, colon, password = base64.b64decode(
            value + "=" * (-len(value) % 4), validate=True
        ).partition(b":")
    except (binascii.Error, ValueError):
        return False
    return bool(name and colon and password) and name.isalnum() and not password.startswith(b"//")


def _cookie(found: Candidate) -> bool:
    """True for a value that is long and random enough for a session."""
    return (
        found.match[1].lower() not in _NO_COOKIE
        and _is_random(found.value)
        and not is_example(found.value)
    )


def _read_password(found: Candidate) -> bool:
    return not _TEMPLATE.search(found.value) and not is_example(found.value + "abcdef")


def _salted(found: Candidate) -> bool:
    value = found.value
    return is_literal(
        value.replace(" ", "_") if len(value) >= _LEAST_SALT else value, "\0", quoted=True
    )


def _random_value(found: Candidate) -> bool:
    return _is_random(found.value) and _no_example(found) and not _TEMPLATE.search(found.value)


def _is_random(value: str) -> bool:
    return any(char.isalpha() for char in value) and any(char.isdigit() for char in value)


def _is_strong(value: str) -> bool:
    """True for a value that no test and no file is called."""
    has_all = any(map(str.islower, value)) and any(map(str.isupper, value)) and _is_random(value)
    return has_all and len(value) >= _LEAST_STRONG


def _option(begin: str, end: str, option: str) -> Pattern:
    """A password among the arguments of a program, as `ps` and `set -x` show them."""
    before = rf"{begin}(?<!\w{begin}){end}[ \t](?:[^\n|;&]{{0,200}}?[ \t])?{option}"
    return Pattern(begin.lower(), re.compile(before + _QUOTED), _literal, contents=_PRINTED)


def _statement(sign: str, before: str) -> Pattern:
    """A password in an SQL statement, or in a line of settings without a sign between name and
    value.
    """
    expression = re.compile(before + _QUOTED, re.MULTILINE)
    return Pattern(sign, expression, _literal, lowered=True, contents=_PRINTED)


def _header_of(sign: str, expression: str) -> Pattern:
    """A credential in an HTTP header, as programs print it or as code writes it."""
    return Pattern(sign, re.compile(expression), _header, lowered=True)


def _cookies(sign: str, before: str) -> Pattern:
    """Pairs of a name and a value behind something that says they are cookies."""
    expression = re.compile(rf"{before}[\"']?([^\r\n]{{1,8192}})")
    return Pattern(sign, expression, _cookie, lowered=True, inner=_PAIR)


_PRINTED: tuple[Content, ...] = ("output", "environment")
_AUTH_HEADER = rf"authorization{_SAYS}"
_API_HEADERS = (
    r"(?:x-(?:api|access|auth|vault)-(?:key|token)|api-key|private-token|job-token|x-goog-api-key"
    r"|x-amz-security-token|x-functions-key|ocp-apim-subscription-key)"
)

PATTERNS: tuple[Pattern, ...] = (
    # HTTP headers.
    _header_of(
        "authorization",
        rf"{_AUTH_HEADER}(?:bearer|token|basic|bot|apikey|key)[ \t]+({_VALUE}{{8,4096}})",
    ),
    _header_of("authorization", rf"{_AUTH_HEADER}({_VALUE}{{20,4096}})"),
    _header_of("bearer", rf"(?<![A-Za-z])bearer[ \t]+({_VALUE}{{16,4096}})"),
    _header_of("-", rf"{_API_HEADERS}{_SAYS}({_VALUE}{{8,4096}})"),
    # URLs and logins.
    Pattern("://", _USERINFO, _url_password),
    Pattern("curl", _LOGIN, _url_password),
    Pattern("=", _QUERY, _literal, lowered=True),
    Pattern("key=", _ACCOUNT_KEY, _no_example),
    # Values behind a name.
    Pattern("", _ASSIGNED, _assigned, lowered=True, contents=_PRINTED),
    Pattern("-", _OPTION, _option_value, lowered=True, contents=_PRINTED),
    Pattern("", _VARIABLE, _variable, contents=("environment",)),
    Pattern("value", _NAMED, _named, contents=_PRINTED),
    Pattern("=", _CAPITALS, _random_value, contents=_PRINTED),
    # Files of well-known formats.
    Pattern("machine", _NETRC, _file_password),
    Pattern("default", _NETRC_DEFAULT, _file_password),
    Pattern(":", _PGPASS, _pgpass),
    Pattern("auth", _AUTH, _basic_login),
    Pattern(".dockerconfigjson", _DOCKER_CONFIG, _any),
    Pattern('"socket', _RECORD, _any),
    # Cookies: in headers, in options of curl, in a cookie jar.
    _cookies("cookie", r"cookie[\"']?[ \t]{0,4}[:=][ \t]{0,4}"),
    _cookies("curl", r"curl(?=[ \t])[^\r\n]{0,500}?[ \t](?:-b|--cookie)[ \t=]{0,4}"),
    Pattern("\t/", _JAR, _any),
    # Arguments of programs: how the name of the program begins and ends, and the option.
    _option("sshpass", "", "-p[ \\t]*"),
    _option("mysql", "\\w{0,6}", "-p"),
    _option("mariadb", "[\\w-]{0,6}", "-p"),
    _option("redis-cli", "", "(?:-a|--pass)[ \\t=]+"),
    _option("login", "", "-p[ \\t]+"),
    _option("twine", "", "-p[ \\t]+"),
    _option("ipmitool", "", "-P[ \\t]+"),
    _option("rdesktop", "", "-p[ \\t]+"),
    _option("xfreerdp", "", "/p:"),
    _option("user", "(?:add|mod)", "-p[ \\t]+"),
    _option("htpasswd", "", "-\\w*b\\w*[ \\t]+(?:[^\\s-]\\S{0,200}[ \\t]+){1,2}(?=\\S+$)"),
    _option("mongo", "\\w{0,7}", "-p[ \\t]+"),
    _option("ldap", "\\w{3,6}", "-w[ \\t]*"),
    _option("smbclient", "", "-U[ \\t]+[^\\s%]{1,64}%"),
    _option("openssl", "", "-(?:pass|passin|passout)[ \\t]+pass:"),
    _option("7z", "[arz]{0,2}", "-p"),
    _option("zip", "\\w{0,5}", "-P[ \\t]*"),
    _option("unzip", "", "-P[ \\t]*"),
    _option("lftp", "", "(?:-u|--user)[ \\t=]+[^\\s,]{1,64},"),
    _option("sqlplus", "", "[\\w.]{1,64}/(?=[^\\s@]{1,128}@)"),
    Pattern("|", _READ_PIPE, _read_password, contents=_PRINTED),
    Pattern("<<<", _READ_STRING, _read_password, contents=_PRINTED),
    # Statements: a word of each, and what comes before the value.
    _statement(
        "identified", r"identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by[ \t]+(?:password[ \t]+)?"
    ),
    _statement("password", r"(?:encrypted|with|user[ \t]+\w{1,64})[ \t]+password[ \t]+(?=['\"])"),
    _statement("env", rf"^env[ \t]+\w{{0,64}}{_NAMES}[ \t]+"),
    _statement("configure", rf"\bconfigure[ \t]+set[ \t]+[\w.]{{0,64}}{_NAMES}[ \t]+"),
    _statement("requirepass", r"\brequirepass[ \t]+"),
    _statement("masterauth", r"\bmasterauth[ \t]+"),
    # XML elements and attributes, PHP constants.
    Pattern("</", _XML, _literal, contents=_PRINTED),
    Pattern("value=", _ATTRIBUTES, _literal, contents=_PRINTED),
    Pattern("define", _DEFINE, _salted, lowered=True, contents=_PRINTED),
)
