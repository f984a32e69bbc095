"""Text from elsewhere (tasks, commands, environments, files) reaches no terminal in a form that it
acts on.
"""

import asyncio
import json
import re
import unicodedata
from pathlib import Path

import pytest

import hermetic
from hermetic.approvals.prompt import described
from hermetic.cli.dispatch import main
from hermetic.contract.approval import ApprovalRequest, Need
from hermetic.contract.printable import escaped, is_printable
from hermetic.policy.assess import assess
from tests.cli.program import hermetic as program
from tests.cli.test_attach import terminal

# Turns text around, a C1 control sequence, an isolate, an escape, a bell, a zero-width space, a
# line separator.
EVIL = "a\u202eb\x9b31mc\u2066d\x1b[2Je\x07f\u200bg\u2028h"


def is_harmless(text: str) -> bool:
    return all(char == "\n" or is_printable(char) for char in text)


async def shown(*words: str) -> str:
    """Both streams of the command line."""
    done = await asyncio.to_thread(program, *words)
    return (done.stdout + done.stderr).decode()


async def test_no_command_passes_it_on_raw(tmp_path: Path) -> None:
    environment = await hermetic.open("local", task=EVIL)
    try:
        await environment.start(f"sleep 300 # {EVIL}", id="evil", tag=EVIL)
        for words in (
            ("ps",),
            ("ps", "--json"),
            ("envs",),
            ("envs", "--json"),
            ("ps", "--in", EVIL),
            ("logs", EVIL),
            ("attach", EVIL),
            ("secret", EVIL),
            ("policy", "check", f"rm -rf /usr/{EVIL}"),
            ("policy", "check", "--json", f"rm -rf /usr/{EVIL}"),
            ("run", "--env", EVIL, "--", "true"),
            ("run", "-o", EVIL, "--", "true"),
            ("run", "--cwd", f"/{EVIL}", "--", "true"),
            ("run", "--task", EVIL, "-o", "lease=7", "--", "true"),
            ("run", f"--{EVIL}"),
            (EVIL,),
            ("code", EVIL),
            ("config", f"/{EVIL}"),
            ("kill", EVIL),
            ("kill", "evil"),
            ("rm", "x" + EVIL),
            ("run", "--json", "--", f"printf %s '{EVIL}'"),
        ):
            text = await shown(*words)
            assert text, words
            assert is_harmless(text), (words, text)
        assert is_harmless(await shown("rm", EVIL))
    finally:
        await environment.close(remove=True)


async def test_json_says_the_same_as_before() -> None:
    text = await shown("run", "--json", "--", f"printf %s '{EVIL}é→😀'")
    assert json.loads(text)["output"] == f"{EVIL}é→😀"
    assert "é→😀" in text


def test_a_mistake_in_a_file_shows_nothing_of_it_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hermetic.toml").write_text("[terminal]\ntimeout = 'x\u202e'\n")
    assert main(["run", "--", "true"]) == 2
    assert is_harmless(capsys.readouterr().err)
    (tmp_path / "f.jsonl").write_text(
        json.dumps({"command": "x", "label": "dangerous", "category": EVIL})
    )
    assert main(["policy", "test", "f.jsonl"]) == 0
    assert is_harmless(capsys.readouterr().out)


def test_the_question_at_the_terminal_shows_nothing_raw() -> None:
    request = ApprovalRequest(
        id=EVIL,
        verdict=assess("ls"),
        task=EVIL,
        environment=EVIL,
        command=EVIL,
        subject="command",
        scope={"once": EVIL},
        needs=(Need(rule="r", category="c", reason=EVIL, decoded=EVIL),),
        circumstances={"cwd": EVIL},
    )
    assert is_harmless(described(request))


def test_every_character_that_a_terminal_acts_on_is_spelled() -> None:
    for code in [*range(0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200)]:
        char = chr(code)
        if char in "\n\t":
            continue
        seen = escaped(char)
        assert seen.isprintable(), hex(code)
        assert not any(unicodedata.category(one) in ("Cf", "Cc", "Zl", "Zp") for one in seen), hex(
            code
        )
    assert escaped("Grüße, 日本語 → 😀") == "Grüße, 日本語 → 😀"
    assert escaped("a\n\tb") == "a\n\tb"
    assert escaped("\u3164\u115f\ufe0f") == "\\u3164\\u115f\\ufe0f"


@pytest.mark.parametrize("columns", [80, 200])
async def test_a_long_command_ends_with_the_line_of_the_terminal(columns: int) -> None:
    async with hermetic.open("local") as environment:
        await environment.start("sleep 300 # " + "long " * 100, id="long")
        listed = re.sub(r"\x1b\[\d*m", "", await asyncio.to_thread(on_a_terminal, columns, "ps"))
        [line] = [line for line in listed.splitlines() if line.startswith("long")]
        assert len(line) == columns
        assert line.endswith("…")


def on_a_terminal(columns: int, *words: str) -> str:
    """What a command shows on a terminal of so many columns."""
    with terminal(*words, rows=24, cols=columns) as shown:
        text = shown.rest()
        shown.process.wait(20)
        return text.replace("\r\n", "\n")
