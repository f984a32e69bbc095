"""Directories that travel between this machine and an environment, as tar archives."""

import asyncio
import contextlib
import os
import posixpath
import shlex
import tarfile
import tempfile
from collections.abc import Sequence
from typing import IO

from hermetic.contract.errors import ExecutionError, InputClosed
from hermetic.contract.limits import FRAME_BODY
from hermetic.contract.printable import one_line
from hermetic.session.environment import Environment
from hermetic.session.process import Process

MOST_COMPLAINT = 1000  # characters that are shown of tar's errors


async def upload_tree(environment: Environment, source: str, target: str) -> None:
    """Copies a directory of this machine to `target` inside, whose own files stay.

    Raises ExecutionError, OSErrors.
    """
    with tempfile.TemporaryFile() as archive:
        await asyncio.to_thread(_pack, source, archive)
        await unpack_inside(environment, archive, target)


async def download_tree(environment: Environment, source: str, target: str) -> None:
    """Copies a directory of the environment to `target` here. Raises ExecutionError, OSErrors.

    Devices, and links that lead out of the directory, are refused.
    """
    with await pack_inside(environment, source) as archive:
        await asyncio.to_thread(_unpack, archive, target)


async def pack_inside(
    environment: Environment, directory: str, *, without: Sequence[str] = ()
) -> IO[bytes]:
    """A temporary file with the archive of a directory inside, without these paths in it.

    Raises ExecutionError.
    """
    excluded = [f"--exclude=./{path}" for path in without]
    archive = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    try:
        process = await environment.start(
            ["tar", "-cf", "-", *excluded, "-C", directory, "."], separate=True, stdin="null"
        )
        await environment.follow_log(process.id, archive.write)
        await _check(environment, process, f"{process.id}/err")
        archive.seek(0)
    except BaseException:
        archive.close()
        raise
    return archive


async def unpack_inside(environment: Environment, archive: IO[bytes], directory: str) -> None:
    """Unpacks an archive into a directory inside, which is made if missing.

    Raises ExecutionError.
    """
    quoted = shlex.quote(directory)
    process = await environment.start(f"mkdir -p -- {quoted} && exec tar -xf - -C {quoted}")
    with contextlib.suppress(InputClosed):  # tar has ended, and says why
        while piece := archive.read(FRAME_BODY):
            await process.write(piece)
        await process.close_input()
    await _check(environment, process, process.id)


async def _check(environment: Environment, process: Process, complaints: str) -> None:
    """Raises ExecutionError when the tar inside has failed."""
    ending = await process.wait()
    if ending.exit_code != 0:
        complaint = (await environment.read_log(complaints)).data.decode(errors="replace").strip()
        advice = (
            "; there is no tar in this environment: copy single files"
            if ending.exit_code == 127
            else ""
        )
        raise ExecutionError(f"tar {ending}: {one_line(complaint, MOST_COMPLAINT)}{advice}")


def _pack(directory: str, packed: IO[bytes]) -> None:
    with tarfile.open(fileobj=packed, mode="w|") as archive:
        archive.add(directory, arcname=".")
    packed.seek(0)


def _unpack(packed: IO[bytes], directory: str) -> None:
    """Extracts what an environment has packed: only files, directories and links that stay inside
    the directory.
    """
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

    An archive of a tree has none, and older Pythons misjudge where a very long chain of links
    leads.
    """
    member = tarfile.data_filter(member, directory)
    for path in (
        posixpath.dirname(member.name),
        *([posixpath.dirname(member.linkname)] if member.islnk() else []),
    ):
        parts = path.split("/")
        if any(
            os.path.islink(os.path.join(directory, *parts[:count]))
            for count in range(1, len(parts) + 1)
        ):
            raise tarfile.OutsideDestinationError(member, path)
    return member
