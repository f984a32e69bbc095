"""The files that shells open by the number of a descriptor: their texts cannot change, a number has
one meaning.
"""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from hermetic.resident.processes.unnamed import in_memory, sealed
from hermetic.resident.shells.shell import HELD_DESCRIPTORS, HeldDescriptors
from hermetic.resident.wire.frames import REQUEST, pack_frame
from tests.resident.running import Client, running
from tests.tracing import held

TURN = b'\\builtin eval "${__h[__h]-}"\n'


def descriptors_path(client: Client) -> str:
    """Where shells find the resident's descriptors, as one of them knows it."""
    found = re.search(rb"/proc/\d+/fd/", client.run('echo "${__h[8]}"')[1])
    assert found
    return found.group().decode()


def files_in_memory(path: str, begin: bytes = b"") -> dict[str, int]:
    """Number → inode of those that begin so; without those that are closed meanwhile."""
    found = {}
    for number in os.listdir(path):
        with suppress(FileNotFoundError):
            is_ours = os.readlink(path + number).startswith("/memfd:hermetic")
            if is_ours and (not begin or Path(path + number).read_bytes().startswith(begin)):
                found[number] = os.stat(path + number).st_ino
    return found


def test_a_text_that_shells_evaluate_cannot_be_changed() -> None:
    with running() as resident, resident.client() as client:
        client.run("true")
        path = descriptors_path(client)
        programs = files_in_memory(path, TURN)
        assert len(programs) == 2
        for number in programs:
            with pytest.raises(PermissionError):
                os.open(path + number, os.O_WRONLY | os.O_TRUNC)
            fd = os.open(path + number, os.O_RDWR)
            try:
                with pytest.raises(PermissionError):
                    os.write(fd, b"more")
            finally:
                os.close(fd)


def test_the_numbers_of_an_unanswered_order_are_not_given_to_other_files() -> None:
    """A subshell of a killed shell opens them by number: it must not find the text of another order
    there.
    """
    with running() as resident, resident.client() as client:
        shell = int(client.run("echo $$")[1])
        path = descriptors_path(client)
        client.run("true")
        before = files_in_memory(path)
        with held(shell):
            client.number += 1
            client.stream.sendall(pack_frame(REQUEST, client.number, {"op": "state"}))
            with resident.client() as other:
                other.ask("info")  # by now the shell was asked
            ordered = {
                number: inode
                for number, inode in files_in_memory(path).items()
                if number not in before
            }
            assert len(ordered) == 2
            os.kill(shell, signal.SIGKILL)
        client.next_frame()
        for count in range(10):
            client.run(f"trap 'echo {count}' USR1; X={count}")
        assert ordered.items() <= files_in_memory(path).items()


def test_held_descriptors_are_bounded() -> None:
    held = HeldDescriptors()
    fds = [in_memory(b"") for _ in range(HELD_DESCRIPTORS + 2)]
    for fd in fds:
        held.add([fd])
    assert list(held.fds) == fds[2:]
    for fd in held.fds:
        os.close(fd)
    for fd in fds[:2]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_sealed_file_is_read_from_its_beginning() -> None:
    fd = sealed(b"text")
    try:
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            assert file.read() == b"text"
        with pytest.raises(PermissionError):
            os.write(fd, b"more")
    finally:
        os.close(fd)
