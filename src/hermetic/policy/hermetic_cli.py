"""Hermetic's own command line: what it would run is judged, and acting on other environments asks."""

from __future__ import annotations

import itertools

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.marks import is_known, shown
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.tables import names, regex

# Verbs that act on environments and processes of others, and what to say of each.
_ACTS = {
    "attach": "types into a process of another environment",
    "secret": "types into a process of another environment",
    "kill": "ends a process of another environment",
    "rm": "ends environments and all that runs in them",
    "gc": "removes what is left of other environments",
    "shell": "opens a shell in an environment, whose input is not seen",
    "cp": "copies files to or from another environment",
    "port": "reaches a port inside another environment",
    "mcp": "serves tools whose calls are not seen",
    "serve": "serves the console, or makes tokens with which programs drive environments and answer approvals",
    "stop": "freezes or ends what runs in other environments",
    "release": "lets stopped agents go on",
    "record": "records what other environments print, or runs a command on a terminal",
    "approvals": "answers what agents ask their user",
    "fleet": "runs commands from a file, each in an environment of its own",
}
_RUNS = names("run code demo")
_LOOKS = names(
    "ps top logs wait envs inspect events play policy config doctor completion runtime version help"
)
_VALUES = names("env image host user workspace runtime option task timeout cwd variable calls")
# Options of a new environment that give it nothing of this machine.
_HARMLESS = names("image cwd lease unattended login cpu memory_bytes pids")
# Variables that are settings, and those that say where settings and records are.
_SETTINGS = regex(
    r"HERMETIC_|HERMES_|(HOME|XDG_(CONFIG|STATE|DATA)_HOME|XDG_RUNTIME_DIR|XDG_CONFIG_DIRS)$"
)


def judge_hermetic(call: Call) -> str | None:
    """`hermetic VERB`: the command that it hands on, or what it does to environments."""
    verb = call.args[0] if call.args else ""
    # its options stand before COMMAND
    options = parse_options(call.args[1:], "oe", _VALUES, stop_early=verb == "run")
    if not verb or verb.startswith("-") or options.has("help", "h"):
        return None
    if verb in _RUNS:
        return _run(call, verb, options)
    if verb not in _LOOKS:
        call.report(
            "control-hermetic",
            _ACTS.get(verb, f"does something with Hermetic that cannot be known: {shown(verb)}"),
        )
    return None


def _run(call: Call, verb: str, options: Options) -> str | None:
    _environment(call, options)
    kind, words = options.value("env") or "local", options.operands
    shell = call.shell.elsewhere() if kind == "ssh" or options.has("task") else call.shell.fork()
    given = (option.partition("=") for option in options.values("o", "option"))
    asked = [value.strip("\"'") for name, _, value in given if name == "cwd"]
    # each as seen from the one before
    for directory in (options.value("workspace"), *asked, options.value("cwd")):
        if directory:
            shell.cwd = resolve(directory, shell)
    if verb == "demo":
        return call.run(["bash"], shell=shell) if call.stdin is not None else None
    if verb == "code":
        return call.run(["python3", *words[:1]], shell=shell) if words else None
    if variables := options.values("e", "variable"):
        words = [
            "env",
            *(one for one in variables if "=" in one),
            *(["bash", "-c"] if len(words) == 1 else []),
            *words,
        ]
    if len(words) == 1:
        return call.machine.run_text(words[0], shell, call.stdin)
    return call.run(words, shell=shell)


def _environment(call: Call, options: Options) -> None:
    """Report what the environment of a nested command is given, and whose it is."""
    if options.has("task"):
        call.report("control-hermetic", "acts in the environment of another task")
    for option in options.values("o", "option"):
        name, _, value = option.partition("=")
        if name == "setup":
            run_code(call, value.strip("\"'"), "the setup of an environment")
        elif name not in _HARMLESS or not is_known(option):
            call.report(
                "control-hermetic",
                f"gives a new environment more than it has by default: {shown(option)}",
            )
    if setting := next((name for name in _changed(call) if _SETTINGS.match(name)), None):
        call.report("control-hermetic", f"changes what Hermetic itself may do: {setting}")


def _changed(call: Call) -> list[str]:
    """The variables that the agent has set, in this text or before."""
    shell = call.shell
    here = (name for name, value in shell.variables.items() if shell.began.get(name) != value)
    return list(itertools.chain(call.env, shell.context or (), here))
