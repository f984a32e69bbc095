"""Python modules that run another module or script: profilers, debuggers, tracers."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.tables import names

_VALUES = {
    "cProfile": names("-o -s --outfile --sort"),
    "profile": names("-o -s --outfile --sort"),
    "pdb": names("-c --command"),
    "trace": names("-f -C -R --file --coverdir --ignore-module --ignore-dir"),
    "coverage": names("--rcfile --source --source-pkgs --omit --include --data-file --context --concurrency --debug"),
    "runpy": (),
    "debugpy": names("--listen --connect --log-to --adapter-access-token --configure-subProcess --pid"),
    "IPython": names("--profile --ipython-dir --colors"),
    "viztracer": names("-o --output_file --tracer_entries --max_stack_depth --include_files --exclude_files"),
    "pyinstrument": names("-o -r -i -p --outfile --renderer --interval --show --hide --load --render-option"),
    "scalene": names("--outfile --profile-interval --cpu-sampling-rate --profile-only --profile-exclude"),
    "memory_profiler": names("-o --precision"),
    "kernprof": names("-o -s -p -u -z -i --outfile --setup --prof-mod --unit"),
}
_NO_MODULE = frozenset(names("trace"))  # -m is something else
_MODULE = re.compile(r"-[A-Za-z]*?m(.*)")  # in a bundle of letters, with the module glued to it or not
MODULES = frozenset(_VALUES)


def run_other(call: Call, runner: str, args: list[str]) -> str | None:
    """Evaluate the module or script that a runner is given behind its own options."""
    if runner == "runpy":
        return call.run(["python3", "-m", *args])
    if runner == "IPython" and "--" in args:  # stands between its own options and those of the module
        args = [*args[: args.index("--")], *args[args.index("--") + 1 :]]
    if runner == "coverage":
        if args[:1] != ["run"]:
            return None
        args = args[1:]
    at = 0
    while at < len(args) and args[at].startswith("-"):
        arg = args[at]
        at += 1
        if arg == "--module":
            return call.run(["python3", "-m", *args[at:]])
        if arg[:2] in _VALUES[runner]:
            at += len(arg) == 2
        elif runner not in _NO_MODULE and (module := _MODULE.fullmatch(arg)):
            return call.run(["python3", "-m" + module[1], *args[at:]])
        else:
            at += arg in _VALUES[runner]
    return call.run(["python3", *args[at:]]) if at < len(args) else None


def judge_runner(call: Call) -> str | None:
    """A runner that is started as a program."""
    return run_other(call, call.name, call.args)


JUDGES: dict[str, Judge] = dict.fromkeys(names("coverage viztracer pyinstrument scalene kernprof"), judge_runner)
