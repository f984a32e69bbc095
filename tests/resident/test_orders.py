"""One bash that takes orders, without a resident."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermetic.resident.shells.orders import Orders, plain_order, short_order
from hermetic.resident.shells.shell import Shell


class Driven:
    """A bash, its channel, and what it reports."""

    def __init__(self, folder: Path) -> None:
        self.events, events_in = os.pipe2(os.O_CLOEXEC)
        self.orders = Orders(f"/proc/{os.getpid()}/fd/", events_in, "id", 0)
        self.shell = Shell(str(folder), "id-1", 1, 0)
        self.output, self.output_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.held = [events_in, self.orders.program_fd, self.orders.inner_fd]
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", self.orders.start(self.shell, None), "bash"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.report()

    def report(self) -> bytes:
        """The next report of the shell."""
        return os.read(self.events, 4096).strip(b"\0")

    def run(self, number: int, text: bytes) -> bytes:
        """What the shell reports of a text; one plain word is a plain order."""
        if text.isalpha():
            self.shell.send(*plain_order(number, self.output_in, text, text))
        else:
            self.shell.send(*short_order(number, self.output_in, text, []))
        return self.report()

    def await_idle(self) -> None:
        """Returns when the shell reads its channel."""
        while os.readlink(f"/proc/{self.bash.pid}/fd/0") != self.shell.path:
            os.sched_yield()

    def close(self) -> None:
        """Closes what is still open."""
        self.shell.drop(kill=False)
        self.bash.kill()
        self.bash.wait()
        for fd in (self.events, self.output, self.output_in, *self.held):
            os.close(fd)


@contextmanager
def driven(folder: Path) -> Iterator[Driven]:
    shell = Driven(folder)
    try:
        yield shell
    finally:
        shell.close()


def test_an_order_is_run_once_and_reported(tmp_path: Path) -> None:
    with driven(tmp_path) as shell:
        for number in range(1, 60):  # more turns than the program has lines
            assert shell.run(number, b"true").split()[2:] == [b"%d" % number, b"hBc", b"0"]
        assert shell.run(60, b"echo $((6 * 7)); (exit 3)").split()[2:] == [
            b"60",
            b"hBc",
            b"3",
            b"3",
        ]
        assert os.read(shell.output, 64) == b"42\n"
        assert shell.run(61, b"false").split()[2:] == [b"61", b"hBc", b"1"]


def test_a_shell_whose_channel_ends_runs_nothing(tmp_path: Path) -> None:
    """What it remembers of `$_` is no order."""
    made = tmp_path / "made"
    with driven(tmp_path) as shell:
        shell.run(1, b": 'touch %s'" % os.fsencode(made))
        shell.await_idle()
        shell.shell.drop(kill=False)
        shell.bash.wait(timeout=20)
    assert not made.exists()


def test_a_shell_whose_channel_has_no_name_ends(tmp_path: Path) -> None:
    with driven(tmp_path) as shell:
        shell.await_idle()
        os.unlink(shell.shell.path)
        shell.run(1, b"true")  # it has opened the channel for this one already
        shell.bash.wait(timeout=20)


def test_a_shell_that_cannot_report_ends_with_the_status_of_its_command(tmp_path: Path) -> None:
    with driven(tmp_path) as shell:
        shell.await_idle()
        os.close(shell.held.pop(0))
        shell.shell.send(*short_order(1, shell.output_in, b"echo once; (exit 7)", []))
        assert shell.bash.wait(timeout=20) == 7
        assert os.read(shell.output, 64) == b"once\n"
