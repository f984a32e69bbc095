"""The one question: what would this command, script or write do, and how bad is that?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from hermetic.contract.environment import Isolation
from hermetic.contract.verdict import LABELS, Label, Part, ShellState, Verdict
from hermetic.policy.programs.carriers import judge_waiting
from hermetic.policy.programs.table import rule
from hermetic.policy.tables import names, regex

from .acts import Act
from .budget import MAX_STEPS, Overflow
from .call import Call
from .circumstances import around_of
from .containment import is_contained
from .deception import DECEPTIVE, deception_in
from .effects import delete, write
from .extension import Extension
from .languages.python import judge_python
from .marks import shown, to_bytes_text, unknown_like
from .protected import PROTECTED_WRITE, protect
from .rules import Finding, Rule
from .shell import Shell
from .shell.evaluator import Evaluator
from .shell.findings import Step
from .shell.reader import Reader, Unreadable
from .shell.syntax import Function, Node
from .shell.traps import keep, signal_name
from .variables import judge_variable

MAX_CHARACTERS = 128_000
MAX_NESTED = 400
MAX_PARTS = 200
_HEADER = re.compile(r"(?:function[ \t]+)?\S+[ \t]*\(\)\s*")  # of a function, before its body
MAX_KEPT = 4096  # characters of a function's definition that is kept as it was read

UNREADABLE = rule("unreadable")
TOO_LARGE = rule("too-large")
NOT_JUDGED = rule("not-judged")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a text meets when it runs, as far as that is known."""

    cwd: str | None = None
    workspace: str | None = None
    state: ShellState | None = None
    isolation: Isolation | None = None
    stdin: str | None = None  # its whole input
    env: Mapping[str, str] = {}  # variables for it alone
    extension: Extension | None = None  # rows of the user and the project
    # variables of its session that are part of every act; None: unknown
    context: Mapping[str, str] | None = None


class Examined(msgspec.Struct, frozen=True):
    """A verdict, and everything that the text does, harmless or not."""

    verdict: Verdict
    acts: tuple[Act, ...] = ()


_ASKS = regex(
    r"\bread\s+(?:-\w+\s+)*-\w*s\w*[^\n;|&]{0,30}(?:\[sudo\]|\bsudo\b|\broot\b)[^\n;|&]{0,20}(?i:passw)"
)
NOTHING_KNOWN = Surroundings()


def assess(
    command: str,
    *,
    cwd: str | None = None,
    workspace: str | None = None,
    state: ShellState | None = None,
    isolation: Isolation | None = None,
) -> Verdict:
    """Verdict on a shell text. Nothing is run.

    Without `cwd`, `workspace` and `state` it is judged as if run in a workspace inside the user's
    home on a real host.
    """
    around = Surroundings(cwd=cwd, workspace=workspace, state=state, isolation=isolation)
    return examine_command(command, around).verdict


def examine_command(
    command: str,
    around: Surroundings = NOTHING_KNOWN,
    most_steps: int = MAX_STEPS,
    judged: list[Step] | None = None,
) -> Examined:
    """What a shell text would do. Raises Overflow where fewer steps than MAX_STEPS are allowed and
    do not suffice.

    `judged` gets the programs that were judged.
    """
    if len(command) > MAX_CHARACTERS:
        return _too_large(command, around)
    found: list[Finding] = []
    if asked := _ASKS.search(command):
        reason = "asks a person for a password under another name"
        found.append(Finding(DECEPTIVE, reason, asked.start(), asked.end(), asked[0]))
    if deceptive := deception_in(command):
        reason, at = deceptive
        seen = ascii(command[:200])[1:-1]
        found.append(Finding(DECEPTIVE, f"the text {reason}", at, at + 1, seen))
    text = to_bytes_text(command.replace("\r\n", "\n").rstrip("\r"))
    if _is_deep(text):
        found.append(_of_all(TOO_LARGE, "is nested too deeply to be read", command))
        return Examined(verdict_of(found, command, around.isolation))
    shell, evaluator = _shell(around), Evaluator(most_steps)
    _prepare(evaluator, shell, around.state)
    evaluator.extension, evaluator.judged = around.extension, judged

    def walk() -> None:
        sequence = Reader(text).read()
        _set_variables(evaluator, shell, around.env)
        shell.began = dict(shell.variables)
        evaluator.run(sequence, shell, _input(around))
        evaluator.spring(shell)
        judge_waiting(Call(["write"], shell, None, {}, evaluator))

    found += _walked(evaluator, walk, command)
    return Examined(verdict_of(found, command, around.isolation), tuple(evaluator.acts))


