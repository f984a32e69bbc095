"""One program about to be run, as the judges of `commands` see it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from .acts import Deed, Scope
from .marks import LOCAL, shown
from .options import Options, parse_options
from .paths import Place, classify, resolve
from .programs.table import TABLE, Row
from .rules import Rule
from .shell import Shell
from .shell.syntax import Proc, Seq

# gives what the program prints, None when that is not known
Judge = Callable[["Call"], "str | None"]


class Machine(Protocol):
    """What evaluates commands and collects findings."""

    carriers: list[list[str]]  # the programs that are being run, each by the one before
    forking: int  # how many pipelines and background commands surround the program
    endless: int  # how many loops without an end surround the command
    probing: int  # what is found is only tried out

    def report(
        self,
        rule: Rule,
        reason: str,
        shell: Shell,
        decoded: str = "",
        path: str | None = None,
        call: Call | None = None,
    ) -> None: ...
    def note(self, deed: Deed, value: str, *, scope: Scope = "") -> None: ...
    def run_argv(
        self,
        argv: list[str],
        shell: Shell,
        stdin: str | None,
        env: dict[str, str],
        *,
        functions: bool = True,
    ) -> str: ...
    def run_text(self, text: str, shell: Shell, stdin: str | None) -> str: ...
    def run(self, seq: Seq, shell: Shell, stdin: str | None) -> str: ...
    def capture(self, body: Seq, shell: Shell) -> str: ...
    def open_process(self, proc: Proc, shell: Shell) -> str: ...
    def probe_argv(self, argv: list[str], shell: Shell) -> bool: ...
    def probe_text(self, text: str, shell: Shell) -> bool: ...
    def defer(self, text: str, shell: Shell) -> None: ...
    def spend(self, steps: int) -> None: ...
    def fork(self, shell: Shell) -> Shell: ...
    def fold_text(self, text: str, shell: Shell) -> str: ...


class Call:
    """A program with its folded arguments, its standard input as far as known, and the shell around
    it.
    """

    def __init__(
        self,
        argv: list[str],
        shell: Shell,
        stdin: str | None,
        env: dict[str, str],
        machine: Machine,
    ) -> None:
        self.argv = argv
        self.name = program_name(argv[0])
        self.args = argv[1:]
        self.shell = shell
        self.stdin = stdin
        self.env = env
        self.machine = machine
        self.table = TABLE
        self.printed = ""  # by a script; what else it prints is not known
        self._shown: str | None = None
        self._options: Options | None = None

    @property
    def row(self) -> Row:
        """What is known of the program."""
        return self.table.row(self.name)

    @property
    def options(self) -> Options:
        """Its options and operands, as its row says to read them."""
        if self._options is None:
            row = self.row
            self._options = parse_options(
                self.args,
                row.short,
                row.long,
                stop_early=row.early,
                single_dash_long=row.dash,
                glued=row.glued,
                last=row.last_options,
            )
        return self._options

    def report(self, rule: Rule | str, reason: str, path: str | None = None) -> None:
        """Record that a rule applies to this program."""
        rule = self.rule(rule) if isinstance(rule, str) else rule
        self.machine.report(rule, reason, self.shell, self.text(), path, self)

    def rule(self, name: str) -> Rule:
        """A rule by its name."""
        return self.table.rules.get(name) or TABLE.rules[name]

    def text(self) -> str:
        """The command as a person should see it."""
        if self._shown is None:
            joined = " ".join(_quoted(word) for word in self.argv[:60])
            is_all = len(joined) <= 400 and len(self.argv) <= 60
            self._shown = joined if is_all else f"{joined[:400]}…"
        return self._shown

    def run(self, argv: list[str], *, stdin: str | None = None, shell: Shell | None = None) -> str:
        """Evaluate another program in place of this one; gives what it prints."""
        if not argv:
            return ""
        text = self.stdin if stdin is None else stdin
        return self.machine.run_argv(argv, shell or self.shell, text, self.env)

    def shell_text(self, text: str, *, shell: Shell | None = None, stdin: str | None = None) -> str:
        """Evaluate shell code that this program would run."""
        given = self.stdin if stdin is None else stdin
        return self.machine.run_text(text, shell or self.shell.fork(), given)

    def place(self, path: str) -> tuple[str, Place]:
        """The absolute path and the kind of place it is."""
        full = resolve(path, self.shell)
        return full, classify(full, self.shell)

    def input(self) -> str:
        """Standard input as text; a mark when it is not known."""
        return LOCAL if self.stdin is None else self.stdin

    def moved(self, directory: str | None) -> Call:
        """The same call in another directory; itself without one."""
        if not directory:
            return self
        other = self.named(self.name, self.args)
        other.shell = self.shell.fork()
        other.shell.cwd = resolve(directory, self.shell)
        return other

    def again(self, argv: list[str]) -> Call:
        """The same circumstances with other arguments."""
        return Call(argv, self.shell, self.stdin, self.env, self.machine)

    def named(self, name: str, args: list[str]) -> Call:
        """The same call judged by another row; findings keep its words."""
        other = self.again(self.argv)
        other.name, other.args, other.table = name, args, self.table
        return other

    def of_verb(self, program: str, verb: str, args: list[str]) -> Call:
        """A verb of a program, judged by the row `PROGRAM-VERB`; findings name it as it is written,
        `PROGRAM VERB`.
        """
        return self.again([program, verb, *args]).named(f"{program}-{verb}", args)


@lru_cache(maxsize=4096)
def program_name(word: str) -> str:
    """The name a program is known by: without directory, Windows suffix, or a version at its end."""
    base = word.rstrip("/").rsplit("/", 1)[-1]
    if base.lower().endswith((".exe", ".com")):
        base = base[:-4].lower()
    return base


def _quoted(arg: str) -> str:
    text = shown(arg)
    if text and all(char.isalnum() or char in "-_./=:,@%+*?~‹›" for char in text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
