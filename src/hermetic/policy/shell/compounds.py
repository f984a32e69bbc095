"""Compound commands: branches, loops, cases and groups, walked on every way they may take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hermetic.policy.budget import joined
from hermetic.policy.call import Machine
from hermetic.policy.dynamic_code import FORK_BOMB
from hermetic.policy.marks import NUMBER, UNSET, is_plain, unknown_like

from .expansion import Folder
from .join import either, join, widen
from .setting import HIDDEN_INDEX, set_variable
from .state import Shell
from .syntax import Calc, Case, CFor, Condition, For, Group, If, Loop, Node, Seq, Simple, literal

MAX_ROUNDS = 500  # lines a `while read` loop is followed for
MAX_UNSETTLED = 3  # rounds of a loop that goes on changing variables
MAX_COUNTED = 64  # rounds of a counting loop
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
# "" is an assignment or an arithmetic command
_AT_ONCE = ("", ":", "true", "echo", "printf", "let", "disown")


def run_compound(
    machine: Machine, node: Node, shell: Shell, stdin: str | None, folder: Folder
) -> str:
    """Evaluate a compound command; gives what it prints."""
    if isinstance(node, Group):
        return machine.run(node.body, shell if node.kind == "{" else shell.fork(), stdin)
    if isinstance(node, If | Case):
        return _branches(machine, node, shell, stdin, folder)
    if isinstance(node, Loop):
        return _loop(machine, node, shell, stdin)
    if isinstance(node, For):
        return _for(machine, node, shell, stdin, folder)
    if isinstance(node, CFor):
        return _count(machine, node, shell, stdin, folder)
    if isinstance(node, Condition):
        _condition([folder.text(word) for word in node.words], shell, folder)
        return ""
    assert isinstance(node, Calc)
    folder.arithmetic(node.word)
    return ""


def _condition(texts: list[str], shell: Shell, folder: Folder) -> None:
    """`[[ … ]]`: operands of a comparison of numbers are computed, and so is an index."""
    for before, text, after in zip(["", *texts], texts, [*texts[1:], ""], strict=False):
        if HIDDEN_INDEX.match(text):
            folder.runner.fold_text(text, shell)
        if before in _COMPARES or after in _COMPARES:
            folder.calculate(text)
        elif before == "-v":
            folder.named(text)


def _branches(
    machine: Machine, node: If | Case, shell: Shell, stdin: str | None, folder: Folder
) -> str:
    """Every branch, from where it begins; none of them as well, unless there is an `else`."""
    conditions: list[str] = []
    outputs: list[str] = []
    ends: list[Shell] = []
    if isinstance(node, Case):
        folder.text(node.subject)
    for at, (condition, body) in enumerate(node.branches):
        if isinstance(condition, Seq):
            conditions.append(machine.run(condition, shell, stdin))
        for pattern in condition if isinstance(condition, list) else ():
            folder.pattern(pattern)
        if isinstance(condition, Seq) and _never_holds(condition, shell):
            continue
        branch = machine.fork(shell)
        if isinstance(node, Case) and at - 1 in node.falling:
            join(branch, [shell.fork(), ends[-1]])
        outputs.append(machine.run(body, branch, stdin))
        ends.append(branch)
    if isinstance(node, Case) or node.branches[-1][0] is not None:
        ends.append(shell.fork())
    join(shell, ends)
    return joined([*conditions, either(outputs)])


def _loop(machine: Machine, node: Loop, shell: Shell, stdin: str | None) -> str:
    def once(given: str | None) -> str:
        return machine.run(node.condition, shell, given) + machine.run(node.body, shell, given)

    if node.word == "while" and _never_holds(node.condition, shell):
        return ""
    endless = first_word(node.condition) in ((":", "true") if node.word == "while" else ("false",))
    if endless:
        _check_starts(machine, node.body, shell)
    before = shell.fork()
    machine.endless += endless
    if stdin and first_word(node.condition) == "read":
        lines = stdin.split("\n")
        rounds = lines if lines[-1] else lines[:-1]
        out = joined([once(line) for line in rounds[:MAX_ROUNDS]])
        if len(rounds) > MAX_ROUNDS:
            out = joined((out, once(unknown_like(stdin))))
    else:
        out = _until_settled(machine, shell, lambda: once(stdin))
    machine.endless -= endless
    join(shell, [shell.fork(), before])
    return out


def _until_settled(machine: Machine, shell: Shell, once: Callable[[], str]) -> str:
    """Go round a loop until it changes no variable; what still changes then is unknown in a last
    round.
    """
    out: list[str] = []
    for _ in range(MAX_UNSETTLED):
        machine.spend(len(shell.variables) // 16)
        before = dict(shell.variables)
        out.append(once())
        if all(before.get(name) == value for name, value in shell.variables.items()):
            return joined(out)
    widen(shell, before)
    return joined([*out, once()])


def _for(machine: Machine, node: For, shell: Shell, stdin: str | None, folder: Folder) -> str:
    def once(value: str) -> str:
        machine.spend(1)
        if node.name in shell.references:
            shell.refer(node.name, value)  # a nameref leads to each in turn
        else:
            set_variable(machine, shell, node.name, value)
        return machine.run(node.body, shell, stdin)

    if node.words is None:
        values = list(shell.positional) if shell.positional is not None else [UNSET]
    else:
        values = folder.fields(node.words)
    before = shell.fork()
    out = joined(
        [
            once(value) if is_plain(value) else _until_settled(machine, shell, partial(once, value))
            for value in values
        ]
    )
    if not any(map(is_plain, values)):  # there may be none
        join(shell, [shell.fork(), before])
    return out


def _count(machine: Machine, node: CFor, shell: Shell, stdin: str | None, folder: Folder) -> str:
    """`for ((start; test; step))`, round by round while the test can be computed."""
    start, test, step = [*folder.text(node.header).split(";"), "", "", ""][:3]

    def once() -> str:
        text = machine.run(node.body, shell, stdin)
        folder.calculate(step)
        return text

    if not test.strip():
        _check_starts(machine, node.body, shell)
    folder.calculate(start)
    out: list[str] = []
    before = dict(shell.variables)
    for _ in range(MAX_COUNTED):
        wanted = folder.calculate(test) if test.strip() else NUMBER
        if wanted == "0":
            return joined(out)
        if not wanted.lstrip("-").isdigit():
            break
        before = dict(shell.variables)
        out.append(once())
    folder.calculate(step)
    widen(shell, before)
    return joined([*out, _until_settled(machine, shell, once)])


def first_word(seq: Seq) -> str:
    """The first word of a list of commands where it is plain text, else nothing."""
    return "".join(plain_word(node) for node, _ in seq.items[:1])


def _never_holds(condition: Seq, shell: Shell) -> bool:
    return len(condition.items) == 1 and always_fails(condition.items[0][0], shell)


def always_fails(node: Node, shell: Shell) -> bool:
    """True for `false` alone, where nothing else has that name."""
    is_alone = isinstance(node, Simple) and len(node.words) == 1 and not node.negated
    is_own = "false" in shell.functions or "false" in shell.aliases or "false" in shell.unsure
    return is_alone and plain_word(node) == "false" and not is_own


def plain_word(node: Node, *, bare: bool = False) -> str:
    """The first word of a simple command where it is plain text, else nothing; `bare`: nothing
    where it is quoted as well.
    """
    words = node.words if isinstance(node, Simple) else []
    return literal(words[0], bare=bare) if words else ""


def in_background(seq: Seq) -> list[bool]:
    """For every command of a list, whether the `&&` and `||` chain that it belongs to runs in a
    subshell.
    """
    found: list[bool] = []
    for _, operator in reversed(seq.items):
        found.append(found[-1] if operator in ("&&", "||") and found else operator == "&")
    return found[::-1]


def _starts_alone(body: Seq) -> bool:
    """True for commands that start processes, and otherwise end at once."""
    groups = [node.body for node, _ in body.items if isinstance(node, Group)]
    started = [node for node, operator in body.items if operator == "&"]
    others = [
        Seq([(node, operator)])
        for node, operator in body.items
        if operator != "&" and not isinstance(node, Group)
    ]
    starts = started or any(map(_starts_alone, groups))
    return bool(starts) and all(first_word(other) in _AT_ONCE for other in others)


def _check_starts(machine: Machine, body: Seq, shell: Shell) -> None:
    """Report a loop without an end that starts processes and waits for none."""
    if _starts_alone(body):
        machine.report(FORK_BOMB, "starts processes again and again without end", shell)
