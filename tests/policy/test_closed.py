"""Nothing fails open: beyond a bound, on another way and in a later round, what is not judged is
unknown.
"""

import pytest

from hermetic.policy import assess

MANY = "a " * 600

BRANCHES = [
    "if [ -f a ]; then d=/usr; else d=build; fi; rm -rf $d",
    "if [ -f a ]; then d=build; else d=/usr; fi; rm -rf $d",
    "d=/usr; if [ -f a ]; then d=build; fi; rm -rf $d",
    "d=/usr; [ -f a ] && d=build; rm -rf $d",
    "d=/usr; false && d=build; rm -rf $d",
    "if x; then c=ls; else c=rm; fi; $c -rf /usr",
    "if x; then c=rm; else c=ls; fi; $c -rf /usr",
    "if x; then p=echo; else p=; fi; $p rm -rf /usr",
    "case $1 in a) c=rm;; b) c=ls;; *) c=cat;; esac; $c -rf /usr",
    "d=build; case x in x) d=/usr ;& y) rm -rf $d;; esac",
    "if x; then f(){ rm -rf /usr; }; else f(){ ls; }; fi; f",
    "if x; then rm(){ :; }; fi; rm -rf /usr",
    "false && rm(){ :; }; rm -rf /usr",
    "ls(){ rm -rf /usr; }; unset -v ls; ls",
    "alias rm=echo; rm -rf /usr",
    'set -- ls; if x; then set -- rm; fi; "$@" -rf /usr',
    "if x; then a=l; else a=r; fi; if y; then b=s; else b=m; fi; c=$a$b; $c -rf /usr",
    "if x; then a=(ls); else a=(rm); fi; ${a[0]} -rf /usr",
    "declare -A m=([k]=rm); if x; then m[k]=ls; fi; ${m[k]} -rf /usr",
    "if x; then cd /tmp/a; else cd /usr; fi; rm -rf ./*",
    'if false; then D=/tmp/a; fi; rm -rf "$D/"*',
    "$(if x; then echo ls; else echo rm; fi) -rf /usr",
    "$(false && echo ls || echo rm) -rf /usr",
    "$(case a in b) echo ls;; a) echo rm;; esac) -rf /usr",
    "IFS=,; if x; then IFS=:; fi; a=rm,-rf,/usr; $a",
    "x=rm; y=${z:+ls}; ${y:-$x} -rf /usr",
    "c=ls; " + "if x; then c=$c; fi; " * 9 + "if x; then c=rm; fi; $c -rf /usr",
    "".join(f"if x; then v{n}=a; else v{n}=b; fi; " for n in range(9))
    + "rm -rf /"
    + "".join(f"$v{n}" for n in range(9)),
]
LOOPS = [
    "d=build; while sleep 1; do rm -rf $d; d=/usr; done",
    "a=x; b=y; c=/usr; while sleep 1; do rm -rf $a; a=$b; b=$c; done",
    "a=x; b=y; c=z; d=q; e=/usr; while sleep 1; do rm -rf $a; a=$b; b=$c; c=$d; d=$e; done",
    "d=build; for f in *; do rm -rf $d; d=/usr; done",
    "d=/usr; while test -f x; do d=build; done; rm -rf $d",
    "for ((i=0; i<3; $(rm -rf /usr) i++)); do echo; done",
    "p=(build dist /usr); for ((q=0; q<3; q++)); do rm -rf ${p[q]}; done",
    "p=(ls cat rm); for ((q=0; q<3; q++)); do ${p[q]} -rf /usr; done",
    "a=lsrm; for ((q=0; q<4; q+=2)); do ${a:q:2} -rf /usr; done",
    "p=(x /usr); for ((q=0; q<1000; q++)); do rm -rf ${p[q>900]}; done",
    "p=(build dist /usr); i=0; while ((i<3)); do rm -rf ${p[i]}; ((i++)); done",
    "p=(build dist /usr); i=0; while [ $i -lt 3 ]; do rm -rf ${p[$i]}; i=$((i+1)); done",
    "select x in ls rm; do $x -rf /usr; done",
]
CAPS = {
    "lines of a loop": "while read -r l; do rm -rf $l; done <<'E'\n" + "a\n" * 600 + "/usr\nE",
    "names from lines of a loop": "while read -r l; do $l -rf /usr; done <<'E'\n"
    + "ls\n" * 600
    + "rm\nE",
    "arguments of xargs": f"printf '%s\\n' {MANY} /usr | xargs rm -rf",
    "rounds of xargs -I": f"echo {MANY} /usr | tr ' ' '\\n' | xargs -I{{}} rm -rf {{}}",
    "rounds of parallel": f"parallel rm -rf ::: {MANY} /usr",
    "tokens of a script": "perl -e '" + "1;" * 3000 + ' system("rm -rf /usr")\'',
    "length of SQL": "psql -c \"select '" + "a" * 100_500 + "'; drop table t\"",
    "rounds of a Python loop": 'python3 -c \'import shutil\nfor x in ["a"'
    + ',"a"' * 30
    + ',"/usr"]: shutil.rmtree(x)\'',
    "items of a comprehension": 'python3 -c \'import shutil\n[shutil.rmtree(x) for x in ["a"'
    + ',"a"' * 80
    + ',"/usr"]]\'',
    "items of map": 'python3 -c \'import shutil\nlist(map(shutil.rmtree, ["a"'
    + ',"a"' * 80
    + ',"/usr"]))\'',
    "rounds of a printf format": f"sh -c \"$(printf '%s;' {'ls ' * 600} 'rm -rf /usr')\"",
    "parts of a verdict": "; ".join(f"rm -rf build{n}" for n in range(300)) + "; rm -rf /usr",
    "nested braces": "rm -rf " + "{a," * 25 + "/usr" + "}" * 25,
    "words of braces": "rm -rf {" + "a," * 300 + "/usr}",
    "words of braces with a head": "rm -rf b{" + "a," * 300 + "/../../../../usr}",
    "elements of an array": "p[5000]=rm; ${p[5000]} -rf /usr",
    "length of a value": "x='" + "a" * 66_000 + "rm'; ${x: -2} -rf /usr",
    "length of an arithmetic text": "p=(" + "ls " * 501 + "rm); ${p[0" + "+1" * 501 + "]} -rf /usr",
    "functions that call themselves": 'f(){ "$@"; }; ' + "f " * 100 + "rm -rf /usr",
    "arguments of an unknown wrapper": "some-wrapper " + "a " * 70 + "rm -rf /usr",
    "nested eval": "eval " * 70 + "rm -rf /usr",
    "fields of a command": "rm -rf " + " ".join(f"b{{1..200}}c{n}" for n in range(15)) + " /usr",
    "stars of a pattern": "x=aaaaaaaaarm; ${x##*a*a*a*a*a*a*a*a*a} -rf /usr",
    "work of a removal": "x=" + "a" * 900 + "rm; ${x##*a*a} -rf /usr",
    "commands of a text": "ls\n" * 3100 + "rm -rf /usr",
    "length of a Python text": "python3 -c '"
    + "x=1\n" * 9000
    + 'import os; os.system("rm -rf /usr")\'',
}
FILTERS = [
    "$(echo rrm | tr -s r) -rf /usr",
    "$(tr a-c 'r[m*]' <<< ab) -rf /usr",
    "$(echo r,m | cut -d, -f1,2 --output-delimiter='') -rf /usr",
    "$(cut -c 1-2 --complement <<< xxrm) -rf /usr",
    "$(sed -E 's/x|y//g' <<< xrym) -rf /usr",
    "$(printf 'm\\nr\\n' | sort -V | paste -sd '') -rf /usr",
    "$(paste -d '' <(echo r) <(echo m)) -rf /usr",
    "$(join <(echo 'a r') <(echo 'a m') | tr -d 'a ') -rf /usr",
    "$(echo rm ls | fmt -w 3 | head -1) -rf /usr",
    "$(printf 'ls\\nrm\\n' | grep -v ls) -rf /usr",
    "$(printf 'ls\\nrm\\n' | grep '^r') -rf /usr",
    "$(echo mr | fold -w1 | tac | tr -d '\\n') -rf /usr",
    "read -n2 c <<< rmxx; $c -rf /usr",
    "mapfile -s1 -t v <<< $'ls\\nrm'; $v -rf /usr",
]
SPARED = [
    "if command -v python3; then PY=python3; elif command -v python; then PY=python; fi; $PY x.py",
    "if [ -f a ]; then opt=--fast; fi; ./run.sh $opt",
    "i=0; while [ $i -lt 5 ]; do rm -f tmp$i; i=$((i+1)); done",
    "for ((i=0;i<500;i++)); do echo $i > out$i.txt; done",
    's=; for f in *.py; do s="$s $f"; done; echo $s',
    "b=$(git rev-parse HEAD || echo none); echo $b",
    'case "$1" in a) t=x;; b) t=y;; *) t=z;; esac; make $t',
    "n=$(if [ -f a ]; then echo 1; else echo 2; fi); sleep $n",
    "if x; then CMD='npm test'; else CMD='yarn test'; fi; $CMD",
    "for p in a b c; do if [ -f $p ]; then x=$p; break; fi; done; cat $x",
    "alias ll='ls -l'; ll",
    "touch f{1..9}{1..9}{1..9}",
]


@pytest.mark.parametrize("command", BRANCHES)
def test_every_way_through_a_branch_is_judged(command: str) -> None:
    assert assess(command).label == "dangerous"


@pytest.mark.parametrize("command", LOOPS)
def test_later_rounds_of_a_loop_are_judged(command: str) -> None:
    assert assess(command).label == "dangerous"


@pytest.mark.parametrize("command", CAPS.values(), ids=CAPS.keys())
def test_beyond_a_bound_nothing_is_safe(command: str) -> None:
    assert assess(command).label == "dangerous"


@pytest.mark.parametrize("command", FILTERS)
def test_a_filter_is_computed_exactly_or_not_at_all(command: str) -> None:
    assert assess(command).label == "dangerous"


@pytest.mark.parametrize("command", SPARED)
def test_ordinary_branches_and_loops_raise_no_alarm(command: str) -> None:
    assert assess(command).label == "safe"
