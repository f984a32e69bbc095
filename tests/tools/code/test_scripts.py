"""What a script can do and what its answer says: on this machine each by itself, elsewhere all in
one environment.
"""

import json
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermetic.conformance.observing import new_mark
from tests.environments import sshd
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.sizes import at_full_size
from tests.tools.code.scripted import Box, here, scripting

Check = Callable[[Box], Awaitable[None]]


async def only_what_it_prints_comes_back(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import terminal\nfound = terminal('echo kept apart')\nprint(len(found['output']))"
    )
    assert (answer["status"], answer["output"], answer["exit_code"]) == ("success", "11\n", 0)
    assert answer["tool_calls_made"] == 1
    assert "error" not in answer


async def both_module_names_are_the_same(box: Box) -> None:
    answer = await box.code(
        "import hermetic_tools, hermes_tools\nprint(hermetic_tools.echo is hermes_tools.echo)"
    )
    assert answer["output"] == "True\n"


async def tools_act_in_the_tasks_shell(box: Box) -> None:
    await box.call("terminal", command="cd /usr; export WHERE=there")
    answer = await box.code(
        "import os\nfrom hermes_tools import terminal\nprint(terminal('pwd; echo $WHERE')['output'], os.getcwd())"
    )
    assert answer["output"] == "/usr\nthere\n /usr\n"
    await box.call("terminal", command="cd - >/dev/null")


async def stubs_take_the_original_arguments(box: Box) -> None:
    answer = await box.code(
        "from hermes_tools import terminal\nprint(terminal('pwd', 30, '/usr')['output'])\n"
        "print(terminal('pwd', workdir='/')['output'])\n"
        "import inspect; print(str(inspect.signature(terminal)).replace(chr(39), ''))"
    )
    assert answer["output"].split("\n")[:3] == ["/usr", "", "/"]
    assert (
        "(command: str, timeout: float | None = None, workdir: str | None = None, *,"
        in answer["output"]
    )
    assert "background" not in answer["output"]


async def what_terminal_may_not_take_in_a_script_is_dropped(box: Box) -> None:
    answer = await box.code(
        "import hermetic_tools as tools\n"
        "print(tools._call('terminal', {'command': 'echo now', 'background': True, 'pty': True})['output'])"
    )
    assert answer["output"] == "now\n\n"


async def files_are_read_and_written(box: Box) -> None:
    answer = await box.code(
        "import tempfile\nfrom hermetic_tools import patch, read_file, search_files, write_file\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    path = folder + '/note.txt'\n"
        "    print(write_file(path, 'one\\ntwo\\nthree\\n').get('error'))\n"
        "    print(read_file(path, 2, 1)['content'], read_file(path)['total_lines'])\n"
        "    print(patch(path, 'two', 'zwei').get('error'), open(path).read().split())\n"
        "    print('note.txt' in str(search_files('zw', 'content', folder)))\n"
        "    print('error' in read_file(folder + '/missing'))"
    )
    first, page, patched, found, missing = answer["output"].splitlines()
    assert (first, patched, found, missing) == (
        "None",
        "None ['one', 'zwei', 'three']",
        "True",
        "True",
    ), answer
    assert page.endswith("two 3")


async def answers_of_any_size_and_any_bytes(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import echo\n"
        "found = echo('ß\\n\\x00', 1000000, size=2000000)\n"
        "print(len(found['text']), found['data'] == b'\\x00\\xff' * 2000000, found['scripted'])\n"
        "print(len(echo('x' * 3000000)['text']))"
    )
    assert answer["output"] == "3000000 True True\n3000000\n"


async def helpers_are_there(box: Box) -> None:
    answer = await box.code(
        "from hermes_tools import json_parse, shell_quote, retry, terminal\n"
        "print(json_parse('{\"a\": \"x\\ty\"}'), terminal('echo ' + shell_quote(\"it's\"))['output'])\n"
        "tries = []\n"
        "def sometimes():\n    tries.append(1)\n    if len(tries) < 3: raise OSError('no')\n    return 'yes'\n"
        "print(retry(sometimes, delay=0.001), len(tries))\n"
        "try:\n    retry(lambda: 1 / 0, max_attempts=2, delay=0.001)\n"
        "except ZeroDivisionError as error: print('raised', error)"
    )
    assert answer["output"] == "{'a': 'x\\ty'} it's\n\nyes 3\nraised division by zero\n"


