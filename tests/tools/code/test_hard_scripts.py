"""Scripts that misbehave: the right status, bounded memory, nothing left."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Literal

import msgspec
import pytest

import hermetic
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.code.answer import Printed, shown
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.pythons import other_pythons
from tests.sizes import is_full, scale
from tests.tools.code.scripted import Box, EchoArguments, here, scripting

MEBIBYTE = 1 << 20


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a tool that has a limit of its own."""

    timeout: int = 20


async def resident_memory(box: Box) -> int:
    memory = (await box.info()).rss
    assert memory is not None
    return memory


async def test_a_script_that_computes_long_before_its_first_call(tmp_path: Path) -> None:
    seconds = 60 if is_full() else 5.5  # longer than a new connection has to say its token
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: time.sleep(0.05)\n"
            "from hermetic_tools import echo\nprint(echo('late')['text'])"
        )
        assert answer["output"] == "late\n"


async def test_a_script_that_forks_daemons_that_close_everything_and_ignore_signals(
    tmp_path: Path,
) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import os, signal, time\n"
            "for number in range(5):\n"
            "    if os.fork() == 0:\n"
            "        os.setsid()\n"
            "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "        if os.fork(): os._exit(0)\n"
            "        if number % 2: os.closerange(0, 100)\n"
            "        time.sleep(984)\n"
            "print('done')"
        )
        assert (answer["status"], answer["output"]) == ("success", "done\n")
        # and the test itself would see a process that is left
        assert (await box.info()).processes == 0


async def test_a_script_that_closes_its_streams(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import os\nfrom hermetic_tools import echo\nprint('first', flush=True)\nos.close(1); os.close(2)\n"
            "echo('on')\nos._exit(3)"
        )
        assert (answer["status"], answer["exit_code"], answer["tool_calls_made"]) == ("error", 3, 1)
        assert answer["output"] == "first\n"


@pytest.mark.slow
async def test_a_script_that_prints_a_flood(tmp_path: Path) -> None:
    count = scale(1000)
    async with scripting(here(tmp_path)) as box:
        await box.code("print(1)")
        before = await resident_memory(box)
        answer = await box.code(
            f"import sys\npiece = 'ß' * (1 << 19)\nfor _ in range({count}): sys.stdout.write(piece)\nprint('end')"
        )
        total = count * MEBIBYTE + 4
        assert answer["status"] == "success"
        assert answer["output"].startswith("ßßß")
        assert answer["output"].endswith("ßend\n")
        assert f"of {total:,} bytes are left out here." in answer["output"]
        assert answer["total_bytes"] == total
        assert await resident_memory(box) - before < 32 * MEBIBYTE


async def test_a_script_that_recurses_to_death(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code("def f(): return f()\nf()")
        assert answer["status"] == "error"
        assert "RecursionError" in answer["error"]
        answer = await box.code("import ctypes; print('here', flush=True); ctypes.string_at(0)")
        assert (answer["status"], answer["exit_code"]) == ("error", 139)
        assert "signal 11" in answer["error"]
        assert answer["output"].startswith("here\n")


async def test_a_script_that_spams_refused_calls_is_ended(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), calls=1, refused=100) as box:
        answer = await box.code(
            "import hermetic_tools as tools\nprint(tools.echo()['text'])\n"
            "while True: print(tools.echo().get('error'), tools._call('nothing', {})['error'])"
        )
        assert answer["status"] == "error"
        assert "refused" in answer["error"]
        assert (answer["tool_calls_made"], answer["tool_calls_refused"] > 100) == (1, True)
        assert "1 tool calls were made, the most of one script" in answer["output"]


async def test_a_script_that_goes_on_and_spams_refused_calls_is_ended(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), calls=1, refused=100) as box:
        answer = await box.code(
            "import time, hermetic_tools as tools\ntime.sleep(2)\nwhile True: tools._call('nothing', {})",
            timeout=0.3,
            on_timeout="yield",
        )
        assert answer["status"] == "yielded"
        async with asyncio.timeout(30):
            ended = await box.call(
                "process", action="wait", session_id=answer["session_id"], timeout=30
            )
        assert ended["status"] == "exited", ended
        assert (await box.info()).processes == 0


