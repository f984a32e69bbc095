"""The answer of `execute_code`: how the script ended, what it printed, what it called.

Output is shown as its start and end, counted in bytes and cut between characters.
"""

from collections.abc import Callable
from typing import NamedTuple

from hermetic.contract import endings
from hermetic.contract.command import Result
from hermetic.contract.tool import Fields
from hermetic.session.output import HEAD_PART, cut_to_characters
from hermetic.tools.base.task import AFTER_LOSS
from hermetic.tools.code.arguments import CodeLimits
from hermetic.tools.code.serving import ScriptCalls

Clean = Callable[[str], str]

STDERR = "--- stderr ---\n"
INTERRUPTED = "[interrupted by the user; the script and all it started were ended]"
# Bytes beyond a cut that are looked at: a secret that begins before it is known only by what comes
# behind.
SLACK = 4096


class Printed(NamedTuple):
    """A stream of an ended script: what came of it, and the range [start, end) that did not."""

    data: bytes
    omitted: tuple[int, int] | None
    total: int


def shown(printed: Printed, budget: int, clean: Clean, more: str = "") -> str:
    """At most `budget` bytes of it, cleaned; where it was cut a line says how much is missing, and
    `more`.
    """
    if printed.omitted is None and len(printed.data) <= budget:
        return clean(_text(printed.data))
    at = len(printed.data) if printed.omitted is None else printed.omitted[0]
    before = printed.data[:at]
    after = printed.data if printed.omitted is None else printed.data[at:]
    head = before[: int(budget * HEAD_PART)]
    room = budget - len(head)
    cut = cut_to_characters(head, after[-room:] if room else b"", printed.total)
    if cut.omitted is None:
        return clean(_text(printed.data))
    start, end = cut.omitted
    first = _start(clean, cut.data[:start], before[: start + SLACK])
    last = _end(clean, cut.data[start:], after[-(printed.total - end + SLACK) :])
    gap = "" if not first or first.endswith("\n") else "\n"
    return (
        f"{first}{gap}[{end - start:,} of {printed.total:,} bytes are left out here.{more}]\n{last}"
    )


def _start(clean: Clean, wanted: bytes, longer: bytes) -> str:
    """The wanted text, cleaned; up to where it reads otherwise once more of it is known."""
    return _common(clean(_text(wanted)), clean(_text(longer)))


def _end(clean: Clean, wanted: bytes, longer: bytes) -> str:
    """The same from the end."""
    return _common(clean(_text(wanted))[::-1], clean(_text(longer))[::-1])[::-1]


def _common(one: str, other: str) -> str:
    """The start that both have."""
    if other.startswith(one):
        return one
    same = next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None
    )
    return one[:same] if same is not None else min(one, other, key=len)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def answer_of(
    result: Result, calls: ScriptCalls, limits: CodeLimits, show: Callable[[str], str]
) -> Fields:
    """All fields of a script that has begun."""
    out = Printed(result.data, result.omitted, result.total_bytes)
    err = Printed(result.stderr_data or b"", result.stderr_omitted, result.stderr_bytes)
    output = shown(out, limits.stdout, show, _how(result.log))
    complaints = shown(err, limits.stderr, show, _how(f"{result.log}/err"))
    answer: Fields = {"status": "success", "output": output, **_ending(result, calls, complaints)}
    if answer["status"] == "error" and complaints:
        gap = "" if not output or output.endswith("\n") else "\n"
        answer["output"] = f"{output}{gap}{STDERR}{complaints}"
    elif complaints:
        answer["stderr"] = complaints
    if answer["status"] == "interrupted":
        answer["output"] = "\n".join(filter(None, [output.rstrip("\n"), INTERRUPTED]))
    return answer | _counts(result, calls)


def _counts(result: Result, calls: ScriptCalls) -> Fields:
    fields: Fields = {
        "exit_code": result.exit_code,
        "tool_calls_made": calls.made,
        "duration_seconds": round(result.duration, 2 if result.duration >= 0.1 else 4),
        "log": result.log,
    }
    if calls.refused:
        fields["tool_calls_refused"] = calls.refused
    if calls.log:
        fields["calls"] = list(calls.log)
    if calls.files:
        fields["files"] = calls.files
    if result.truncated:
        fields["total_bytes"] = result.total_bytes
    if result.notes:
        fields["notes"] = list(result.notes)
    return fields


def _ending(result: Result, calls: ScriptCalls, complaints: str) -> Fields:
    """`status`, and `error` where there is one."""
    ending = result.ending
    if isinstance(ending, endings.Exited) and ending.code == 0:
        return {}
    if isinstance(ending, endings.Yielded):
        return {"status": "yielded", "session_id": ending.process_id}
    if calls.is_spamming:
        return {
            "status": "error",
            "error": f"ended: {calls.refused} of its tool calls had been refused",
        }
    if isinstance(ending, endings.TimedOut):
        return {
            "status": "timeout",
            "error": f"killed after {ending.after:g} s, with all it had started",
        }
    if isinstance(ending, endings.Cancelled):
        return {"status": "interrupted", "error": "interrupted by the user"}
    last = complaints.strip().rpartition("\n")[2]
    return {"status": "error", "error": _words(ending) + (f": {last}" if last else "")}


def _words(ending: object) -> str:
    if isinstance(ending, endings.Lost):
        return f"the script was lost ({ending.reason}); {AFTER_LOSS}"
    if isinstance(ending, endings.OutOfMemory):
        return "the script was ended because memory ran out"
    if isinstance(ending, endings.Signalled):
        return f"the script was ended by signal {ending.signal}"
    return f"the script {ending}"


def _how(log: str) -> str:
    return f" Read them with process(action='log', session_id={log!r}, offset=LINE)."
