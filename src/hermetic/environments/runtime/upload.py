"""Uploads the lean runtime to an environment that is reached by shell scripts alone, once for each
of its versions.

It lies in a private directory there, whose path is short enough for the strings that it replaces in
the programs. The file `.runtime` in it says which runtime it is for; a directory without that is
not ours. An upload that breaks off is continued by the next one. Every use begins with a look at
the checksums. An upload removes others of this user that were not used for a month.
"""

import asyncio
import base64
import gzip
import hashlib
import io
import logging
import os
import platform
import re
import secrets
import sys
import tarfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermetic.contract.environment import ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.runtime.choice import BASH, NO_BASH, RuntimeChoice
from hermetic.environments.runtime.store import (
    ADVICE,
    MANIFEST,
    PREFIX,
    CannotBuild,
    Manifest,
    Runtime,
    portable,
    runtime_at,
    runtime_cache,
    source_key,
)
from hermetic.environments.starting import StartFailed, resident_input
from hermetic.registry.file_lock import locked

log = logging.getLogger("hermetic")

# runs a script by sh there, with that input; its output
Ask = Callable[[str, bytes], Awaitable[str]]
# starts a resident there by a Python, with that input. Raises StartFailed
Boot = Callable[[str, bytes], Awaitable[Started]]

# Characters of a prefix: with PREFERRED the locale's path fits as well, LONGEST is what the
# loader's path allows.
PREFERRED, LONGEST = 10, 21
LEVEL = 6  # of compression
SHORTEST_NAME, LONGEST_NAME = 2, 8  # characters of the digest in it
NAMES = 4  # tried in each directory: another runtime, or anything else, may have a short one
# After so many days without use, an upload is removed by another one; and where that comes from the
# same programs of the same opener, which supersedes it.
UNUSED_DAYS, SUPERSEDED_DAYS = 30, 1
TOOLS = "mkdir chmod cat rm mv ls tar gzip sha256sum"
FOUND = "hermetic-found:"  # begins the lines that are answers

SIZE = 'size() { set -- $(ls -ln "$1"); echo "$5"; }\n'

# Prints the machine, the user, and the directories in which a program of ours may lie and run.
LOOK = rf"""
say machine "$(uname -m)"
say user "$(id -u)"
umask 077
for base in "${{HOME%/}}" /var/tmp /tmp; do
    own=$base/.hermetic-probe-$token  # not $$: two containers of one home may have the same
    mkdir "$own" || continue  # others may have planted a link there
    if printf '#!/bin/sh\nexit 0\n' >"$own/probe" && chmod 700 "$own/probe" && "$own/probe"; then say base "$base/"; fi
    rm -rf "$own"
done 2>/dev/null
for tool in {TOOLS}; do
    command -v "$tool" >/dev/null 2>&1 || say lacks "$tool"
done
"""

