"""Commands that have taken shells down, and process trees that have escaped a kill, by what they
do.
"""

from typing import NamedTuple


class Poison(NamedTuple):
    """A text, and the exit code it has in a shell; None: any."""

    text: str
    code: int | None = None


WORDS = """
    eval builtin break continue read printf mapfile echo cd exit trap export declare local test set unset exec
    command return shift wait kill source type true : [ readonly shopt enable let umask ulimit hash pwd jobs
"""

POISONS: dict[str, Poison] = {
    "exit": Poison("exit 3", 3),
    "exit without a number": Poison("false; exit", 1),
    "exit in a function": Poison("f() { exit 4; }; f", 4),
    "exit in a sourced file": Poison("source <(echo 'exit 5')", 5),
    "exit far above 255": Poison("exit 259", 3),
    "exec of a program": Poison("exec sh -c 'exit 6'", 6),
    "the mark read-only": Poison("declare -r HERMETIC_COMMAND"),
    "the mark unset": Poison("unset HERMETIC_COMMAND", 0),
    "the shell's number unset": Poison("unset BASHPID", 0),
    "the shell's number changed": Poison("unset BASHPID; BASHPID=1", 0),
    "exec of nothing": Poison("exec /nonexistent/program", 127),
    "exec of another bash": Poison("exec bash -c 'exit 7'", 7),
    "set -e and a failure": Poison("set -e; false; echo unreached", 1),
    "set -eou pipefail and a failure": Poison("set -eou pipefail; false | true; echo unreached", 1),
    "set -e alone": Poison("set -e", 0),
    "set -u and an unset variable": Poison("set -u; echo $no_such_variable", 127),
    "set -u alone": Poison("set -u", 0),
    "set -n": Poison("set -n"),
    "set -x": Poison("set -x", 0),
    "set -v": Poison("set -v", 0),
    "set -f": Poison("set -f", 0),
    "set -k": Poison("set -k", 0),
    "set -t": Poison("set -t"),
    "set -m": Poison("set -m", 0),
    "set -a": Poison("set -a", 0),
    "set -C": Poison("set -C", 0),
    "set -T and -E": Poison("set -TE", 0),
    "set -o posix": Poison("set -o posix", 0),
    "every shell option": Poison(
        "shopt -s nullglob failglob dotglob extglob lastpipe execfail inherit_errexit", 0
    ),
    "kill -9 $$": Poison("kill -9 $$"),
    "kill -9 $BASHPID": Poison("kill -9 $BASHPID", 137),
    "kill -TERM $BASHPID": Poison("kill -TERM $BASHPID", 143),
    "kill -HUP $BASHPID": Poison("kill -HUP $BASHPID", 129),
    "trap on EXIT": Poison("trap 'true' EXIT", 0),
    "trap on EXIT, and exit": Poison("trap 'true' EXIT; exit 8", 8),
    "trap on EXIT that exits": Poison("trap 'exit 9' EXIT; true", 9),
    "trap on ERR that exits": Poison("trap 'exit 10' ERR; false", 10),
    "trap on DEBUG that exits": Poison("trap 'exit 11' DEBUG; true", 11),
    "trap on DEBUG that skips": Poison("shopt -s extdebug; trap false DEBUG"),
    "trap on DEBUG that kills": Poison("trap 'kill -9 $BASHPID' DEBUG; true", 137),
    "trap on RETURN and CHLD": Poison("trap 'exit 12' RETURN; trap ':' CHLD; true", 0),
    "ignored signals": Poison("trap '' TERM INT HUP QUIT PIPE USR1", 0),
    "an unbalanced quote": Poison("echo 'unbalanced"),
    "an unbalanced brace": Poison("{ echo open"),
    "a stray done": Poison("done"),
    "a stray parenthesis": Poison("echo )"),
    "an unended here-document": Poison("cat <<END\ntext"),
    "an unended substitution": Poison("echo $(echo"),
    "a trailing backslash": Poison("true \\"),
    "a bad substitution": Poison("echo ${x!y z}"),
    "an error on purpose": Poison("echo ${no_such_variable:?missing}"),
    "a write to a read-only variable": Poison("readonly fixed=1; fixed=2; echo unreached"),
    "read-only specials": Poison("readonly PATH IFS HOME PWD OLDPWD OPTIND REPLY", None),
    "a read-only line number": Poison("readonly LINENO", None),
    "read-only array of reads": Poison("readonly MAPFILE __h order reply line i", None),
    "output redirected for good": Poison("exec >/dev/null", 0),
    "both redirected for good": Poison("exec >/dev/full 2>&1", 0),
    "input redirected for good": Poison("exec </dev/zero", 0),
    "all three closed": Poison("exec 0<&- 1>&- 2>&-"),
    "bash's own copies closed": Poison("exec 10>&- 11>&- 12>&-"),
    "high descriptors closed": Poison('for ((n = 3; n < 256; n++)); do eval "exec $n>&-"; done'),
    "every descriptor of the shell closed": Poison(
        'for p in /proc/$BASHPID/fd/*; do n=${p##*/}; eval "exec $n>&-"; done 2>/dev/null'
    ),
    "too few descriptors": Poison("ulimit -n 3"),
    "no more processes": Poison("ulimit -u 1 2>/dev/null"),
    "no more file size": Poison("ulimit -f 0"),
    "unset PATH": Poison("unset PATH", 0),
    "PATH of nothing": Poison("PATH=/nonexistent", 0),
    "changed IFS": Poison("IFS=eabtx0123456789/", 0),
    "empty IFS": Poison("IFS=", 0),
    "unset IFS": Poison("unset IFS", 0),
    "a changed locale": Poison("export LC_ALL=C LANG=xx_YY", 0),
    "BASH_ENV and ENV": Poison("export BASH_ENV=/dev/stdin ENV=/nonexistent", 0),
    "PROMPT_COMMAND": Poison("export PROMPT_COMMAND='exit 1' PS4='$(exit 1)' PS1='$(exit)'", 0),
    "exported options": Poison("set -e; export SHELLOPTS", 0),
    "TMOUT": Poison("export TMOUT=1", 0),
    "break out of everything": Poison("break 99"),
    "continue of everything": Poison("continue 99"),
    "break": Poison("break"),
    "continue": Poison("continue"),
    "break out of a sourced file": Poison("source <(echo 'break 5')"),
    "return": Poison("return 5"),
    "aliases for words of the language": Poison(
        "shopt -s expand_aliases; alias eval=false case=false printf=false builtin=false for=false mapfile=false",
        0,
    ),
    "builtins switched off": Poison("enable -n mapfile read eval trap"),
    "everything unset": Poison("for v in ${!_*} ${!B*} ${!M*}; do unset $v; done 2>/dev/null"),
    "every function of ours unset": Poison(
        "unset -f $(compgen -A function __) 2>/dev/null; unset ${!__*} 2>/dev/null"
    ),
    "a sub-shell that exits": Poison("(exit 13)", 13),
    "a pipeline that exits": Poison("exit 14 | exit 15", 15),
    "a group that exits": Poison("{ exit 16; }", 16),
    "exit in a condition": Poison("if exit 17; then :; fi", 17),
    "exit in eval": Poison("eval 'exit 18'", 18),
    "a job, then exit": Poison("sleep 0.05 & exit 19", 19),
    "a division by zero": Poison("echo $((1 / 0))"),
    "deep recursion": Poison("FUNCNEST=50; f() { f; }; f", None),
    **{f"a function named {name}": Poison(f"{name}() {{ :; }}") for name in WORDS.split()},
}

