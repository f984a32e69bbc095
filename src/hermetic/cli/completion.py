"""`hermetic completion`: a script that teaches a shell the commands, their options, and what
options and commands take.

Ids and tasks are asked for when they are completed: `hermetic completion --names processes` prints
them.
"""

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hermetic.cli.command import Command, Parser
from hermetic.cli.lookup import attached, processes_of
from hermetic.environments import catalog
from hermetic.registry.records import Records, runtime_root

# A user's own settings may have loaded zsh's completion before.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
autoload -U +X bashcompinit && bashcompinit
"""
_BASH = """\
_hermetic() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words="" takes="" options=""
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $before in
{values}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")); return ;;
  esac
  [ -z "$takes" ] || words="$words $(hermetic completion --names "$takes" 2>/dev/null)"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _hermetic hermetic
"""
# What the operands of a command and the values of an option are, by their names in the help.
_NAMES = {
    **dict.fromkeys(("ID", "ID…"), "processes"),
    **dict.fromkeys(("TASK", "TASK…", "T", "ENV"), "tasks"),
    **dict.fromkeys(("NAME", "ID | TASK | -- COMMAND…"), "names"),
}
_OTHER_IDS = ("approvals", "serve")  # whose ids are not those of processes


class _Known(NamedTuple):
    """What is completed behind a command."""

    options: dict[str, str]  # with their help
    words: tuple[str, ...] = ()  # that may follow it
    takes: str = ""  # names that are asked for


def _arguments(parser: argparse.ArgumentParser) -> None:
    shell = parser.add_mutually_exclusive_group(required=True)
    shell.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"))
    shell.add_argument(
        "--names",
        choices=("processes", "tasks", "names"),
        help="what the scripts ask for: ids and tasks, one a line",
    )


def _main(arguments: argparse.Namespace) -> int:
    if arguments.names:
        print("".join(f"{name}\n" for name in asyncio.run(_names(arguments.names))), end="")
        return 0
    known = {
        name: _known(name, entry.module.COMMANDS[name])
        for name, entry in arguments.commands.items()
    }
    meanings = {name: entry.meaning for name, entry in arguments.commands.items()}
    print(
        _fish(known, meanings) if arguments.shell == "fish" else _bash(known, arguments.shell),
        end="",
    )
    return 0


async def _names(which: str) -> list[str]:
    """Tasks, ids of processes, or both. Those that a shell would split or expand are left out."""
    found = []
    if which != "processes":
        found = [record.task or record.id for record in Records(runtime_root()).all()]
    if which != "tasks":
        async with attached(observes=True) as environments:
            listed = await asyncio.gather(*map(processes_of, environments))
        found += [process.info.id for processes in listed for process in processes]
    return [
        name for name in found if name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    ]


def _known(name: str, command: Command) -> _Known:
    parser = Parser(add_help=False)
    command.declare(parser)
    options = {
        option: (action.help or "").replace("%%", "%")
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    operands = [action for action in parser._actions if not action.option_strings]
    words = tuple(str(word) for action in operands for word in action.choices or ())
    takes = next((_NAMES[action.metavar] for action in operands if action.metavar in _NAMES), "")
    return _Known(options, words, "" if name in _OTHER_IDS else takes)


def _bash(known: Mapping[str, _Known], shell: str) -> str:
    cases = "\n".join(
        f'    {name}) options="{" ".join(one.options)}" words="{" ".join(one.words)}" takes="{one.takes}" ;;'
        for name, one in known.items()
    )
    values = f'    --env) words="{_words(catalog.kinds())}" takes="" ;;\n    --task|--in) words="" takes=tasks ;;'
    return (_ZSH if shell == "zsh" else "") + _BASH.format(
        commands=_words(known), cases=cases, values=values
    )


def _words(names: Iterable[str]) -> str:
    return " ".join(names)


def _fish(known: Mapping[str, _Known], meanings: Mapping[str, str]) -> str:
    lines = []
    for name, one in known.items():
        about = _quoted(meanings[name])
        lines.append(f"complete -c hermetic -n __fish_use_subcommand -f -a {name} -d {about}\n")
        within = f'complete -c hermetic -n "__fish_seen_subcommand_from {name}"'
        lines += [
            f"{within} -l {option[2:]}{_values(option)} -d {_quoted(meaning)}\n"
            for option, meaning in one.options.items()
        ]
        if one.words:
            lines.append(f"{within} -f -a {_quoted(_words(one.words))}\n")
        if one.takes:
            lines.append(f"{within} -f -a '(hermetic completion --names {one.takes})'\n")
    return "".join(lines)


def _values(option: str) -> str:
    """What fish offers behind an option."""
    if option == "--env":
        return f" -x -a {_quoted(_words(catalog.kinds()))}"
    return " -x -a '(hermetic completion --names tasks)'" if option in ("--task", "--in") else ""


def _quoted(text: str) -> str:
    """A single-quoted string of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


COMMANDS = {
    "completion": Command(
        """\
Prints a script that completes commands, options, kinds, tasks and ids of processes.

  source <(hermetic completion bash)          in ~/.bashrc, and the same for zsh
  hermetic completion fish | source           in ~/.config/fish/config.fish""",
        _arguments,
        _main,
    ),
}
