"""`hermetic cp`: files and directories into an environment and out of it."""

import argparse
import asyncio
import os
import posixpath
import shlex
import stat
import tarfile
import tempfile
from typing import IO, NamedTuple

from hermetic.cli.command import Command
from hermetic.cli.copying import feed
from hermetic.cli.interrupts import run_interruptibly
from hermetic.cli.lookup import attached
from hermetic.cli.opening import DenyRules, settings_here
from hermetic.cli.report import one_line
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, InvalidArgument
from hermetic.session.environment import Environment
from hermetic.session.process import Process

MOST_COMPLAINT = 1000  # characters that are shown of tar's errors


class _Target(NamedTuple):
    """An argument: a path here, or one in the environment of a task."""

    task: str | None
    path: str


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a path here, or TASK:PATH")
    parser.add_argument("target", metavar="TARGET", help="TASK:PATH, or a path here; a directory takes it by its name")


def _main(arguments: argparse.Namespace) -> int:
    source, target = _parsed(arguments.source), _parsed(arguments.target)
    if (source.task is None) == (target.task is None):
        raise InvalidArgument("one of SOURCE and TARGET is in an environment: TASK:PATH", argument="source")
    try:
        return run_interruptibly(lambda _: _copy(source, target))
    except OSError as error:
        raise ExecutionError(f"{error.filename or arguments.source}: {error.strerror}") from None


def _parsed(text: str) -> _Target:
    """`web:/srv/a` is in the environment of web; `./a:b` and `/a:b` are here."""
    task, separator, path = text.partition(":")
    if not separator or not task or "/" in task:
        return _Target(None, text)
    return _Target(task, path or ".")


async def _copy(source: _Target, target: _Target) -> int:
    rules = DenyRules(settings_here())
    async with attached(source.task or target.task) as (known,):
        if known.environment is None:
            raise EnvironmentUnavailable(known.problem)
        rules.guard_environment(known.environment)
        if target.task is None:
            await _copy_out(known.environment, source.path, target.path)
        else:
            await _copy_in(known.environment, source.path, target.path)
    return 0


async def _copy_in(environment: Environment, source: str, target: str) -> None:
    is_directory, name = _local(source)
    status = await environment.file_status(target, missing=True)
    if status.kind == "directory":
        target = posixpath.join(target, name)
    if not is_directory:
        await environment.upload(source, target)
        if os.stat(source).st_mode & 0o111:
            await environment.run(["chmod", "+x", target])
        return
    quoted = shlex.quote(target)
    with tempfile.TemporaryFile() as packed:
        await asyncio.to_thread(_pack, source, packed)
        process = await environment.start(f"mkdir -p -- {quoted} && exec tar -xf - -C {quoted}")
        await feed(process, packed.fileno())
        await _check(environment, process, process.id)


async def _copy_out(environment: Environment, source: str, target: str) -> None:
    status = await environment.file_status(source)
    target = _local_target(target, _name(source, status.path))
    if status.kind != "directory":
        await environment.download(source, target)
        if status.mode & 0o111:
            os.chmod(target, stat.S_IMODE(os.stat(target).st_mode) | 0o111)
        return
    with tempfile.TemporaryFile() as packed:
        process = await environment.start(["tar", "-cf", "-", "-C", status.path, "."], separate=True, stdin="null")
        await environment.follow_log(process.id, packed.write)
        await _check(environment, process, f"{process.id}/err")
        await asyncio.to_thread(_unpack, packed, target)


def _local(source: str) -> tuple[bool, str]:
    """Whether a path here is a directory, and its name. Raises InvalidArgument where there is nothing."""
    if not os.path.exists(source):
        raise InvalidArgument(f"there is no {source} here", argument="source")
    return os.path.isdir(source), os.path.basename(os.path.abspath(source))


def _name(source: str, resolved: str) -> str:
    """The name of a source as the user wrote it: a link inside must not choose the name of a file here."""
    name = posixpath.basename(posixpath.normpath(source))
    if name in ("", ".", ".."):
        name = posixpath.basename(resolved)
    if not name:
        raise InvalidArgument("the whole root cannot be copied; name a file or directory", argument="source")
    return name


def _local_target(target: str, name: str) -> str:
    return os.path.join(target, name) if os.path.isdir(target) else target


async def _check(environment: Environment, process: Process, complaints: str) -> None:
    """Raises ExecutionError when the tar inside has failed."""
    ending = await process.wait()
    if ending.exit_code != 0:
        complaint = (await environment.read_log(complaints)).data.decode(errors="replace")
        advice = "; there is no tar in this environment: copy single files" if ending.exit_code == 127 else ""
        raise ExecutionError(f"tar {ending}: {one_line(complaint, MOST_COMPLAINT)}{advice}")


def _pack(directory: str, packed: IO[bytes]) -> None:
    with tarfile.open(fileobj=packed, mode="w|") as archive:
        archive.add(directory, arcname=".")
    packed.seek(0)


def _unpack(packed: IO[bytes], directory: str) -> None:
    """Extracts what an environment has packed: only files, directories and links that stay inside the directory."""
    packed.seek(0)
    os.makedirs(directory, exist_ok=True)
    try:
        with tarfile.open(fileobj=packed, mode="r|") as archive:
            archive.extractall(directory, filter=_inside)
    except tarfile.FilterError as error:
        raise ExecutionError(f"{error}; what came before it was copied") from None
    except tarfile.TarError as error:
        raise ExecutionError(f"the archive from the environment is damaged: {error}") from None


def _inside(member: tarfile.TarInfo, directory: str) -> tarfile.TarInfo:
    """Python's own filter, which also refuses members and targets of hard links below a link.

    An archive of a tree has none, and older Pythons misjudge where a very long chain of links leads.
    """
    member = tarfile.data_filter(member, directory)
    for path in (posixpath.dirname(member.name), *([posixpath.dirname(member.linkname)] if member.islnk() else [])):
        parts = path.split("/")
        if any(os.path.islink(os.path.join(directory, *parts[:count])) for count in range(1, len(parts) + 1)):
            raise tarfile.OutsideDestinationError(member, path)
    return member


COMMANDS = {
    "cp": Command(
        """\
Copies a file or a directory into the environment of a task, or out of it. A target that is a directory gets it under
its own name. Directories travel as a tar archive; devices and links that lead outside are refused on the way out.

  hermetic cp data.csv web:/tmp/
  hermetic cp web:/srv/report ./report""",
        _arguments,
        _main,
    ),
}
