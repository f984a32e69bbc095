"""Hermetic's own command line: what it would run is judged, and acting on other environments asks."""

from __future__ import annotations

import ast
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
# Names of the package that open nothing, and functions that import a module by its name.
_HARMLESS_NAMES = frozenset(
    names("assess hidden_in Redactor Isolation Bounds ToolLimits KnownSecret load")
)
_LOADERS = frozenset(names("run_module import_module __import__ run_path"))
_RUN_TEXT = frozenset(names("exec eval compile"))
_SHOW = frozenset(names("print repr str dir help type id len hasattr isinstance"))
MAX_NESTED = 3  # texts of code in each other


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


def judge_import(call: Call, code: str) -> None:
    """Report Python that drives Hermetic itself: what it runs there passes another gate than this
    one, or none.
    """
    if _drives_ours(code, MAX_NESTED):
        call.report("control-hermetic", "drives Hermetic from Python")


def _drives_ours(code: str, left: int) -> bool:
    """Whether Python code uses more of Hermetic than what only looks, also in texts that it runs."""
    if "hermetic" not in code:
        return False
    try:
        tree = ast.parse(code)
    # what cannot be read is reported as that
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    ours = _imported(nodes)
    if any(isinstance(node, ast.Call) and _loads(node) for node in nodes) or _uses(tree, ours):
        return True
    runs_text = any(isinstance(node, ast.Name) and node.id in _RUN_TEXT for node in nodes)
    texts = (
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return runs_text and left > 0 and any(_drives_ours(text, left - 1) for text in texts)


def _imported(nodes: list[ast.AST]) -> frozenset[str]:
    """The names that are bound to Hermetic's modules, classes and functions."""
    plain = (alias for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    parts = (
        alias
        for node in nodes
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module)
        for alias in node.names
    )
    ours = [alias for alias in plain if _is_ours(alias.name)]
    return frozenset((alias.asname or alias.name).partition(".")[0] for alias in (*ours, *parts))


def _loads(node: ast.Call) -> bool:
    """Whether a call imports or runs Hermetic by its name."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _LOADERS and any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) and _is_ours(one.value)
        for one in node.args
    )


def _uses(node: ast.AST, ours: frozenset[str]) -> bool:
    """Whether anything of Hermetic is called, or kept or passed on to be called under another name."""
    path, root = list[str](), node
    while isinstance(root, ast.Attribute):
        path.append(root.attr)
        root = root.value
    if isinstance(root, ast.Name) and isinstance(node, ast.Attribute | ast.Name):
        only_looks = _HARMLESS_NAMES & {*path, root.id} or (path and path[0].startswith("__"))
        return root.id in ours and not only_looks
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SHOW:
        return any(
            _uses(one, ours) for one in node.args if not isinstance(one, ast.Name | ast.Attribute)
        )
    return any(_uses(child, ours) for child in ast.iter_child_nodes(node))


def _is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] == "hermetic"


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
