"""Package managers: programs that they fetch and start, scripts of packages, hooks of the system's
manager.
"""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, run_code
from hermetic.policy.marks import LOCAL
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.tables import names, regex

_APT_CODE = regex(
    r"(?i)(?:pre|post)-?invoke|Pre-Install-Pkgs|::Shell|Dir::Bin|ProxyAutoDetect|Methods"
)


def judge_tool(call: Call) -> str | None:
    """uvx, uv tool run and pipx run fetch a program and start it."""
    verbs = {"uvx": [], "pipx": ["run"], "uv": ["tool", "run"]}[call.name]
    if call.args[: len(verbs)] == verbs:
        words = parse_options(
            call.args[len(verbs) :], "pwcif", call.row.long, stop_early=True
        ).operands
        call.run([re.split(r"[@=<>~\[]", words[0])[0], *words[1:]] if words else [])
    return judge_by_row(call)


def judge_npm(call: Call) -> str | None:
    """npm, yarn, pnpm: scripts they run and packages they start; the rest is their row."""
    words = call.options.operands
    if "--help" in call.args:
        return None
    verb = "".join(words[:1])
    for code in _scripts(call, verb, words):
        run_code(call, code, "a package script")
    if shell := re.search(r"--script-shell[= ](\S+)", " ".join(call.args)):
        call.run([shell[1]])
        call.report("package-source", f"runs every script with {shell[1]}")
    return judge_by_row(call)


_RUN_SCRIPTS = names("run run-script test start stop install i ci restart t it")


def _scripts(call: Call, verb: str, words: list[str]) -> list[str]:
    """Scripts set on the command line, or in a package.json that this text wrote."""
    if words[:2] == ["pkg", "set"]:
        return [
            setting.partition("=")[2] for setting in words[2:] if setting.startswith("scripts.")
        ]
    if verb == "set-script":
        return words[2:3]
    held = call.shell.files.get(resolve("package.json", call.shell), "")
    if verb not in _RUN_SCRIPTS:
        return []
    found = re.findall(r'"[\w:.-]+"\s*:\s*"((?:[^"\\]|\\.)*)"', held.partition('"scripts"')[2])
    return [code.replace('\\"', '"') for code in found]


def judge_apt(call: Call) -> str | None:
    """apt and kin: settings that are shell code."""
    for setting in call.options.values("o", "option"):
        name, _, value = setting.partition("=")
        if _APT_CODE.search(name):
            run_code(call, value, "apt")
    return judge_by_row(call)


def judge_sources(call: Call) -> str | None:
    """Tools that compile and run source files, of which this text may have written one."""
    for word in call.options.operands[1:]:
        if word.endswith((".go", ".rs", ".cs", ".dart")):
            execute(call, call.shell.files.get(resolve(word, call.shell), ""), "a program")
    pattern = r"--config[= ](?:build\.rustc-wrapper|target\.\S+\.runner|alias\.\S+)=['\"]?([^'\"]+)"
    for code in re.findall(pattern, " ".join(call.args)):
        run_code(call, code, "cargo")
    return judge_by_row(call) or LOCAL
