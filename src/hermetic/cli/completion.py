"""`hermetic completion`: a script that teaches a shell the commands and their options."""

import argparse
from collections.abc import Mapping

from hermetic.cli.command import Command, Parser

_BASH = """\
_hermetic() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=""
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _hermetic hermetic
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _main(arguments: argparse.Namespace) -> int:
    options = {name: _options(entry.module.COMMANDS[name]) for name, entry in arguments.commands.items()}
    meanings = {name: entry.meaning for name, entry in arguments.commands.items()}
    print(_fish(options, meanings) if arguments.shell == "fish" else _bash(options, arguments.shell), end="")
    return 0


def _options(command: Command) -> dict[str, str]:
    """The long options of a command, and their help."""
    parser = Parser(add_help=False)
    command.declare(parser)
    return {
        name: (action.help or "").replace("%%", "%")
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }


def _bash(options: Mapping[str, Mapping[str, str]], shell: str) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(known)}" ;;' for name, known in options.items() if known)
    start = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return start + _BASH.format(commands=" ".join(options), cases=cases)


def _fish(options: Mapping[str, Mapping[str, str]], meanings: Mapping[str, str]) -> str:
    lines = []
    for name, known in options.items():
        about = _quoted(meanings[name])
        lines.append(f"complete -c hermetic -n __fish_use_subcommand -f -a {name} -d {about}\n")
        within = f'"__fish_seen_subcommand_from {name}"'
        lines += [
            f"complete -c hermetic -n {within} -l {option[2:]} -d {_quoted(meaning)}\n"
            for option, meaning in known.items()
        ]
    return "".join(lines)


def _quoted(text: str) -> str:
    """A single-quoted string of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


COMMANDS = {
    "completion": Command(
        """\
Prints a script that completes commands and options.

  source <(hermetic completion bash)          in ~/.bashrc, and the same for zsh
  hermetic completion fish | source           in ~/.config/fish/config.fish""",
        _arguments,
        _main,
    ),
}
