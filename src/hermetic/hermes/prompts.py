"""Questions at the terminal of this process: an approval, a password."""

import asyncio
import contextlib
import os
import select
import termios

from hermetic.approvals.prompt import TerminalPrompt
from hermetic.contract.approval import Answer, ApprovalRequest, Denial
from hermetic.contract.limits import PASSWORD

TERMINAL = "/dev/tty"


def ask_at_terminal(request: ApprovalRequest) -> Answer | Denial:
    """The user's answer; "deny" after a minute, at the end of input, and without a terminal."""

    async def ask() -> Answer | Denial:
        return await TerminalPrompt()(request)

    try:
        return asyncio.run(ask())
    except (TimeoutError, EOFError, OSError):
        return "deny"


def password_at_terminal(prompt: str, seconds: float = PASSWORD) -> str | None:
    """A line that is typed without an echo; None for an empty one, after a timeout, and without a
    terminal.
    """
    try:
        descriptor = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        before = termios.tcgetattr(descriptor)
        quiet = [*before]
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, quiet)
        try:
            os.write(descriptor, f"{prompt} (Enter to go on without): ".encode())
            return _line(descriptor, seconds) or None
        finally:
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
            with contextlib.suppress(OSError):
                os.write(descriptor, b"\n")
    except (OSError, termios.error):
        return None
    finally:
        os.close(descriptor)


def _line(descriptor: int, seconds: float) -> str:
    """What was typed before Enter; empty after a timeout."""
    ready, _, _ = select.select([descriptor], [], [], max(0.0, seconds))
    # The terminal hands over whole lines.
    return os.read(descriptor, 4096).decode(errors="replace").rstrip("\n") if ready else ""
