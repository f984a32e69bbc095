"""Walks a shell text as bash would run it, without running anything, and collects what it would do."""

from __future__ import annotations

from collections.abc import Callable

from hermetic.policy.acts import Act, Deed, Scope
from hermetic.policy.budget import (
    CHARACTERS,
    MAX_STEPS,
    MAX_TEXT,
    Budget,
    Overflow,
    copying,
    reading,
)
from hermetic.policy.call import Call, program_name
from hermetic.policy.circumstances import of_call
from hermetic.policy.dynamic_code import (
    EXHAUSTION,
    FORK_BOMB,
    OPAQUE_CODE,
    UNKNOWN_COMMAND,
    execute,
)
from hermetic.policy.extension import Extension
from hermetic.policy.marks import (
    ENDLESS,
    LOCAL,
    NET,
    SECRET,
    TOKEN,
    has_glob,
    is_known,
    is_plain,
    marks_in,
    shown,
    unknown_like,
)
from hermetic.policy.network import REVERSE_SHELL
from hermetic.policy.programs.hooks.shells import run_file
from hermetic.policy.rules import Finding, Rule
from hermetic.policy.variables import judge_variable

from .aliases import expand
from .assignments import assign, makes_local
from .compounds import first_word, in_background, run_compound
from .decoders import holds_unpacked, is_decoded, unpacks
from .expansion import Folder
from .join import decided, either, join, undecided, worlds
from .judging import Step, is_unknown, judge
from .reader import Reader, Unreadable
from .redirects import Streams, deliver, open_streams
from .state import Shell
from .syntax import Assign, Coproc, Function, Lit, Node, Pipe, Proc, Redirect, Seq, Simple, Word
from .traps import spring

MAX_NESTING = 60
VARIABLES = 16  # that are copied and compared in a step
MAX_PROBES = 4
MAX_ACTS = 2000
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_CARRIED = SECRET + TOKEN + NET + "\ue004"


