"""`hermetic cp`: files and directories into an environment and out of it."""

import argparse
import asyncio
import errno
import os
import posixpath
import shutil
import stat
import sys
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hermetic.cli.command import Command, options
from hermetic.cli.copying import pieces
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.opening import guarded
from hermetic.cli.progress import Progress
from hermetic.contract.errors import ExecutionError, InvalidArgument
from hermetic.session.environment import Environment
from hermetic.session.trees import download_tree, upload_tree

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # errors of writing alone
STREAM = "-"  # standard input or output


class _Target(NamedTuple):
    """An argument: a path here, or one in the environment of a task."""

    task: str | None
    path: str


@interruptible
async def _main(arguments: argparse.Namespace, _: Interrupts) -> int:
    source, target = _parsed(arguments.source), _parsed(arguments.target)
    if (source.task is None) == (target.task is None):
        raise InvalidArgument(
            "one of SOURCE and TARGET is in an environment: TASK:PATH", argument="source"
        )
    try:
        async with guarded(source.task or target.task) as environment:
            with Progress(f"copying {source.path}"):
                await _copy_between(environment, source, target)
    except OSError as error:
        where = arguments.target if error.errno in NO_ROOM else arguments.source
        raise ExecutionError(f"{error.filename or where}: {error.strerror}") from None
    return 0


def _parsed(text: str) -> _Target:
    """`web:/srv/a` is in the environment of web; `./a:b` and `/a:b` are here."""
    task, separator, path = text.partition(":")
    if not separator or not task or "/" in task:
        return _Target(None, text)
    return _Target(task, path or ".")


async def _copy_between(environment: Environment, source: _Target, target: _Target) -> None:
    if STREAM in (source.path, target.path):
        await _copy_stream(environment, source, target)
    elif target.task is None:
        await _copy_out(environment, source.path, target.path)
    else:
        await _copy_in(environment, source.path, target.path)


async def _copy_stream(environment: Environment, source: _Target, target: _Target) -> None:
    """One file from standard input, or to standard output, by a file aside: neither gets half of
    it.
    """
    there = target.path if source.task is None else source.path
    status = await environment.file_status(there, missing=source.task is None)
    if status.kind == "directory":
        raise InvalidArgument(
            f"{there} is a directory; standard input and output take one file", argument="source"
        )
    with TemporaryDirectory(prefix="hermetic-cp-") as directory:
        aside = os.path.join(directory, "file")
        if source.task is None:
            with await asyncio.to_thread(open, aside, "xb") as file:
                async for piece in pieces(sys.stdin.fileno()):
                    file.write(piece)
            await environment.upload(aside, there)
            return
        await environment.download(there, aside)
        with await asyncio.to_thread(open, aside, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


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
    _check_place_of_tree(target, status.kind in ("missing", "directory"))
    await upload_tree(environment, source, target)


async def _copy_out(environment: Environment, source: str, target: str) -> None:
    target = _target_of(source, target)
    status = await environment.file_status(source)
    if status.kind != "directory":
        await environment.download(source, target)
        if status.mode & 0o111:
            os.chmod(target, stat.S_IMODE(os.stat(target).st_mode) | 0o111)
        return
    _check_place_of_tree(target, _is_free(target))
    await download_tree(environment, status.path, target)


def _check_place_of_tree(target: str, is_free: bool) -> None:
    if not is_free:
        raise InvalidArgument(
            f"{target} is no directory, and SOURCE is one; name a directory, or what is not there",
            argument="target",
        )


def _is_free(target: str) -> bool:
    """Whether a directory can be copied to a path here."""
    return os.path.isdir(target) or not os.path.lexists(target)


def _local(source: str) -> tuple[bool, str]:
    """Whether a path here is a directory, and its name.

    Raises InvalidArgument where there is nothing.
    """
    if not os.path.exists(source):
        raise InvalidArgument(
            f"there is no {source} here; name a file or a directory, or TASK:PATH",
            argument="source",
        )
    return os.path.isdir(source), os.path.basename(os.path.abspath(source))


def _target_of(source: str, target: str) -> str:
    """The path here that a source is copied to: in a directory, the name of the source as the user
    wrote it. What is inside must not choose the name of a file here.
    """
    whole = posixpath.normpath(source)
    if not whole.strip("/"):
        raise InvalidArgument(
            "the whole root cannot be copied; name a file or directory", argument="source"
        )
    if not os.path.isdir(target):
        return target
    name = posixpath.basename(whole)
    if name in (".", ".."):
        raise InvalidArgument(
            f"{source} says no name for the copy in {target}; give the target one, such as {os.path.join(target, 'NAME')}",
            argument="target",
        )
    return os.path.join(target, name)


COMMANDS = {
    "cp": Command(
        """\
Copies a file or a directory into the environment of a task, or out of it. A target that is a directory gets it under
its own name. Directories travel as a tar archive; devices and links that lead outside are refused on the way out.

  hermetic cp data.csv web:/tmp/
  hermetic cp web:/srv/report ./report
  hermetic cp web:/srv/app.log - | less""",
        options(
            """\
source SOURCE  a path here, TASK:PATH, or - for standard input
target TARGET  TASK:PATH, a path here, or - for standard output; a directory takes it by its name"""
        ),
        _main,
    ),
}
