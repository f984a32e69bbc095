"""Uploads the lean runtime to an environment that is reached by shell scripts alone, once for each of its versions.

It lies in a private directory there, whose path is short enough for the strings that it replaces in the programs. An
upload that breaks off is continued by the next one. Every use begins with a look at the checksums.
"""

import hashlib
import logging
import os
import platform
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermetic.contract.environment import ResidentConfig
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.runtime.choice import BASH, NO_BASH, RuntimeChoice
from hermetic.environments.runtime.store import (
    ADVICE,
    MANIFEST,
    PREFIX,
    Manifest,
    Runtime,
    packed,
    portable,
    source_key,
)

log = logging.getLogger("hermetic")

Ask = Callable[[str, bytes], Awaitable[str]]  # runs a script by sh there, with that input; its output

# Characters of a prefix: with PREFERRED the locale's path fits as well, LONGEST is what the loader's path allows.
PREFERRED, LONGEST = 10, 21
SHORTEST_NAME, LONGEST_NAME = 2, 8  # characters of the digest in it
TOOLS = "mkdir chmod cat rm mv wc tar gzip sha256sum"
FOUND = "hermetic-found:"  # begins the lines that are answers

# Prints the machine, the user, and the directories in which a program of ours may lie and run.
LOOK = rf"""
say machine "$(uname -m)"
say user "$(id -u)"
umask 077
for base in "${{HOME%/}}" /var/tmp /tmp; do
    probe=$base/.hermetic-probe-$$
    if printf '#!/bin/sh\nexit 0\n' >"$probe" && chmod 700 "$probe" && "$probe"; then say base "$base/"; fi
    rm -f "$probe"
done 2>/dev/null
for tool in {TOOLS}; do
    command -v "$tool" >/dev/null 2>&1 || say lacks "$tool"
done
"""

# With the checksums as input: whether the runtime is whole, else how much of it has arrived. Makes its directory.
CHECK = """
umask 077
[ -d "$prefix" ] || mkdir "$prefix"
if [ -L "$prefix" ] || [ ! -O "$prefix" ]; then say foreign "$prefix"; exit; fi
chmod 700 "$prefix"
cd "$prefix" || exit
if sha256sum -c >/dev/null 2>&1; then say whole .; exit; fi
[ ! -f "$part" ] || say arrived "$(wc -c <"$part")"
say broken .
"""
APPEND = """
umask 077
cd "$prefix" && cat >>"$part" && say arrived "$(wc -c <"$part")"
"""
# With the checksums as input. The files are made beside and moved: another upload may be doing the same.
INSTALL = """
umask 077
cd "$prefix" || exit
new=$part.new
rm -rf "$new"
if ! echo "$whole  $part" | sha256sum -c >/dev/null 2>&1; then
    say damaged .
elif mkdir "$new" && gzip -dc <"$part" | (cd "$new" && tar -xf -) && (cd "$new" && sha256sum -c >/dev/null); then
    for name in "$new"/*; do rm -rf "./${name##*/}" && mv "$name" .; done
    if said=$(./python/bin/python3 -I -S -c pass 2>&1); then say whole .; else say fails "$said"; fi
fi
rm -rf "$new" "$part"
"""
REMOVE = """
if [ -O "$prefix" ] && [ ! -L "$prefix" ]; then rm -rf "$prefix"; fi
"""


class UploadChoice(RuntimeChoice):
    """The choice for one start in an environment that is reached by `ask`, to which the runtime is uploaded.

    A call of `ask` gets at most `size` bytes. `subject` names the environment in errors.
    """

    def __init__(self, wanted: str, image: str, *, ask: Ask, size: int, subject: str) -> None:
        super().__init__(wanted, image)
        self._ask, self._size, self._subject = ask, size, subject

    async def prepare(self) -> None:
        """Uploads the runtime if something is lacking. Raises EnvironmentUnavailable, and the errors of `ask`."""
        if self.lacks and self.runtime is None:
            self.runtime = await upload(self._ask, size=self._size, subject=self._subject)

    @property
    def bash(self) -> str:
        """The bash of the resident; empty: the one on PATH."""
        return self.runtime.bash if self.runtime is not None and BASH in self.lacks else ""

    def configured(self, config: ResidentConfig) -> ResidentConfig:
        """The same for the programs that were chosen."""
        own = {"last_path": os.path.dirname(self.bash), "keep_path": True} if NO_BASH in self.lacks else {}
        return msgspec.structs.replace(config, bash=self.bash, runtime=self.description, **own)

    @property
    def place(self) -> dict[str, str]:
        """Fields of a record."""
        return {**super().place, **({} if self.runtime is None else {"prefix": self.runtime.prefix})}


class Host(NamedTuple):
    """What an environment says of itself."""

    machine: str
    user: str
    bases: tuple[str, ...]  # directories for a runtime


class Damaged(EnvironmentUnavailable):
    """The runtime did not arrive as it was sent."""


class Taken(Exception):
    """Another user has something at the path of the runtime."""