class Evaluator(Budget):
    """One evaluation of one text; `findings` grows as commands are met."""

    def __init__(self, most_steps: int = MAX_STEPS) -> None:
        super().__init__(most_steps)
        self.extension: Extension | None = None  # rows of the user's
        self.judged: list[Step] | None = None  # the programs that were judged, for an explanation
        self.findings: list[Finding] = []
        self.nesting = 0
        self.span = (0, 0)
        self.fixed = False
        # functions being run, with their arguments
        self.active: list[tuple[str, tuple[str, ...]]] = []
        self.aliasing: list[str] = []
        self.input: str | None = None  # what substitutions in the words of the present command read
        self.forking = 0  # inside a pipeline or a background command
        self.processes = 0
        self.endless = 0
        self.probing = 0
        self.trapped = False  # the code of a trap is being run
        self.redirecting = 0  # the streams of a command are being opened, not the command itself
        self.acts: list[Act] = []
        # the programs that are being run, each by the one before
        self.carriers: list[list[str]] = []
        # code that runs when its shell ends
        self.later: list[tuple[str, Shell, tuple[int, int]]] = []

    # --- the face to words and commands

    def report(
        self,
        rule: Rule,
        reason: str,
        decoded: str,
        path: str | None,
        shell: Shell,
        call: Call | None = None,
    ) -> None:
        """Record a finding at the command being evaluated."""
        finding = Finding(rule, reason, *self.span, decoded, path, shell.remote)
        self.findings.append(
            finding if call is None else of_call(finding, call, redirecting=self.redirecting > 0)
        )

    def note(self, deed: Deed, value: str, *, scope: Scope = "") -> None:
        """Record that something is written, deleted, read or reached, or that a program will run."""
        if not self.probing and len(self.acts) < MAX_ACTS:
            if deed == "run":
                self.acts.append(Act(deed, words=tuple(value.split())))
            else:
                self.acts.append(
                    Act(deed, host=value) if deed == "reach" else Act(deed, path=value, scope=scope)
                )

    def capture(self, body: Seq, shell: Shell) -> str:
        """What a command substitution prints."""
        output = self.run(body, self.fork(shell), self.input)
        if ENDLESS in output:
            self.report(
                EXHAUSTION, "keeps what never ends in memory", shown(output[:80]), None, shell
            )
        return output

    def open_process(self, proc: Proc, shell: Shell) -> str:
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
        self._enter()
        self.spend(reading(text))
        fixed, self.fixed = self.fixed, True
        try:
            try:
                seq = Reader(text, self.span).read()
            except Unreadable as problem:
                self.report(
                    UNKNOWN_COMMAND,
                    f"runs code that cannot be read: {problem}",
                    shown(text[:200]),
                    None,
                    shell,
                )
                return unknown_like(text)
            return self.run(seq, shell, stdin)
        finally:
            self.fixed = fixed
            self.nesting -= 1

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
                f.rule.label == "dangerous" and f.rule is not UNKNOWN_COMMAND for f in self.findings
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

    # --- nodes

    def run(self, seq: Seq, shell: Shell, stdin: str | None) -> str:
        """Evaluate a list of commands; gives what they print."""
        self._enter()
        out: list[str] = []
        size = 0
        after = ";"
        skipped: list[Shell] = []  # the shell as it is when a conditional command does not run
        parent = shell
        for (node, operator), background in zip(seq.items, in_background(seq), strict=True):
            self.spend(1)
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
            size += len(text)
            if size <= MAX_TEXT:
                out.append(text)
            elif size - len(text) <= MAX_TEXT:
                out.append(unknown_like(text))
        self.nesting -= 1
        return "".join(out)

    def node(self, node: Node, shell: Shell, stdin: str | None) -> str:
        """Evaluate one command, in every way the shell may be when it is met; gives what it prints."""
        if shell.traps and not self.trapped:
            self.trapped = True
            spring(self, shell)
            self.trapped = False
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

    def _node(self, node: Node, shell: Shell, stdin: str | None) -> str:
        if not self.fixed:
            self.span = (node.start, node.end)
        if isinstance(node, Simple):
            return self._simple(node, shell, stdin)
        self._enter()
        try:
            if isinstance(node, Pipe):
                return self._pipe(node, shell, stdin)
            if isinstance(node, Function):
                shell.functions[node.name] = node.body
                shell.unsure -= {node.name}
                return ""
            if isinstance(node, Coproc):
                return self._coproc(node, shell)
            return self._redirected(node, shell, stdin)
        finally:
            self.nesting -= 1

    def _pipe(self, node: Pipe, shell: Shell, stdin: str | None) -> str:
        text = stdin
        if first_word(Seq([(node.commands[-1], ";")])) in _SHELLS and any(
            unpacks(one) for one in node.commands[:-1]
        ):
            self.report(OPAQUE_CODE, "runs text that only a decoder shows", "", None, shell)
        self.forking += 1
        for command in node.commands:
            inner = self.fork(shell)
            text = self.node(command, inner, text)
        self.forking -= 1
        if shell.lastpipe:
            join(shell, [shell.fork(), inner])
        return text or ""

    def _coproc(self, node: Coproc, shell: Shell) -> str:
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
        return ""

    def _redirected(self, node: Node, shell: Shell, stdin: str | None) -> str:
        assert not isinstance(node, Simple | Pipe | Function | Coproc)
        self.spend(4)
        folder = Folder(self, shell)
        streams = self._open_streams(
            node.redirects, folder, self._call(["{"], shell, stdin, {}), stdin
        )
        output = run_compound(self, node, shell, streams.stdin, folder)
        return self._close(streams, output, self._call(["{"], shell, stdin, {}))

    # --- simple commands

    def _simple(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        before, self.input = self.input, stdin
        try:
            return self._run_simple(node, shell, stdin)
        finally:
            self.input = before

    def _run_simple(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        self.spend(4)
        if node.words and shell.aliases:
            alias = self._alias(node, shell)
            if alias is not None:
                # Whether a shell follows aliases depends on its options: judged both ways.
                followed = shell.fork()
                self._aliased(alias, followed, stdin)
                output = self._run_words(node, shell, stdin)
                join(shell, [shell.fork(), followed])
                return output
        return self._run_words(node, shell, stdin)

    def _run_words(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        folder = Folder(self, shell)
        argv = self._argv(node, shell, folder)
        env: dict[str, str] = {}
        if argv:
            for one in node.assigns:
                env[one.name] = folder.text(one.value) if one.value is not None else ""
            self.span = self.span if self.fixed else (node.start, node.end)
        else:
            for one in node.assigns:
                assign(self, one, shell, folder)
                self.span = self.span if self.fixed else (node.start, node.end)
        call = self._call(argv or [">"], shell, stdin, env)
        streams = self._open_streams(node.redirects, folder, call, stdin)
        self.span = self.span if self.fixed else (node.start, node.end)
        if not argv:
            if len(node.redirects) == 1 and node.redirects[0].op == "<":
                return self._close(streams, streams.stdin or "", call)  # $(<file) prints the file
            return self._close(streams, "", call)
        if is_decoded(node.words[0]) and argv[0] not in shell.functions:
            call.report(OPAQUE_CODE, "hides which program runs behind a decoder")
        elif call.name in (*_SHELLS, "eval") and any(
            holds_unpacked(word) for word in node.words[1:]
        ):
            call.report(OPAQUE_CODE, "runs text that only a decoder shows")
        output = self._launch(argv, shell, streams, env)
        return self._close(streams, output, call)

    def _launch(self, argv: list[str], shell: Shell, streams: Streams, env: dict[str, str]) -> str:
        call = self._call(argv, shell, streams.stdin, env)
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
            call = self._call(argv, shell, stdin, env)
            if not self.probing and len(self.acts) < MAX_ACTS:
                self.acts.append(Act("run", tuple(argv)))
            with shell.temporarily(env):
                output = self._dispatch(call, functions)
            if output is None:
                return _default_output(call)
            if len(output) >= CHARACTERS:
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
            call.report(FORK_BOMB, "starts itself again and again without end")
            return ""
        replaced = self._replacement(call, word)
        if replaced is not None:
            return self.run_argv([replaced, *call.args], call.shell, call.stdin, call.env)
        if "/" in word and (ran := run_file(call, word)) is not None:
            return ran
        if (
            "command_not_found_handle" in call.shell.functions
            and "/" not in word
            and is_unknown(call)
        ):
            self._function(
                call.again(["command_not_found_handle", *call.argv]), "command_not_found_handle"
            )
        return judge(self, call)

    def _replacement(self, call: Call, word: str) -> str | None:
        """The program behind a copy or a link of that name, when PATH was changed to find such."""
        if "/" in word or not ("PATH" in call.env or "PATH" in call.shell.variables):
            return None
        return next(
            (
                name
                for path, name in call.shell.copies.items()
                if path.endswith("/" + word) and name != word
            ),
            None,
        )

    def _unknown_program(self, call: Call, word: str) -> str | None:
        is_named = "/" in word and is_plain(call.name) and call.name and not has_glob(word)
        if is_named and not {NET, "\ue004"} & set(marks_in(word)):
            return judge(self, call)
        if is_known(word):
            call.report(
                UNKNOWN_COMMAND, f"hides which program runs behind a pattern: {shown(word)}"
            )
            return None
        execute(call, word, "a program's name")
        return None

    def _function(self, call: Call, name: str) -> str:
        running = (name, tuple(call.args))
        if any(other == name for other, _ in self.active) and self.forking:
            call.report(FORK_BOMB, f"the function {name} starts copies of itself without end")
            return LOCAL
        if running in self.active:
            return LOCAL
        body = call.shell.functions[name]
        shell = call.shell
        before, outer = (shell.positional, self.fixed), shell.hidden
        shell.positional, shell.hidden = list(call.args), {}
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

    # --- parts of a simple command

    def _argv(self, node: Simple, shell: Shell, folder: Folder) -> list[str]:
        if not any(isinstance(word, Assign) for word in node.words):
            return folder.fields([word for word in node.words if isinstance(word, Word)])
        argv: list[str] = []
        for word in node.words:
            if isinstance(word, Assign):
                if makes_local(argv):
                    shell.hide(word.name)
                assign(self, word, shell, folder)
                argv.append(word.name)
            else:
                argv += folder.fields([word])
        return argv

    def _alias(self, node: Simple, shell: Shell) -> tuple[str, str] | None:
        first = node.words[0]
        if not isinstance(first, Word) or len(first.pieces) != 1:
            return None
        piece = first.pieces[0]
        if (
            not isinstance(piece, Lit)
            or piece.quoted
            or piece.text not in shell.aliases
            or piece.text in self.aliasing
        ):
            return None
        return piece.text, expand(piece.text, node.rest, shell.aliases, set(self.aliasing), self)

    def _aliased(self, alias: tuple[str, str], shell: Shell, stdin: str | None) -> str:
        self.aliasing.append(alias[0])
        try:
            return self.run_text(alias[1], shell, stdin)
        finally:
            self.aliasing.pop()

    def _call(self, argv: list[str], shell: Shell, stdin: str | None, env: dict[str, str]) -> Call:
        return Call(argv, shell, stdin, env, self)

    def _open_streams(
        self, redirects: list[Redirect], folder: Folder, call: Call, stdin: str | None
    ) -> Streams:
        self.redirecting += bool(redirects)
        try:
            return open_streams(redirects, folder, call, stdin)
        finally:
            self.redirecting -= bool(redirects)

    def _close(self, streams: Streams, output: str, call: Call) -> str:
        """Send output where the redirections say; gives what is left for the next in line."""
        if not streams.outputs and "1" in call.shell.descriptors and "1" not in streams.opened:
            target = call.shell.descriptors["1"]
            self._send(target, output, call)
        for target in streams.outputs:
            self._send(target, output, call)
        return "" if streams.captured else output

    def _send(self, target: str, output: str, call: Call) -> None:
        self.redirecting += 1
        try:
            deliver(target, output, call)
        finally:
            self.redirecting -= 1


def _default_output(call: Call) -> str:
    """What a program prints of which only the origin is known."""
    carried = "".join(mark for mark in _CARRIED if call.stdin and mark in call.stdin)
    return LOCAL + carried + "\n"