# With the checksums as input: whether the runtime is whole, else how much of it has arrived. Makes
# its directory.
CHECK = """
umask 077
mkdir "$prefix" 2>/dev/null && say made .
taken() {
    say foreign "$prefix"
    exit
}
if [ -L "$prefix" ] || [ ! -O "$prefix" ]; then taken; fi
if [ ! -e "$prefix/.runtime" ]; then
    set -- "$prefix"/*
    if [ -e "$1" ]; then taken; fi
    # An empty one may be another upload's that has just made it. The name is moved: a reader finds all of it.
    printf '%s\n%s\n' "$digest" "$owner" >"$prefix/.name-$token" && mv "$prefix/.name-$token" "$prefix/.runtime" || exit
fi
read -r found <"$prefix/.runtime"
if [ "$found" != "$digest" ]; then taken; fi
chmod 700 "$prefix"
cd "$prefix" || exit
if sha256sum -c >/dev/null 2>&1; then
    touch .runtime 2>/dev/null
    say whole .
    exit
fi
[ ! -f "$part" ] || say arrived "$(size "$part")"
say broken .
"""
APPEND = """
umask 077
cd "$prefix" && cat >>"$part" && say arrived "$(size "$part")"
"""
# With the checksums as input. The files are made beside and moved: another upload may be doing the
# same.
INSTALL = """
umask 077
cd "$prefix" || exit
new=$part.new
rm -rf "$new"
if ! echo "$whole  $part" | sha256sum -c >/dev/null 2>&1; then
    say damaged .
elif mkdir "$new" && gzip -dc <"$part" | (cd "$new" && tar -xf -) && (cd "$new" && sha256sum -c >/dev/null); then
    for name in "$new"/*; do rm -rf "./${name##*/}" && mv "$name" .; done
    if said=$(./python/bin/python3 -I -S -c pass 2>&1); then
        say whole .
        touch .runtime 2>/dev/null
        ./python/bin/python3 -I -S -c "$remove_unused" "$prefix" "$owner" $bases
    else
        say fails "$said"
    fi
fi
rm -rf "$new" "$part"
"""
# Python code, with this upload, its owner and directories as arguments: removes other uploads in
# those that are old, unless a process runs from them. Programs are compared by inode: one of another container
# may have the same path. No single quotes.
REMOVE_UNUSED = f"""
import os, shutil, sys, time
def identities(paths):
    for path in paths:
        try:
            found = os.stat(path)
            yield found.st_dev, found.st_ino
        except OSError:
            pass
running = set(identities("/proc/%s/exe" % pid for pid in os.listdir("/proc") if pid.isdigit()))
for base in sys.argv[3:]:
    for entry in os.scandir(base):
        path = entry.path
        try:
            if not entry.name.startswith(".h") or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            with open(path + "/.runtime") as lines:
                is_superseded = lines.read().splitlines()[1:] == [sys.argv[2]]
            days = {SUPERSEDED_DAYS} if is_superseded else {UNUSED_DAYS}
            is_old = os.stat(path + "/.runtime").st_mtime < time.time() - days * 86400
        except (OSError, ValueError):
            continue
        is_used = running.intersection(identities((path + "/python/bin/python3", path + "/bin/bash")))
        if is_old and not is_used and not entry.is_symlink() and path != sys.argv[1]:
            shutil.rmtree(path, ignore_errors=True)
"""
# Removes this upload's part, and the directory only if this upload made it and no other one uses
# it.
REMOVE = """
if [ ! -O "$prefix" ] || [ -L "$prefix" ]; then exit; fi
rm -rf "$prefix/$part" "$prefix/$part.new"
set -- "$prefix"/.part-*
if [ "$made" ] && [ ! -e "$1" ]; then rm -rf "$prefix"; fi
"""


class UploadChoice(RuntimeChoice):
    """The choice for one start in an environment that is reached by `ask`, to which the runtime is
    uploaded.

    A call of `ask` gets at most `size` bytes. `subject` names the environment in errors.
    """

    def __init__(self, wanted: str, image: str, *, ask: Ask, size: int, subject: str) -> None:
        super().__init__(wanted, image)
        self._ask, self._size, self._subject = ask, size, subject

    async def obtain(self) -> Runtime:
        """Uploads the runtime. Raises EnvironmentUnavailable, and the errors of `ask`."""
        given = None if self.wanted in ("auto", "portable") else self.wanted
        return await upload(self._ask, size=self._size, subject=self._subject, given=given)

    @property
    def bash(self) -> str:
        """The bash of the resident; empty: the one on PATH."""
        return self.runtime.bash if self.runtime is not None and BASH in self.lacks else ""

    def configured(self, config: ResidentConfig) -> ResidentConfig:
        """The same for the programs that were chosen."""
        config = super().configured(config)
        if NO_BASH not in self.lacks:
            return config
        folder = os.path.dirname(self.bash)
        return msgspec.structs.replace(config, last_path=folder, keep_path=True)

    async def start(self, config: ResidentConfig, boot: Boot) -> Started:
        """Starts a resident by `boot`, with our programs where its own do not do.

        Raises EnvironmentUnavailable; StartFailed if nothing helped.
        """
        while True:
            await self.prepare()
            try:
                started = await boot(self.python, resident_input(self.configured(config)))
                break
            except StartFailed as error:
                if not self.learn(error):
                    raise
        self.remember()
        own, spool = os.path.dirname(started.socket), started.spool or ""
        if any(os.path.basename(path) != config.id for path in (own, spool) if path):
            raise EnvironmentUnavailable(
                f"{self._subject}: the resident says that it is at {started.socket}"
            )
        place = {"directory": own, "spool": spool, **self.place}
        return msgspec.structs.replace(started, place=place)

    @property
    def place(self) -> dict[str, str]:
        """Fields of a record."""
        return {
            **super().place,
            **({} if self.runtime is None else {"prefix": self.runtime.prefix}),
        }


class Host(NamedTuple):
    """What an environment says of itself."""

    machine: str
    user: str
    bases: tuple[str, ...]  # directories for a runtime


class Cargo(NamedTuple):
    """A runtime as it is sent to a prefix there."""

    runtime: Runtime
    sums: bytes  # SHA-256 of each file, as sha256sum takes them
    archive: Callable[[], bytes]  # a .tar.gz of its files


class Damaged(EnvironmentUnavailable):
    """The runtime did not arrive as it was sent."""


