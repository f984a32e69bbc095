"""The interpreter that waits for the next script: used where it fits, no burden where not."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermetic.environments import local_resident
from hermetic.link.archive import BOOT
from hermetic.registry.host_process import ended
from hermetic.session.script import send_modules
from hermetic.tools.code import stubs
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.scenarios.living import with_argument
from tests.tools.code.scripted import Box, here, scripting

# The resident learns the pid of each fork late, as on a busy machine.
LATE = """
from hermetic_resident.channels.scripts import Script
forked = Script.forked
Script.forked = lambda self, pid: self.resident.loop.call_later(0.5, lambda: forked(self, pid))
"""
WHO = "import os, sys; print(os.getpid(), os.getcwd(), os.environ.get('LANG'), 'threading' in sys.modules)"


async def waiting(box: Box) -> list[int]:
    """The pids of the interpreter that forks and of the copy that waits, both children of the
    resident.
    """
    resident = (await box.info()).pid
    async with asyncio.timeout(20):
        while len(found := spares_of(resident)) < 2:  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.01)
    return found


def spares_of(resident: int) -> list[int]:
    """Those that sleep, the oldest first: the one before may not have been cleared away yet."""
    children = Path(f"/proc/{resident}/task/{resident}/children").read_text().split()
    return sorted(int(pid) for pid in children if is_spare(Path(f"/proc/{pid}")))


def is_spare(process: Path) -> bool:
    try:
        is_asleep = process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "S"
        return is_asleep and process.joinpath("cmdline").read_bytes().endswith(b"\0warm\0")
    except OSError:  # gone meanwhile
        return False


# Forks twice: a script runs in a copy that has rehearsed, and in one that has not. Each prints how
# many pages the kernel copied for it, and whether anything of the rehearsal is seen.
COPIES = """
import gc, os, resource, select, sys, types
tools = sys.modules["hermetic_tools"] = types.ModuleType("hermetic_tools")
tools._TOOLS = b""
start = types.ModuleType("start")
exec(open(sys.argv[1]).read(), start.__dict__)
start.AT_ONCE = 0
gc.freeze()
ours, theirs = os.pipe()
for rehearses in (True, False):
    if not os.fork():
        start.prepare()
        before = dict(os.environ), set(sys.modules), sys.modules["__main__"]
        if rehearses:
            start.rehearse(ours)
        seen = before != (dict(os.environ), set(sys.modules), sys.modules["__main__"])
        script = "from hermetic_tools import _TOOLS\\nprint(end='')"
        had = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        os.environ.update(HERMETIC_BRIDGE="x")
        start.evaluate(script, types.ModuleType("__main__"))
        start.write_files()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - had, seen)
        os._exit(0)
    os.wait()