def examine_python(
    source: str, around: Surroundings = NOTHING_KNOWN, most_steps: int = MAX_STEPS
) -> Examined:
    """What a Python text would do. Raises Overflow as `examine_command` does."""
    if len(source) > MAX_CHARACTERS:
        return _too_large(source, around)
    text = to_bytes_text(source)
    words = ["python3", "-c", text]
    return _examine_call(words, source, around, lambda call: judge_python(call, text), most_steps)


def examine_writes(paths: Sequence[str], around: Surroundings = NOTHING_KNOWN) -> Examined:
    """What writing, changing or deleting these files means, without a shell in between."""

    def judge(call: Call) -> None:
        for path in call.args:
            one = call.again(["write", path])
            protect(one, path)
            write(one, path)

    return _examine_call(["write", *map(to_bytes_text, paths)], "\n".join(paths), around, judge)


def examine_input(argv: Sequence[str], text: str, around: Surroundings = NOTHING_KNOWN) -> Examined:
    """What a program would do with this text on its standard input."""
    words = list(map(to_bytes_text, argv))

    def judge(call: Call) -> None:
        call.machine.run_argv(words, call.shell, to_bytes_text(text), {})

    return _examine_call(words, text, around, judge)


def join_changes(
    examined: Examined, written: Sequence[str], deleted: Sequence[str], around: Surroundings
) -> Examined:
    """The same with what it means that these files change too, which its text does not name."""
    parts = examine_writes(written, around).verdict.parts
    parts += _examine_deletes(deleted, around).verdict.parts
    # good for one time alone
    added = tuple(msgspec.structs.replace(part, exact="", start=0, end=0) for part in parts)
    acts = [Act("write", path=to_bytes_text(path)) for path in written]
    acts += [Act("delete", path=to_bytes_text(path)) for path in deleted]
    return _joined(examined, added, acts)


def _joined(examined: Examined, parts: Sequence[Part], acts: Sequence[Act] = ()) -> Examined:
    before = examined.verdict
    verdict = _verdict(before.decoded, _distinct((*before.parts, *parts), before.decoded))
    return Examined(verdict, (*examined.acts, *acts))


def _examine_deletes(paths: Sequence[str], around: Surroundings) -> Examined:
    """What it means that these go, with all that is in them."""

    def judge(call: Call) -> None:
        for path in call.args:
            delete(call.again(["rm", "-r", path]), path, recursive=True)

    return _examine_call(["rm", *map(to_bytes_text, paths)], "\n".join(paths), around, judge)


def join_ours(
    examined: Examined, paths: Sequence[str], does: str = "changes what Hermetic itself may do"
) -> Examined:
    """The same with what it means that these files are Hermetic's own."""
    found = [Finding(PROTECTED_WRITE, f"{does}: {path}", 0, 0, path, path) for path in paths]
    return _joined(examined, verdict_of(found, examined.verdict.decoded, None).parts)


