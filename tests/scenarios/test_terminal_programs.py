"""Programs that take the whole terminal or ask, driven by the tools as a model does, in three kinds
of places.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import Box, opened_in
from tests.environments.engines import need_engine
from tests.environments.sshd import running
from tests.programs import need, need_variable

KINDS = ("local", "docker", "ssh")
SECONDS = 30
SECRET = "correct horse battery"

MENU = """
import curses
items = ["apples", "pears", "plums"]
def menu(window):
    at = 0
    while True:
        for number, item in enumerate(items):
            window.addstr(number, 0, ("> " if number == at else "  ") + item)
        key = window.getkey()
        if key == "KEY_DOWN":
            at = min(at + 1, 2)
        elif key == "KEY_UP":
            at = max(at - 1, 0)
        elif key == "KEY_F(2)":
            window.addstr(4, 0, "help")
        elif key == chr(10):
            return items[at]
print("chosen:", curses.wrapper(menu))
"""

HISTORY = """
git init -q . && git config user.name n && git config user.email e@example.com
for ((i = 1; i <= {count}; i++)); do echo $i > file$i; git add .; git commit -qm "change number $i"; done
"""


class Driven:
    """A program in a terminal, and the tools that drive it."""

    def __init__(self, box: Box, id: str) -> None:
        self.box, self.id = box, id

    async def act(self, action: str, **more: Any) -> Any:
        return await self.box.process(action, self.id, **more)

    async def see(self, text: str, **more: Any) -> None:
        """Returns when the screen shows it."""
        answer = await self.act("wait_for", data=text, on="screen", timeout=SECONDS, **more)
        assert answer["status"] == "matched", (answer, (await self.act("screen"))["screen"])

    async def screen(self) -> list[str]:
        answer = await self.act("screen")
        return [str(line) for line in answer["screen"]]

    async def type(self, text: str) -> None:
        assert (await self.act("write", data=text))["status"] == "ok"

    async def keys(self, names: str) -> None:
        assert (await self.act("keys", data=names))["status"] == "ok"

    async def submit(self, line: str) -> None:
        assert (await self.act("submit", data=line))["status"] == "ok"

    async def exit_code(self) -> int | None:
        answer = await self.act("wait", timeout=SECONDS)
        assert answer["status"] == "exited", (answer, await self.screen())
        code = answer["exit_code"]
        return code if code is None else int(code)


@asynccontextmanager
async def a_place(kind: str, at: Path) -> AsyncIterator[Box]:
    """A toolbox whose tasks run in a place of that kind, each in an empty directory."""
    if kind == "docker":
        need_engine("docker")
        async with opened_in(
            "docker", {"image": need_variable("IMAGE_TOOLS"), "login": False}
        ) as box:
            yield await in_a_directory(box)
    elif kind == "ssh":
        with running(at / "sshd") as sshd:
            async with opened_in("ssh", sshd.options) as box:
                yield await in_a_directory(box)
    else:
        async with opened_in("local", {"login": False}) as box:
            yield await in_a_directory(box)


async def in_a_directory(box: Box) -> Box:
    made = await box.terminal("cd $(mktemp -d) && export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 && pwd")
    assert made["exit_code"] == 0
    return box


async def start(box: Box, command: str) -> Driven:
    started = await box.terminal(command, background=True, pty=True)
    assert started["error"] is None
    return Driven(box, started["session_id"])


async def said(box: Box, command: str) -> str:
    answer = await box.terminal(command)
    assert answer["exit_code"] == 0, answer
    return str(answer["output"])


async def vim(box: Box) -> None:
    editor = await start(box, "vim -u NONE -N notes.txt")
    await editor.see("notes.txt")
    assert (await editor.act("screen"))["alternate"]
    await editor.type("ifirst line")
    await editor.keys("enter")
    await editor.type("second ßine")
    await editor.see("second ßine")
    await editor.keys("escape")
    await editor.type(":%s/ßine/line/\r")
    await editor.see("second line")
    await editor.type(":wq\r")
    assert await editor.exit_code() == 0
    assert await said(box, "cat notes.txt") == "first line\nsecond line\n"


async def less(box: Box) -> None:
    await said(box, "seq -f 'line %g' 1 1000 > long.txt")
    pager = await start(box, "less long.txt")
    await pager.see("line 29")
    await pager.type("/line 777\r")
    await pager.see("line 777")
    assert (await pager.screen())[0] == "line 777"
    await pager.keys("pageup")
    await pager.see("line 748")
    await pager.type("G")
    await pager.see("line 1000")
    await pager.type("q")
    assert await pager.exit_code() == 0


async def python_repl(box: Box) -> None:
    repl = await start(box, "python3 -q")
    await repl.see(">>>")
    await repl.submit("6 * 7")
    await repl.see("42")
    await repl.submit("for x in 'ab':")
    await repl.see("...")
    await repl.submit("    print(x * 5)")
    await repl.submit("")
    await repl.see("bbbbb")
    await repl.submit("import time; print('no' + 'w'); time.sleep(1000)")
    await repl.see("^now$", pattern=True)  # a Ctrl-C that comes before is only an empty line
    await repl.keys("ctrl-c")
    await repl.see("KeyboardInterrupt")
    # Python's exit status tells of an interrupt that nothing came after
    await repl.submit("'still ' + 'here'")
    await repl.see("still here")
    await repl.keys("ctrl-d")
    assert await repl.exit_code() == 0


async def interactive_bash(box: Box) -> None:
    shell = await start(box, "PS1='ready> ' bash --norc --noprofile -i")
    await shell.see("ready>")
    await shell.submit("echo $((6 * 7))")
    await shell.see("^42$", pattern=True)
    await shell.keys("up")
    await shell.see("^ready> echo ", pattern=True)
    await shell.keys("ctrl-u")
    await shell.submit("bash -c 'echo n\"\"ow; exec sleep 1000'")
    await shell.see("^now$", pattern=True)  # a Ctrl-Z that comes before is for nobody
    await shell.keys("ctrl-z")
    await shell.see("Stopped")
    await shell.submit("kill %1; clear; exit 5")
    assert await shell.exit_code() == 5


async def top(box: Box) -> None:
    monitor = await start(box, "top -d 60")
    assert (await monitor.act("wait_for", data="PID", timeout=SECONDS))["status"] == "matched"
    assert (await monitor.act("resize", rows=12, cols=70))["status"] == "ok"
    # drawn anew
    assert (await monitor.act("wait_for", data="PID", timeout=SECONDS))["status"] == "matched"
    shown = await monitor.act("screen")
    assert (shown["rows"], shown["cols"], len(shown["screen"])) == (12, 70, 12)
    await monitor.see("Tasks:")
    await monitor.type("q")
    assert await monitor.exit_code() == 0


async def curses_menu(box: Box) -> None:
    written = await box.terminal("cat > menu.py", stdin=MENU)
    assert written["exit_code"] == 0
    menu = await start(box, "python3 menu.py")
    await menu.see("> apples")
    await menu.keys("down down up f2")
    await menu.see("> pears")
    await menu.see("help")
    await menu.keys("enter")
    assert await menu.exit_code() == 0
    assert "chosen: pears" in (await menu.act("log"))["output"]


async def git_rebase(box: Box) -> None:
    await said(box, HISTORY.format(count=4))
    rebase = await start(box, "GIT_EDITOR='vim -u NONE -N' git rebase -i HEAD~3")
    await rebase.see("pick .* change number 2", pattern=True)
    await rebase.type(":2s/pick/drop/\r")
    await rebase.see("drop .* change number 3", pattern=True)
    await rebase.type(":1s/pick/reword/\r:wq\r")
    await rebase.see("^change number 2", pattern=True)
    await rebase.type(":1s/number/subject/\r:wq\r")
    assert await rebase.exit_code() == 0
    log = await said(box, "git log --format=%s")
    assert log.splitlines() == ["change number 4", "change subject 2", "change number 1"]


async def git_log_pager(box: Box) -> None:
    await said(box, HISTORY.format(count=40))
    log = await start(box, "git -c core.pager=less -c color.ui=always log --format='%h %s'")
    await log.see("change number 40")
    await log.type("/number 7$\r")
    await log.see("change number 7")
    await log.keys("end")
    await log.type("q")
    assert await log.exit_code() == 0


async def password_prompts(box: Box) -> None:
    """A person gives the secret past the tools; programs get it, and no model sees it, also where
    it is printed.
    """
    making = await start(box, "ssh-keygen -q -t ed25519 -f key")
    for prompt in ("empty for no passphrase", "same passphrase again"):
        await making.see(prompt)
        await until_it_waits(making)
        await give_secret(making)
    assert await making.exit_code() == 0
    reading = await start(box, "ssh-keygen -y -f key; echo $?")
    await reading.see("passphrase")
    await until_it_waits(reading)
    await give_secret(reading)
    assert await reading.exit_code() == 0
    assert "ssh-ed25519 " in (await reading.act("log"))["output"]
    printing = await start(
        box, "read -rsp 'Password: ' x; echo; echo ${#x} [$x]; read -r y; sleep 1000"
    )
    await printing.see("Password:")
    await until_it_waits(printing)
    await give_secret(printing)
    await printing.see(f"{len(SECRET)} [")
    await until_it_waits(printing)
    await give_secret(printing)  # the terminal echoes this one
    answers = [await printing.act(action) for action in ("poll", "log", "screen", "kill")]
    answers += [await box.process("list"), await making.act("log"), await reading.act("log")]
    assert SECRET not in repr(answers)


async def give_secret(asking: Driven) -> None:
    async with asking.box.toolbox.fleet.use("t") as environment:
        await (await environment.process(asking.id)).write_secret(SECRET)


async def until_it_waits(asking: Driven) -> None:
    """Returns when the program reads: what comes before it has turned the echo off would be thrown
    away.
    """
    async with asyncio.timeout(SECONDS):
        while (await asking.act("poll"))["waiting_for_input"] is not True:  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.05)


async def yes_or_no(box: Box) -> None:
    question = "printf 'Need to install the following packages:\\ncowsay\\nOk to proceed? (y) '; read -r a; echo =$a="
    yielded = await box.terminal(question, pty=True, timeout=1)
    assert (yielded["status"], yielded["waiting_for_input"], yielded["exit_code"]) == (
        "yielded",
        True,
        None,
    )
    assert "Ok to proceed? (y)" in yielded["output"]
    asking = Driven(box, yielded["session_id"])
    await asking.submit("y")
    assert await asking.exit_code() == 0
    assert "=y=" in (await asking.act("log"))["output"]
    piped = await box.terminal("read -p 'Sure? [y/N] ' a; echo =$a=; exit 3", background=True)
    answered = Driven(box, piped["session_id"])
    await answered.submit("N")
    assert await answered.exit_code() == 3
    assert (await answered.act("log"))["output"] == "=N="


SCRIPTS: tuple[Callable[[Box], Awaitable[None]], ...] = (
    vim,
    less,
    python_repl,
    interactive_bash,
    top,
    curses_menu,
    git_rebase,
    git_log_pager,
    password_prompts,
    yes_or_no,
)


# Elsewhere the bytes take another way to the same terminal: a screen, keys and a secret show it.
ELSEWHERE = (vim, password_prompts)
DRIVEN = [
    pytest.param(
        kind,
        script,
        id=f"{kind}-{script.__name__}",
        marks=() if kind == "local" or script in ELSEWHERE else pytest.mark.full,
    )
    for kind in KINDS
    for script in SCRIPTS
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "script"), DRIVEN)
async def test_it_is_driven_to_its_end(
    kind: str, script: Callable[[Box], Awaitable[None]], tmp_path: Path
) -> None:
    if kind != "docker":
        for program in ("vim", "less", "top", "git", "ssh-keygen"):
            need(program)
    async with a_place(kind, tmp_path) as box, asyncio.timeout(240):
        await script(box)