async def threads_and_tasks_get_their_own_answers(box: Box) -> None:
    answer = await box.code(
        "from concurrent.futures import ThreadPoolExecutor\nimport asyncio\nfrom hermetic_tools import aio, echo\n"
        "names = ['n%d' % number for number in range(64)]\n"
        "with ThreadPoolExecutor(64) as pool:\n"
        "    print([found['text'] for found in pool.map(echo, names)] == names)\n"
        "async def main():\n    return await asyncio.gather(*map(aio.echo, names))\n"
        "print([found['text'] for found in asyncio.run(main())] == names)"
    )
    assert answer["output"] == "True\nTrue\n", answer
    assert answer["tool_calls_made"] == 128


async def calls_run_in_parallel(box: Box) -> None:
    answer = await box.code(
        "import tempfile\nfrom concurrent.futures import ThreadPoolExecutor\nfrom hermetic_tools import terminal\n"
        # Each waits for the other: one after the other they would never end.
        "one = 'touch a; until test -e b; do sleep 0.01; done; echo 1'\n"
        "two = 'until test -e a; do sleep 0.01; done; touch b; echo 2'\n"
        "with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:\n"
        "    print([found['output'] for found in pool.map(lambda c: terminal(c, 20, folder), [one, two])])"
    )
    assert answer["output"] == "['1\\n', '2\\n']\n", answer


async def what_tools_refuse_is_an_answer(box: Box) -> None:
    answer = await box.code(
        "import hermetic_tools as tools\n"
        "print(tools.echo(fails=True)['error'])\n"
        "print(tools._call('nothing', {})['error'])\n"
        "print(tools._call('execute_code', {'code': '1'})['error'])"
    )
    failed, unknown, itself = answer["output"].splitlines()
    assert "it was told to fail" in failed
    assert "available: echo" in unknown
    assert "available:" in itself
    assert (answer["tool_calls_made"], answer["tool_calls_refused"]) == (1, 2)


async def its_calls_are_written_down(box: Box) -> None:
    answer = await box.code("from hermetic_tools import echo\necho('y' * 200)\necho(fails=True)")
    first, second = answer["calls"]
    assert first["tool"] == "echo"
    assert first["arguments"].startswith('{"text":"yyy')
    assert len(first["arguments"]) == 80
    assert 0 <= first["duration"] < 10
    assert "told to fail" in second["error"]


async def stderr_is_returned_on_success_too(box: Box) -> None:
    answer = await box.code("import sys\nprint('said', file=sys.stderr)")
    assert (answer["status"], answer["output"], answer["stderr"]) == ("success", "", "said\n")


async def a_failure_shows_its_own_lines(box: Box) -> None:
    answer = await box.code("print('before')\ndef f():\n    raise ValueError('ß')\nf()")
    assert (answer["status"], answer["exit_code"]) == ("error", 1)
    assert answer["output"].startswith("before\n--- stderr ---\nTraceback")
    assert 'File "script.py", line 3, in f\n    raise ValueError' in answer["output"]
    assert "_hermetic" not in answer["output"]
    assert answer["error"].endswith("ValueError: ß")


