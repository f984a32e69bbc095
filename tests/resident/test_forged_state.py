"""What a user's code prints, redefines or traps is neither run by us nor taken for a shell's state."""

import itertools
import random
import tempfile
from pathlib import Path

import pytest

from hermetic.approvals.definitions import read_definitions
from hermetic.resident.shells.traps import UNREADABLE
from tests.resident.running import Client, running
from tests.sizes import scale

SESSION = "main"


def definitions(client: Client) -> dict[str, object]:
    """Variables, functions and aliases as the policy reads them."""
    said, body = client.ask("definitions", session=SESSION)
    assert said["is_there"]
    state = read_definitions(body.decode("utf-8", "surrogateescape"))
    return {"variables": state.variables, "functions": state.functions, "aliases": state.aliases}


def run(client: Client, text: str) -> bytes:
    return client.run(text, session=SESSION)[1]


def test_what_a_debug_trap_prints_is_not_run() -> None:
    with tempfile.TemporaryDirectory() as place, running() as resident, resident.client() as client:
        victim = Path(place, "victim")
        victim.mkdir()
        run(client, f"set -T; trap 'echo rm -rf {victim}' DEBUG")
        run(client, "exit 3")
        run(client, "echo two")
        run(client, "trap 'echo x' EXIT; exit 4")
        run(client, "echo three")
        assert victim.exists()


def test_what_a_debug_trap_prints_is_no_definition() -> None:
    with running() as resident, resident.client() as client:
        run(client, "T=/true; f() { echo real; }; alias a='echo real'")
        run(
            client,
            r"""set -T; trap 'printf "declare -- T=\"/forged\"\n"; echo "alias a=forged"; echo "g () "' DEBUG""",
        )
        told = definitions(client)
        assert told["variables"]["T"] == "/true"  # type: ignore[index]
        assert set(told["functions"]) == {"f"}  # type: ignore[call-overload]
        assert told["aliases"] == {"a": "echo real"}


def test_a_function_named_builtin_is_not_kept_and_tells_nothing() -> None:
    with tempfile.TemporaryDirectory() as place, running() as resident, resident.client() as client:
        mark = Path(place, "mark")
        run(client, "T=/true")
        run(
            client,
            f"builtin() {{ command builtin \"$@\"; echo \"trap -- 'touch {mark}' EXIT\"; echo 'touch {mark}'; }}",
        )
        assert definitions(client)["variables"]["T"] == "/true"  # type: ignore[index]
        run(client, "exit 3")
        assert run(client, "trap -p; echo $T; type -t builtin") == b"/true\nbuiltin\n"
        assert not mark.exists()


def test_a_function_named_builtin_cannot_end_the_report_itself() -> None:
    """It prints what a report would hold and leaves before the report is checked."""
    with tempfile.TemporaryDirectory() as place, running() as resident, resident.client() as client:
        mark = Path(place, "mark")
        run(client, "T=/true")
        forged = Path(place, "forged")
        forged.write_text(f"trap -- 'touch {mark}' EXIT\ntrap -- 'touch {mark}' USR1\n\0\0.")
        leave = f"if [ $1 = enable ]; then cat {forged}; exit; fi"
        run(client, f'builtin() {{ {leave}; command builtin "$@"; }}')
        for text in ("exit 3", "true", "X=$(true)", "exit 4", "true"):
            run(client, text)
        assert run(client, "trap -p; echo $T; type -t builtin") == b"/true\nbuiltin\n"
        assert not mark.exists()


# Each piece is set up by a text of its own; P prints what would be run or believed, if we took it,
# and TOUCH is a command that nothing may run.
PIECES = (
    "trap 'P' DEBUG",
    "trap 'P' ERR",
    "trap 'P' RETURN",
    "trap 'P' CHLD",
    "trap 'P' EXIT",
    "trap 'P' USR1",
    "set -T",
    "set -E",
    "set -m",
    "set -x",
    "set -v",
    "shopt -s extdebug",
    "PS4='$(P)+ '",
    "BASH_XTRACEFD=1",
    "exec 7>&1; BASH_XTRACEFD=7",
    'declare() { command declare "$@"; P; }',
    'trap() { command trap "$@"; P; }',
    'builtin() { command builtin "$@"; P; }',
    'builtin() { P; command builtin "$@"; }',
    "printf() { P; }",
    "command() { P; }",
    "export() { P; }",
    "unset() { P; }",
    "eval() { P; }",
    "exec() { P; }",
    "set() { P; }",
    "mapfile() { P; }",
    "alias() { P; }",
    "umask() { P; }",
    "alias builtin='P;builtin'",
    "alias trap='P;trap'",
    "alias declare='P;declare'",
    "alias {='P;{'",
    "command_not_found_handle() { P; }",
    "enable -n declare",
    "enable -n trap",
    "set -- 'P'",
    'complete -W "$(P)" foo',
    'pushd -n "$(P | head -1)" >/dev/null',
    'export X="$(P)"',
    'x="$(P)"',
    'declare -A m=(["$(P)"]="$(P)")',
    "f() { P; }; export -f f",
    'alias q="$(P)"',
    "set -o posix",
    "IFS=abdeh",
    "set -f",
    "set -e",
    "set -u",
    "shopt -s nullglob",
    "readonly -f builtin",
    "LC_ALL=C",
    "n='a[$(TOUCH)]'; declare -i n",
    "l=('a[$(TOUCH)]'); declare -air l",
    "declare -A k=(['$(TOUCH)']='$(TOUCH)')",
    "declare -n o='a[$(TOUCH)]'",
    "complete -W '$(TOUCH)' 'foo;TOUCH'",
    "alias t='TOUCH'; t() { TOUCH; }",
    "shopt -s extglob; w() { case $1 in !(a)) TOUCH; esac; }",
)


