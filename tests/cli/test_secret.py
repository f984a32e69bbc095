"""`hermetic secret`: a person's password for a process that a model started."""

import json
from pathlib import Path

import pytest

import hermetic
from tests.boxes import opened
from tests.cli.program import hermetic as run_hermetic
from tests.cli.test_attach import terminal

SECRET = "open-sesame-ßé"

# Echoes what is typed, prints it, and says whether it was the right one.
ASKING = f"stty echo; read -r -p 'password: ' x; echo \"you said $x\"; [ ${{#x}} = {len(SECRET)} ] && echo right; read -r y"


async def test_a_person_types_it_and_nobody_sees_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        started = await box.terminal(
            ASKING, background=True, pty=True, environment={"LC_ALL": "C.UTF-8"}
        )
        id = started["session_id"]
        await box.process("wait_for", id, data="password: ", timeout=20)
        with terminal("secret", id[:-2]) as shown:
            await shown.until(f"secret for {id}: ".encode())
            shown.type(SECRET.encode() + b"\r")
            assert await shown.left() == 0
            typed_there = shown.rest()
        assert (await box.process("wait_for", id, data="right", timeout=20))["status"] == "matched"
        seen = [await box.process(action, id) for action in ("poll", "log", "screen", "list")]
        seen.append(await box.process("poll", id, cursor=0))
        async with box.toolbox.fleet.use("t") as environment:
            process = await environment.process(id)
            kept = (await process.read()).data.decode() + await process.screen()
        logs = run_hermetic("logs", id).stdout.decode()
        for text in (json.dumps(seen, ensure_ascii=False), kept, logs, typed_there):
            assert "sesame" not in text
        assert "you said ***" in kept
        with terminal("attach", id) as shown:
            await shown.until(b"right")
            assert b"sesame" not in shown.before
        await box.process("kill", id)
        gone = run_hermetic("secret", id, stdin=b"x\n")
        assert (gone.returncode, b"has ended" in gone.stderr) == (1, True)


@pytest.mark.parametrize(
    ("given", "code", "got"),
    [(b"swordfish\n", 0, b"9\n"), (b"\n", 2, b""), (b"", 2, b""), (b"sword\xfffish\n", 2, b"")],
)
async def test_without_a_terminal_it_comes_from_the_input(
    given: bytes, code: int, got: bytes
) -> None:
    async with hermetic.open("local", login=False) as env:
        process = await env.start("read -r x; echo ${#x}", id="asking")
        done = run_hermetic("secret", "asking", "--in", env.id, stdin=given)
        assert (done.returncode, done.stderr.count(b"\n")) == (code, 1 if code else 0), done.stderr
        if not code:
            await process.wait(20)
        assert (await process.read()).data == got


async def test_the_end_of_the_input_types_nothing() -> None:
    async with hermetic.open("local", login=False) as env:
        process = await env.start("read -r x; echo ${#x}", id="asking")
        with terminal("secret", "asking", "--in", env.id) as shown:
            await shown.until(b"secret for asking: ")
            shown.type(b"\x04")
            assert await shown.left() == 2
            assert "nothing was typed into the process" in shown.rest()
        assert (await process.status()).state == "running"


def test_an_unknown_process_is_told_before_anybody_types() -> None:
    done = run_hermetic("secret", "nobody", stdin=b"x\n")
    assert (done.returncode, b"hermetic ps" in done.stderr) == (1, True)


async def test_a_short_password_is_refused_before_it_is_typed_again() -> None:
    with terminal("serve", "password") as shown:
        await shown.until(b"New password for the console: ")
        shown.type(b"short\r")
        assert await shown.left() == 2
        assert "at least" in (rest := shown.rest())
        assert "Again" not in rest


async def test_the_end_of_the_input_sets_no_password() -> None:
    with terminal("serve", "password") as shown:
        await shown.until(b"New password for the console: ")
        shown.type(b"\x04")
        assert await shown.left() == 2
        assert "the input ended" in shown.rest()