"""


def test_a_copy_that_waits_has_copied_the_memory_that_its_script_needs() -> None:
    file = Path(stubs.__file__).parent / "inside" / "start.py"
    said = subprocess.run(
        [sys.executable, "-c", COPIES, file], capture_output=True, text=True, check=True
    ).stdout
    (rehearsed, seen), (plain, _) = (line.split() for line in said.splitlines())
    assert seen == "False"
    assert int(rehearsed) < int(plain) / 2


async def test_the_next_script_runs_in_the_interpreter_that_waits(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        first = (await box.code(WHO))["output"].split()
        assert first[1] == str(tmp_path)
        for _ in range(3):
            pids = await waiting(box)
            await box.call("terminal", command="cd /usr")
            said = (await box.code(WHO))["output"].split()
            assert (said[1], said[3]) == ("/usr", "True")
            assert int(said[0]) in pids
        assert (await box.code("x = 1"))["status"] == "success"
        assert "NameError" in (await box.code("print(x)"))["error"]  # each begins anew


async def test_what_a_script_starts_at_once_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, start, after = BOOT.partition("from hermetic_resident")
    monkeypatch.setattr(local_resident, "BOOT", f"{before}{LATE}{start}{after}")
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code(WHO)
        pids, mark = await waiting(box), f"9{os.getpid()}.5"
        said = await box.code(
            f"import os, subprocess\nsubprocess.Popen(['sleep', '{mark}'])\nprint(os.getpid())"
        )
        assert int(said["output"]) in pids
        assert with_argument(mark) == []


async def test_one_that_does_not_fit_any_more_is_left_alone(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code(WHO)
        pids = await waiting(box)
        await box.call("terminal", command="export LANG=POSIX")
        said = (await box.code(WHO))["output"].split()
        assert int(said[0]) not in pids
        assert said[2] == "POSIX"
        async with asyncio.timeout(20):
            for pid in pids:
                await ended(pid)


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
async def test_one_that_was_killed_is_not_missed(tmp_path: Path, which: tuple[int, ...]) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code(WHO)
        pids = await waiting(box)
        for number in which:
            with contextlib.suppress(ProcessLookupError):  # a copy ends with its parent
                os.kill(pids[number], signal.SIGKILL)
        async with asyncio.timeout(20):
            for number in which:
                await ended(pids[number])
        for _ in range(3):
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
        pids = await waiting(box)
        await box.toolbox.close()
        async with asyncio.timeout(30):
            for pid in pids:
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


async def test_scripts_in_a_row_are_copies_of_one_interpreter(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code("pass")
        await waiting(box)
        script = "import os, sys; print(id(sys.modules), os.getppid(), os.getsid(0) == os.getpid()); sys.modules['x'] = 1"
        told = [
            (await box.code(script + "; assert 'y' not in sys.modules"))["output"] for _ in range(5)
        ]
        assert len(set(told)) == 1  # the same memory: none started anew
        assert told[0].split()[1:] == [str((await box.info()).pid), "True"]


async def test_many_scripts_at_once_are_all_answered(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code("pass")
        await waiting(box)
        script = "import os, time; time.sleep(0.05); print(os.getpid())"
        answers = await asyncio.gather(*(box.code(script) for _ in range(8)))
        assert len({answer["output"] for answer in answers}) == 8
        assert {answer["status"] for answer in answers} == {"success"}


async def test_children_of_a_copy_are_ended_with_it(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code("pass")
        await waiting(box)
        answer = await box.code(
            "import os, subprocess, sys, time\n"
            "started = subprocess.Popen(['sleep', '1000'], start_new_session=True).pid\n"
            "forked = os.fork()\nif not forked:\n    os.setsid(); time.sleep(1000)\n"
            "print(started, forked)"
        )
        assert answer["status"] == "success", answer
        async with asyncio.timeout(20):
            for pid in answer["output"].split():
                await ended(int(pid))


async def test_a_copy_ends_by_its_time(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), warm=True) as box:
        await box.code("pass")
        await waiting(box)
        answer = await box.code("import time; print('on', flush=True); time.sleep(1000)", timeout=2)
        assert (answer["status"], answer["output"]) == ("timeout", "on\n")
        assert (await box.code("print('again')"))["output"] == "again\n"


async def test_a_shim_is_passed_by_once_it_is_known_what_it_starts(tmp_path: Path) -> None:
    shims, uses = tmp_path / "shims", tmp_path / "uses"
    shims.mkdir()
    shim = shims / "python3"
    shim.write_text(f'#!/bin/sh\necho "$PWD" >> {uses}\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    (tmp_path / "other").mkdir()
    place = here(tmp_path) | {"env": {"PATH": f"{shims}:{os.environ['PATH']}"}}
    for warm in (False, True):
        async with scripting(place, warm=warm) as box:
            for _ in range(4):
                assert (await box.code("import sys; print(sys.executable)"))[
                    "output"
                ].strip() == sys.executable
            assert uses.read_text().split() == [str(tmp_path)]
            await box.call("terminal", command="cd other")  # where a shim may choose another
            await box.code("pass")
            assert uses.read_text().split() == [str(tmp_path), str(tmp_path / "other")]
            uses.unlink()


@pytest.mark.parametrize("kind", ["docker", "sandbox"])
async def test_scripts_in_a_row_are_copies_elsewhere_too(kind: str, tmp_path: Path) -> None:
    if kind == "docker":
        need_engine(kind)
        place: dict[str, Any] = {"image": need_variable("IMAGE_BASE"), "cwd": "/root"}
    else:
        need_variable("BWRAP")
        place = {"workspace": str(tmp_path)}
    # what a parent has imported, and no script of its own
    script = "import sys; print('threading' in sys.modules)"
    async with scripting(place, kind, warm=True) as box:
        async with asyncio.timeout(60):
            while (answer := await box.code(script))["output"] != "True\n":
                assert answer["status"] == "success", answer
        assert [(await box.code(script))["output"] for _ in range(5)] == ["True\n"] * 5