def _examine_call(
    argv: list[str],
    text: str,
    around: Surroundings,
    judge: Callable[[Call], None],
    most_steps: int = MAX_STEPS,
) -> Examined:
    """By the judge of one program, with no shell text around it."""
    evaluator, shell = Evaluator(most_steps), _shell(around)
    evaluator.extension = around.extension
    evaluator.span = (0, len(text.encode("utf-8", "surrogatepass")))
    found = _walked(evaluator, lambda: judge(Call(argv, shell, None, {}, evaluator)), text)
    return Examined(verdict_of(found, text, around.isolation), tuple(evaluator.acts))


def _input(around: Surroundings) -> str | None:
    """The input of a text; unknown where it is longer than what is read of a command."""
    if around.stdin is None:
        return None
    return to_bytes_text(around.stdin) if len(around.stdin) <= MAX_CHARACTERS else unknown_like()


def _shell(around: Surroundings) -> Shell:
    shell = Shell(around.state, around.cwd, around.workspace)
    if around.context is not None:
        shell.context = {name: to_bytes_text(value) for name, value in around.context.items()}
    return shell


def around_of_text(around: Surroundings) -> str:
    """A digest of what a program of a text meets that changes nothing itself; equal to its parts'
    own.
    """
    return around_of(_shell(around), {})


def _walked(evaluator: Evaluator, walk: Callable[[], None], text: str) -> list[Finding]:
    """What an evaluation finds; what kept it from its end is one more, so that nothing passes
    unread.
    """
    problem: list[Finding] = []
    try:
        walk()
        evaluator.finish()
    except Unreadable as error:
        problem = [_of_all(UNREADABLE, f"cannot be read as shell: {error}", text)]
    except (Overflow, RecursionError) as error:
        if isinstance(error, Overflow) and evaluator.most < MAX_STEPS:
            raise
        problem = [_of_all(TOO_LARGE, "asks for more work than a check may take", text)]
    except Exception as error:  # a judge's mistake must never let a command pass unread
        problem = [_of_all(NOT_JUDGED, f"could not be judged ({error!r})", text)]
    return [*evaluator.findings, *problem]


def _of_all(rule: Rule, reason: str, text: str) -> Finding:
    """A finding about a text as a whole."""
    return Finding(rule, reason, 0, len(text), text if len(text) <= 200 else f"{text[:200]}…")


def _too_large(text: str, around: Surroundings) -> Examined:
    finding = _of_all(TOO_LARGE, f"is too long to be read ({len(text)} characters)", text)
    return Examined(verdict_of([finding], text, around.isolation))


def _set_variables(evaluator: Evaluator, shell: Shell, env: Mapping[str, str]) -> None:
    """Judge and set the variables that hold for this text alone."""
    call = Call(["env"], shell, None, {}, evaluator)
    for name, value in env.items():
        judge_variable(call, name, to_bytes_text(value), temporary=True)
        shell.variables[name] = to_bytes_text(value)


def verdict_of(findings: Sequence[Finding], command: str, isolation: Isolation | None) -> Verdict:
    """The verdict that findings amount to, where the command runs."""
    parts = tuple(_part(finding, command, isolation) for finding in findings)
    return _verdict(command, _distinct(parts, command))


