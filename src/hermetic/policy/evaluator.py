"""Walks a shell text as bash would run it, without running anything, and collects what it would do."""

from __future__ import annotations

from collections.abc import Callable

from .call import Call, Judge, program_name
from .commands.catalog import find_judge
from .commands.environment import judge_variable
from .commands.execution import run_file
from .commands.unseen import FORK_BOMB, OPAQUE_CODE, UNKNOWN_COMMAND, execute
from .marks import LOCAL, NET, SECRET, TOKEN, UNSET, has_glob, is_known, is_plain, marks_in, shown, unknown_like
from .network import EXFIL, REVERSE_SHELL
from .paths import classify, resolve
from .reader import Reader, Unreadable
from .redirects import Streams, open_streams
from .rules import Finding, Rule
from .shell import Shell, Value
from .syntax import (
    Assign,
    Calc,
    Case,
    CFor,
    Condition,
    Coproc,
    For,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Node,
    Pipe,
    Proc,
    Seq,
    Simple,
    Sub,
    Word,
)
from .words import MAX_TEXT, Folder

MAX_STEPS = 30_000
MAX_NESTING = 60
MAX_PROBES = 4
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_DECODERS = frozenset({"base64", "base32", "xxd", "rev", "openssl", "uudecode", "gunzip", "zcat", "xz", "gpg"})
_CARRIED = SECRET + TOKEN + NET + "\ue004"


class Overflow(Exception):
    """The text asks for more work than a check may take."""


