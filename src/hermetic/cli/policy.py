"""`hermetic policy`: the verdict on a command, and how well verdicts match a labelled file."""

import argparse
import os

import msgspec

from hermetic.cli.command import Command
from hermetic.cli.report import one_line, print_json
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.verdict import ShellState, Verdict
from hermetic.policy.assess import assess
from hermetic.policy.scoring import Row, Score, score


def _policy_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="check|test", required=True)
    check = actions.add_parser("check", help="the verdict on one command: --cwd, --workspace, --json")
    check.add_argument("command_text", metavar="COMMAND")
    check.add_argument("--cwd", metavar="D", help="directory the command would run in")
    check.add_argument("--workspace", metavar="D", help="directory that is the agent's to change")
    check.add_argument("--json", action="store_true", help="as JSON")
    test = actions.add_parser("test", help="compare verdicts with a labelled file: --json")
    test.add_argument("file", metavar="FILE.jsonl")
    test.add_argument("--json", action="store_true", help="as JSON")


EXIT_CODES = {"safe": 0, "caution": 3, "dangerous": 4}


def _policy(arguments: argparse.Namespace) -> int:
    """Prints the verdict or the figures; the exit code of `check` stands for the label."""
    return _check(arguments) if arguments.action == "check" else _test(arguments)


def _check(arguments: argparse.Namespace) -> int:
    home = os.environ.get("HOME", "")
    state = ShellState(home=home) if home.startswith("/") else None
    verdict = assess(arguments.command_text, cwd=arguments.cwd, workspace=arguments.workspace, state=state)
    if arguments.json:
        print_json(verdict)
    else:
        print(describe(verdict))
    return EXIT_CODES[verdict.label]


def describe(verdict: Verdict) -> str:
    """The verdict as a person reads it."""
    lines = [f"{verdict.label}: {one_line(verdict.reason)}"]
    for part in verdict.parts:
        mark = " (never runs)" if part.hardline else ""
        lines.append(f"  {part.label:9} {part.category}: {one_line(part.reason)}{mark}")
        lines.append(f"            in characters {part.start}-{part.end}: {one_line(part.decoded)}")
    if verdict.effects:
        lines.append(f"  effects: {', '.join(verdict.effects)}")
    return "\n".join(lines)


def _test(arguments: argparse.Namespace) -> int:
    result = score(_rows(arguments.file))
    if arguments.json:
        print_json(result)
    else:
        print(_table(result), end="")
    return 0


def _rows(path: str) -> list[Row]:
    try:
        with open(path, "rb") as stream:
            return [msgspec.json.decode(line, type=Row) for line in stream if line.strip()]
    except (OSError, msgspec.DecodeError) as problem:
        raise InvalidArgument(
            f"cannot take commands from {path}: {problem}; each line is an object with `command` and `label`"
        ) from problem


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
        lines += [f"  {one_line(name) or '(none)':24} {hit}/{of}" for name, (hit, of) in table.items()]
    lines += [f"missed: {one_line(text)}" for text in result.missed]
    lines += [f"false alarm: {one_line(text)}" for text in result.alarmed]
    return "\n".join(lines) + "\n"


COMMANDS = {
    "policy": Command("What a command would do, and why; nothing is run.", _policy_arguments, _policy),
}
