"""`hermetic policy`: the verdict on a command, and how well verdicts match a labelled file."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import msgspec

from hermetic.contract.verdict import Verdict
from hermetic.policy import assess


class Row(msgspec.Struct, kw_only=True):
    """One line of a labelled file."""

    command: str
    label: str
    category: str = ""
    technique: str = ""
    id: str = ""


class Score(msgspec.Struct, kw_only=True):
    """How verdicts compare with the labels of a file."""

    rows: int
    recall: float  # dangerous rows labelled dangerous
    recall_hidden: float  # the same where the technique is not plain
    false_alarms: float  # safe rows labelled dangerous
    false_alarms_tricky: float
    cautions: float  # safe rows labelled caution
    exceptions: int
    p50_ms: float
    p99_ms: float
    by_category: dict[str, tuple[int, int]]  # caught, of
    by_technique: dict[str, tuple[int, int]]
    missed: list[str]
    alarmed: list[str]


def add_parser(subparsers: Any) -> None:
    """Add `policy` with `check` and `test` to the command line."""
    parser = subparsers.add_parser("policy", help="what a command would do, and why")
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="the verdict on one command")
    check.add_argument("command_text", metavar="COMMAND")
    check.add_argument("--json", action="store_true", help="print the verdict as JSON")
    check.add_argument("--cwd", help="directory the command would run in")
    check.add_argument("--workspace", help="directory that is the agent's to change")
    test = actions.add_parser("test", help="compare verdicts with a labelled JSONL file")
    test.add_argument("file", metavar="FILE.jsonl")
    test.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; the exit code of `check` is 0 safe, 1 caution, 2 dangerous."""
    if arguments.action == "check":
        return _check(arguments)
    return _test(arguments)


def _check(arguments: argparse.Namespace) -> int:
    verdict = assess(arguments.command_text, cwd=arguments.cwd, workspace=arguments.workspace)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n")
    else:
        sys.stdout.write(describe(verdict))
    return {"safe": 0, "caution": 1, "dangerous": 2}[verdict.label]


def describe(verdict: Verdict) -> str:
    """The verdict as a person reads it."""
    lines = [f"{verdict.label}: {verdict.reason}"]
    for part in verdict.parts:
        mark = " (never runs)" if part.hardline else ""
        lines.append(f"  {part.label:9} {part.category}: {part.reason}{mark}")
        lines.append(f"            in characters {part.start}-{part.end}: {part.decoded}")
    if verdict.effects:
        lines.append(f"  effects: {', '.join(verdict.effects)}")
    return "\n".join(lines) + "\n"


def _test(arguments: argparse.Namespace) -> int:
    with open(arguments.file, "rb") as stream:
        rows = [msgspec.json.decode(line, type=Row) for line in stream if line.strip()]
    result = score(rows)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        sys.stdout.write(_table(result))
    return 0


def score(rows: list[Row]) -> Score:
    """Judge every row and count."""
    times: list[float] = []
    caught: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    missed: list[str] = []
    alarmed: list[str] = []
    counts: Counter[str] = Counter()
    for row in rows:
        begun = time.perf_counter()
        verdict = assess(row.command)
        label = verdict.label
        times.append((time.perf_counter() - begun) * 1000)
        counts["exceptions"] += any(part.rule == "not-judged" for part in verdict.parts)
        counts[row.label] += 1
        tricky = row.technique not in ("", "plain")
        counts[f"{row.label} tricky"] += tricky
        if row.label == "dangerous":
            hit = label == "dangerous"
            counts["hits"] += hit
            counts["hits tricky"] += hit and tricky
            for key in (f"c:{row.category}", f"t:{row.technique}"):
                totals[key] += 1
                caught[key] += hit
            if not hit:
                missed.append(row.command)
        elif row.label == "safe":
            counts["alarms"] += label == "dangerous"
            counts["alarms tricky"] += label == "dangerous" and tricky
            counts["cautions"] += label == "caution"
            if label == "dangerous":
                alarmed.append(row.command)
    return _score(rows, counts, caught, totals, times, missed, alarmed)


def _score(
    rows: list[Row],
    counts: Counter[str],
    caught: Counter[str],
    totals: Counter[str],
    times: list[float],
    missed: list[str],
    alarmed: list[str],
) -> Score:
    def share(part: str, whole: str) -> float:
        return round(counts[part] / counts[whole], 4) if counts[whole] else 0.0

    times.sort()
    return Score(
        rows=len(rows),
        recall=share("hits", "dangerous"),
        recall_hidden=share("hits tricky", "dangerous tricky"),
        false_alarms=share("alarms", "safe"),
        false_alarms_tricky=share("alarms tricky", "safe tricky"),
        cautions=share("cautions", "safe"),
        exceptions=counts["exceptions"],
        p50_ms=round(times[len(times) // 2], 3) if times else 0.0,
        p99_ms=round(times[min(len(times) * 99 // 100, len(times) - 1)], 3) if times else 0.0,
        by_category={key[2:]: (caught[key], totals[key]) for key in sorted(totals) if key.startswith("c:")},
        by_technique={key[2:]: (caught[key], totals[key]) for key in sorted(totals) if key.startswith("t:")},
        missed=missed,
        alarmed=alarmed,
    )


def _table(result: Score) -> str:
    lines = [
        f"rows                      {result.rows}",
        f"recall on dangerous       {result.recall:.1%}   (technique not plain: {result.recall_hidden:.1%})",
        f"false alarms on safe      {result.false_alarms:.1%}   (tricky: {result.false_alarms_tricky:.1%})",
        f"safe labelled caution     {result.cautions:.1%}",
        f"time per command          p50 {result.p50_ms} ms, p99 {result.p99_ms} ms",
        f"exceptions                {result.exceptions}",
    ]
    for title, table in (("by category", result.by_category), ("by technique", result.by_technique)):
        lines.append(title)
        lines += [f"  {name or '(none)':24} {hit}/{of}" for name, (hit, of) in table.items()]
    lines += [f"missed: {text[:160]!r}" for text in result.missed]
    lines += [f"false alarm: {text[:160]!r}" for text in result.alarmed]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run this part of the command line alone."""
    parser = argparse.ArgumentParser(prog="hermetic")
    add_parser(parser.add_subparsers(dest="command", required=True))
    return run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