async def test_an_interrupt_ends_a_script_that_ignores_it(tmp_path: Path) -> None:
    ready = asyncio.Event()

    async def tell(task: Task, asked: EchoArguments) -> Fields:
        ready.set()
        return {}

    async with scripting(here(tmp_path)) as box:
        box.toolbox.register(Tool("echo", "Tells.", EchoArguments, tell), replace=True)
        running = asyncio.ensure_future(
            box.code(
                "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('begun')\n"
                "from hermetic_tools import echo\necho()\nwhile True: time.sleep(1)"
            )
        )
        async with asyncio.timeout(30):
            await ready.wait()
        box.toolbox.interrupt("t")
        answer = await running
        assert answer["status"] == "interrupted"
        assert answer["output"].startswith("begun\n[interrupted by the user")
        assert (await box.info()).processes == 0


async def test_a_call_under_way_ends_with_its_script(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def hang(task: Task, asked: EchoArguments) -> Fields:
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()
        return {}

    async with scripting(here(tmp_path)) as box:
        box.toolbox.register(Tool("hang", "Waits.", EchoArguments, hang))
        answer = await box.code("from hermetic_tools import hang\nhang()", timeout=3)
        assert answer["status"] == "timeout"
        async with asyncio.timeout(10):
            await ended.wait()


async def test_a_script_whose_caller_is_gone_is_told(tmp_path: Path) -> None:
    out = tmp_path / "said"
    code = (
        "import time\nfrom hermetic_tools import echo, ToolsGone\necho()\n"
        f"while True:\n    try:\n        echo()\n        time.sleep(0.05)\n    except ToolsGone as error:\n"
        f"        open({str(out)!r}, 'w').write(str(error))\n        break"
    )
    async with scripting(here(tmp_path), calls=100000) as box:
        answer = await box.code(code, timeout=3, on_timeout="yield")
        assert answer["status"] == "yielded"
        await box.toolbox.close()  # the environment lives on
        environment: Environment
        async with hermetic.attach("t") as environment:
            process = await environment.process(answer["session_id"])
            ending = await process.wait(timeout=30)
            assert ending.exit_code == 0
            assert "the tools" in out.read_text()
            await environment.close(remove=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "docker"])
async def test_a_very_large_answer_passes_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    place = here(tmp_path)
    if kind == "docker":
        need_engine(kind)
        place = {"image": need_variable("IMAGE_BASE")}
    async with scripting(place, kind) as box:
        await box.code("from hermetic_tools import echo; echo()")
        before = await resident_memory(box)
        answer = await box.code(
            "from hermetic_tools import echo\nfound = echo('x', 50 << 20)\nprint(len(found['text']) == 50 << 20)\n"
            "import hermetic_tools, time\n"
        )
        assert answer["output"] == "True\n", answer
        assert await resident_memory(box) - before < 16 * MEBIBYTE


@pytest.mark.slow
async def test_many_calls_in_one_script(tmp_path: Path) -> None:
    count = scale(10_000)
    async with scripting(here(tmp_path), calls=count) as box:
        answer = await box.code(
            f"from hermetic_tools import echo\nprint(sum(len(echo('x')['text']) for _ in range({count})))\n"
            "print('most' in echo()['error'])"
        )
        assert answer["output"] == f"{count}\nTrue\n", answer
        assert (answer["tool_calls_made"], answer["tool_calls_refused"], len(answer["calls"])) == (
            count,
            1,
            100,
        )


async def test_arguments_that_are_too_long_are_refused(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), gathered=2 * MEBIBYTE) as box:
        answer = await box.code(
            "from hermetic_tools import echo\nprint(echo('x' * (5 << 20))['error'])\nprint(echo('on')['text'])\n"
            "try:\n    echo(object())\nexcept TypeError as error: print(error)"
        )
        long, on, unfit = answer["output"].splitlines()
        assert "longer than 2,097,152 bytes" in long
        assert on == "on"
        assert "cannot be sent" in unfit


