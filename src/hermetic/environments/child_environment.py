"""The variables that commands on this machine start with: the opener's, without credentials."""

import re
from collections.abc import Collection, Mapping

from hermetic.contract.variables import is_text

# Parts of a name (split at "_") that indicate a credential: GITHUB_TOKEN, PGPASSWORD,
# AWS_SECRET_ACCESS_KEY, APIKEY.
_CREDENTIAL = re.compile(
    r"(?:KEY|PRIVKEY|.*API_?KEY|.*PRIVATEKEY|.*TOKEN|.*SECRET|.*PASSWORD|.*PASSWD|.*PASSPHRASE|.*CREDENTIAL)S?|CREDS?|PASS|JWT"
    r"|PAT|BEARER|WEBHOOKS?|COOKIES?|CONNSTR|SAS|AUTHORIZATION|MNEMONIC"
    r"|(?:DB|SSH|PG|MYSQL|SMTP|MAIL|FTP|USER|ROOT|ADMIN|SUDO|REDIS|MONGO|LDAP|VPN|WIFI|PROXY|LOGIN|SVC)(?:PASS|PW)"
    r"|(?:MASTER|SECRET|ACCESS|SIGNING|ENCRYPTION|ACCOUNT|AUTH|SESSION|DEPLOY|SSH|GPG)KEYS?"
)
# Parts that indicate one only at the end of a name: SSH_AUTH_SOCK and OLDPWD are no secrets.
_CREDENTIAL_AT_END = frozenset({"AUTH", "PWD", "PW", "SK", "RK", "DSN"})
_PHRASE = re.compile(
    r"(?:^|_)(?:CONN(?:ECTION)?_STR(?:ING)?|AUTH_CONFIG|HOOK_?URL|(?:SEED|RECOVERY|MNEMONIC)_(?:PHRASE|WORDS))$"
)
# A password in a value makes any variable a credential, but a proxy's: without that there is no
# network.
_PASSWORDS = (
    re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#:@]*:([^\s/?#@]+)@"),
    # A token instead of the user: long, with letters and digits.
    re.compile(r"https?://(?=[^@]*\d)(?=[^@]*[A-Za-z])([\w.~%+-]{12,512})@", re.ASCII),
    re.compile(r"(?:^|;)[ \t]*(?:password|pwd)[ \t]*=[ \t]*([^;\s$<{][^;]{0,255})", re.IGNORECASE),
)
# Secrets by their form: private keys, tokens of common vendors, webhook addresses.
_SECRET_VALUE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY"
    r"|(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{40}|glpat-[\w-]{20}|sk-(?:ant|proj|svcacct|admin)-[\w-]{24}"
    r"|sk-[A-Za-z0-9]{32}|(?:AKIA|ASIA)[A-Z2-7]{16}|AIza[\w-]{35}|xox[abeoprs]-[\w.-]{20}|[rs]k_(?:live|test)_[A-Za-z0-9]{16}"
    r"|SG\.[\w-]{22}\.|npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{50}|dckr_pat_[\w-]{27}|hf_[A-Za-z0-9]{34}|hvs\.[\w-]{24})"
    r"|hooks\.slack\.com/(?:services|workflows|triggers)/\w|discord(?:app)?\.com/api/webhooks/\d"
    r"|\.webhook\.office\.com/webhook",
    re.ASCII,
)
_HARMLESS = frozenset({"PWD", "OLDPWD"})

# The agent's own virtual environment is not the one its commands work in.
_OF_THE_OPENER = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "PYTHONHOME"})

# No pager waits for a key, and no program draws on a terminal that is not there.
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}


def child_environment(
    opener: Mapping[str, str],
    *,
    passthrough: Collection[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The opener's variables without credential-like names, but with those in `passthrough`,
    `extra` on top.
    """
    passed = {
        name: value
        for name, value in opener.items()
        if name in passthrough
        or not (is_credential(name) or name in _OF_THE_OPENER or _holds_secret(name, value))
    }
    return {**_without_broken_text(passed), **QUIET, **(extra or {})}


def _holds_secret(name: str, value: str) -> bool:
    if _SECRET_VALUE.search(value):
        return True
    return password_in(value) is not None and not name.upper().endswith("_PROXY")


def password_in(value: str) -> str | None:
    """The password of a URL or of a connection string: postgres://app:PASSWORD@db/x,
    Server=db;Password=PASSWORD.
    """
    found = (match for pattern in _PASSWORDS if (match := pattern.search(value)))
    match = next(found, None)
    return match[1] if match else None


def is_credential(name: str) -> bool:
    """True for the name of a variable that holds a secret."""
    upper = name.upper()
    if upper in _HARMLESS:
        return False
    upper = upper.rstrip("_0123456789")  # as of several: TOKEN2, DB_PASSWORD_1
    words = upper.split("_")
    if _PHRASE.search(upper):
        return True
    return words[-1] in _CREDENTIAL_AT_END or any(_CREDENTIAL.fullmatch(word) for word in words)


def _without_broken_text(variables: Mapping[str, str]) -> dict[str, str]:
    """Only variables in UTF-8; others cannot be sent to a resident."""
    return {name: value for name, value in variables.items() if is_text(name) and is_text(value)}
