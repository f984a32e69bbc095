"""The question at a terminal: shown whole and escaped, and no unless somebody says otherwise in
time.
"""

import asyncio
import os
import pty
from collections.abc import Iterator

import msgspec
import pytest

from hermetic.approvals.prompt import TerminalPrompt, described
from hermetic.contract.approval import ApprovalRequest, Denial, Need
from hermetic.policy import assess

COMMAND = "ls\nrm -rf /srv/x # \x1b[2J\u202e\x07" + "a" * 5000 + "END"


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    master, slave = pty.openpty()
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


def request(*, keeps: bool = True) -> ApprovalRequest:
    need = Need(
        decoded="rm -rf /srv/x", reason="deletes files", category="recursive-delete", rule="r"
    )
    scope = {"once": "this text, this time", "session": "exactly it", "deny": "nothing"}
    return ApprovalRequest(
        id="ask_1",
        subject="command",
        command=COMMAND,
        verdict=assess(COMMAND),
        task="t",
        environment="local",
        needs=(need,),
        scope=scope if keeps else {"once": "this text", "deny": "nothing"},
    )


async def asked(
    terminal: tuple[int, str], typed: bytes, *, timeout: float = 20, keeps: bool = True
) -> tuple[str | Denial, str]:
    """The answer, and what the terminal showed."""
    master, name = terminal
    os.set_blocking(master, False)
    prompt = asyncio.create_task(TerminalPrompt(timeout, terminal=name)(request(keeps=keeps)))
    shown = b""
    async with asyncio.timeout(20):
        while b"is no: " not in shown:
            await asyncio.sleep(0.001)
            try:
                shown += os.read(master, 65536)
            except BlockingIOError:
                continue
        if typed:
            os.write(master, typed)
        return await prompt, shown.decode()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (b"o\n", "once"),
        (b"once\n", "once"),
        (b"S\n", "session"),
        (b"d\n", "deny"),
        (b"\n", "deny"),
        (b"yes\n", "deny"),
        (b"a\n", "deny"),
        (b"always\n", "deny"),
        (b"once more\n", "deny"),
        (b"d use the staging host\n", Denial("use the staging host")),
        (b"No, ask me later \n", Denial("ask me later")),
        (b"use the staging host\n", "deny"),
    ],
)
async def test_only_an_offered_answer_is_yes(
    terminal: tuple[int, str], typed: bytes, answer: str | Denial
) -> None:
    assert (await asked(terminal, typed))[0] == answer


async def test_silence_is_no_answer(terminal: tuple[int, str]) -> None:
    with pytest.raises(TimeoutError):
        await asked(terminal, b"", timeout=0.1)


async def test_the_end_of_input_is_no_answer(terminal: tuple[int, str]) -> None:
    with pytest.raises(EOFError):
        await asked(terminal, b"\x04")


async def test_what_was_typed_before_the_question_is_no_answer(terminal: tuple[int, str]) -> None:
    os.write(terminal[0], b"o\n")
    with pytest.raises(TimeoutError):
        await asked(terminal, b"", timeout=0.2)


async def test_the_whole_command_is_shown_escaped_and_the_dangerous_part_first(
    terminal: tuple[int, str],
) -> None:
    _, shown = await asked(terminal, b"\n")
    assert (
        shown.index("!! deletes files")
        < shown.index("rm -rf /srv/x")
        < shown.index("The whole text")
    )
    assert "\\x1b[2J\\u202e\\x07" in shown
    assert "END" in shown
    assert not any(char in shown for char in "\x1b\x07\u202e")
    assert "once     this text, this time" in shown


def test_only_the_command_itself_has_lines_of_its_own() -> None:
    forged = "rm x\n\nonce: harmless\x1b[A"
    needs = (Need(decoded=forged, reason=forged, category="c", rule="r"),)
    shown = described(
        msgspec.structs.replace(
            request(), needs=needs, scope={"session": forged}, task=forged, command=forged
        )
    )
    assert "\x1b" not in shown
    for line in shown.splitlines():
        assert not line.startswith("once: harmless"), line


async def test_without_a_terminal_nobody_can_be_asked() -> None:
    prompt = TerminalPrompt(terminal="/does/not/exist")
    assert not prompt.is_there
    with pytest.raises(FileNotFoundError):
        await prompt(request())
