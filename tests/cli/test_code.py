"""`hermetic code`: a script with the tools, from the command line."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from tests.cli.program import hermetic, running


def test_a_script_calls_tools_and_its_code_is_ours(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom hermetic_tools import progress, terminal\nprogress('half way')\n"
        "print(terminal('echo $((6 * 7))')['output'].strip())\nprint('aside', file=sys.stderr)\nsys.exit(7)\n"
    )
    done = hermetic("code", str(script))
    assert (done.returncode, done.stdout) == (7, b"42\n"), done.stderr
    assert b"hermetic: half way\n" in done.stderr
    assert b"aside\n" in done.stderr


def test_standard_input_limits_and_json() -> None:
    code = b"from hermetic_tools import terminal\nprint([terminal('true').get('error') for _ in range(2)][1])"
    done = hermetic("code", "--calls", "1", "--json", "-", stdin=code)
    answer = msgspec.json.decode(done.stdout)
    assert (done.returncode, answer["status"], answer["tool_calls_made"]) == (0, "success", 1)
    assert "the most of one script" in answer["output"]
    assert hermetic("code", "--timeout", "0.5", "-", stdin=b"while True: pass").returncode == 124


def test_what_a_script_prints_is_shown_while_it_runs_and_an_interrupt_ends_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\nfrom hermetic_tools import progress\nprint(os.getpid())\nprogress('begun')\n"
        "print('aside', file=sys.stderr)\ntime.sleep(600)\n"
    )
    with running("code", str(script)) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        said = process.stderr.readline() + process.stderr.readline()
        assert (b"hermetic: begun\n" in said, b"aside\n" in said) == (True, True), said
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=30)
        assert (process.returncode, rest) == (130, b""), told
        assert b"interrupted" in told
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_long_output_passes_whole_and_byte_for_byte(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfor number in range(200000): print(number)\nsys.stdout.buffer.write(b'\\xff\\x00end')"
    )
    done = hermetic("code", str(script))
    assert done.stdout == b"".join(b"%d\n" % number for number in range(200000)) + b"\xff\x00end", (
        done.stderr
    )


def test_a_reader_that_has_seen_enough_ends_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nwhile True: print('on and on')")
    with running("code", str(script)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on and on\n"
        process.stdout.close()
        assert process.wait(timeout=30) != 0


def test_what_cannot_be_begun_is_told(tmp_path: Path) -> None:
    missing = hermetic("code", str(tmp_path / "none.py"))
    assert (missing.returncode, b"cannot be read" in missing.stderr) == (2, True)
    refused = hermetic("code", "-", stdin=b"import shutil; shutil.rmtree('/')")
    assert (refused.returncode, b"not run" in refused.stderr) == (125, True)
