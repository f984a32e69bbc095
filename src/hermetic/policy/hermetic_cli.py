"""Hermetic's own command line: what it would run is judged, and acting on other environments asks."""

from __future__ import annotations

import itertools

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import read
from hermetic.policy.marks import is_known, shown
from hermetic.policy.options import Options
from hermetic.policy.paths import resolve
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.tables import names, regex

_RUNS = {"run": "hermetic-run", "code": "hermetic-code", "demo": "hermetic-code"}
# Options of a new environment that give it nothing of this machine.
_HARMLESS = names("image cwd lease unattended login cpu memory_bytes pids")
_TOOLS = "hermetic_tools"  # the module by which a script calls tools
# Variables that are settings, and those that say where settings and records are.
_SETTINGS = regex(
    r"HERMETIC_|HERMES_|(HOME|XDG_(CONFIG|STATE|DATA)_HOME|XDG_RUNTIME_DIR|XDG_CONFIG_DIRS)$"
)


def judge_hermetic(call: Call) -> str | None:
    """`hermetic VERB`: the command that it hands on, or what it does to environments."""
    verb, *rest = call.options.operands or [""]
    if verb not in _RUNS:
        return judge_by_row(call)
    inner = call.named(_RUNS[verb], rest)
    return None if inner.options.has("help", "h") else _run(inner, verb, inner.options)


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
        if _TOOLS in "".join(read(call, script) for script in words[:1]):
            call.report("control-hermetic", "runs a script whose calls of tools are not seen")
        return call.run(["python3", *words[:1]], shell=shell) if words else None
    if variables := options.values("e", "variable"):
        shells = ["bash", "-c"] if len(words) == 1 else []
        words = ["env", *(one for one in variables if "=" in one), *shells, *words]
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
            reason = f"gives a new environment more than it has by default: {shown(option)}"
            call.report("control-hermetic", reason)
    if setting := next((name for name in _changed(call) if _SETTINGS.match(name)), None):
        call.report("control-hermetic", f"changes what Hermetic itself may do: {setting}")


def _changed(call: Call) -> list[str]:
    """The variables that the agent has set, in this text or before."""
    shell = call.shell
    here = (name for name, value in shell.variables.items() if shell.began.get(name) != value)
    return list(itertools.chain(call.env, shell.context or (), here))
