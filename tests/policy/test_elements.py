"""Which element of an array, and which positional parameter, an expansion gives: bash decides."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from hermetic.policy import assess
from tests.sizes import scale

VICTIM = "/srv/v"
# the file `n` holds three words, which the policy does not see
WORDS = f"1 {VICTIM} 0"
PIECES = (
    "a=(./x {v})",
    "a=({v} ./x ./y)",
    "a=([2]={v} [0]=./x)",
    "a=([n]={v} ./x)",
    "a+=(./z {v})",
    "a=($(cat n) ./x)",
    "x=$(cat n); a=($x)",
    "a=(/srv/*v)",
    "mapfile -t a < <(tr ' ' '\\n' < n)",
    "read -ra a < n",
    "read -r 'a[1]' <<< {v}",
    "printf -v 'a[n]' %s {v}",
    "declare 'a[1]={v}'",
    "declare -a 'a=(./x {v})'",
    "a[n]={v}",
    "a[-1]={v}",
    "a[$(cut -c1 n)]={v}",
    "a[n++]=./x",
    ": ${{a[3]:={v}}}",
    "unset 'a[0]'",
    'b=("${{a[@]}}"); a=("${{b[@]:1}}")',
    'set -- "${{a[@]}}"',
    "set -- $(cat n)",
    "set -- ./x {v}",
    "set -- /srv/*v ./x",
    "shift",
    'set -- "${{@:2}}"',
    "n=1",
    "n=0",
    "let n++",
    "((n++))",
    "[[ n++ -eq 0 ]]",
    "test -v 'a[n++]'",
    "[[ -v a[n++] ]]",
    ": ${{a[n++]}}",
    "m='n=1'; declare -i k=m",
    "m=n++; ((m))",
    "declare -n T='a[n]'",
    "declare -n T='a[n++]'",
    "declare -n T='a[1]'; T={v}",
    "declare -A d=([n]=./x [{v}]={v})",
    "d[$(cut -c1 n)]={v}",
    "d[n]={v}",
    "d[n]+=/k",
)
TARGETS = (
    "${a[0]}",
    "${a[1]}",
    "${a[2]}",
    "${a[3]}",
    "${a[n]}",
    "${a[-1]}",
    "$a",
    "$1",
    "$2",
    "$3",
    "$T",
    "${d[n]}",
    "${d[1]}",
    "${@: -1}",
)


def label(command: str) -> str:
    return assess(command).label


@pytest.mark.parametrize("seed", range(scale(400)))
def test_what_bash_would_delete_is_seen_whatever_named_the_element(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (tmp_path / "n").write_text(WORDS)
    for _ in range(20):
        pieces = [
            piece.format(v=chance.choice((VICTIM, "./w")))
            for piece in chance.choices(PIECES, k=chance.randint(1, 5))
        ]
        text, target = "n=0\n" + "\n".join(pieces), chance.choice(TARGETS)
        ran = subprocess.run(
            ["bash", "-c", f'{text}\nprintf "<%s>" "{target}"'],
            capture_output=True,
            cwd=tmp_path,
            text=True,
            check=False,
        )
        if ran.stdout == f"<{VICTIM}>":
            assert label(f'{text}\nrm -rf "{target}"') == "dangerous", (text, target)


@pytest.mark.parametrize(
    "command",
    [
        'mapfile -t a < names; rm -rf "${a[1]}"',
        'set -- $(cat names); rm -rf "$2"',
        'set -- $(cat names); shift; rm -rf "$1"',
        'a=(/srv/*); rm -rf "${a[1]}"',
        'a=([5]=/srv/v); rm -rf "${a[5]}"',
        "a=(./x /srv/v); declare -n T='a[SECONDS>1]'; rm -rf \"$T\"",
        'i=$(cat n); a=(./x); a[i]=/srv/v; rm -rf "${a[0]}"',
        "printf -v 'a[$(rm -rf ~)]' x",
        "read -r 'a[$(rm -rf ~)]' <<< x",
        "unset 'a[$(rm -rf ~)]'",
        "declare 'a[$(rm -rf ~)]=1'",
        "test -v 'a[$(rm -rf ~)]'",
    ],
)
def test_an_element_that_is_not_known_may_be_any(command: str) -> None:
    assert label(command) == "dangerous"


@pytest.mark.parametrize(
    "command",
    [
        'a=(./build ./dist); rm -rf "${a[1]}"',
        'a=(./build/*); rm -rf "${a[1]}"',
        'f() { rm -rf "./$2"; }; f "$x" build',
        'f() { rm -rf "${2:-./build}"; }; f "$x"',
        'declare -A d=([out]=./build); rm -rf "${d[out]}"',
        'a=(./build); ((i=0)); rm -rf "${a[i]}"',
        'mapfile -t files < <(git ls-files); echo "${files[3]}"',
        'args=(-q); args+=(--color "$x"); ls "${args[@]}"',
        'set -- "$x" ./build; rm -rf "$2"',
    ],
)
def test_an_element_that_is_known_is_judged_alone(command: str) -> None:
    assert label(command) != "dangerous"
