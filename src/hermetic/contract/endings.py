"""How a command ended, as data. On the wire an ending is an array that begins with its tag."""

import signal as signals

import msgspec

TIMED_OUT_CODE = 124
CANCELLED_CODE = 130
OUT_OF_MEMORY_CODE = 137


class Exited(msgspec.Struct, frozen=True, array_like=True, tag="exited"):
    """It exited with an exit code."""

    code: int

    @property
    def exit_code(self) -> int:
        """The code it exited with."""
        return self.code

    def __str__(self) -> str:
        return f"exited with code {self.code}"


class Signalled(msgspec.Struct, frozen=True, array_like=True, tag="signalled"):
    """It was ended by a signal."""

    signal: int

    @property
    def exit_code(self) -> int:
        """128 + the signal, as a shell would say."""
        return 128 + self.signal

    def __str__(self) -> str:
        return f"ended by {signal_name(self.signal)}"


class TimedOut(msgspec.Struct, frozen=True, array_like=True, tag="timed_out"):
    """Its timeout was over; its process tree was ended."""

    after: float  # seconds

    @property
    def exit_code(self) -> int:
        """124, as the program `timeout` would say."""
        return TIMED_OUT_CODE

    def __str__(self) -> str:
        return f"timed out after {self.after:g} s"


class Cancelled(msgspec.Struct, frozen=True, array_like=True, tag="cancelled"):
    """Its caller cancelled it; its process tree was ended."""

    @property
    def exit_code(self) -> int:
        """130, as after Ctrl-C."""
        return CANCELLED_CODE

    def __str__(self) -> str:
        return "cancelled"


class Yielded(msgspec.Struct, frozen=True, array_like=True, tag="yielded"):
    """It continues as a process; the caller no longer waits for it."""

    process_id: str

    @property
    def exit_code(self) -> None:
        """None: it has not ended."""
        return

    def __str__(self) -> str:
        return f"goes on as process {self.process_id}"


class OutOfMemory(msgspec.Struct, frozen=True, array_like=True, tag="oom"):
    """The kernel killed it at its memory limit; reported only if a cgroup proves it."""

    @property
    def exit_code(self) -> int:
        """137, as after SIGKILL."""
        return OUT_OF_MEMORY_CODE

    def __str__(self) -> str:
        return "out of memory"


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """Its environment is gone; its real ending is unknown."""

    reason: str

    @property
    def exit_code(self) -> None:
        """None: unknown."""
        return

    def __str__(self) -> str:
        return f"lost: {self.reason}"


Ending = Exited | Signalled | TimedOut | Cancelled | Yielded | OutOfMemory | Lost


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; `signal 99` for a number without a name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
