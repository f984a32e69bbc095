"""Approver that asks the user at the terminal."""

import asyncio
import contextlib
import os
import termios

from hermetic.contract.approval import ANSWERS, Answer, ApprovalRequest, Denial
from hermetic.contract.printable import escaped

CHOICES: dict[str, Answer] = {name: answer for answer in ANSWERS for name in (answer, answer[0])}
CHOICES |= dict.fromkeys(("n", "no", ""), "deny")


class TerminalPrompt:
    """An approver. One question at a time; a line that is no offered answer is "deny"."""

    def __init__(self, timeout: float = 60.0, *, terminal: str = "/dev/tty") -> None:
        self._timeout = timeout
        self._terminal = terminal
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<TerminalPrompt on {self._terminal}>"

    @property
    def is_there(self) -> bool:
        """Whether the terminal can be opened."""
        try:
            os.close(os.open(self._terminal, os.O_RDWR | os.O_NOCTTY))
        except OSError:
            return False
        return True

    async def __call__(self, request: ApprovalRequest) -> Answer | Denial:
        """The answer.

        Raises TimeoutError, EOFError at the end of input, OSError for a terminal that fails.
        """
        flags = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        offered = "/".join(f"[{answer[0]}]{answer[1:]}" for answer in request.scope)
        how = f"{offered} (a reason may follow deny), no answer in {self._timeout:g} s is no: "
        async with self._turn:
            descriptor = os.open(self._terminal, flags)
            try:
                # What was typed before the question is no answer to it.
                with contextlib.suppress(termios.error):
                    termios.tcflush(descriptor, termios.TCIFLUSH)
                _show(descriptor, f"\n{described(request)}\n\n{how}")
                return _read(await _line(descriptor, self._timeout), request)
            finally:
                os.close(descriptor)


def _read(line: str, request: ApprovalRequest) -> Answer | Denial:
    word, _, reason = line.strip().partition(" ")
    answer = CHOICES.get(word.lower().rstrip(",:;."))
    if answer == "deny" and reason.strip():
        return Denial(reason.strip())
    return answer if answer in request.scope and not reason else "deny"


def _show(descriptor: int, text: str) -> None:
    os.set_blocking(descriptor, True)
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(descriptor, data) :]
    os.set_blocking(descriptor, False)


async def _line(descriptor: int, timeout: float) -> str:
    """What is typed up to Enter. Raises TimeoutError, EOFError."""
    loop, typed = asyncio.get_running_loop(), bytearray()
    done: asyncio.Future[str] = loop.create_future()

    def ready() -> None:
        try:
            piece = os.read(descriptor, 1024)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        typed.extend(piece)
        if not done.done() and not piece:
            done.set_exception(EOFError("the terminal's input ended"))
        elif not done.done() and (b"\n" in typed or len(typed) > 1024):
            done.set_result(typed.decode("utf-8", "replace"))

    loop.add_reader(descriptor, ready)
    try:
        async with asyncio.timeout(timeout):
            return await done
    finally:
        loop.remove_reader(descriptor)


def described(request: ApprovalRequest) -> str:
    """The request as the user sees it."""
    who, where = _in_line(request.task), _in_line(request.environment)
    lines = [f"{who} wants to {_WANTS[request.subject]} in {where}, and that needs your word:", ""]
    for need in request.needs:
        lines.append(f"  !! {_in_line(need.reason)}  [{_in_line(need.category)}]")
        lines += [f"     {line}" for line in escaped(need.decoded).split("\n")]
    lines += ["", "The whole text:"]
    lines += [f"  | {line}" for line in escaped(request.command).split("\n")]
    for name, value in request.circumstances.items():
        lines += [
            "",
            f"Its {_in_line(name)}:",
            *(f"  | {line}" for line in escaped(value).split("\n")),
        ]
    lines.append("")
    lines += [
        f"  {_in_line(answer):8} {_in_line(covers)}" for answer, covers in request.scope.items()
    ]
    return "\n".join(lines)


def _in_line(text: str) -> str:
    """The same in one line: what is not marked as the agent's text cannot pretend to be another
    line.
    """
    return escaped(text).replace("\n", "\\n")


_WANTS = {
    "command": "run a command",
    "code": "run a script",
    "input": "type into a program",
    "write": "write files",
    "batch": "do many things of one kind",
    "outside": "run a command outside of its sandbox",
}
