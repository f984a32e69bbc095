"""What lies between a script and what serves it: its last word, its connections, the processes it
starts.
"""

from pathlib import Path

import pytest

from tests.tools.code.scripted import here, scripting

CONNECT = """\
import os, socket
place = os.environ["HERMETIC_BRIDGE"]
def connected(said=b""):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(place[32:])
    stream.sendall(said)
    return stream
"""


async def test_connections_without_a_token_keep_nobody_out(tmp_path: Path) -> None:
    async with scripting(here(tmp_path), calls=64) as box:
        answer = await box.code(
            CONNECT
            + "from concurrent.futures import ThreadPoolExecutor\nfrom hermetic_tools import echo\n"
            "held = [connected(b'x' * (number % 32)) for number in range(300)]\n"
            "names = ['n%d' % number for number in range(64)]\n"
            "with ThreadPoolExecutor(64) as pool:\n"
            "    print([found['text'] for found in pool.map(echo, names)] == names)"
        )
        assert (answer["status"], answer["output"]) == ("success", "True\n"), answer


@pytest.mark.parametrize(
    "said",
    [
        "b'w' * 32 + b'garbage'",
        "place[:32].encode() + b'\\xff' * 100000",
        "place[:32].encode() + b'\\0\\0\\0\\x02\\0\\0'",
        "place[:32].encode() + b'\\0\\0\\0\\x06\\0\\x04\\x93\\x01\\0\\x80'",
        "place[:32].encode() + b'\\0\\0\\0\\x07\\0\\x04\\x93\\x01\\0\\x80' * 5000",
    ],
    ids=["no token", "no frame", "no header", "no question", "questions without end"],
)
async def test_what_is_no_call_costs_only_its_own_connection(tmp_path: Path, said: str) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            CONNECT + "from hermetic_tools import echo\n"
            f"try:\n    stream = connected({said})\n    stream.shutdown(socket.SHUT_WR)\n"
            "    stream.settimeout(20)\n    while stream.recv(65536): pass\n"
            "except OSError as error: assert not isinstance(error, TimeoutError)\nprint(echo('on')['text'])"
        )
        assert (answer["status"], answer["output"]) == ("success", "on\n"), answer


@pytest.mark.parametrize("warm", [False, True])
async def test_a_child_that_comes_to_the_end_of_the_script_does_not_end_it(
    tmp_path: Path, warm: bool
) -> None:
    async with scripting(here(tmp_path), warm=warm) as box:
        for _ in range(2):
            answer = await box.code(
                "import os, sys\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n    print('parent')\n"
                "    sys.exit(3)\nprint('child')"
            )
            assert (answer["exit_code"], answer["output"].split()[:2]) == (
                3,
                ["child", "parent"],
            ), answer


async def test_a_script_that_says_its_last_word_and_goes_on_is_ended(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import os, stat, time\nprint('said')\nfor fd in range(3, 20):\n    try:\n"
            "        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'\\x05')\n    except OSError: pass\n"
            "time.sleep(60)"
        )
        assert (answer["exit_code"], answer["output"].split()[0]) == (5, "said"), answer
        assert answer["duration_seconds"] < 30


async def test_a_script_that_closes_every_descriptor_ends_with_its_code(tmp_path: Path) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            "import os, sys\nprint('here', flush=True)\nos.closerange(3, 256)\nsys.exit(4)"
        )
        assert (answer["exit_code"], answer["output"].split()[0]) == (4, "here"), answer


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
async def test_a_new_interpreter_cannot_import_a_script_and_says_what_can(
    tmp_path: Path, way: str
) -> None:
    async with scripting(here(tmp_path)) as box:
        answer = await box.code(
            f"import multiprocessing\nwith multiprocessing.get_context('{way}').Pool(2) as pool: pool.map(abs, [1])",
            timeout=60,
        )
        assert answer["status"] == "error"
        assert "multiprocessing.get_context('fork')" in answer["error"]
        answer = await box.code(
            "import multiprocessing, sys\nfrom hermetic_tools import echo\ndef ask(text): return echo(text)['text']\n"
            "with multiprocessing.get_context('fork').Pool(3) as pool: print(pool.map(ask, 'abc'))\n"
            "print(sys.modules['__main__'])"
        )
        assert answer["output"] == "['a', 'b', 'c']\n<module '__main__' from 'script.py'>\n", answer


async def test_a_callback_that_fails_does_not_end_the_script(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    def printed(task: str, stream: str, data: bytes) -> None:
        seen.append(data)
        raise RuntimeError("the screen is gone")

    async with scripting(here(tmp_path), on_script_output=printed) as box:
        answer = await box.code(
            "import time\nprint('one', flush=True)\ntime.sleep(0.1)\nprint('two')"
        )
    assert (answer["status"], answer["output"]) == ("success", "one\ntwo\n")
    assert seen == [b"one\n"]
    assert "the screen is gone" in caplog.text
