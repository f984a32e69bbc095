"""`hermetic code`: a script with the tools, from the command line."""

import signal
from pathlib import Path

import msgspec

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


def test_what_was_printed_before_an_interrupt_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nfrom hermetic_tools import progress\nprint('so far')\nprogress('begun')\ntime.sleep(600)\n"
    )
    with running("code", str(script)) as process:
        assert process.stderr is not None
        assert b"begun" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=30)
        assert (process.returncode, shown.startswith(b"so far\n")) == (130, True), shown


def test_what_cannot_be_begun_is_told(tmp_path: Path) -> None:
    missing = hermetic("code", str(tmp_path / "none.py"))
    assert (missing.returncode, b"cannot be read" in missing.stderr) == (2, True)
    refused = hermetic("code", "-", stdin=b"import shutil; shutil.rmtree('/')")
    assert (refused.returncode, b"not run" in refused.stderr) == (125, True)