async def test_arguments_count_until_they_are_answered(tmp_path: Path) -> None:
    """Else many calls that take long would each hold as many bytes here as one may."""
    going, gone = asyncio.Event(), asyncio.Event()

    async def waits(task: Task, asked: EchoArguments) -> Fields:
        going.set()
        await gone.wait()
        return {}

    async with scripting(here(tmp_path), gathered=2 * MEBIBYTE) as box:
        box.toolbox.register(Tool("waits", "Waits.", EchoArguments, waits))
        running = asyncio.ensure_future(
            box.code(
                "import threading, hermetic_tools as tools\n"
                "held = threading.Thread(target=tools.waits, args=('x' * (3 << 19),))\nheld.start()\n"
                "tools.terminal('read line < go')\nprint(tools.echo('x' * (1 << 20)).get('error'))\n"
                "tools.terminal('echo > gone')\nheld.join()\nprint(len(tools.echo('x' * (1 << 20))['text']))"
            )
        )
        os.mkfifo(tmp_path / "go")
        os.mkfifo(tmp_path / "gone")
        async with asyncio.timeout(30):
            await going.wait()
            await asyncio.to_thread((tmp_path / "go").write_text, "\n")
            await asyncio.to_thread((tmp_path / "gone").read_text)
            gone.set()
            answer = await running
        refused, on = answer["output"].splitlines()
        assert "longer than 2,097,152 bytes" in refused
        assert on == str(1 << 20)


async def test_names_of_attached_files_count_too(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), files=20_000) as box:
        answer = await box.code(
            "from hermetic_tools import attach\ncount = 0\ntry:\n    while True:\n        attach(b'', 'n' * 900)\n"
            "        count += 1\nexcept ValueError: print(count)"
        )
        assert 10 < int(answer["output"]) == len(answer["files"]) <= 20_000 // 900


async def test_more_calls_at_once_than_there_are_connections(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), calls=2000) as box:
        answer = await box.code(
            "import asyncio, threading\nfrom hermetic_tools import aio, echo\nfound = {}\n"
            "def ask(number): found[number] = echo(str(number))['text']\n"
            "threads = [threading.Thread(target=ask, args=(number,)) for number in range(400)]\n"
            "for thread in threads: thread.start()\nfor thread in threads: thread.join()\n"
            "print(found == {number: str(number) for number in range(400)})\n"
            "async def main():\n"
            "    slow = [asyncio.ensure_future(aio.terminal('sleep 30')) for _ in range(90)]\n"
            "    late = [asyncio.ensure_future(aio.echo('late')) for _ in range(100)]\n"
            "    await late[0]\n    for task in slow + late[50:]: task.cancel()\n"
            "    await asyncio.wait(slow + late)\n"
            "    found = await asyncio.gather(*(aio.echo(str(number)) for number in range(1200)))\n"
            "    print([one['text'] for one in found] == [str(number) for number in range(1200)])\n"
            "asyncio.run(main())"
        )
        assert answer["output"] == "True\nTrue\n", answer


async def test_values_are_kept_by_many_threads_at_once(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import threading, hermetic_tools as tools\nbad = []\n"
            "def work(number):\n    try:\n        for _ in range(20):\n            tools.keep('x', number)\n"
            "            tools.keep(str(number), 1)\n            tools.forget(str(number))\n"
            "    except Exception as error: bad.append(error)\n"
            "threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]\n"
            "for thread in threads: thread.start()\nfor thread in threads: thread.join()\n"
            "print(bad, tools.recall('x') in range(8), tools.kept())"
        )
        assert answer["output"] == "[] True ['x']\n", answer


async def test_a_tools_own_time_limit_is_kept_and_never_longer_than_the_scripts(
    tmp_path: Path,
) -> None:
    async def timed(task: Task, asked: Timed) -> Fields:
        return {"seconds": asked.timeout}

    async with scripting(here(tmp_path)) as box:
        box.toolbox.register(Tool("timed", "Has a limit of whole seconds.", Timed, timed))
        answer = await box.code(
            "from hermetic_tools import timed\nprint(timed(), timed(7), timed(9000), timed('no')['error'])",
            timeout=25,
        )
        assert answer["output"].startswith(
            "{'seconds': 20} {'seconds': 7} {'seconds': 25} timed: Expected `int`"
        ), answer


