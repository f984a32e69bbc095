"""The interpreter that waits for the next script: used where it fits, no burden where not."""

import asyncio
import os
import signal
from pathlib import Path

from hermetic.environments.starting import ended
from hermetic.session.script import send_modules
from tests.codemode.scripted import Box, here, scripting

WHO = "import os, sys; print(os.getpid(), os.getcwd(), os.environ.get('LANG'), 'threading' in sys.modules)"


async def waiting(box: Box) -> int:
    """The pid of the interpreter that waits; a child of the resident with the argument for it."""
    resident = (await box.info()).pid
    async with asyncio.timeout(20):
        while not (found := spares_of(resident)):  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.01)
    return found[0]


def spares_of(resident: int) -> list[int]:
    """Those that sleep: the one before may not have been cleared away yet."""
    children = Path(f"/proc/{resident}/task/{resident}/children").read_text().split()
    return [int(pid) for pid in children if is_spare(Path(f"/proc/{pid}"))]


def is_spare(process: Path) -> bool:
    try:
        is_asleep = process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "S"
        return is_asleep and process.joinpath("cmdline").read_bytes().endswith(b"\0warm\0")
    except OSError:  # gone meanwhile
        return False


async def test_the_next_script_runs_in_the_interpreter_that_waits(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        first = (await box.code(WHO))["output"].split()
        assert first[1] == str(tmp_path)
        for _ in range(3):
            pid = await waiting(box)
            await box.call("terminal", command="cd /usr")
            said = (await box.code(WHO))["output"].split()
            assert (int(said[0]), said[1], said[3]) == (pid, "/usr", "True")
        assert (await box.code("x = 1"))["status"] == "success"
        assert "NameError" in (await box.code("print(x)"))["error"]  # each begins anew


async def test_one_that_does_not_fit_any_more_is_left_alone(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code(WHO)
        pid = await waiting(box)
        await box.call("terminal", command="export LANG=POSIX")
        said = (await box.code(WHO))["output"].split()
        assert int(said[0]) != pid
        assert said[2] == "POSIX"
        async with asyncio.timeout(20):
            await ended(pid)


async def test_one_that_was_killed_is_not_missed(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code(WHO)
        pid = await waiting(box)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            await ended(pid)
        assert (await box.code("print('on')"))["output"] == "on\n"


async def test_modules_are_sent_again_where_others_have_taken_their_place(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        await box.code("print(1)")
        async with box.toolbox.fleet.use("t") as environment:
            for number in range(4):
                await send_modules(environment, f"other-{number}", b"other")
        answer = await box.code("from hermetic_tools import echo\nprint(echo('again')['text'])")
        assert answer["output"] == "again\n", answer


async def test_it_keeps_no_environment_alive(tmp_path: Path) -> None:
    async with scripting(here(tmp_path) | {"lease": 0.3}, warm=True) as box:
        await box.code(WHO)
        pid = await waiting(box)
        await box.toolbox.close()
        async with asyncio.timeout(30):
            await ended(pid)


async def test_what_a_script_left_open_is_written_when_it_ends(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        for number in range(2):
            answer = await box.code(
                "import atexit, threading, time\n"
                "class Ring: pass\nring = Ring(); ring.self = ring\nring.file = open('held', 'w')\n"
                "ring.file.write('held')\nloose = open('loose', 'w'); loose.write('loose')\n"
                "atexit.register(print, 'at exit')\n"
                "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
                "print('main', end=' ')"
            )
            assert answer["output"] == "main thread\nat exit\n", number
            assert (tmp_path / "held").read_text() == "held"
            assert (tmp_path / "loose").read_text() == "loose"
            (tmp_path / "held").unlink()
            await waiting(box)


async def test_a_module_of_ones_own_ends_as_python_ends_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("file = open('mine', 'w')\nfile.write('kept')\n")
    async with scripting(here(tmp_path)) as box:
        answer = await box.code("import mine, sys\nprint('so')\nsys.exit(4)")
        assert (answer["exit_code"], answer["output"]) == (4, "so\n")
        assert (tmp_path / "mine").read_text() == "kept"
        assert (await box.code("import sys; sys.exit('words')"))["error"].endswith("words")