# MARK stands for the number of seconds that identifies the processes of one test.
TREES = {
    "one program": "sleep MARK",
    "children": "sleep MARK & sleep MARK & sleep MARK",
    "a pipeline": "sleep MARK | sleep MARK | sleep MARK",
    "a sub-shell": "(sleep MARK; sleep MARK)",
    "setsid": "setsid sleep MARK & sleep MARK",
    "a double fork": "( ( setsid sleep MARK & ) & ); sleep MARK",
    "nohup": "nohup sleep MARK >/dev/null 2>&1 & sleep MARK",
    "disown": "sleep MARK & disown -a; sleep MARK",
    "closed descriptors": "(setsid sh -c 'exec 0<&- 1>&- 2>&-; sleep MARK' &); sleep MARK",
    "an empty environment": "env -i setsid sh -c 'sleep MARK & sleep MARK' & sleep MARK",
    "TERM ignored": "bash -c 'trap \"\" TERM; while :; do sleep 0.05; done' MARK",
    "TERM ignored by the shell itself": "trap '' TERM; sleep MARK; sleep MARK",
    "keeps forking": "bash -c 'while :; do setsid bash -c \"sleep 600\" $0 & sleep 0.01; done' MARK",
    "forks when it is told to end": (
        "bash -c 'trap \"setsid sleep $0 & setsid sleep $0 &\" TERM; while :; do sleep 0.05; done' MARK"
    ),
    "stopped": "bash -c 'kill -STOP $$' MARK & sleep MARK",
    "job control": "set -m; sleep MARK & sleep MARK & sleep MARK",
}