async def test_streams_that_cannot_be_flushed_do_no_harm(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import io\nloose = io.TextIOWrapper(io.BytesIO())\nloose.detach()\n"
            "class Odd(io.TextIOWrapper):\n    closed = property(lambda self: 1 / 0)\n"
            "    def flush(self): raise RuntimeError\nodd = Odd(io.BytesIO())\nprint('fine')"
        )
        assert (answer["status"], answer["output"], answer["exit_code"]) == (
            "success",
            "fine\n",
            0,
        ), answer


@pytest.mark.parametrize("warm", [False, True])
async def test_a_script_of_any_size_runs(tmp_path: Path, warm: bool) -> None:
    async with scripting(here(tmp_path), warm=warm, policy="off") as box:
        for _ in range(2):
            answer = await box.code("text = '" + "x" * (3 * MEBIBYTE) + "'\nprint(len(text))")
            assert answer["output"] == f"{3 * MEBIBYTE}\n", answer


async def test_a_broken_connection_costs_the_call_under_way_and_no_more(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:

        async def breaks(task: Task, asked: EchoArguments) -> Fields:
            async with task.environment() as environment:
                connection = environment._link._connection
                assert connection is not None
                assert connection._transport is not None
                connection._transport.abort()
            return {}

        box.toolbox.register(Tool("breaks", "Breaks the connection.", EchoArguments, breaks))
        answer = await box.code(
            "import hermetic_tools as tools\nprint(tools.echo('before')['text'])\n"
            "try:\n    tools.breaks()\nexcept tools.ToolsGone: print('told')\n"
            "print(tools.retry(lambda: tools.echo('after')['text'], max_attempts=8, delay=0.05))"
        )
        assert (answer["status"], answer["output"]) == ("success", "before\ntold\nafter\n"), answer


async def test_forked_children_call_by_themselves(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import os\nfrom hermetic_tools import echo\necho('parent')\n"
            "for number in range(3):\n    if os.fork() == 0:\n        print(echo(str(number))['text'], flush=True)\n"
            "        os._exit(0)\n"
            "for number in range(3): os.wait()\nprint(echo('last')['text'])"
        )
        assert sorted(answer["output"].split()) == ["0", "1", "2", "last"], answer


async def test_the_policy_judges_the_script_and_its_calls(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        refused = await box.code("import shutil\nshutil.rmtree('/')")
        assert (refused["status"], refused["exit_code"]) == ("blocked", -1)
        assert "not run" in refused["error"]
        answer = await box.code(
            "from hermetic_tools import terminal\nprint(terminal('mkfs.ext4 /dev/sda')['status'])"
        )
        assert answer["output"] == "blocked\n"


async def test_a_loop_is_allowed_once_for_all_of_its_calls(tmp_path: Path) -> None:
    asked: list[str] = []

    def allow(request: ApprovalRequest) -> Literal["once"]:
        asked.append(request.command)
        return "once"

    folder = tmp_path / "build"
    folder.mkdir()
    async with scripting(here(tmp_path), approver=allow) as box:
        answer = await box.code(
            "from hermetic_tools import request_approval, terminal\n"
            "said = request_approval(3, command=['git', 'push'], reason='three branches')\n"
            "print(said.get('error'))\n"
            "for name in 'abc': print(terminal('git push --force origin ' + name)['exit_code'] != -1)"
        )
        assert answer["output"] == "None\nTrue\nTrue\nTrue\n", answer
        assert len(asked) == 1


async def test_an_empty_script_is_an_error(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        for code in ("", "  \n"):
            answer = await box.code(code)
            assert (answer["status"], answer["tool_calls_made"], answer["duration_seconds"]) == (
                "error",
                0,
                0,
            )
        assert "above zero" in (await box.code("1", timeout=0))["error"]


async def test_no_tools_are_no_tools(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), tools=("nothing",)) as box:
        answer = await box.code(
            "import hermetic_tools as tools\nprint(tools.search_tools(), hasattr(tools, 'terminal'))\n"
            "print(tools._call('terminal', {'command': 'true'})['error'])"
        )
        assert answer["output"].startswith("[] False\n")
        assert "available: none" in answer["output"]


async def test_secrets_and_escape_sequences_do_not_come_back(tmp_path: Path) -> None:
    token = "ghp_" + "x7Kq2mZ9vB4nT8wR3yL6pD1sF5gH0jC2aE7u"
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            f"import sys\nprint('\\x1b[31mred\\x1b[0m {token}')\nprint('{token}', file=sys.stderr)"
        )
        assert answer["output"].startswith("red ")
        assert token not in json.dumps(answer)


async def test_progress_without_a_listener_and_odd_answers_pass(tmp_path: Path) -> None:
    async def odd(task: Task, asked: EchoArguments) -> Fields:
        return {
            "huge": 2**80,
            "half": "\ud800",
            "path": Path("/x"),
            "deep": [[[[[[[[[[[[1]]]]]]]]]]]],
            "keys": {5: None},
        }

    async with scripting(here(tmp_path)) as box:
        box.toolbox.register(Tool("odd-one", "Answers oddly.", EchoArguments, odd))
        answer = await box.code("from hermetic_tools import odd_one\nprint(odd_one())")
        assert answer["output"] == (
            "{'huge': '1208925819614629174706176', 'half': '\\\\ud800', 'path': '/x', "
            "'deep': [[[[[[[[[[[[1]]]]]]]]]]]], 'keys': {'5': None}}\n"
        ), answer


async def test_a_script_runs_where_the_image_has_no_python(tmp_path: Path) -> None:
    need_engine("docker")
    async with scripting({"image": need_variable("IMAGE_SCRATCH")}, "docker") as box:
        answer = await box.code(
            "import json, subprocess, sys\nfrom hermetic_tools import terminal\n"
            "print(sys.executable, terminal('command -v python3 || echo none')['output'].strip())\n"
            "print(subprocess.run(['bash', '-c', 'echo $BASH'], capture_output=True, text=True).stdout)"
        )
        assert answer["output"] == "/.hermetic/python/bin/python3 none\n/bin/bash\n\n", answer


async def test_a_script_in_a_sandbox_reaches_the_tasks_place_by_its_tools(tmp_path: Path) -> None:
    need_variable("BWRAP")
    (tmp_path / "secret").write_text("of the task")
    async with scripting(here(tmp_path), isolated=True) as box:
        answer = await box.code(
            f"import os\nfrom hermetic_tools import terminal\nprint(os.path.exists({str(tmp_path / 'secret')!r}))\n"
            "print(terminal('cat secret')['output'])"
        )
        assert answer["output"] == "False\nof the task\n", answer


PYTHONS = {
    **{Path(path).name.removeprefix("python"): path for path in other_pythons()},
    ".".join(map(str, sys.version_info[:2])): sys.executable,
}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("python", PYTHONS)
async def test_scripts_run_on_every_python_of_this_machine(
    tmp_path: Path, python: str, warm: bool
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec {PYTHONS[python]} "$@"\n')
    (folder / "python3").chmod(0o700)
    place = here(tmp_path) | {"env": {"PATH": f"{folder}:{os.environ['PATH']}"}}
    async with scripting(place, warm=warm) as box:
        for _ in range(2):
            answer = await box.code(
                "import asyncio, sys\nfrom hermetic_tools import aio, describe_tool, echo, keep, recall\n"
                "keep('x', 1)\nassert recall('x') == 1 and describe_tool('echo')['signature']\n"
                "print('%d.%d' % sys.version_info[:2], echo('ß')['text'], asyncio.run(aio.echo('a'))['text'])"
            )
            assert answer["output"] == f"{python} ß a\n", answer


def test_output_is_cut_between_characters_with_exact_counts() -> None:
    data = "äöü€".encode() * 10_000
    text = shown(Printed(data, None, len(data)), 1001, lambda text: text)
    head, notice, tail = text.split("\n")
    assert "\ufffd" not in text
    left_out = int(notice.split()[0].strip("[").replace(",", ""))
    assert len(head.encode()) + left_out + len(tail.encode()) == len(data)
    assert 996 <= len(head.encode()) + len(tail.encode()) <= 1001


def test_a_secret_at_the_cut_is_not_shown_in_part() -> None:
    def clean(text: str) -> str:
        return text.replace("SECRETVALUE", "***")

    data = b"a" * 395 + b"SECRETVALUE" + b"b" * 3000 + b"SECRETVALUE" + b"c" * 594
    text = shown(Printed(data, None, len(data)), 1000, clean)
    assert "SEC" not in text
    assert "ALUE" not in text
