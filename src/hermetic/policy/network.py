"""Addresses, and what it means to send something there."""

from __future__ import annotations

import re
import unicodedata
import urllib.parse

from hermetic.policy.programs.table import alternatives, rule
from hermetic.policy.tables import regex

from .call import Call
from .effects import read, write
from .marks import NET, SECRET, TOKEN, literal_globs, shown
from .paths import is_secret, resolve

EXFIL = rule("send-secret")
REVERSE_SHELL = rule("reverse-shell")
METADATA = rule("cloud-metadata")

_HOST = regex(
    r"(?:[A-Za-z][\w+.-]*://|(?i:https?|ftps?|wss?):/{1,4})?(?:[^@/\s]*@)?(\[[^\]]+\]|[^/:?#\s]+)"
)
_METADATA, _LOCAL_HOST = map(alternatives, ("metadata-hosts", "local-hosts"))


_PRIVATE = frozenset(("home", "root", "startup", "system", "history", "unknown"))


def host_of(url: str) -> str:
    """The host an address names, in small letters, decoded, and without the dot at its end."""
    match = _HOST.match(url if url.isascii() else _plain_letters(url))
    host = match[1].strip("[]").lower() if match else ""
    return (urllib.parse.unquote(host) if "%" in host else host).rstrip(".")


def _plain_letters(url: str) -> str:
    """An address with the letters and dots that programs take its wide and ideographic ones for."""
    try:
        text = url.encode("latin-1").decode()  # words hold bytes
    except UnicodeError:  # an unknown part, or no UTF-8
        return url
    return unicodedata.normalize("NFKC", text).replace("\u3002", ".")


def is_local(url: str) -> bool:
    """True for an address on this machine, and for `:8000` as httpie writes it."""
    return url.startswith(":") or bool(_LOCAL_HOST.match(host_of(url)))


def ipv4(host: str) -> tuple[int, ...] | None:
    """The four numbers of an address in any spelling inet_aton takes."""
    parts = host.split(".")
    if len(parts) > 4:
        return None
    try:
        numbers = [int(part, 8 if part[:1] == "0" and part.isdigit() else 0) for part in parts]
    except ValueError:
        return None
    last = numbers.pop()
    is_small = all(0 <= number <= 255 for number in numbers)
    if not is_small or not 0 <= last < 256 ** (4 - len(numbers)):
        return None
    rest = 4 - len(numbers)
    return (*numbers, *last.to_bytes(rest, "big"))


def is_metadata(url: str) -> bool:
    """True for a cloud's metadata service, which hands out credentials."""
    host = host_of(literal_globs(url))
    return bool(_METADATA.fullmatch(host)) or ipv4(host) == (169, 254, 169, 254)


def check_address(call: Call, url: str) -> None:
    """Report an address that hands out credentials."""
    call.machine.note("reach", host_of(literal_globs(url)))
    if is_metadata(url):
        call.report(METADATA, "asks the cloud's metadata service for credentials")


def check_sent(call: Call, *texts: str) -> None:
    """Report credentials in what is sent to another machine."""
    if any(mark in text for text in texts for mark in (SECRET, TOKEN)):
        call.report(EXFIL, "sends credentials to another machine")


def leave(call: Call, path: str) -> None:
    """Judge that a file goes to another machine."""
    if SECRET in read(call, path, tree=True):
        call.report(EXFIL, f"sends credentials to another machine: {shown(path)}")


def land(call: Call, target: str, sources: list[str]) -> None:
    """Judge that files arrive from another machine at a target, or by their names inside it."""
    write(call, target)
    full = resolve(target, call.shell)
    call.shell.files.pop(full, None)
    named = [re.split("[/:]", source.rstrip("/"))[-1] for source in sources]
    arrived = [f"{full.rstrip('/')}/{name}" for name in named]
    homes = ("/tmp", "/var/tmp", call.shell.home, call.shell.workspace)
    if target.endswith(("/", ".")) or full in homes:
        call.shell.fetched.update(path for path in arrived if path != full + "/")
    else:
        call.shell.fetched.update((full, *arrived))


def is_remote(path: str) -> bool:
    """True for `host:path` and for addresses."""
    return ":" in path.split("/", 1)[0] or "://" in path


def unpack(call: Call, target: str | None, source: str) -> None:
    """Judge that files of unknown names land in a directory."""
    if target:
        write(call, target, tree=True)
        call.shell.files.pop(resolve(target, call.shell), None)
    if NET in source:
        call.shell.fetched.add(resolve(target or ".", call.shell))


def check_served(call: Call, directory: str) -> None:
    """Report a directory that holds credentials, or everything a person has."""
    full, place = call.place(directory)
    linked = (to for link, to in call.shell.links.items() if link.startswith(full + "/"))
    if place in _PRIVATE or any(is_secret(path, call.shell) for path in (full, *linked)):
        call.report("serve-files", f"offers files to whoever connects: {directory}", full)
