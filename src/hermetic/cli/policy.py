"""`hermetic policy`: the verdict on a command, how it came about, and tests of rows and verdicts."""

import argparse
import os
import sys
import tomllib
from typing import Any

import msgspec

from hermetic.approvals.rules import extension_of
from hermetic.cli.colours import shown_state
from hermetic.cli.command import JSON, Command, options
from hermetic.cli.opening import settings_here
from hermetic.cli.report import one_line, print_json
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.verdict import ShellState, Verdict
from hermetic.policy.assess import Surroundings
from hermetic.policy.explain import Explanation, examples_that_fail, explain_command
from hermetic.policy.extension import Extension
from hermetic.policy.scoring import Row, Score, score

_CHECKED = """\
command_text COMMAND
--cwd D        directory the command would run in
--workspace D  directory that is the agent's to change
"""
_TESTED = "file [FILE]  rows as TOML, or labelled commands as JSON lines"
_ACTIONS = {
    "check": ("the verdict on one command: --cwd, --workspace, --json", _CHECKED),
    "explain": (
        "its programs, what is known of each, and what was found: --cwd, --workspace, --json",
        _CHECKED,
    ),
    "test": ("check the examples of your rows, or verdicts on a labelled file: --json", _TESTED),
}


def _policy_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="check|explain|test", required=True)
    for name, (meaning, rows) in _ACTIONS.items():
        options(rows, JSON)(actions.add_parser(name, help=meaning))


EXIT_CODES = {"safe": 0, "caution": 3, "dangerous": 4}


def _policy(arguments: argparse.Namespace) -> int:
    """Prints the verdict or the figures; the exit code of `check` and `explain` stands for the
    label.
    """
    if arguments.action == "test":
        return _test(arguments)
    home = os.environ.get("HOME", "")
    state = ShellState(home=home) if home.startswith("/") else None
    extension = extension_of(_own_rows())
    around = Surroundings(
        cwd=arguments.cwd, workspace=arguments.workspace, state=state, extension=extension
    )
    explained = explain_command(arguments.command_text, around)
    is_check = arguments.action == "check"
    if arguments.json:
        print_json(explained.verdict if is_check else explained)
    else:
        print(describe(explained.verdict) if is_check else _explained(explained))
    return EXIT_CODES[explained.verdict.label]


def _own_rows() -> tuple[dict[str, Any], ...]:
    """The rows of the user's and the project's settings."""
    settings = settings_here()
    return settings.approvals.programs if settings else ()


def _explained(explanation: Explanation) -> str:
    """Each program with what is known of it and what was found, then the verdict."""
    lines = []
    for command in explanation.commands:
        lines.append(f"{'  ' * (command.depth - 1)}{one_line(command.command)}")
        details = [("known by", one) for one in command.knowledge] + [
            ("effect", one) for one in command.effects
        ]
        details += [
            ("rule", f"{one.rule} ({one.label}, {one.category}): {one.reason}")
            for one in command.rules
        ]
        lines += [f"{'  ' * command.depth}  {title:9} {one_line(text)}" for title, text in details]
    return "\n".join([*lines, describe(explanation.verdict)])


def describe(verdict: Verdict) -> str:
    """The verdict as a person reads it."""
    lines = [f"{shown_state(verdict.label, sys.stdout)}: {one_line(verdict.reason)}"]
    for part in verdict.parts:
        mark = " (never runs)" if part.hardline else ""
        lines.append(
            f"  {shown_state(f'{part.label:9}', sys.stdout)} {part.category}: {one_line(part.reason)}{mark}"
        )
        lines.append(f"            in characters {part.start}-{part.end}: {one_line(part.decoded)}")
    if verdict.effects:
        lines.append(f"  effects: {', '.join(verdict.effects)}")
    return "\n".join(lines)


def _test(arguments: argparse.Namespace) -> int:
    if arguments.file is None or arguments.file.endswith(".toml"):
        return _test_examples(arguments)
    result = score(_rows(arguments.file))
    if arguments.json:
        print_json(result)
    else:
        print(_table(result), end="")
    return 0


class Tested(msgspec.Struct, frozen=True):
    """How the examples of rows fared."""

    rules: int
    examples: int
    failed: tuple[str, ...]


def _test_examples(arguments: argparse.Namespace) -> int:
    """Checks `catches` and `spares` of the rows in the settings, or in a file; exits with 1 when
    one fails.
    """
    layers = _own_rows() if arguments.file is None else (_layer(arguments.file),)
    extension = Extension(layers)
    rules = tuple(extension.rules)
    examples = sum(len(rule.catches) + len(rule.spares) for rule in rules)
    tested = Tested(len(rules), examples, tuple(examples_that_fail(extension)))
    if arguments.json:
        print_json(tested)
    else:
        print(
            "\n".join(
                [f"{tested.rules} rules, {tested.examples} examples", *map(one_line, tested.failed)]
            )
        )
    return 1 if tested.failed else 0


def _layer(path: str) -> dict[str, Any]:
    """The rows of a file: those of its settings, or the file itself in the form of programs/*.toml."""
    try:
        with open(path, "rb") as stream:
            content = tomllib.load(stream)
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise InvalidArgument(f"cannot take rows from {path}: {_reason(problem)}") from problem
    rows: dict[str, Any] = content.get("approvals", {}).get("programs", content)
    return rows


def _rows(path: str) -> list[Row]:
    try:
        with open(path, "rb") as stream:
            return [msgspec.json.decode(line, type=Row) for line in stream if line.strip()]
    except (OSError, msgspec.DecodeError) as problem:
        raise InvalidArgument(
            f"cannot take commands from {path}: {_reason(problem)}; each line is an object with `command` and `label`"
        ) from problem


def _reason(problem: Exception) -> object:
    """The problem without the name of the file."""
    return problem.strerror if isinstance(problem, OSError) else problem


def _table(result: Score) -> str:
    lines = [
        f"rows                      {result.rows}",
        f"recall on dangerous       {result.recall:.1%}   (technique not plain: {result.recall_hidden:.1%})",
        f"false alarms on safe      {result.false_alarms:.1%}   (tricky: {result.false_alarms_tricky:.1%})",
        f"safe labelled caution     {result.cautions:.1%}",
        f"time per command          p50 {result.p50_ms} ms, p99 {result.p99_ms} ms",
        f"exceptions                {result.exceptions}",
    ]
    for title, table in (
        ("by category", result.by_category),
        ("by technique", result.by_technique),
    ):
        lines.append(title)
        lines += [
            f"  {one_line(name) or '(none)':24} {hit}/{of}" for name, (hit, of) in table.items()
        ]
    lines += [f"missed: {one_line(text)}" for text in result.missed]
    lines += [f"false alarm: {one_line(text)}" for text in result.alarmed]
    return "\n".join(lines) + "\n"


COMMANDS = {
    "policy": Command(
        """\
What a command would do, and why; nothing is run. `check` and `explain` exit with 0 for safe, 3 for caution and 4 for
dangerous.

  hermetic policy check 'rm -rf build'
  hermetic policy explain 'sudo make install'
  hermetic policy test                  examples of the rows in your settings; or of a TOML file
  hermetic policy test commands.jsonl   recall and false alarms on labelled commands""",
        _policy_arguments,
        _policy,
    ),
}
