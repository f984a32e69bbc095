"""Folded words are what bash itself makes of them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

from hermetic.policy.marks import is_known, literal_globs
from hermetic.policy.shell import Shell
from hermetic.policy.shell.evaluator import Evaluator
from hermetic.policy.shell.expansion import Folder
from hermetic.policy.shell.reader import Reader, Unreadable
from hermetic.policy.shell.syntax import Lit, Seq, Simple, Var, Word

PRELUDE = (
    "a=rm; b='x y'; c='/usr/local/lib'; e=''; n=7; arr=(one 'two three' four); declare -A map=([k]=v [q]=w); "
    "ref=a; t='Hello World'; set -- p1 'p 2' p3"
)
PIECES = [
    "$a",
    '"$a"',
    "${a}",
    "${b}",
    '"${b}"',
    "${c##*/}",
    "${c%/*}",
    "${c#*/}",
    "${c%%/*}",
    '"${c//\\//:}"',
    "${c/usr/opt}",
    "${t,,}",
    "${t^^}",
    "${t^}",
    "${t:0:5}",
    "${t: -5}",
    "${t:6}",
    "${#t}",
    "${#arr[@]}",
    "${arr[1]}",
    '"${arr[@]}"',
    '"${arr[*]}"',
    "${arr[@]:1}",
    "${arr[-1]}",
    "${map[k]}",
    "${!ref}",
    "${e:-dflt}",
    '"${e:-d f}"',
    "${e:+alt}",
    "${a:+alt}",
    "${nope-unset}",
    "$n",
    "$((n+1))",
    "$((n*2**3))",
    "$(( n>5 ? 1 : 0 ))",
    "$((0x1f))",
    "$((010))",
    "'lit'",
    '"dq"',
    "$'a\\tb'",
    "$'\\x41\\102\\u0043'",
    "\\$x",
    "\\\\",
    '"a\\"b"',
    '"\\$a"',
    "'a'\"b\"c",
    "{x,y}",
    "{1..3}",
    "{a..c}",
    "{01..03}",
    "pre{x,y{1,2}}post",
    "{x",
    "x}",
    "{}",
    "{x}",
    "a{,b}",
    "$(echo hi)",
    '"$(echo a  b)"',
    "$(printf '%s-' 1 2)",
    "`echo bq`",
    "$(echo abc | rev)",
    "$(echo abc | tr a-c x-z)",
    "$(printf '%03d' 7)",
    "$(printf '\\x72')",
    "$1",
    '"$2"',
    '"$@"',
    "$#",
    "-rf",
    "plain",
    ".",
    "/",
    "~root",
    "~",
    "a=b",
    "x:y",
    '""',
    "''",
    "$(echo $(echo nest))",
    "$(basename /a/b.txt .txt)",
    "$(dirname /a/b)",
    "$(seq 3)",
    "$(echo cm0= | base64 -d)",
    "$(echo one two | cut -d' ' -f2)",
    "$(echo x | sed s/x/y/)",
    "$(printf 'a\\nb\\n' | head -1)",
    "$(printf 'a\\nb\\n' | tail -1)",
    "${t/o/0}",
    "${t//o/0}",
    "${t/#H/J}",
    "${t/%d/t}",
    "${b%% *}",
    "${b# }",
]
SAFE_NAMES = {"a", "b", "c", "e", "n", "t", "arr", "HOME"}


def fields_of(words: list[str]) -> list[list[str]]:
    """The fields of each of the words, folded by the policy; the prelude is evaluated first."""
    evaluator = Evaluator()
    shell = Shell(None, "/nowhere", "/nowhere")
    shell.complete = True
    evaluator.run(Reader(PRELUDE).read(), shell, None)
    evaluator.steps = -10_000_000
    found = []
    for word in words:
        ((node, _),) = Reader(f"printf {word}").read().items
        assert isinstance(node, Simple)
        read = [one for one in node.words if isinstance(one, Word)]
        found.append([literal_globs(field) for field in Folder(evaluator, shell).fields(read[1:])])
    return found


def bash_fields(words: list[str], directory: Path) -> list[list[str]]:
    """The same words as bash prints them, in an empty directory with nothing in its environment."""
    script = directory / "script"
    empty = directory / "empty"
    empty.mkdir()
    lines = [f"printf '%s\\0' {word}; printf '\\1\\0'" for word in words]
    script.write_text(PRELUDE + "\n" + "\n".join(lines) + "\n", "utf-8")
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", str(script)],
        cwd=empty,
        env={"PATH": "/usr/bin:/bin", "HOME": "/home/dev", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    groups: list[list[str]] = [[]]
    for field in done.stdout.decode("latin-1").split("\0")[:-1]:
        if field == "\x01":
            groups.append([])
        else:
            groups[-1].append(field)
    return groups[:-1]


def generated(count: int) -> list[str]:
    chance = random.Random(7)
    words = list(PIECES)
    while len(words) < count:
        words.append("".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4))))
    return [word for word in words if "~" not in word[1:] and not word.startswith("~root")]


def pure_words() -> list[str]:
    """Words of the labelled commands that hold nothing but text, quotes and variables set above."""
    found: dict[str, None] = {}
    for path in sorted(Path(__file__).parent.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            command = json.loads(line)["command"]
            if not command.isascii():
                continue
            try:
                seq = Reader(command).read()
            except Unreadable:
                continue
            for word in simple_words(seq):
                source = command[word.start : word.end]
                if (
                    source
                    and all(
                        isinstance(p, Lit)
                        or (
                            isinstance(p, Var)
                            and p.name in SAFE_NAMES
                            and p.index is None
                            and not p.op
                            and not p.length
                        )
                        for p in word.pieces
                    )
                    and "\n" not in source
                    and "!" not in source
                    and not any(c in source for c in "*?[~(")
                ):
                    found[source] = None
    return list(found)


def simple_words(seq: Seq) -> list[Word]:
    return [
        word
        for node, _ in seq.items
        if isinstance(node, Simple)
        for word in node.words
        if isinstance(word, Word)
    ]


def test_a_thousand_generated_words_fold_as_in_bash(tmp_path: Path) -> None:
    words = generated(1_100)
    assert len(words) >= 1_000
    expected = bash_fields(words, tmp_path)
    folded = fields_of(words)
    differing = [
        (word, ours, theirs)
        for word, ours, theirs in zip(words, folded, expected, strict=True)
        if ours != (theirs if theirs != [""] or ours != [] else [])
    ]
    assert differing == []


def test_words_of_the_labelled_commands_fold_as_in_bash(tmp_path: Path) -> None:
    words = pure_words()
    assert len(words) >= 1_000
    expected = bash_fields(words, tmp_path)
    folded = fields_of(words)
    differing = [
        (word, ours, theirs)
        for word, ours, theirs in zip(words, folded, expected, strict=True)
        if ours != theirs
    ]
    assert differing == []
    assert all(is_known(field) for fields in folded for field in fields)
