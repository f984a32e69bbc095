"""What sets a variable is judged alike: an assignment, a builtin, a loop, an expansion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings
from hermetic.policy import assess
from hermetic.toolbox import Toolbox


def label(command: str) -> str:
    return assess(command).label


@pytest.mark.parametrize(
    "command",
    [
        "printf -v PATH /tmp/evil",
        "printf -v PATH '%s' \"/tmp/evil:$PATH\"",
        "read -r PATH <<< /tmp/evil",
        "IFS=, read -r x PATH <<< a,/tmp/evil",
        "mapfile -t PATH <<< /tmp/evil",
        "read -ra PATH <<< /tmp/evil",
        "PATH[0]=/tmp/evil",
        "PATH=(/tmp/evil)",
        "declare 'PATH[0]=/tmp/evil'",
        "declare -n r=PATH; read -r r <<< /tmp/evil",
        "printf -v LD_PRELOAD /tmp/x.so; export LD_PRELOAD",
        "set -a; read -r BASH_ENV <<< /tmp/x",
        "for LD_PRELOAD in /tmp/x.so; do ls; done",
        ": ${LD_PRELOAD:=/tmp/x.so}; export LD_PRELOAD",
        "read -r PROMPT_COMMAND <<< 'rm -rf ~'",
    ],
)
def test_a_variable_is_judged_whatever_sets_it(command: str) -> None:
    assert label(command) == "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        "declare -n o='a[$(rm -rf ~)]'; o=1",
        "typeset -n o='a[`rm -rf ~`]'; echo $o",
        "f() { local -n o=$1; echo $o; }; f 'a[$(rm -rf ~)]'",
        "declare -n o; read -r o <<< 'a[$(rm -rf ~)]'; echo $o",
        "declare -i n; read -r n <<< 'a[$(rm -rf ~)]'",
        "declare -i n; printf -v n %s 'a[$(rm -rf ~)]'",
        "declare -i n; for n in 'a[$(rm -rf ~)]'; do :; done",
        "declare -ai n; mapfile -t n <<< 'a[$(rm -rf ~)]'",
        'declare -a "x=([\\$(rm -rf ~)]=1)"',
        "x='([$(rm -rf ~)]=1)'; declare -a \"y=$x\"",
        "set -- 'a[$(rm -rf ~)]'; (( $1 ))",
        "set -- 'a[$(rm -rf ~)]'; echo $(( $1 + 1 ))",
        "set -- 'a[$(rm -rf ~)]'; echo ${x[$1]}",
    ],
)
def test_a_command_in_an_index_is_found_wherever_bash_evaluates_it(command: str) -> None:
    assert label(command) == "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        "__h[8]='touch x'",
        "__h[14]=/tmp/orders",
        "__h=(a b)",
        "__h+=(a)",
        "trap '__h[3]=ls' USR1",
        "printf -v '__h[8]' '%s' 'touch x'",
        "read -r '__h[8]' <<< 'touch x'",
        "mapfile -O 8 __h < orders",
        "readarray -t __h < orders",
        "declare '__h[8]=touch x'",
        "declare -i __h",
        "declare -n r=__h",
        "declare -n r='__h[8]'; r='touch x'",
        "f() { local -n r=$1; r[8]='touch x'; }; f __h",
        "declare -n r; read -r r <<< '__h[8]'; r='touch x'",
        "a=__; b=h; printf -v \"$a$b[8]\" '%s' 'touch x'",
    ],
)
def test_the_array_that_runs_a_session_s_commands_is_not_changed_unasked(command: str) -> None:
    assert label(command) == "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        'while IFS= read -r line; do echo "$line"; done < notes.txt',
        "read -r CC <<< gcc; make CC=$CC",
        "for CC in gcc clang; do make CC=$CC; done",
        "printf -v PATH '%s' \"$HOME/bin:$PATH\"",
        "mapfile -t files < <(git ls-files); echo ${#files[@]}",
        "PATH=(/usr/bin)",
        "local -n ref=$1; ref=2",
        "i=0; (( a[i++] = 3 )); echo ${a[0]} $__h",
        "declare -a 'x=([0]=a [1]=b)'",
        ": ${EDITOR:=vim}",
    ],
)
def test_ordinary_ways_to_set_a_variable_are_safe(command: str) -> None:
    assert label(command) == "safe"


@pytest.mark.parametrize("word", ["export", "declare", "local", "readonly", "typeset -x"])
def test_what_a_declaration_assigns_is_not_split(word: str) -> None:
    assert label(f"f() {{ {word} d=$1; rm -rf $d; }}; f 'x /etc'") == "dangerous"
    assert label(f"a='x y'; {word} d=$a; rm -rf \"./$d\"; ls $d") != "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        "enable -n export unset; export() { return 1; }",
        "enable -n trap",
        "x=set; enable -n $x",
        'enable -n "$(cat names)"',
    ],
)
def test_builtins_by_which_a_session_is_seen_are_not_switched_off_unasked(command: str) -> None:
    assert label(command) == "dangerous"


@pytest.mark.parametrize("command", ["enable -n", "enable -n echo", "enable export", "enable -a"])
def test_other_builtins_are(command: str) -> None:
    assert label(command) != "dangerous"


@pytest.mark.parametrize(
    "texts",
    [
        ["readonly POSIXLY_CORRECT", "ls() { git push --force; }", "ls"],
        ["readonly POSIXLY_CORRECT=1; set +o posix", "a=force", 'git push "--$a"'],
        ["unset BASHPID", "a=force", 'git push "--$a"'],
        ["declare -n r=PATH", "read -r r <<< /tmp/evil"],
        ["a=([5]=force [0]=x)", 'git push "--${a[5]}"'],
        ["declare -A d", 'd[a]=force; d[b]=x; git push "--${d[a]}"'],
        ["a=(x force); n=0; declare -n t='a[n++]'", "echo $t", 'git push "--$t"'],
        ["a=(x force); n=0", "let n++", 'git push "--${a[n]}"'],
        ["printf -v big '%*s' 2000000 x; ls() { git push --$1; }", "ls force"],
        ["for i in {1..9}; do printf -v b$i '%*s' 300000 x; done; a=force", 'git push "--$a"'],
        ["function a,b { git push --$1; }", "a,b force"],
        ["function a{b { git push --$1; }", "a{b force"],
        ["function a!b { git push --$1; }", "a!b force"],
        ["function a=b { git push --$1; }", "\\a=b force"],
        ["function [ { git push --$1; }", "[ force"],
        ["function a[b { git push --$1; }", "a[b force"],
        ["function äb { git push --$1; }", "äb force"],
        ["alias 'a,b=git push'; shopt -s expand_aliases", "a,b --force"],
        ["alias 'ä=git push'; shopt -s expand_aliases", "ä --force"],
        ["T=__h", "printf -v \"$T[8]\" '%s' 'git push --force'"],
    ],
)
async def test_what_a_session_holds_is_known_however_it_was_set(
    tmp_path: Path, texts: list[str]
) -> None:
    toolbox = Toolbox(
        options={"cwd": str(tmp_path), "login": False},
        settings=Settings(approvals=ApprovalSettings(mode="deny")),
    )
    try:
        answers = [json.loads(await toolbox.call("terminal", {"command": one})) for one in texts]
        assert answers[-1]["status"] == "blocked", answers
    finally:
        await toolbox.close()


async def test_a_session_that_defines_too_much_to_be_judged_runs_nothing_unasked(
    tmp_path: Path,
) -> None:
    (tmp_path / "lib.sh").write_text(
        f"ls() {{ git push --$1; }}\nbig() {{ : {'x' * 2_000_000}; }}\n"
    )
    toolbox = Toolbox(
        options={"cwd": str(tmp_path), "login": False},
        settings=Settings(approvals=ApprovalSettings(mode="deny")),
    )
    try:
        for command in ("source ./lib.sh", "ls force"):
            answer = json.loads(await toolbox.call("terminal", {"command": command}))
        assert answer["status"] == "blocked", answer
        assert "opaque-code" in answer["error"]
    finally:
        await toolbox.close()


@pytest.mark.parametrize("word", ["if", "for", "{", "[[", "!", "time", "function"])
def test_a_word_of_the_grammar_gets_no_other_meaning_unasked(word: str) -> None:
    assert label(f"alias '{word}=echo'") == "dangerous"
    assert label("alias ll='ls -l'") == "safe"