class Taken(Exception):
    """Something else is at the path of the runtime: another user's, another runtime, or a directory
    of no runtime.
    """


async def upload(ask: Ask, *, size: int, subject: str, given: str | None = None) -> Runtime:
    """The runtime in an environment that has a shell, uploaded if it is not there or not whole.

    A call of `ask` gets at most `size` bytes. `subject` names the environment in errors. `given` is
    the directory of a runtime for the environment's architecture; None: this machine's. Raises
    EnvironmentUnavailable, after which nothing is left there, and the errors of `ask`, after which
    another upload goes on where this one ended.
    """
    host = await _look(ask, subject)
    if given is None and host.machine != platform.machine():
        raise EnvironmentUnavailable(
            f"{subject} is a {host.machine} machine, and the portable runtime of this one is for {platform.machine()}; "
            f"{ADVICE}"
        )
    runtime = None if given is None else await runtime_at(given, host.machine)
    longest = LONGEST
    failure: CannotBuild | None = None
    for prefix in _prefixes(host, source_key(True, PREFIX) if runtime is None else runtime.digest):
        if len(prefix) > longest or (runtime is not None and len(prefix) != len(runtime.prefix)):
            continue  # a given runtime's strings are replaced by others of the same length
        try:
            source = runtime or await portable(lean=True, prefix=prefix)
            cargo = await asyncio.to_thread(cargo_for, source, prefix)
        # perhaps only because the prefix is too long for a file of this machine
        except CannotBuild as error:
            longest, failure = len(prefix) - 1, error
            continue
        transfer = _Transfer(ask, cargo, size, subject, host.bases, given or sys.executable)
        try:
            try:
                await transfer.run()
            except Damaged:
                await transfer.run()
            return cargo.runtime
        except Taken:
            continue
    if failure is not None:
        raise failure
    raise EnvironmentUnavailable(
        f"{subject}: no program of this user may be written and run in the home, /var/tmp or /tmp there, at a path of "
        f"at most {LONGEST} characters; allow it in one of them, or {ADVICE}"
    )


async def _look(ask: Ask, subject: str) -> Host:
    said = _answers(await ask(_script(LOOK, token=secrets.token_hex(8)), b""))
    if "machine" not in said:
        raise EnvironmentUnavailable(
            f"{subject}: no sh with dd answers there, which an upload of the portable runtime needs; {ADVICE}"
        )
    if said.get("lacks"):
        raise EnvironmentUnavailable(
            f"{subject} lacks {', '.join(said['lacks'])}: an upload needs sh {TOOLS}; {ADVICE}"
        )
    (machine,), (user,) = said["machine"], said["user"]
    bases = tuple(
        base.removesuffix("/")
        for base in said.get("base", [])
        if re.fullmatch(r"[\w./+-]*", base, re.ASCII)
    )
    return Host(machine, user, bases)


def _prefixes(host: Host, identity: str) -> Iterator[str]:
    """Paths for a runtime there: first those that are short enough for all of its strings."""
    name = base64.urlsafe_b64encode(
        hashlib.sha256(f"{host.user} {identity}".encode()).digest()
    ).decode()
    for limit in (PREFERRED, LONGEST):
        for base in host.bases:
            room = min(limit - len(f"{base}/.h"), LONGEST_NAME)
            if room >= SHORTEST_NAME:
                yield from (
                    f"{base}/.h{name[at : at + room]}" for at in range(0, NAMES * room, room)
                )


def cargo_for(runtime: Runtime, prefix: str) -> Cargo:
    """A runtime for a prefix: its own, or another one of the same length."""
    old, new = runtime.prefix.encode(), prefix.encode()
    text = Path(runtime.directory, MANIFEST).read_bytes()
    files = msgspec.json.decode(text, type=Manifest).files

    def content(name: str) -> bytes:
        return Path(runtime.directory, name).read_bytes().replace(old, new)

    def archive() -> bytes:
        """The same bytes for the same contents: a later upload continues an earlier one."""
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as tar:
            for name in sorted(files):
                member, data = tarfile.TarInfo(name), content(name)
                member.size = len(data)
                member.mode = os.stat(Path(runtime.directory, name)).st_mode & 0o777
                tar.addfile(member, io.BytesIO(data))
        return gzip.compress(whole.getvalue(), LEVEL, mtime=0)

    sums = {name: sha256 for name, (_, sha256) in files.items()}
    if old != new:
        sums = {name: hashlib.sha256(content(name)).hexdigest() for name in files}
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items())
    return Cargo(msgspec.structs.replace(runtime, prefix=prefix), lines.encode(), archive)


