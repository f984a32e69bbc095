"""A session that has nested too deeply moves to a fresh bash, and takes everything along that can
be taken.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermetic.resident.life.loop import Timer
from hermetic.resident.shells.move import Move
from tests.programs import need_variable
from tests.resident.running import Client, running

SET_UP = r"""
cd /usr/lib; X='a"b$c
new'; export E='é	x'; declare -A m=([k]=v ["a b"]='q"(x)'); list=(1 'two three' $'\x01'); f() { echo "fn $X"; }
alias ll='echo LL'; shopt -s nullglob; set -o pipefail; umask 027; trap 'echo usr' USR1; declare -r R=1; declare -i n=5
set -- p 'q r'; unset HOME; g() { :; }; export -f g; ulimit -S -n 500; pushd /usr >/dev/null; complete -W 'a b' foo
"""
SHOW = """
declare -p X E m list R n; f; alias ll; shopt nullglob; set -o | grep pipefail; umask; trap -p; echo "$#:$2"
echo "HOME=${HOME-unset}"; declare -F; dirs -p; pwd; bash -c 'type -t g'; ulimit -S -n; complete -p foo
"""


def nest(client: Client) -> int:
    """Ends many shells, then lets the session settle; returns how deep it is nested now."""
    for _ in range(80):
        client.run("exit 1")
    for _ in range(3):
        client.run("true")
        client.ask("start", b"sleep 0.1", id=f"pause{client.number}", text=9, stdin="null")
        client.ask("wait", process=f"pause{client.number - 1}")
    return int(client.run("echo $BASH_SUBSHELL")[1])


def test_all_state_moves_along() -> None:
    with running() as resident, resident.client() as client:
        client.run(SET_UP)
        before = client.run(SHOW)[1]
        assert b"two three" in before
        assert nest(client) == 0
        assert client.run(SHOW)[1] == before


def test_what_needs_an_option_to_be_read_moves_along() -> None:
    with running() as resident, resident.client() as client:
        client.run("shopt -s extglob; umask 027; trap 'echo usr' USR1")
        client.run("f() { case $1 in @(a)*(x)) echo a;; !(a|b)) echo other;; esac; }")
        show = "f ax; f c; shopt extglob; umask; trap -p"
        before = client.run(show)[1]
        assert before.startswith(b"a\nother\n")
        assert nest(client) == 0
        assert client.run(show)[1] == before


def test_a_session_stays_where_its_state_cannot_be_read_again() -> None:
    """bash 5.2 prints the pattern of this function without the bracket that it needs."""
    with running() as resident, resident.client() as client:
        client.run("umask 027; f() { case $1 in (esac) echo f;; esac; }; set -- a")
        first = client.run("echo $BASHPID")[1]
        client.run("echo $(")
        assert client.run("f esac; umask; echo $1")[1] == b"f\n0027\na\n"
        assert client.run("echo $BASHPID")[1] == first
        client.run("unset -f f")
        client.run("echo $(")
        assert client.run("umask; echo $1")[1] == b"0027\na\n"
        assert client.run("echo $BASHPID")[1] != first


def test_a_session_that_must_move_does_so_beside_an_older_attempt() -> None:
    with running() as resident, resident.client() as client:
        for turn in range(30):
            client.run("f() { case $1 in (esac) echo f;; esac; }")
            client.run("echo $(")  # its shell may abort later, and cannot be moved yet
            before = client.run("unset -f f; echo $BASHPID")[1]  # an attempt begins
            time.sleep(turn * 0.0004)  # at one moment or another it starts its bash
            client.run("echo $(")
            assert client.run("echo $BASHPID")[1] != before


class Watched:
    """What an attempt sees of its session, which has no descriptor for it."""

    name, closed, commands_sent, primary = "", False, 0, None

    def __init__(self) -> None:
        self.loop = self.pool = self
        self.soon: list[Callable[[], None]] = []
        self.move: Move | None = None
        self.ended = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return Timer(seconds, callback)

    def request(self, *_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    def move_ended(self, shell: None) -> None:
        self.ended += 1


def test_an_attempt_that_was_dropped_ends_no_later_one() -> None:
    session: Any = Watched()
    dropped = Move(session, session.primary, False)
    dropped.abandon()  # as when its shell dies at that moment
    session.move = Move(session, session.primary, False)
    session.soon.pop(0)()
    assert session.ended == 0
    session.soon.pop()()
    assert session.ended == 1


# MARK is a command that runs if a shell evaluates what bash prints of these.
KEPT_TEXTS = {
    "an integer": "n='a[$(MARK)]'; declare -i n",
    "a constant": "n='a[$(MARK)]'; declare -irx n",
    "integers": "n=('a[$(MARK)]' 2); declare -ai n",
    "integers by name": "declare -A n; n[k]='a[$(MARK)]'; declare -Ai n",
    "keys": "declare -A n; n['$(MARK)']='$(MARK)'; n['a`MARK`']=1; n['];MARK;']='];MARK;'",
    "another name": "declare -n n='a[$(MARK)]'",
    "a prompt": "PS4='$(MARK)' PS1='$(MARK)' PS0='$(MARK)' PROMPT_COMMAND='MARK'",
    "a completion": "complete -W a 'foo;MARK'; complete -C 'x;MARK' $'bar\\nMARK'",
    "parts of a completion": "complete -W '$(MARK)' -X '!*;MARK' -P 'a;MARK' -S \"b';MARK\" foo",
    "a function": "n() { echo '$(MARK)'; cat <<'E'\n$(MARK)\nE\n}",
    "an alias": "alias n='$(MARK)'",
    "arguments": "set -- '$(MARK)' ';MARK' $'\\n''MARK'",
    "directories": "mkdir -p ';MARK/a'; cd ';MARK/a'; pushd /",
}


def bashes() -> list[str]:
    """This machine's bash, and those of other releases."""
    return ["bash", *filter(None, os.environ.get("OTHER_BASHES", "").split(":"))]