class Evaluator:
    """One evaluation of one text; `findings` grows as commands are met."""

    def __init__(self, judges: dict[str, Judge]) -> None:
        self.judges = judges
        self.findings: list[Finding] = []
        self.steps = 0
        self.nesting = 0
        self.span = (0, 0)
        self.fixed = False
        self.active: list[str] = []
        self.aliasing: list[str] = []
        self.forking = 0  # inside a pipeline or a background command
        self.processes = 0
        self.endless = 0
        self.probing = 0

    # --- the face to words and commands

    def spend(self, steps: int) -> None:
        """Count work; too much of it ends the evaluation."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise Overflow

    def report(self, rule: Rule, reason: str, decoded: str, path: str | None, shell: Shell) -> None:
        """Record a finding at the command being evaluated."""
        self.findings.append(Finding(rule, reason, *self.span, decoded, path, shell.remote))

    def capture(self, body: Seq, shell: Shell) -> str:
        """What a command substitution prints."""
        return self.run(body, shell.fork(), None)

    def open_process(self, proc: Proc, shell: Shell) -> str:
        """The file name that stands for a process substitution."""
        output = self.run(proc.body, shell.fork(), LOCAL if proc.direction == ">" else None)
        self.processes += 1
        path = f"/dev/fd/{1000 + self.processes}"
        shell.files[path] = output if proc.direction == "<" else ""
        return path

    def fold_text(self, text: str, shell: Shell) -> str:
        """The text folded as in double quotes; commands in it are evaluated."""
        word = Reader(text, self.span)._quoted_word(text)
        return Folder(self, shell).text(word)

    def run_text(self, text: str, shell: Shell, stdin: str | None) -> str:
        """Evaluate code that came out of an expansion, an argument or a stream."""
        self._enter()
        fixed, self.fixed = self.fixed, True
        try:
            try:
                seq = Reader(text, self.span).read()
            except Unreadable as problem:
                self.report(
                    UNKNOWN_COMMAND, f"runs code that cannot be read: {problem}", shown(text[:200]), None, shell
                )
                return unknown_like(text)
            return self.run(seq, shell, stdin)
        finally:
            self.fixed = fixed
            self.nesting -= 1

    def probe_argv(self, argv: list[str], shell: Shell) -> bool:
        """True when running the program would be dangerous; nothing is recorded."""
        return self._probe(lambda: self.run_argv(argv, shell.fork(), None, {}))

    def probe_text(self, text: str, shell: Shell) -> bool:
        """True when running the code would be dangerous; nothing is recorded."""
        return self._probe(lambda: self.run_text(text, shell.fork(), None))

    def _probe(self, action: Callable[[], str]) -> bool:
        kept, self.findings = self.findings, []
        self.probing += 1
        try:
            if self.probing > MAX_PROBES:
                raise Overflow
            action()
            return any(f.rule.label == "dangerous" and f.rule is not UNKNOWN_COMMAND for f in self.findings)
        finally:
            self.probing -= 1
            self.findings = kept

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
        for node, operator in seq.items:
            background = operator == "&"
            self.forking += background
            text = self.node(node, shell, stdin)
            self.forking -= background
            size += len(text)
            if size <= MAX_TEXT:
                out.append(text)
            elif size - len(text) <= MAX_TEXT:
                out.append(unknown_like(text))
        self.nesting -= 1
        return "".join(out)

    def node(self, node: Node, shell: Shell, stdin: str | None) -> str:
        """Evaluate one command; gives what it prints."""
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
                return ""
            if isinstance(node, Coproc):
                self.forking += 1
                self.node(node.body, shell.fork(), LOCAL)
                self.forking -= 1
                return ""
            return self._redirected(node, shell, stdin)
        finally:
            self.nesting -= 1

    def _pipe(self, node: Pipe, shell: Shell, stdin: str | None) -> str:
        text = stdin
        self.forking += 1
        for command in node.commands:
            text = self.node(command, shell.fork(), text)
        self.forking -= 1
        return text or ""

    def _redirected(self, node: Node, shell: Shell, stdin: str | None) -> str:
        assert not isinstance(node, Simple | Pipe | Function | Coproc)
        folder = Folder(self, shell)
        streams = open_streams(node.redirects, folder, self._call(["{"], shell, stdin, {}), stdin)
        output = self._body(node, shell, streams.stdin, folder)
        return self._close(streams, output, self._call(["{"], shell, stdin, {}))

    def _body(self, node: Node, shell: Shell, stdin: str | None, folder: Folder) -> str:
        if isinstance(node, Group):
            return self.run(node.body, shell if node.kind == "{" else shell.fork(), stdin)
        if isinstance(node, If):
            return self._if(node, shell, stdin)
        if isinstance(node, Loop):
            return self._loop(node, shell, stdin)
        if isinstance(node, For):
            return self._for(node, shell, stdin, folder)
        if isinstance(node, CFor):
            folder.text(node.header)
            for name in ("i", "j", "n", "k"):
                shell.variables.setdefault(name, "\ue008")
            return self.run(node.body, shell, stdin)
        if isinstance(node, Case):
            return self._case(node, shell, stdin, folder)
        if isinstance(node, Condition):
            for word in node.words:
                folder.text(word)
            return ""
        assert isinstance(node, Calc)
        folder.arithmetic(node.word)
        return ""

    def _if(self, node: If, shell: Shell, stdin: str | None) -> str:
        out: list[str] = []
        ends: list[Shell] = []
        for condition, body in node.branches:
            if condition is not None:
                out.append(self.run(condition, shell, stdin))
            branch = shell.fork()
            out.append(self.run(body, branch, stdin))
            ends.append(branch)
        if node.branches[-1][0] is not None:
            ends.append(shell.fork())
        _join(shell, ends)
        return "".join(out)

    def _case(self, node: Case, shell: Shell, stdin: str | None, folder: Folder) -> str:
        folder.text(node.subject)
        out: list[str] = []
        ends: list[Shell] = [shell.fork()]
        for patterns, body in node.items:
            for pattern in patterns:
                folder.pattern(pattern)
            branch = shell.fork()
            out.append(self.run(body, branch, stdin))
            ends.append(branch)
        _join(shell, ends)
        return "".join(out)

    def _loop(self, node: Loop, shell: Shell, stdin: str | None) -> str:
        rounds: list[str | None] = [stdin]
        if stdin and _reads_lines(node.condition):
            lines = stdin.split("\n")
            rounds = [*lines[:-1], lines[-1]] if lines[-1] else list(lines[:-1])
        endless = _is_endless(node.condition)
        self.endless += endless
        out: list[str] = []
        for one in rounds[:500]:
            out.append(self.run(node.condition, shell, one))
            out.append(self.run(node.body, shell, one))
        self.endless -= endless
        return "".join(out)

    def _for(self, node: For, shell: Shell, stdin: str | None, folder: Folder) -> str:
        if node.words is None:
            values = list(shell.positional) if shell.positional is not None else [UNSET]
        else:
            values = folder.fields(node.words)
        out: list[str] = []
        for value in values:
            shell.variables[node.name] = value
            out.append(self.run(node.body, shell, stdin))
        return "".join(out)

    # --- simple commands

    def _simple(self, node: Simple, shell: Shell, stdin: str | None) -> str:
        self.spend(4)
        if node.words and shell.aliases:
            text = self._alias(node, shell)
            if text is not None:
                return text if not isinstance(text, tuple) else self._aliased(text, shell, stdin)
        folder = Folder(self, shell)
        argv = self._argv(node, shell, folder)
        env: dict[str, str] = {}
        if argv:
            for assign in node.assigns:
                env[assign.name] = folder.text(assign.value) if assign.value is not None else ""
            self.span = self.span if self.fixed else (node.start, node.end)
        else:
            for assign in node.assigns:
                self._assign(assign, shell, folder)
                self.span = self.span if self.fixed else (node.start, node.end)
        call = self._call(argv or [">"], shell, stdin, env)
        streams = open_streams(node.redirects, folder, call, stdin)
        self.span = self.span if self.fixed else (node.start, node.end)
        if not argv:
            if len(node.redirects) == 1 and node.redirects[0].op == "<":
                return self._close(streams, streams.stdin or "", call)  # $(<file) prints the file
            return self._close(streams, "", call)
        if _is_decoded(node.words[0]) and argv[0] not in shell.functions:
            call.report(OPAQUE_CODE, "hides which program runs behind a decoder")
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

    def run_argv(self, argv: list[str], shell: Shell, stdin: str | None, env: dict[str, str]) -> str:
        """Evaluate a program with its arguments; gives what it prints."""
        self._enter()
        self.spend(12)
        try:
            call = self._call(argv, shell, stdin, env)
            output = self._dispatch(call)
            if output is None:
                return _default_output(call)
            return output if len(output) <= MAX_TEXT else unknown_like(output)
        finally:
            self.nesting -= 1

    def _dispatch(self, call: Call) -> str | None:
        word = call.argv[0]
        if not is_plain(word):
            return self._unknown_program(call, word)
        if not word:
            return ""
        if word in call.shell.functions:
            return self._function(call, word)
        if self.endless and self.forking and call.name in (*_SHELLS, "sleep") and word == call.shell.name0:
            call.report(FORK_BOMB, "starts itself again and again without end")
            return ""
        if "/" in word:
            ran = run_file(call, word)
            if ran is not None:
                return ran
        return find_judge(self.judges, call)(call)

    def _unknown_program(self, call: Call, word: str) -> str | None:
        if "/" in word and is_plain(call.name) and call.name and not has_glob(word):
            marks = marks_in(word)
            if NET not in marks and "\ue004" not in marks:
                return find_judge(self.judges, call)(call)
        if is_known(word):
            call.report(UNKNOWN_COMMAND, f"hides which program runs behind a pattern: {shown(word)}")
            return None
        execute(call, word, "a program's name")
        return None

    def _function(self, call: Call, name: str) -> str:
        if name in self.active:
            if self.forking:
                call.report(FORK_BOMB, f"the function {name} starts copies of itself without end")
            return LOCAL
        body = call.shell.functions[name]
        shell = call.shell
        before = (shell.positional, self.fixed)
        shell.positional = list(call.args)
        self.fixed = True
        self.active.append(name)
        try:
            return self.node(body, shell, call.stdin)
        finally:
            self.active.pop()
            shell.positional, self.fixed = before

    # --- parts of a simple command

    def _argv(self, node: Simple, shell: Shell, folder: Folder) -> list[str]:
        if not any(isinstance(word, Assign) for word in node.words):
            return folder.fields([word for word in node.words if isinstance(word, Word)])
        argv: list[str] = []
        for word in node.words:
            if isinstance(word, Assign):
                self._assign(word, shell, folder)
                argv.append(word.name)
            else:
                argv += folder.fields([word])
        return argv

    def _alias(self, node: Simple, shell: Shell) -> tuple[str, str] | None:
        first = node.words[0]
        if not isinstance(first, Word) or len(first.pieces) != 1:
            return None
        piece = first.pieces[0]
        if not isinstance(piece, Lit) or piece.quoted or piece.text not in shell.aliases or piece.text in self.aliasing:
            return None
        return piece.text, shell.aliases[piece.text] + node.rest

    def _aliased(self, alias: tuple[str, str], shell: Shell, stdin: str | None) -> str:
        self.aliasing.append(alias[0])
        try:
            return self.run_text(alias[1], shell, stdin)
        finally:
            self.aliasing.pop()

    def _assign(self, assign: Assign, shell: Shell, folder: Folder) -> None:
        old: Value | None = shell.variables.get(assign.name)
        if assign.value is None:
            shell.variables[assign.name] = _array(assign, old, folder)
            return
        text = folder.text(assign.value)
        if assign.index is not None:
            self._assign_element(assign, text, shell, folder)
            return
        if assign.append:
            if isinstance(old, list):
                shell.variables[assign.name] = [(old[0] if old else "") + text, *old[1:]]
                return
            text = (old if isinstance(old, str) else shell.scalar(assign.name)) + text
        shell.variables[assign.name] = text
        judge_variable(self._call([f"{assign.name}={text}"], shell, None, {}), assign.name, text, temporary=False)

    def _assign_element(self, assign: Assign, text: str, shell: Shell, folder: Folder) -> None:
        assert assign.index is not None
        old = shell.variables.get(assign.name)
        if isinstance(old, dict):
            old[folder.text(assign.index)] = text
            return
        values = list(old) if isinstance(old, list) else [old] if isinstance(old, str) else []
        number = folder.arithmetic(assign.index)
        if not number.lstrip("-").isdigit() or abs(int(number)) > 4096:
            key = folder.text(assign.index)
            shell.variables[assign.name] = {**{str(n): v for n, v in enumerate(values)}, key: text}
            return
        at = int(number)
        while len(values) <= at:
            values.append("")
        values[at] = values[at] + text if assign.append else text
        shell.variables[assign.name] = values

    def _call(self, argv: list[str], shell: Shell, stdin: str | None, env: dict[str, str]) -> Call:
        return Call(argv, shell, stdin, env, self)

    def _close(self, streams: Streams, output: str, call: Call) -> str:
        """Send output where the redirections say; gives what is left for the next in line."""
        if not streams.outputs and "1" in call.shell.descriptors and "1" not in streams.opened:
            target = call.shell.descriptors["1"]
            self._send(target, output, call)
        for target in streams.outputs:
            self._send(target, output, call)
        return "" if streams.captured else output

    def _send(self, target: str, output: str, call: Call) -> None:
        full = resolve(target, call.shell)
        if classify(full, call.shell) == "network":
            if any(mark in output for mark in (SECRET, TOKEN)):
                call.report(EXFIL, f"sends credentials to another machine: {shown(target)}")
        elif full in call.shell.files:
            call.shell.files[full] += output


def _default_output(call: Call) -> str:
    """What a program prints of which only the origin is known."""
    carried = "".join(mark for mark in _CARRIED if call.stdin and mark in call.stdin)
    return LOCAL + carried + "\n"


def _array(assign: Assign, old: Value | None, folder: Folder) -> Value:
    if any(index is not None for index, _ in assign.items) or isinstance(old, dict):
        pairs: dict[str, str] = dict(old) if isinstance(old, dict) and assign.append else {}
        for number, (index, word) in enumerate(assign.items):
            pairs[folder.text(index) if index is not None else str(number)] = folder.text(word)
        if all(key.isdigit() for key in pairs) and not isinstance(old, dict):
            return [pairs[key] for key in sorted(pairs, key=lambda text: int(text[:9]))]
        return pairs
    values = folder.fields([word for _, word in assign.items])
    if assign.append:
        return [*(old if isinstance(old, list) else [old] if isinstance(old, str) else []), *values]
    return values


def _join(shell: Shell, ends: list[Shell]) -> None:
    """After a branch: what all ends agree on stays, the rest is unknown."""
    names = {name for end in ends for name, value in end.variables.items() if shell.variables.get(name) is not value}
    for name in names:
        values = [end.variables.get(name) for end in ends]
        if all(value == values[0] for value in values) and values[0] is not None:
            shell.variables[name] = values[0]
            continue
        texts = [value for value in values if isinstance(value, str)]
        dangerous = [
            text
            for text in texts
            if classify(resolve(text or ".", shell), shell) not in ("workspace", "temp", "unknown")
        ]
        known = shell.variables.get(name)
        if len(texts) == len(ends) and not dangerous and all(_looks_like_path(text) for text in texts):
            shell.variables[name] = texts[-1]
        elif dangerous and "/" in dangerous[-1]:
            shell.variables[name] = dangerous[-1]
        elif texts and known is None and len(texts) < len(ends):
            shell.variables[name] = texts[-1]
        elif texts:
            shell.variables[name] = (
                texts[-1] if all(text.startswith("-") or not text for text in texts) else unknown_like(*texts)
            )
    for end in ends:
        shell.functions.update(end.functions)
        shell.aliases.update(end.aliases)
    cwds = {end.cwd for end in ends}
    if cwds != {shell.cwd}:
        shell.cwd = cwds.pop() if len(cwds) == 1 else _worst_directory(cwds, shell)


def _looks_like_path(text: str) -> bool:
    return "/" in text and is_plain(text)


def _worst_directory(cwds: set[str], shell: Shell) -> str:
    order = sorted(cwds, key=lambda cwd: classify(cwd, shell) in ("workspace", "workspace root", "temp"))
    return order[0]


def _first_word(seq: Seq) -> str:
    for node, _ in seq.items[:1]:
        if isinstance(node, Simple) and node.words:
            first = node.words[0]
            if isinstance(first, Word) and len(first.pieces) == 1 and isinstance(first.pieces[0], Lit):
                return first.pieces[0].text
    return ""


def _is_decoded(word: Word | Assign) -> bool:
    """True when a program's name comes out of a decoder."""
    if isinstance(word, Assign):
        return False
    subs = [piece for piece in word.pieces if isinstance(piece, Sub)]
    return any(_decodes(node) for sub in subs for node, _ in sub.body.items)


def _decodes(node: Node) -> bool:
    commands = node.commands if isinstance(node, Pipe) else [node]
    return any(_first_word(Seq([(command, ";")])) in _DECODERS for command in commands)


def _reads_lines(condition: Seq) -> bool:
    return _first_word(condition) == "read"


def _is_endless(condition: Seq) -> bool:
    return _first_word(condition) in (":", "true")