@pytest.mark.parametrize("seed", range(scale(120)))
def test_whatever_prints_shell_text_nothing_of_it_is_run_or_believed(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place, running() as resident, resident.client() as client:
        mark = Path(place, "mark")
        forged = (
            f"touch {mark}",
            f"; touch {mark}",
            f"'; touch {mark}; '",
            f"trap -- 'touch {mark}' EXIT",
            f"trap -- 'touch {mark}' DEBUG",
            'declare -- forged="1"',
            "forged () ",
            "{ ",
            f"touch {mark}",
            "}",
            "alias forged='1'",
            f"$(touch {mark})",
            f"builtin touch {mark}",
        )
        lines = Path(place, "lines")
        lines.write_text("".join(line + "\n" for line in forged))
        pieces = chance.sample(PIECES, chance.randint(1, 5))
        run(client, "T=/true; real() { echo real; }; alias r='echo real'")
        for piece in pieces:
            text = (
                piece.replace("P", f"cat {lines}")
                if "PS4" not in piece
                else piece.replace("$(P)", f"$(cat {lines})")
            )
            run(client, text.replace("TOUCH", f"touch {mark}"))
            if chance.random() < 0.5:
                told = definitions(client)
                for part in ("variables", "functions", "aliases"):
                    assert "forged" not in told[part], pieces  # type: ignore[operator]
                assert told["variables"]["T"] == "/true", pieces  # type: ignore[index]
        for text in itertools.islice(
            # the last one makes the session move to a fresh bash
            itertools.cycle(("exit 3", "true", "(exit 2)", "kill -9 $BASHPID", "echo $(")),
            7,
        ):
            run(client, text)
        told = definitions(client)
        assert "forged" not in {*told["variables"], *told["functions"], *told["aliases"]}, pieces  # type: ignore[misc]
        assert told["variables"]["T"] == "/true", pieces  # type: ignore[index]
        assert "echo real" in told["functions"]["real"], pieces  # type: ignore[index]
        assert told["aliases"]["r"] == "echo real", pieces  # type: ignore[index]
        assert not mark.exists(), pieces


@pytest.mark.parametrize(
    "text", ["unset BASHPID", "unset BASHPID; BASHPID=1", "unset BASHPID; BASHPID=0"]
)
def test_a_shell_that_reports_another_pid_costs_its_own_state_alone(text: str) -> None:
    with running() as resident, resident.client() as client:
        run(client, "T=/true")
        for _ in range(2):
            said, output = client.run(f"echo a; {text}", session=SESSION)
            assert (said["ending"], output) == (["exited", 0], b"a\n")
            said, output = client.run("echo $T $((BASHPID > 1))", session=SESSION)
            assert output == b"/true 1\n"
            assert UNREADABLE in said["notes"]


BEFORE_IT_IS_BELIEVED = (
    "readonly POSIXLY_CORRECT",
    "readonly POSIXLY_CORRECT=1; set +o posix",
    "enable -n exit; exit() { :; }; builtin() { if [ $1 = enable ]; then cat FORGED; kill -9 $BASHPID; fi; "
    'command builtin "$@"; }',
    "enable -n exit; builtin() { if [ $1 = enable ]; then cat FORGED; kill -9 $BASHPID; fi; "
    'command builtin "$@"; }; exit() { :; }; readonly -f builtin exit',
)


@pytest.mark.parametrize("text", BEFORE_IT_IS_BELIEVED)
def test_a_report_that_is_cut_short_or_printed_by_a_function_is_not_believed(text: str) -> None:
    with tempfile.TemporaryDirectory() as place, running() as resident, resident.client() as client:
        forged = Path(place, "forged")
        forged.write_bytes(b'\0declare -- T="/forged"\n\0\0\0.')
        run(client, "T=/true; real() { echo real; }")
        run(client, text.replace("FORGED", str(forged)))
        run(client, "true")
        for _ in range(2):
            told = definitions(client)
            assert told["variables"]["T"] == "/true"  # type: ignore[index]
            assert "real" in told["functions"]  # type: ignore[operator]
            assert "builtin" not in told["functions"]  # type: ignore[operator]
            run(client, "exit 3")