def _is_deep(text: str) -> bool:
    """True where brackets may be nested too deeply."""
    if len(text) > 2000 and max(text.count("${"), text.count("`") // 2) > MAX_NESTED:
        return True
    return text.count("(") > MAX_NESTED


def _prepare(evaluator: Evaluator, shell: Shell, state: ShellState | None) -> None:
    """Define what earlier commands of the session defined."""
    if state is None:
        return
    for name, text in state.aliases.items():
        shell.aliases[to_bytes_text(name)] = to_bytes_text(text)
    for name, body in state.functions.items():
        text = to_bytes_text(body).strip()
        if not text.startswith(("{", "(")):
            header = _HEADER.match(text)
            text = text[header.end() :] if header else "{ " + text + "\n}"
        try:
            read = _read_again if len(text) <= MAX_KEPT else _read
            shell.functions[to_bytes_text(name)] = read(text)
        except Unreadable:  # what it does is unknown
            shell.functions[to_bytes_text(name)] = _read_again('{ eval "$__unreadable"; }')
    for name, code in state.traps.items():
        text, signal = to_bytes_text(code), signal_name(name)
        keep(shell, text, [signal])
        if evaluator.probe_text(text, shell):
            evaluator.accepted |= {text}
        elif signal == "EXIT":
            evaluator.defer(text, shell)


def _read(body: str) -> Node:
    """The body of a function. Its name may be any word, so it is not read here.

    Raises: Unreadable.
    """
    node = Reader(f"f () {body}", (0, 0)).read().items[0][0]
    if not isinstance(node, Function):
        raise Unreadable("is no function")
    return node.body


# each command of a session meets the same ones; evaluating changes none
_read_again = lru_cache(maxsize=32)(_read)


def _part(finding: Finding, command: str, isolation: Isolation | None) -> Part:
    rule = finding.rule
    label: Label = rule.label
    severity, reason, hardline = rule.severity, finding.reason, rule.hardline
    if label == "dangerous" and isolation is not None and is_contained(finding, isolation):
        label, severity, hardline = "caution", min(severity, 4), False
        reason += " (inside its own environment only)"
    start, end = _characters(command, finding.start, finding.end)
    return Part(
        label=label,
        category=rule.category,
        rule=rule.name,
        severity=severity,
        reason=reason,
        start=start,
        end=end,
        decoded=shown(finding.decoded),
        effects=rule.effects,
        hardline=hardline,
        argv=finding.argv,
        path=shown(finding.path or ""),
        source=finding.source,
        exact=finding.exact,
        around=finding.around,
    )


def _characters(command: str, start: int, end: int) -> tuple[int, int]:
    """Places counted in bytes as places counted in characters."""
    if command.isascii() and "\r" not in command:
        return start, max(end, start)
    data = command.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    first = len(data[:start].decode("utf-8", "replace"))
    last = first + len(data[start:end].decode("utf-8", "replace"))
    return min(first, len(command)), min(last, len(command))


def _distinct(parts: tuple[Part, ...], command: str) -> tuple[Part, ...]:
    """Each part once, by its place. The worst are kept where there are too many; one part stands for
    the others, so that no answer to the kept ones covers them.
    """
    first = {(part.rule, part.start, part.reason): part for part in reversed(parts)}
    kept = [part for part in parts if first[part.rule, part.start, part.reason] is part]
    kept.sort(key=_badness, reverse=True)
    if len(kept) > MAX_PARTS:
        kept, others = kept[: MAX_PARTS - 1], kept[MAX_PARTS - 1 :]
        reason = f"holds {len(others)} more parts, which are not shown one by one"
        rest = _part(_of_all(TOO_LARGE, reason, command), command, None)
        effects = tuple(dict.fromkeys(effect for part in others for effect in part.effects))
        worst = others[0]
        kept.append(
            msgspec.structs.replace(
                rest,
                label=worst.label,
                severity=worst.severity,
                hardline=worst.hardline,
                effects=effects,
            )
        )
    return tuple(sorted(kept, key=lambda part: part.start))


def _badness(part: Part) -> tuple[int, bool, int]:
    return LABELS.index(part.label), part.hardline, part.severity


_OF_THE_WORST = names("label category severity reason start end decoded")


def _verdict(command: str, parts: tuple[Part, ...]) -> Verdict:
    if not parts:
        return Verdict(
            label="safe",
            category="safe",
            severity=0,
            reason="nothing in it harms anything",
            start=0,
            end=len(command),
            decoded=command,
        )
    worst = max(parts, key=_badness)
    effects = tuple(dict.fromkeys(effect for part in parts for effect in part.effects))
    shared = {name: getattr(worst, name) for name in _OF_THE_WORST}
    hardline = any(part.hardline for part in parts)
    return Verdict(effects=effects, hardline=hardline, parts=parts, **shared)
