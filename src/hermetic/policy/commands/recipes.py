"""Files that tools run by themselves: one that this text wrote is judged when such a tool starts."""

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import is_known
from hermetic.policy.paths import resolve
from hermetic.policy.python_code import judge_python
from hermetic.policy.script_code import judge_code
from hermetic.policy.tables import names

from .unseen import execute, run_code

# File → its language.
RECIPES = {
    "setup.py": "python",
    "conftest.py": "python",
    "noxfile.py": "python",
    "tasks.py": "python",
    "manage.py": "python",
    "sitecustomize.py": "python",
    "build.rs": "rust",
    "Rakefile": "ruby",
    "Gemfile": "ruby",
    "gulpfile.js": "node",
    "Gruntfile.js": "node",
    "webpack.config.js": "node",
    "vite.config.js": "node",
    "jest.config.js": "node",
    "build.gradle": "groovy",
    "Justfile": "sh",
    "justfile": "sh",
    "Taskfile.yml": "sh",
    ".envrc": "sh",
}
_TOOLS = names(
    """
pip pip3 pytest py.test tox nox invoke python python3 cargo rake bundle gulp grunt webpack vite jest npx npm yarn pnpm
gradle just task direnv uv poetry
"""
)
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".go", ".rs")
_COMPILERS = ["gcc", "g++", "clang", "clang++", "cc", "c++", "tcc", "go", "rustc"]


def judge_recipes(call: Call) -> None:
    """Judge the files a tool picks up by itself, where their content is known."""
    for name, language in RECIPES.items():
        held = call.shell.files.get(resolve(name, call.shell))
        if held and not execute(call, held, name):
            _judge(call, held, language)


def judge_sources(call: Call) -> None:
    """Judge the program text a compiler is given, by a file this text wrote or on standard input."""
    texts = [call.shell.files.get(resolve(arg, call.shell), "") for arg in call.args if arg.endswith(_SOURCES)]
    if "-" in call.args and call.stdin is not None:
        texts.append(call.stdin)
    for text in texts:
        if text and not (not is_known(text) and execute(call, text, "a program")):
            _judge(call, text, "c")


def _judge(call: Call, text: str, language: str) -> None:
    if language == "python":
        judge_python(call, text)
    elif language == "sh":
        for line in re.findall(r"^(?:\s+-?\s*@?(?:cmd:\s*)?)(\S.*)$", text, re.MULTILINE):
            run_code(call, line, "a recipe")
    else:
        judge_code(call, text, language)


def with_recipes(judges: dict[str, Judge], fallback: Judge) -> dict[str, Judge]:
    """The same judges for tools that run such files, with the files added."""

    def joined(judge: Judge, name: str) -> Judge:
        def both(call: Call) -> str | None:
            if call.shell.files and name in _TOOLS:
                judge_recipes(call)
            if name in _COMPILERS:
                judge_sources(call)
            return judge(call)

        return both

    return {name: joined(judges.get(name, fallback), name) for name in dict.fromkeys([*_TOOLS, *_COMPILERS])}
