"""What an exit code means, checked against what real programs answer."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermetic.tools.base.invocations import invocations, last_invocation
from hermetic.tools.terminal.advice import exit_code_meaning
from tests.programs import need
from tests.sizes import scale


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("grep nothing-like-this /etc/passwd", "grep: no line matched"),
        ("grep x /no/such/file", "grep: it failed"),
        ("cat /etc/passwd | grep nothing-like-this", "grep: no line matched"),
        ("LC_ALL=C A=1 grep nothing-like-this /etc/passwd", "grep: no line matched"),
        ("env LC_ALL=C nice -n 5 /bin/grep nothing-like-this /etc/passwd", "grep: no line matched"),
        ("timeout 20 grep nothing-like-this /etc/passwd", "grep: no line matched"),
        ("timeout 0.05 sleep 20", "sleep: `timeout` ended it"),
        ("echo a; { true; (grep nothing-like-this /etc/passwd); }", "grep: no line matched"),
        ("bash -c 'true; grep nothing-like-this /etc/passwd'", "grep: no line matched"),
        ("diff /etc/passwd /etc/group", "diff: the inputs differ"),
        ("cmp -s /etc/passwd /etc/group", "cmp: the inputs differ"),
        ("test -e /no/such/file", "test: the condition is false"),
        ("[ 1 = 2 ]", "[: the condition is false"),
        ("[[ a == b ]]", "[[: the condition is false"),
        ("find /no/such/directory", "find: some directories could not be read"),
        ("! true", "the command after ! succeeded"),
        ("true && ! grep root /etc/passwd", "the command after ! succeeded"),
        ("no-such-program-here", "the program was not found"),
        ("/etc/passwd", "cannot be executed"),
        ("bash -c 'kill -9 $$'; exit $?", "ended by SIGKILL"),
        (
            "false || grep nothing-like-this /etc/passwd",
            "grep: no line matched; this is not an error",
        ),
        ("command -v no-such-program-here", "command: not found"),
        ("expr 1 - 1", "expr: the result is empty or 0"),
    ],
)
def test_a_real_code_is_explained(command: str, says: str) -> None:
    code = subprocess.run(
        ["bash", "-c", command], capture_output=True, stdin=subprocess.DEVNULL
    ).returncode
    meaning = exit_code_meaning(command, code)
    assert meaning is not None
    assert says in meaning
    assert "may have failed instead" not in meaning


def test_codes_of_git_are_those_of_its_command(tmp_path: Path) -> None:
    need("git")

    def run(command: str) -> str | None:
        code = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True).returncode
        return exit_code_meaning(command, code)

    assert run("git status") == "git: a fatal error; the line that begins with `fatal:` says why"
    run("git init -q . && echo a > f && git add f")
    assert (
        run("git diff --cached --exit-code")
        == "git: there are differences; this is not an error (--exit-code)"
    )
    assert (
        run("git -C . -c a.b=c grep nothing-like-this")
        == "git: no line matched; this is not an error"
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("grep root /etc/passwd", 0),
        ("grep x f", None),
        ("python3 x.py", 1),
        ("grep x f | sort", 1),
        ("grep x f &", 1),
        ("echo 'grep x'; false", 1),
        ("if grep x f; then y; fi", 1),
        ("while grep x f; do y; done", 1),
        ("grep 'x", 1),
        ("$program x", 1),
        ("", 1),
        ("grep x f", -1),
        ("x", 100),
    ],
)
def test_nothing_is_said_where_nothing_is_known(command: str, code: int | None) -> None:
    assert exit_code_meaning(command, code) is None


def test_a_chain_says_that_an_earlier_command_may_be_meant() -> None:
    assert exit_code_meaning("cd /x && grep y f", 1) == (
        "grep: no line matched; this is not an error (if it ran: a command before && may have failed instead)"
    )


@pytest.mark.parametrize(
    ("code", "says"), [(6, "cannot be resolved"), (7, "refused"), (22, "400"), (28, "timed out")]
)
def test_codes_of_curl_are_known(code: int, says: str) -> None:
    meaning = exit_code_meaning(
        "curl -sf https://example.com | jq . || curl -sf https://example.com", code
    )
    assert meaning is not None
    assert says in meaning


@settings(max_examples=scale(2000), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "grep",
                " ",
                "'",
                '"',
                "$(",
                ")",
                "|",
                "&&",
                "&",
                ";",
                "{",
                "}",
                "\n",
                "<<E",
                "\\",
                "!",
                "x",
            ]
        )
    )
)
def test_no_text_is_too_strange(pieces: list[str]) -> None:
    text = "".join(pieces)
    exit_code_meaning(text, 1)
    invocations(text)
    last_invocation(text)