class _Transfer:
    """One upload of a runtime; it supersedes earlier ones of the same origin."""

    def __init__(
        self, ask: Ask, cargo: Cargo, size: int, subject: str, bases: Sequence[str], origin: str
    ) -> None:
        self._ask, self._cargo, self._size, self._subject = ask, cargo, size, subject
        self._bases = " ".join(f"{base}/" for base in bases)  # where others may lie
        self._runtime = cargo.runtime
        # Processes with this cache wait for each other; other machines may upload at the same time.
        cache = runtime_cache()
        opener = hashlib.sha256(f"{uuid.getnode()} {cache} {subject}".encode()).hexdigest()[:16]
        self._part = f".part-{cargo.runtime.digest[:8]}-{opener}"
        self._owner = hashlib.sha256(f"{opener} {origin}".encode()).hexdigest()[:16]
        self._lock = cache / f"{cargo.runtime.digest}-{opener}.lock"
        self._made = False  # the directory there

    def __repr__(self) -> str:
        return f"<_Transfer of {self._runtime.prefix}>"

    async def run(self) -> None:
        """Sends what is missing. Raises EnvironmentUnavailable; Damaged if another try may help."""
        if "whole" in await self._check():
            return
        async with locked(self._lock):
            said = await self._check()
            if "whole" not in said:
                await self._send(said)

    async def _check(self) -> dict[str, list[str]]:
        said = await self._do(CHECK, self._cargo.sums)
        self._made |= "made" in said
        if "foreign" in said:
            raise Taken(self._runtime.prefix)
        if not said.keys() & {"whole", "broken"}:
            raise await self._failure("its directory cannot be made", said)
        return said

    async def _send(self, said: dict[str, list[str]]) -> None:
        data = await asyncio.to_thread(self._cargo.archive)
        arrived = int(said.get("arrived", ["0"])[-1])
        arrived = arrived if arrived <= len(data) else 0
        log.info(
            "uploading the portable runtime to %s: %.1f MB",
            self._subject,
            (len(data) - arrived) / 1e6,
        )
        if not arrived:
            await self._do('cd "$prefix" && rm -f "$part"\n')
        for part in _parts(data[arrived:], self._size):
            arrived += len(part)
            said = await self._do(APPEND, part)
            if said.get("arrived") != [str(arrived)]:
                raise await self._failure("a part of it was not written", said)
        whole = hashlib.sha256(data).hexdigest()
        said = await self._do(
            INSTALL, self._cargo.sums, whole=whole, bases=self._bases, remove_unused=REMOVE_UNUSED
        )
        if "damaged" in said:
            await self._remove()
            raise Damaged(f"{self._subject}: the runtime was damaged on its way there; try again")
        if "fails" in said:
            raise await self._failure(f"it does not run there: {' '.join(said['fails'])}", {})
        if "whole" not in said:
            raise await self._failure("it was not unpacked", said)

    async def _do(self, script: str, given: bytes = b"", **more: str) -> dict[str, list[str]]:
        own = {"prefix": self._runtime.prefix, "part": self._part, "owner": self._owner}
        own["digest"] = self._runtime.digest
        text = _script(script, **own, token=secrets.token_hex(8), **more)
        return _answers(await self._ask(text, given))

    async def _remove(self) -> None:
        await self._do(REMOVE, made="yes" if self._made else "")

    async def _failure(self, what: str, said: dict[str, list[str]]) -> EnvironmentUnavailable:
        await self._remove()
        why = " ".join(said.get("", []))[-1000:]
        if "No space left" in why or "quota exceeded" in why:
            base = self._runtime.prefix.rpartition("/")[0] or "/"
            advice = f"free {self._runtime.size * 2 // 1_000_000} MB in {base} there"
        else:
            advice = ADVICE
        text = f"{self._subject}: the portable runtime could not be uploaded: {what}"
        return EnvironmentUnavailable("; ".join(filter(None, (text, why, advice))))


def _parts(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def _script(script: str, **variables: str) -> str:
    """A script with its variables, `say` and `size`, which reads the directory and not the file.

    Errors are a part of its output, and it always succeeds.
    """
    # without quotes, see `_look`
    values = "".join(f"{name}='{value}'\n" for name, value in variables.items())
    say = f"say() {{ printf '%s%s %s\\n' '{FOUND}' \"$@\"; }}"
    return f"exec 2>&1\n{values}{say}\n{SIZE}({script})\n:\n"


def _answers(output: str) -> dict[str, list[str]]:
    """The answers by name, and the other lines by an empty one."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        _, mark, answer = line.rpartition(FOUND)  # behind what a login prints without a line end
        name, _, value = answer.partition(" ") if mark else ("", "", line)
        found.setdefault(name, []).append(value)
    return found
