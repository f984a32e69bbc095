"""The reader of shell text sees the commands that bash sees."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from hermetic.policy import assess
from hermetic.policy.shell.syntax import Lit, Word
from tests.policy.bash import corpus, view
from tests.policy.bash.view import Unreadable, unlimited
from tests.policy.test_robustness import COMMANDS, mutate
from tests.sizes import is_full, scale

__all__ = ["unlimited"]
SHARE = 0.995

# What bash runs, in places where another reading would take it for text.
HIDDEN = [
    "\"${x:-$'\\x72\\x6d'}\" -rf /usr",
    "$'\\x{72}m' -rf /usr",
    "echo \"${x-'\"'}\" ; rm -rf /usr ; echo '\"' '\"' # }\"",
    "cat <<EOF\nhi\nEO\\\nF\nrm -rf /usr\nEOF",
    "cat <<EOF && echo $(\nrm -rf /usr\nEOF\n)",
    "x=$(cat <<EOF\nhi\nEOF )\nrm -rf /usr\ny=$(cat <<EOF\nhi\nEOF\n)",
    "[[ x == @(a|$(rm -rf /usr)) ]]",
    'declare -A A; echo $(( A["\\""] )) ; rm -rf /usr ; echo "))"',
    "echo ${x:?$(rm -rf /usr)}",
    "echo ${H*$(rm -rf /usr)}",
    "echo ${ rm -rf /usr; }",
    'declare -A d; d["]"]=1; echo ${d["]"]}; rm -rf /usr',
    "x=`echo 'a\\\nb'; rm -rf /usr`",
    "echo $'\\c'; rm -rf /usr; echo $'\\c'",
    "x='\\x72\\155'; ${x@E} -rf /usr",
    "x=ls; ${x//*/rm} -rf /usr",
    "x=zrm; ${x#[a-z]} -rf /usr",
]

# What bash accepts.
ACCEPTED = [
    "f() { (true) }; f",
    "if ((x)) then ls; fi",
    "{ while read -r a; do echo $a; done } < list",
    "case x in x) (ls) esac",
    "echo ${words[${#words[@]}-1]}",
    "unset ${(M)names}",
    "for 1 in a b; do echo; done",
    "coproc worker while read -r l; do echo $l; done",
    "let a=(5 + 3)",
    "make |& tee log",
    "x=$(cat <<EOF\nhi\nEOF\n); echo $x",
    "echo \"${mytab:-$'\\t'}\"",
]


@pytest.mark.parametrize("command", HIDDEN)
def test_no_command_is_taken_for_text(command: str) -> None:
    assert any("rm -rf /usr" in part.decoded for part in assess(command).parts), command


@pytest.mark.parametrize("command", ACCEPTED)
def test_what_bash_accepts_is_read(command: str) -> None:
    assert view.accepts(command)
    assert "unreadable" not in {part.rule for part in assess(command).parts}


class Comparison:
    """How scripts were read: equal, or by class of disagreement."""

    def __init__(self) -> None:
        self.commands: Counter[str] = Counter()
        self.scripts: dict[str, list[str]] = {}

    def add(self, path: Path) -> None:
        text = path.read_bytes().decode("latin-1")
        normal = view.of_function(text) or view.of_function(text, "-O", "extglob")
        if normal is None:
            kind, count = self._compare(text, view.of_file(str(path)))
        else:
            kind, count = self._compare("__body() {\n" + text + "\n}", normal)
        self.scripts.setdefault(kind, []).append(str(path))
        self.commands[kind] += count

    def _compare(self, text: str, normal: str | None) -> tuple[str, int]:
        if normal is None:
            return "refused by bash", 0
        try:
            mine = view.ours(text)
        except Unreadable:
            return "refused by the reader", normal.count("\n")
        try:
            theirs = view.ours(normal)
        except Unreadable:
            kind = (
                "unreadable normal form"
                if view.accepts(normal)
                else "bash cannot read its own normal form"
            )
            return kind, view.commands_in(mine)
        count = view.commands_in(theirs)
        if mine == theirs:
            return "equal", count
        if view.commands_only(mine) == view.commands_only(theirs):
            return "wording inside ${…}", count
        return "different commands", count

    def report(self) -> str:
        lines = []
        for kind, paths in self.scripts.items():
            lines += [f"{kind}: {len(paths)} scripts, {self.commands[kind]} commands"]
            lines += [f"    {path}" for path in paths if kind != "equal"]
        return "\n".join(lines)

    def check(self) -> None:
        """Enough is equal, and no class of disagreement hides a command."""
        print(self.report())
        assert "different commands" not in self.scripts, self.report()
        assert "unreadable normal form" not in self.scripts, self.report()
        assert self.commands["equal"] >= SHARE * self.commands.total(), self.report()


@pytest.fixture
def deep() -> Iterator[None]:
    """Room for trees of large scripts."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited", "deep")