@pytest.mark.parametrize("program", bashes(), ids=lambda path: Path(path).parent.name or "this")
def test_no_value_is_evaluated_when_a_session_moves(program: str, tmp_path: Path) -> None:
    need_variable("OTHER_BASHES")
    bash, mark = tmp_path / "bash", tmp_path / "mark"
    # A statically linked bash cannot look up its user, which it does without these.
    bash.write_text(f'#!/bin/sh\nexport HOME=/ SHELL=/bin/sh\nexec {program} "$@"\n')
    bash.chmod(0o755)
    with running(bash=str(bash), cwd=str(tmp_path)) as resident, resident.client() as client:
        for session, text in KEPT_TEXTS.items():
            client.run("KEPT=1", session=session)
            client.run(text.replace("MARK", f"touch {mark}"), session=session)
            before = client.run("echo $BASHPID", session=session)[1]
            client.run("echo $(", session=session)  # a shell that may be damaged is left
            assert client.run("echo $KEPT", session=session)[1] == b"1\n"
            assert client.run("echo $BASHPID", session=session)[1] != before, session
            assert not mark.exists(), session


def test_a_session_with_a_job_or_an_open_descriptor_stays_where_it_is() -> None:
    with running() as resident, resident.client() as client:
        client.run("exec {kept}>/dev/null")
        assert nest(client) > 100
        assert client.run("echo hi >&$kept && echo written")[1] == b"written\n"
        client.run("exec {kept}>&-")
        assert nest(client) < 128
        client.run("exit 1")
        client.run("sleep 1000 & X=1")
        assert client.run("jobs -r | grep -c sleep")[1] == b"1\n"


def test_a_very_long_text_makes_a_session_move() -> None:
    with running(spool="/var/tmp") as resident, resident.client() as client:
        first = int(client.run("Y=2; echo $$")[1])
        text = b"X=" + b"a" * 1_000_000 + b"; echo ${#X}"
        for at in range(0, len(text), 1 << 20):
            client.ask("blob", text[at : at + (1 << 20)], blob="long")
        client.ask("blob", b"  # " + b"-" * 100_000, blob="long")
        said, output = client.ask("run", id="long", command="long")
        assert (said["ending"], output) == (["exited", 0], b"1000000\n")
        client.ask("start", b"sleep 1", id="pause", text=7, stdin="null")
        client.ask("wait", process="pause")
        said, output = client.run("echo ${#X} $Y; echo $$")
        assert output.split()[:2] == [b"1000000", b"2"]
        assert int(output.split()[2]) != first


def test_a_text_that_ends_inside_a_substitution_costs_no_later_command() -> None:
    """bash 5.2 damages its memory then, and aborts when it reads a longer line."""
    with running() as resident, resident.client() as client:
        client.run("X=kept; f() { echo fn; }; cd /usr; Y=0")
        before = b"0"
        for length in (10, 100, 300, 1000, 3000, 9000):
            first = client.run("echo $BASHPID")[1]
            said, _ = client.run(f"Y={length}\necho $(echo")
            assert said["ending"] != ["exited", 0]
            said, output = client.run(f"echo $X $Y $PWD; f; : {'x' * length}")
            assert said["ending"] == ["exited", 0], said
            if output != b"kept %d /usr\nfn\n" % length:
                # It aborted while it reported its state: only its own changes are lost, and a note
                # says so.
                assert output == b"kept %s /usr\nfn\n" % before, said
                assert any(note.startswith("state restored") for note in said["notes"])
            before = output.split()[1]
            assert client.run("echo $BASHPID")[1] != first
