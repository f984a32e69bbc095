"""The variables that commands on this machine start with: the opener's, without credentials."""

import re
from collections.abc import Collection, Mapping

from hermetic.contract.variables import is_text

# Words of a name (split at "_") that tell of a credential: GITHUB_TOKEN, PGPASSWORD, AWS_SECRET_ACCESS_KEY, APIKEY.
_CREDENTIAL = re.compile(
    r"(?:KEY|.*API_?KEY|.*PRIVATEKEY|.*TOKEN|.*SECRET|.*PASSWORD|.*PASSWD|.*PASSPHRASE|.*CREDENTIAL)S?|CREDS?|PASS|JWT"
    r"|PAT|BEARER|WEBHOOKS?|COOKIES?|CONNSTR|SAS|AUTHORIZATION"
)
# Words that tell of one only at the end of a name: SSH_AUTH_SOCK and OLDPWD are no secrets.
_CREDENTIAL_AT_END = frozenset({"AUTH", "PWD", "SK", "DSN"})
_CONNECTION = re.compile(r"(?:^|_)CONN(?:ECTION)?_STR(?:ING)?$")
# A password in a URL makes any variable a credential, but a proxy's: without that there is no network.
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@]*:([^\s/?#@]+)@")
_HARMLESS = frozenset({"PWD", "OLDPWD"})

# The agent's own virtual environment is not the one its commands work in.
_OF_THE_OPENER = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "PYTHONHOME"})

# No pager waits for a key, and no program draws on a terminal that is not there.
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}


def child_environment(
    opener: Mapping[str, str], *, passthrough: Collection[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The opener's variables without credential-like names, but with those in `passthrough`, `extra` on top."""
    passed = {
        name: value
        for name, value in opener.items()
        if name in passthrough or not (is_credential(name) or name in _OF_THE_OPENER or _holds_password(name, value))
    }
    return {**_without_broken_text(passed), **QUIET, **(extra or {})}


def _holds_password(name: str, value: str) -> bool:
    return password_in(value) is not None and not name.upper().endswith("_PROXY")


def password_in(value: str) -> str | None:
    """The password of a URL with one: postgres://app:PASSWORD@db/x."""
    match = _PASSWORD.search(value)
    return match[1] if match else None


def is_credential(name: str) -> bool:
    """True when a variable's name says that its value is a secret."""
    upper = name.upper()
    if upper in _HARMLESS:
        return False
    words = upper.split("_")
    if _CONNECTION.search(upper):
        return True
    return words[-1] in _CREDENTIAL_AT_END or any(_CREDENTIAL.fullmatch(word) for word in words)


def _without_broken_text(variables: Mapping[str, str]) -> dict[str, str]:
    """Only what is UTF-8: bytes that are no text cannot be told to a resident."""
    return {name: value for name, value in variables.items() if is_text(name) and is_text(value)}