async def upload(ask: Ask, *, size: int, subject: str) -> Runtime:
    """The runtime in an environment that has a shell, uploaded if it is not there or not whole.

    A call of `ask` gets at most `size` bytes. `subject` names the environment in errors. Raises
    EnvironmentUnavailable, after which nothing is left there, and the errors of `ask`, after which another upload goes
    on where this one ended.
    """
    host = await _look(ask, subject)
    for prefix in _prefixes(host):
        runtime = await portable(lean=True, prefix=prefix)
        transfer = _Transfer(ask, runtime, size, subject)
        try:
            try:
                await transfer.run()
            except Damaged:
                await transfer.run()
            return runtime
        except Taken:
            continue
    raise EnvironmentUnavailable(
        f"{subject}: no program of this user may be written and run in the home, /var/tmp or /tmp there, at a path of "
        f"at most {LONGEST} characters; allow it in one of them, or {ADVICE}"
    )


async def _look(ask: Ask, subject: str) -> Host:
    said = _answers(await ask(_script(LOOK), b""))
    if "machine" not in said:
        raise EnvironmentUnavailable(
            f"{subject}: no sh with dd answers there, which an upload of the portable runtime needs; {ADVICE}"
        )
    if said.get("lacks"):
        raise EnvironmentUnavailable(
            f"{subject} lacks {', '.join(said['lacks'])}: an upload needs sh {TOOLS}; {ADVICE}"
        )
    (machine,), (user,) = said["machine"], said["user"]
    if machine != platform.machine():
        raise EnvironmentUnavailable(
            f"{subject} is a {machine} machine, and the portable runtime of this one is for {platform.machine()}; "
            f"{ADVICE}"
        )
    bases = tuple(base.removesuffix("/") for base in said.get("base", []) if re.fullmatch(r"[\w./+-]*", base))
    return Host(machine, user, bases)


def _prefixes(host: Host) -> Iterator[str]:
    """Paths for the runtime there: first those that are short enough for all of its strings."""
    name = hashlib.sha256(f"{host.user} {source_key(True, PREFIX)}".encode()).hexdigest()
    for limit in (PREFERRED, LONGEST):
        for base in host.bases:
            room = min(limit - len(f"{base}/.h"), LONGEST_NAME)
            if room >= SHORTEST_NAME:
                yield f"{base}/.h{name[:room]}"


class _Transfer:
    """One upload of a runtime."""

    def __init__(self, ask: Ask, runtime: Runtime, size: int, subject: str) -> None:
        self._ask, self._runtime, self._size, self._subject = ask, runtime, size, subject
        manifest = msgspec.json.decode(Path(runtime.directory, MANIFEST).read_bytes(), type=Manifest)
        self._sums = "".join(f"{sha256}  {name}\n" for name, (_, sha256) in manifest.files.items()).encode()
        # Another machine of the same user may upload at the same time.
        self._part = f".part-{runtime.digest[:8]}-{uuid.getnode():x}"

    def __repr__(self) -> str:
        return f"<_Transfer of {self._runtime.prefix}>"

    async def run(self) -> None:
        """Sends what is missing. Raises EnvironmentUnavailable; Damaged if another try may help."""
        said = await self._do(CHECK, self._sums)
        if "foreign" in said:
            raise Taken(self._runtime.prefix)
        if "whole" in said:
            return
        if "broken" not in said:
            raise await self._failure("its directory cannot be made", said)
        data = (await packed(self._runtime)).read_bytes()
        arrived = int(said.get("arrived", ["0"])[-1])
        arrived = arrived if arrived <= len(data) else 0
        log.info("uploading the portable runtime to %s: %.1f MB", self._subject, (len(data) - arrived) / 1e6)
        if not arrived:
            await self._do('cd "$prefix" && rm -f "$part"\n')
        for part in _parts(data[arrived:], self._size):
            arrived += len(part)
            said = await self._do(APPEND, part)
            if said.get("arrived") != [str(arrived)]:
                raise await self._failure("a part of it was not written", said)
        said = await self._do(INSTALL, self._sums, whole=hashlib.sha256(data).hexdigest())
        if "damaged" in said:
            await self._remove()
            raise Damaged(f"{self._subject}: the runtime was damaged on its way there; try again")
        if "fails" in said:
            raise await self._failure(f"it does not run there: {' '.join(said['fails'])}", {})
        if "whole" not in said:
            raise await self._failure("it was not unpacked", said)

    async def _do(self, script: str, given: bytes = b"", **more: str) -> dict[str, list[str]]:
        text = _script(script, prefix=self._runtime.prefix, part=self._part, **more)
        return _answers(await self._ask(text, given))

    async def _remove(self) -> None:
        await self._do(REMOVE)

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
    """A script with its variables and `say`. Errors are a part of its output, and it always succeeds."""
    values = "".join(f"{name}='{value}'\n" for name, value in variables.items())  # letters of a path, see `_look`
    return f"exec 2>&1\n{values}say() {{ printf '%s%s %s\\n' '{FOUND}' \"$@\"; }}\n({script})\n:\n"


def _answers(output: str) -> dict[str, list[str]]:
    """The answers by name, and the other lines by an empty one."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        _, mark, answer = line.rpartition(FOUND)  # behind what a login prints without a line end
        name, _, value = answer.partition(" ") if mark else ("", "", line)
        found.setdefault(name, []).append(value)
    return found