async def every_exit_code_is_its_own(box: Box) -> None:
    for code in (124, 130, 137):
        answer = await box.code(f"import sys; sys.exit({code})")
        assert (answer["status"], answer["exit_code"]) == ("error", code)
    killed = await box.code("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (killed["status"], killed["exit_code"]) == ("error", 137)
    assert "signal 9" in killed["error"]


async def time_is_limited(box: Box) -> None:
    answer = await box.code("print('begun')\nwhile True: pass", timeout=2)
    assert (answer["status"], answer["output"]) == ("timeout", "begun\n")
    assert "killed after 2 s" in answer["error"]


async def a_tool_has_no_more_time_than_its_script(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import terminal\nprint(terminal('sleep 100', 100))", timeout=0.5
    )
    assert answer["status"] in ("timeout", "success")
    assert answer["duration_seconds"] < 10
    running = await box.call("process", action="list")
    assert [one for one in running["processes"] if one["status"] == "running"] == []


async def it_gets_few_variables(box: Box) -> None:
    await box.call(
        "terminal", command="export PATH_X=1 MY_TOKEN=2 TERMINAL_X=3 LANG=C.UTF-8 DECLARED=yes"
    )
    answer = await box.code("import os, json; print(json.dumps(dict(os.environ)))")
    seen = json.loads(answer["output"])
    assert not {"PATH_X", "MY_TOKEN", "TERMINAL_X"} & set(seen)
    assert (seen["LANG"], seen["DECLARED"], seen["PYTHONDONTWRITEBYTECODE"]) == (
        "C.UTF-8",
        "yes",
        "1",
    )
    assert seen["TZ"] == "Pacific/Kiritimati; echo"


async def only_our_modules_are_added(box: Box) -> None:
    answer = await box.code(
        "import sys, os\nopen('json.py', 'w').write('raise SystemExit(7)')\nimport json\n"
        "print(json.__file__ != os.path.join(os.getcwd(), 'json.py'), '' in sys.path)\nos.unlink('json.py')\n"
        "print(any('hermetic' in folder and 'site-packages' not in folder for folder in sys.path[:-1]))\n"
        "import hermetic_tools; print(sys.stdin.read() == '', hermetic_tools.__spec__.origin)"
    )
    assert answer["output"] == "True False\nFalse\nTrue None\n", answer


async def nobody_without_the_token_is_served(box: Box) -> None:
    answer = await box.code(
        "import os, socket, stat\nplace = os.environ['HERMETIC_BRIDGE']\n"
        "print(oct(stat.S_IMODE(os.stat(place[32:]).st_mode)))\n"
        "stranger = socket.socket(socket.AF_UNIX)\nstranger.connect(place[32:])\nstranger.sendall(b'0' * 32 + b'x')\n"
        "try:\n    print(stranger.recv(10))\nexcept ConnectionError: print(b'')"
    )
    assert answer["output"] == "0o600\nb''\n", answer


async def nonsense_is_answered_and_others_go_on(box: Box) -> None:
    answer = await box.code(
        "import os, socket\nfrom hermetic_tools import echo\nplace = os.environ['HERMETIC_BRIDGE']\n"
        "for nonsense in (b'GET / HTTP/1.0\\r\\n\\r\\n', b'\\x00\\x00\\x00\\x05\\x00\\x03\\x93\\x01\\x00',"
        " b'\\x00\\x00\\x00\\x06\\x00\\x04\\x93\\x01\\x00\\xc0'):\n"
        "    bad = socket.socket(socket.AF_UNIX)\n    bad.connect(place[32:])\n"
        "    bad.sendall(place[:32].encode() + nonsense)\n"
        "    print(b'this is no call' in bad.recv(1000), bad.recv(1000))\n"
        "print(echo('still')['text'])"
    )
    # What is no frame ends its connection; a frame that is no call is answered with an error first.
    assert answer["output"] == "False b''\nFalse b''\nTrue b''\nstill\n", answer


async def children_do_not_hold_it_back_nor_live_on(box: Box) -> None:
    before, mark = time.monotonic(), new_mark()  # others may run the same at the same time
    answer = await box.code(
        "import subprocess, os\n"
        f"one = subprocess.Popen(['sleep', '{mark}'])\n"
        f"two = subprocess.Popen(['setsid', 'sleep', '{mark}'])\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    import time; time.sleep(985)\n"
        "print('done')"
    )
    assert (answer["status"], answer["output"]) == ("success", "done\n")
    assert time.monotonic() - before < 30
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q '[s]leep MARK' && cat $p/stat $p/limits; done"
    left = await box.call("terminal", command=f"{look.replace('MARK', mark)} 2>/dev/null; :")
    assert left["output"] == ""


async def values_are_kept_for_later_scripts(box: Box) -> None:
    first = await box.code(
        "import os\nfrom hermetic_tools import keep\n"
        "keep('found', {'a': [1, 2], 'b': b'\\xff'})\nos.kill(os.getpid(), 9)"
    )
    assert first["exit_code"] == 137
    answer = await box.code(
        "from hermetic_tools import forget, kept, recall\nprint(recall('found'), kept(), recall('other', 5))\n"
        "forget('found')\ntry:\n    recall('found')\nexcept KeyError as error: print('gone')"
    )
    assert answer["output"] == "{'a': [1, 2], 'b': b'\\xff'} ['found'] 5\ngone\n", answer


async def progress_is_told_while_it_runs(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import progress\nprogress('half')\nprogress('done')"
    )
    assert answer["status"] == "success", answer
    assert box.progress[-2:] == [("t", "half"), ("t", "done")]


async def files_and_images_are_results(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import attach\nattach(b'\\x89PNG', 'dot.png')\n"
        "import tempfile\nwith tempfile.TemporaryDirectory() as folder:\n"
        "    open(folder + '/note.txt', 'w').write('ß')\n    attach(folder + '/note.txt')"
    )
    image, note = answer["files"]
    assert (image["name"], image["media_type"], image["bytes"], image["data"]) == (
        "dot.png",
        "image/png",
        4,
        "iVBORw==",
    )
    assert (note["name"], note["media_type"], note["bytes"]) == ("note.txt", "text/plain", 2)


async def tools_can_be_searched_and_described(box: Box) -> None:
    answer = await box.code(
        "from hermetic_tools import aio, describe_tool, echo, search_tools\n"
        "print([found['name'] for found in search_tools('gives back')][0], len(search_tools()) > 2)\n"
        "known = describe_tool('echo')\nprint(known['signature'], known['parameters']['properties']['text'])\n"
        "print(echo.__doc__.split('\\n')[0])\n"
        "try:\n    aio.nothing\nexcept AttributeError as error: print(error)"
    )
    assert (
        answer["output"].splitlines()[-1].startswith("there is no tool 'nothing'; there are echo, ")
    )
    assert answer["output"].splitlines()[:-1] == [
        "echo True",
        "echo(text: str = '', times: int = 1, size: int = 0, fails: bool = False) -> dict "
        "{'description': 'What comes back.', 'type': 'string', 'default': ''}",
        "Gives back what it gets.",
    ], answer


async def a_long_script_goes_on_as_a_process(box: Box) -> None:
    sign = f"/tmp/go-on-{secrets.token_hex(8)}"
    answer = await box.code(
        "import os, time\nfrom hermetic_tools import echo\nprint('begun')\n"
        f"while not os.path.exists('{sign}'):\n    assert echo()['text'] == ''\n    time.sleep(0.05)\n"
        f"print('ended')\nos.unlink('{sign}')",
        timeout=2,
        on_timeout="yield",
    )
    assert (answer["status"], answer["output"], answer["exit_code"]) == ("yielded", "begun\n", None)
    id = answer["session_id"]
    listed = await box.call("process", action="list")
    assert id in [one["session_id"] for one in listed["processes"]]
    await box.call("terminal", command=f"touch {sign}")
    waited = await box.call("process", action="wait", session_id=id, timeout=30)
    assert (waited["status"], waited["exit_code"]) == ("exited", 0), waited
    assert waited["output"].endswith("ended\n")


CHECKS: tuple[Check, ...] = (
    only_what_it_prints_comes_back,
    both_module_names_are_the_same,
    tools_act_in_the_tasks_shell,
    stubs_take_the_original_arguments,
    what_terminal_may_not_take_in_a_script_is_dropped,
    files_are_read_and_written,
    answers_of_any_size_and_any_bytes,
    helpers_are_there,
    threads_and_tasks_get_their_own_answers,
    calls_run_in_parallel,
    what_tools_refuse_is_an_answer,
    its_calls_are_written_down,
    stderr_is_returned_on_success_too,
    a_failure_shows_its_own_lines,
    every_exit_code_is_its_own,
    time_is_limited,
    a_tool_has_no_more_time_than_its_script,
    it_gets_few_variables,
    only_our_modules_are_added,
    nobody_without_the_token_is_served,
    nonsense_is_answered_and_others_go_on,
    children_do_not_hold_it_back_nor_live_on,
    values_are_kept_for_later_scripts,
    progress_is_told_while_it_runs,
    files_and_images_are_results,
    tools_can_be_searched_and_described,
    a_long_script_goes_on_as_a_process,
)

OPTIONS: dict[str, Any] = {
    "calls": 500,
    "passthrough": ("DECLARED",),
    "timezone": "Pacific/Kiritimati; echo",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_holds_on_this_machine(tmp_path: Path, check: Check) -> None:
    async with scripting(here(tmp_path), **OPTIONS) as box:
        await check(box)


def place(kind: str) -> dict[str, Any]:
    """The options of an environment of that kind."""
    if kind == "docker":
        need_engine(kind)
        return {"image": need_variable("IMAGE_BASE"), "cwd": "/root"}
    if kind == "ssh":
        return {**sshd.shared_options(), "login": False, "cwd": "/tmp"}
    return {"image": need_variable("IMAGE_BASE_SIF")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["docker", *at_full_size("ssh", "apptainer")])
async def test_all_of_it_holds_elsewhere(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = place(kind)
    if kind == "apptainer":
        monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
        monkeypatch.setenv("HERMETIC_SCRATCH_DIR", str(tmp_path))
    async with scripting(options, kind, warm=True, **OPTIONS) as box:
        for check in CHECKS:
            await check(box)
