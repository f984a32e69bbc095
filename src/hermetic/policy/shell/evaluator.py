"""Walks a shell text as bash would run it, without running anything, and collects what it would do."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import commonprefix

from hermetic.policy import budget, dynamic_code, marks
from hermetic.policy.acts import Act
from hermetic.policy.budget import MAX_STEPS, MAX_TEXT, Overflow, copying, joined, reading
from hermetic.policy.call import Call, program_name
from hermetic.policy.marks import LOCAL, is_known, is_plain, shown, unknown_like
from hermetic.policy.network import REVERSE_SHELL
from hermetic.policy.paths import resolve
from hermetic.policy.programs.carriers import judge_carriers
from hermetic.policy.programs.catalog import FALLBACK, find_judge
from hermetic.policy.programs.hooks.shells import run_file
from hermetic.policy.variables import judge_variable

from . import syntax
from .aliases import expand
from .assignments import DECLARING, assign, become_map, is_assignment, makes_local, makes_map
from .compounds import always_fails, in_background, plain_word, run_compound
from .decoders import Uncovered, holds_unpacked, is_decoded, uncovers, unpacks
from .expansion import Folder
from .findings import Findings, is_certain_harm
from .join import decided, either, join, undecided, worlds
from .reader import Reader, Unreadable
from .redirects import Streams, deliver, open_streams
from .state import Shell
from .syntax import Assign, Compound, Node, Pipe, Seq, Simple
from .traps import EVENTS

MAX_NESTING = 60
VARIABLES = 16  # that are copied and compared in a step
MAX_PROBES = 4
MAX_RECURSION = 3  # calls of a function inside its own that are followed with their arguments
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_CARRIED = marks.SECRET + marks.TOKEN + marks.NET + marks.DECODED


class Evaluator(Findings):
    """One evaluation of one text; `findings` grows as commands are met."""

    def __init__(self, most_steps: int = MAX_STEPS) -> None:
        super().__init__(most_steps)
        self.nesting = 0
        self.fixed = False
        # functions being run, with their arguments
        self.active: list[tuple[str, tuple[str, ...]]] = []
        self.aliasing: list[str] = []
        self.input: str | None = None  # what substitutions in the words of the present command read
        self.forking = 0  # inside a pipeline or a background command
        self.processes = 0
        self.endless = 0
        self.uncovered = Uncovered()
        self.trapped = False  # the code of a trap is being run
        # code of traps that did harm before the text, or was reported
        self.accepted: frozenset[str] = frozenset()
        # code that runs when its shell ends
        self.later: list[tuple[str, Shell, tuple[int, int]]] = []

    def capture(self, body: Seq, shell: Shell) -> str:
        """What a command substitution prints."""
        output = self.run(body, self.fork(shell), self.input)
        if marks.ENDLESS in output:
            self.report(
                dynamic_code.EXHAUSTION,
                "keeps what never ends in memory",
                shell,
                shown(output[:80]),
            )
        return output

    def open_process(self, proc: syntax.Proc, shell: Shell) -> str:
        """The file name that stands for a process substitution."""
        output = self.run(proc.body, self.fork(shell), LOCAL if proc.direction == ">" else None)
        self.processes += 1
        path = f"/dev/fd/{1000 + self.processes}"
        shell.files[path] = output if proc.direction == "<" else ""
        return path

    def fold_text(self, text: str, shell: Shell) -> str:
        """The text folded as in double quotes; commands in it are evaluated."""
        self.spend(reading(text))
        word = Reader(text, self.span).quoted_word(text)
        return Folder(self, shell).text(word)

    def run_text(self, text: str, shell: Shell, stdin: str | None) -> str:
        """Evaluate code that came out of an expansion, an argument or a stream."""
        self.spend(reading(text))
        if self.uncovered.is_in(text):
            self.report(dynamic_code.OPAQUE_CODE, "runs text that only a decoder shows", shell)
        fixed, self.fixed = self.fixed, True
        try:
            try:
                seq = Reader(text, self.span).read()
            except Unreadable as problem:
                reason = f"runs code that cannot be read: {problem}"
                self.report(dynamic_code.UNKNOWN_COMMAND, reason, shell, shown(text[:200]))
                return unknown_like(text)
            return self.run(seq, shell, stdin)
        finally:
            self.fixed = fixed

    def defer(self, text: str, shell: Shell) -> None:
        """Keep code for the end of its shell."""
        self.later.append((text, shell, self.span))

    def finish(self, since: int = 0) -> None:
        """Evaluate the code that was kept for the end, with what its shell holds by then."""
        while len(self.later) > since:
            text, shell, self.span = self.later.pop()
            self.run_text(text, shell, None)

    def probe_argv(self, argv: list[str], shell: Shell) -> bool:
        """True when running the program would be dangerous; nothing is recorded."""
        return self._probe(lambda: self.run_argv(argv, shell.fork(), None, {}))

    def probe_text(self, text: str, shell: Shell) -> bool:
        """True when running the code would be dangerous; nothing is recorded."""
        return self._probe(lambda: self.run_text(text, shell.fork(), None))

    def _probe(self, action: Callable[[], str]) -> bool:
        kept, self.findings = self.findings, []
        kept_for_later = len(self.later)
        self.probing += 1
        try:
            if self.probing > MAX_PROBES:
                raise Overflow
            action()
            self.finish(kept_for_later)
            return any(
                f.rule.label == "dangerous" and f.rule is not dynamic_code.UNKNOWN_COMMAND
                for f in self.findings
            )
        finally:
            self.probing -= 1
            self.findings = kept
            del self.later[kept_for_later:]

    def fork(self, shell: Shell) -> Shell:
        """A copy of the shell, paid for."""
        self.spend(len(shell.variables) // VARIABLES)
        return shell.fork()

    def _enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise Overflow

    def run(self, seq: Seq, shell: Shell, stdin: str | None) -> str:
        """Evaluate a list of commands; gives what they print."""
        self._enter()
        out: list[str] = []
        after, fails = ";", False
        skipped: list[Shell] = []  # the shell as it is when a conditional command does not run
        parent = shell
        for (node, operator), background in zip(seq.items, in_background(seq), strict=True):
            self.spend(1)
            if fails and after == "&&":
                text = ""
            else:
                fails = after != "||" and operator == "&&" and always_fails(node, parent)
                if after in ("&&", "||"):
                    skipped.append(self.fork(shell))
                else:
                    shell = self.fork(parent) if background else parent
                self.forking += background
                text = self.node(node, shell, stdin)
                self.forking -= background
            if operator not in ("&&", "||") and skipped:
                join(shell, [shell.fork(), *skipped])
                skipped.clear()
            if after == "||" and out and out[-1] and text:
                out[-1], text = "", either([out[-1], text])
            after = operator
            out.append(text)
        self.nesting -= 1
        return joined(out)

    def node(self, node: Node, shell: Shell, stdin: str | None) -> str:
        """Evaluate one command, in every way the shell may be when it is met; gives what it prints."""
        self.spring(shell)
        choices = undecided(shell) if shell.choices else None
        if not choices:
            return self._node(node, shell, stdin)
        first = decided(shell, {name: values[0] for name, values in choices.items()})
        output = self._node(node, first, stdin)
        read = [name for name in choices if name in first.seen]
        shell.seen |= first.seen
        if not read:
            shell.adopt(first, choices)
            return output
        ends, outputs = [first], [output]
        for world in worlds(shell, choices, read):
            self.spend(len(shell.variables) // VARIABLES)
            outputs.append(self._node(node, world, stdin))
            ends.append(world)
        join(shell, ends)
        return either(outputs)

    def spring(self, shell: Shell) -> None:
        """Make the shell what it may be before its next command: any of its traps may have run, or
        none.
        """
        if shell.traps and not self.trapped:
            self.trapped = True
            self._spring(shell)
            self.trapped = False

    def _spring(self, shell: Shell) -> None:
        ends, kept_for_later = [shell.fork()], len(self.later)
        for signal, code in shell.traps:
            # what a signal runs is judged at the end, and where it would certainly do harm
            findings, silent = self.findings, signal not in EVENTS
            self.findings = [] if silent else findings
            self.probing += silent
            ends.append(self.fork(shell))
            self.run_text(code, ends[-1], None)
            self.probing -= silent
            harm = [one for one in self.findings if silent and is_certain_harm(one)]
            if harm and code not in self.accepted:
                self.accepted |= {code}
                findings += harm
            self.findings = findings
        del self.later[kept_for_later:]
        join(shell, ends)

    def _node(self, node: Node, shell: Shell, stdin: str | None) -> str:
        self._stand_at(node)
        if isinstance(node, Simple):
            return self._simple(node, shell, stdin)
        if isinstance(node, Pipe):
            return self._pipe(node, shell, stdin)
        if isinstance(node, syntax.Coproc):
            self._coproc(node, shell)
        elif isinstance(node, syntax.Function):
            shell.functions[node.name] = node.body
            shell.unsure -= {node.name}
        else:
            return self._redirected(node, shell, stdin)
        return ""

    def _stand_at(self, node: Node) -> None:
        if not self.fixed:
            self.span = (node.start, node.end)

    def _pipe(self, node: Pipe, shell: Shell, stdin: str | None) -> str:
        text = stdin
        if plain_word(node.commands[-1]) in _SHELLS and any(
            unpacks(one) for one in node.commands[:-1]
        ):
            self.report(dynamic_code.OPAQUE_CODE, "runs text that only a decoder shows", shell)
        self.forking += 1
        for command in node.commands:
            inner = self.fork(shell)
            text = self.node(command, inner, text)
        self.forking -= 1
        if shell.lastpipe:
            join(shell, [shell.fork(), inner])
        return text or ""

    def _coproc(self, node: syntax.Coproc, shell: Shell) -> None:
        """Start a coprocess: what it prints waits behind one descriptor, what it reads goes into
        another.
        """
        self.forking += 1
        output = self.node(node.body, shell.fork(), LOCAL)
        self.forking -= 1
        numbers = [str(2000 + self.processes), str(2001 + self.processes)]
        self.processes += 2
        for number, content in zip(numbers, (output, ""), strict=True):
            shell.descriptors[number] = f"/dev/fd/{number}"
            shell.files[f"/dev/fd/{number}"] = content
        shell.variables[node.name] = numbers

    def _redirected(self, node: Node, shell: Shell, stdin: str | None) -> str:
        assert isinstance(node, Compound)
        self.spend(4)
        folder, call = Folder(self, shell), Call(["{"], shell, stdin, {}, self)
        streams = self._open_streams(node.redirects, folder, call, stdin)
        output = run_compound(self, node, shell, streams.stdin, folder)
        return self._close(streams, output, call)

    def _simple(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        before, self.input = self.input, stdin
        self.spend(4)
        alias = self._alias(node, shell)
        # Whether a shell follows aliases depends on its options: judged both ways.
        followed = shell.fork() if alias else shell
        if alias:
            self.aliasing.append(alias)
            text = expand(alias + node.rest, shell.aliases, set(self.aliasing[:-1]), self)
            self.run_text(text, followed, stdin)
            self.aliasing.pop()
        output = self._run_words(node, shell, stdin)
        if alias:
            join(shell, [shell.fork(), followed])
        self.input = before
        return output

    def _run_words(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        folder = Folder(self, shell)
        argv = self._argv(node, shell, folder)
        env: dict[str, str] = {}
        if argv:
            for one in node.assigns:
                env[one.name] = folder.text(one.value) if one.value is not None else ""
        else:
            for one in node.assigns:
                assign(self, one, shell, folder)
                self._stand_at(node)
        self._stand_at(node)
        call = Call(argv or [">"], shell, stdin, env, self)
        streams = self._open_streams(node.redirects, folder, call, stdin)
        self._stand_at(node)
        if not argv:
            is_file = len(node.redirects) == 1 and node.redirects[0].op == "<"
            return self._close(streams, streams.stdin or "" if is_file else "", call)  # $(<file)
        is_shown = plain_word(node) or not self.uncovered.is_in(" ".join(argv[:2]))
        if not (is_shown and not is_decoded(node.words[0])) and argv[0] not in shell.functions:
            call.report(dynamic_code.OPAQUE_CODE, "hides which program runs behind a decoder")
        elif call.name in (*_SHELLS, "eval") and any(
            holds_unpacked(word) for word in node.words[1:]
        ):
            call.report(dynamic_code.OPAQUE_CODE, "runs text that only a decoder shows")
        output = self._launch(argv, shell, streams, env)
        return self._close(streams, output, call)

    def _launch(self, argv: list[str], shell: Shell, streams: Streams, env: dict[str, str]) -> str:
        call = Call(argv, shell, streams.stdin, env, self)
        if argv[0] == "exec" and len(argv) == 1:
            shell.descriptors.update(streams.opened)
            if "1" in streams.opened:
                shell.descriptors["1"] = streams.opened["1"]
            return ""
        if streams.to_network and program_name(argv[0]) in _SHELLS:
            call.report(REVERSE_SHELL, "connects a shell to another machine")
        for name, value in env.items():
            judge_variable(call, name, value, temporary=True)
        return self.run_argv(argv, shell, streams.stdin, env)

    def run_argv(
        self,
        argv: list[str],
        shell: Shell,
        stdin: str | None,
        env: dict[str, str],
        *,
        functions: bool = True,
    ) -> str:
        """Evaluate a program with its arguments, or a function of that name; gives what it prints."""
        self._enter()
        self.spend(12 + copying(*argv, stdin or ""))
        self.carriers.append(argv)
        try:
            call = Call(argv, shell, stdin, env, self)
            self.act(Act("run", tuple(argv)))
            with shell.temporarily(env):
                output = self._dispatch(call, functions)
            if output is None:
                return _default_output(call)
            if is_known(output) and uncovers(call.name, call.args):
                self.uncovered.add(output)
            if len(output) >= budget.CHARACTERS:
                self.spend(copying(output))
            return output if len(output) <= MAX_TEXT else unknown_like(output)
        finally:
            self.carriers.pop()
            self.nesting -= 1

    def _dispatch(self, call: Call, functions: bool) -> str | None:
        word = call.argv[0]
        if not is_plain(word):
            return self._unknown_program(call, word)
        if not word:
            return ""
        if functions and word in call.shell.functions:
            unsure = word in call.shell.unsure
            output = self._function(call, word)
            if not unsure:
                return output
        if (
            self.forking
            and word == call.shell.name0
            and (call.shell.scripts or (self.endless and call.name in _SHELLS))
        ):
            call.report(dynamic_code.FORK_BOMB, "starts itself again and again without end")
            return ""
        replaced = self._replacement(call, word)
        if replaced is not None:
            return self.run_argv([replaced, *call.args], call.shell, call.stdin, call.env)
        if "/" in word and (ran := run_file(call, word)) is not None:
            return ran
        handler = "command_not_found_handle"
        if handler in call.shell.functions and "/" not in word and find_judge(call) is FALLBACK:
            self._function(call.again([handler, *call.argv]), handler)
        if call.shell.files:
            judge_carriers(call, call.row)
        return self.judge(call)

    def _replacement(self, call: Call, word: str) -> str | None:
        """The program behind a copy or a link of that name, or a file that this text wrote, when PATH
        was changed to find such.
        """
        if "/" in word or not ("PATH" in call.env or "PATH" in call.shell.variables):
            return None
        path = call.env.get("PATH") or call.shell.scalar("PATH")
        for directory in path.split(":"):
            full = resolve(f"{directory or '.'}/{word}", call.shell)
            if full in call.shell.files:
                return full
        copies = call.shell.copies.items()
        found = (name for path, name in copies if path.endswith("/" + word) and name != word)
        return next(found, None)

    def _unknown_program(self, call: Call, word: str) -> str | None:
        is_named = "/" in word and is_plain(call.name) and call.name and not marks.has_glob(word)
        if is_named and not {marks.NET, marks.DECODED} & set(word):
            return self.judge(call)
        if is_known(word):
            call.report(
                dynamic_code.UNKNOWN_COMMAND,
                f"hides which program runs behind a pattern: {shown(word)}",
            )
            return None
        dynamic_code.execute(call, word, "a program's name")
        return None

    def _function(self, call: Call, name: str) -> str:
        calls = [args for other, args in self.active if other == name]
        running = (name, _widened(calls, call.args))
        if calls and self.forking:
            call.report(
                dynamic_code.FORK_BOMB, f"the function {name} starts copies of itself without end"
            )
            return LOCAL
        if running in self.active:
            return LOCAL
        body = call.shell.functions[name]
        shell = call.shell
        before, outer = (shell.positional, self.fixed), shell.hidden
        shell.positional, shell.hidden = list(running[1]), {}
        for variable, value in call.env.items():
            shell.hide(variable)
            shell.variables[variable] = value
        self.fixed = True
        self.active.append(running)
        try:
            return self.node(body, shell, call.stdin)
        finally:
            self.active.pop()
            shell.positional, self.fixed = before
            shell.reveal(outer)

    def _argv(self, node: Simple, shell: Shell, folder: Folder) -> list[str]:
        argv: list[str] = []
        declares = len(node.words) > 1 and plain_word(node) in DECLARING
        for word in node.words:
            if isinstance(word, Assign):
                is_new = makes_local(argv) and shell.hide(word.name)
                argv.append(word.name)
                if makes_map(argv) and not become_map(shell, word.name, is_new=is_new):
                    continue
                assign(self, word, shell, folder)
            elif declares and is_assignment(word):
                argv.append(folder.text(word))
            else:
                argv += folder.fields([word])
        return argv

    def _alias(self, node: Simple, shell: Shell) -> str:
        """The alias that a command begins with, or nothing."""
        first = plain_word(node, bare=True) if shell.aliases else ""
        return first if first in shell.aliases and first not in self.aliasing else ""

    def _open_streams(
        self, redirects: list[syntax.Redirect], folder: Folder, call: Call, stdin: str | None
    ) -> Streams:
        self.redirecting += bool(redirects)
        streams = open_streams(redirects, folder, call, stdin)
        self.redirecting -= bool(redirects)
        return streams

    def _close(self, streams: Streams, output: str, call: Call) -> str:
        """Send output where the redirections say; gives what is left for the next in line."""
        targets = list(streams.outputs)
        if not targets and "1" in call.shell.descriptors and "1" not in streams.opened:
            targets.append(call.shell.descriptors["1"])
        self.redirecting += 1
        for target in targets:
            deliver(target, output, call)
        self.redirecting -= 1
        return "" if streams.captured else output


def _widened(calls: list[tuple[str, ...]], args: list[str]) -> tuple[str, ...]:
    """The arguments of a call of a function inside its own calls; of a deep one what they have in
    common with those before, as it may go on for long.
    """
    if len(calls) < MAX_RECURSION or len(calls[-1]) != len(args):
        return tuple(args)
    found = zip(calls[-1], args, strict=True)
    return tuple(one if one == other else _common(one, other) for one, other in found)


def _common(one: str, other: str) -> str:
    numbers = re.fullmatch(rf"-?\d+|{marks.NUMBER}", one) and other.lstrip("-").isdigit()
    same = commonprefix([one, other]).rstrip(marks.UNSET)
    return marks.NUMBER if numbers else same + unknown_like(one, other)


def _default_output(call: Call) -> str:
    """What a program prints of which only the origin is known."""
    carried = "".join(mark for mark in _CARRIED if call.stdin and mark in call.stdin)
    return LOCAL + carried + "\n"
