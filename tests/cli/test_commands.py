"""What all commands have in common: examples in the help, --json, errors with a next step."""

import argparse
import re
from pathlib import Path

import pytest

import hermetic as library
from hermetic.cli.command import Parser
from hermetic.cli.dispatch import COMMANDS, GROUPS, main
from tests.cli.test_words import code_of

# Commands without --json, and why.
PLAIN = {
    "shell": "a terminal",
    "logs": "bytes of a process, unchanged",
    "attach": "a terminal",
    "secret": "prints nothing",
    "play": "a terminal",
    "cp": "prints nothing",
    "mcp": "speaks a protocol, or prints a file for a client",
    "demo": "a tour for persons",
    "completion": "a script for a shell",
}


def actions_of(name: str) -> list[argparse.Action]:
    """The arguments of a command, those of its sub-commands too."""
    parser = Parser(add_help=False)
    COMMANDS[name].module.COMMANDS[name].declare(parser)
    found = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for below in action.choices.values() for one in below._actions]
    return found


def test_every_command_has_json_or_a_reason_against_it() -> None:
    has_json = {
        name
        for name in COMMANDS
        if any("--json" in action.option_strings for action in actions_of(name))
    }
    assert set(COMMANDS) - has_json == PLAIN.keys()


def test_the_help_has_examples_and_every_command_once_in_a_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert code_of(("--help",)) == 0
    shown = capsys.readouterr().out
    assert sorted(name for names in GROUPS.values() for name in names.split()) == sorted(COMMANDS)
    assert all(f"\n\n{title}:\n  {names.split()[0]} " in shown for title, names in GROUPS.items())
    assert max(map(len, shown.splitlines())) <= 80
    examples = re.findall(r"^  hermetic (.+?)(?:  |$)", shown, re.MULTILINE)
    assert {"run", "shell", "serve"} <= {example.split()[0] for example in examples}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example_that_is_understood(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of((name, "--help")) == 0
    shown = capsys.readouterr().out
    examples = re.findall(rf"^  .*\bhermetic ({name}\b.*)$", shown, re.MULTILINE)
    assert examples
    options = {option for action in actions_of(name) for option in action.option_strings}
    for example in examples:
        own = re.split(r" -- |'|\||  ", example)[0]  # without the user's command, a pipe, a remark
        assert set(re.findall(r"(?<= )--[a-z-]+", own)) <= options, example


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name: str) -> None:
    unexplained = [
        action.dest
        for action in actions_of(name)
        if action.option_strings and not action.help and action.dest != "help"
    ]
    assert unexplained == []


# A mistake for each command that can be made without an environment, with the advice that its
# message ends in.
MISTAKES = {
    "run": (("run", "--env", "nowhere", "ls"), "Valid"),
    "shell": (("shell", "--env", "nowhere"), "Valid"),
    "code": (("code", "missing.py"), "give a Python script"),
    "fleet": (("fleet", "run", "--tasks", "missing"), "give a file of JSON lines"),
    "ps": (("ps", "--in", "missing"), "`hermetic envs`"),
    "top": (("top", "--in", "missing"), "`hermetic envs`"),
    "logs": (("logs", "missing"), "`hermetic ps -a`"),
    "attach": (("attach", "missing"), "`hermetic ps -a`"),
    "secret": (("secret", "missing"), "`hermetic ps -a`"),
    "wait": (("wait", "missing"), "`hermetic ps -a`"),
    "kill": (("kill", "missing"), "`hermetic ps -a`"),
    "envs": (("envs", "--all"), "`hermetic envs --help`"),
    "inspect": (("inspect", "missing"), "`hermetic envs`"),
    "events": (("events", "--in", "missing"), "`hermetic envs`"),
    "approvals": (("approvals", "answer", "missing", "once"), "hermetic approvals"),
    "stop": (("stop",), "`hermetic envs`"),
    "release": (("release", "--all", "x"), "name the tasks"),
    "record": (("record", "missing"), "`hermetic envs`"),
    "play": (("play", "missing.cast"), "`hermetic record --list`"),
    "cp": (("cp", "a", "b"), "TASK:PATH"),
    "port": (("port", "missing", "8000"), "`hermetic envs`"),
    "rm": (("rm",), "`hermetic envs`"),
    "gc": (("gc", "--all"), "`hermetic gc --help`"),
    "policy": (
        ("policy", "test", "missing.jsonl"),
        "missing.jsonl: No such file or directory; each line is an object",
    ),
    "config": (("config", "/nonexistent/directory"), "name one that exists"),
    "serve": (("serve", "token", "--expires", "soon"), "write 30m, 12h or 7d"),
    "mcp": (("mcp", "--wait", "0"), "above zero"),
    "demo": (("demo", "--env", "nowhere"), "Valid"),
    "doctor": (("doctor", "--all"), "`hermetic doctor --help`"),
    "completion": (("completion", "tcsh"), "`hermetic completion --help`"),
    "runtime": (("runtime", "remove"), "`hermetic runtime --help`"),
    "version": (("version", "--all"), "`hermetic version --help`"),
}


def test_every_command_has_a_mistake_here() -> None:
    assert MISTAKES.keys() == set(COMMANDS)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_the_next_step(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, advice = MISTAKES[name]
    assert code_of(words) not in (0, None)
    said = capsys.readouterr().err
    assert said.startswith("hermetic: ")
    assert said.count("\n") == 1
    assert advice in said


def test_stopping_and_releasing_are_reported_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with library.blocking.open("local", task="held as json") as env:
        for word in ("stop", "release"):
            assert main([word, "--json", "held as json"]) == 0
            assert f'"environment": "{env.id}"' in capsys.readouterr().out
        env.close(remove=True)