def test_scripts_of_the_machine_are_read_as_bash_reads_them() -> None:
    scripts = corpus.of_machine()
    if not is_full():
        scripts = random.Random(1).sample(scripts, min(60, len(scripts)))
    comparison = Comparison()
    for path in scripts:
        comparison.add(path)
    comparison.check()


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("unlimited", "deep")
def test_scripts_of_bash_are_read_as_bash_reads_them(tmp_path: Path) -> None:
    comparison = Comparison()
    for path in corpus.of_bash(tmp_path):
        comparison.add(path)
    comparison.check()


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
def test_mutated_commands_are_read_as_bash_reads_them(tmp_path: Path) -> None:
    """bash prints them without running them.

    It may accept what the reader refuses: that is dangerous, not hidden.
    """
    chance, kinds, different = random.Random(20_261_118), Counter[str](), []
    file = tmp_path / "text"
    for _ in range(scale(6_000)):
        text = mutate(chance.choice(COMMANDS), chance).replace("\0", "").replace("\r\n", "\n")
        file.write_bytes(data := text.encode("utf-8", "surrogatepass"))
        normal = view.of_file(str(file))
        try:
            mine = view.ours(data.decode("latin-1"))
        except Unreadable:
            kinds["refused" if normal is None else "refused by the reader"] += 1
            continue
        if normal is None:
            kinds["refused by bash"] += 1
        elif not view.accepts(normal):
            kinds["bash cannot read its own normal form"] += 1
        elif re.search(r"<<\s+['\"\\]*-", text):  # printed as `<<-`, which is another operator
            kinds["bash prints another here-document"] += 1
        elif text.endswith("\\"):  # a string keeps it at its end, a file does not
            kinds["ends with a backslash"] += 1
        elif view.commands_only(mine) != view.commands_only(view.ours(normal)):
            different.append(text)
        else:
            kinds["equal"] += 1
    assert different == []
    assert kinds["refused by the reader"] <= (1 - SHARE) * kinds.total(), kinds


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
def test_words_have_the_value_and_the_borders_that_bash_gives_them() -> None:
    """Words without expansions are printed by bash; and wider gaps between words change nothing for
    it.
    """
    scripts = random.Random(2).sample(paths := corpus.of_machine(), min(scale(600), len(paths)))
    compared = 0
    for path in scripts:
        text = path.read_bytes().decode("latin-1")
        normal = view.of_function(text)
        if normal is None:
            continue
        try:
            commands = list(view.top_words(text))
        except Unreadable:
            continue
        raw = {
            text[word.start : word.end]: "".join(
                piece.text for piece in word.pieces if isinstance(piece, Lit)
            )
            for words in commands
            for word in words
            if word.pieces and all(isinstance(piece, Lit) for piece in word.pieces)
        }
        plain = {
            written: value
            for written, value in raw.items()
            if "~" not in written and "(" not in written
        }
        assert view.literals(list(plain)) == list(plain.values()), path
        compared += len(plain)
        assert view.of_function(_widened(text, commands)) == normal, path
    assert compared > 100


def _widened(text: str, commands: list[list[Word]]) -> str:
    gaps = {(one.end, other.start) for words in commands for one, other in pairwise(words)}
    for start, end in sorted(gaps, reverse=True):
        if text[start:end].strip(" \t") == "":
            text = text[:start] + " \t " + text[start:]
    return text
