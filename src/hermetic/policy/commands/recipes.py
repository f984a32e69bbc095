"""Files that tools run by themselves: one that this text wrote is judged when such a tool starts."""

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import NET, is_known, shown
from hermetic.policy.paths import resolve
from hermetic.policy.python_code import judge_python
from hermetic.policy.script_code import judge_code
from hermetic.policy.tables import names

from .unseen import REMOTE_CODE, execute, run_code

_ONLY_LOOKS = frozenset(
    names("-I --info -l --list -c --contents show search --version --help diff lint validate config version cp logs")
)
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


# Files that these tools pick up by themselves; one that was just downloaded is unseen code.
_PICKED_UP = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "gmake": ("Makefile", "GNUmakefile"),
    "npm": ("package.json", ".npmrc"),
    "yarn": ("package.json", ".yarnrc.yml"),
    "pnpm": ("package.json",),
    "mvn": ("pom.xml",),
    "docker": ("Dockerfile", "docker-compose.yml", "compose.yml", "compose.yaml", "docker-compose.yaml"),
    "podman": ("Dockerfile", "Containerfile", "compose.yml"),
    "docker-compose": ("docker-compose.yml", "compose.yml"),
    "vagrant": ("Vagrantfile",),
    "terraform": ("main.tf",),
    "tofu": ("main.tf",),
    "cmake": ("CMakeLists.txt",),
    "meson": ("meson.build",),
    "bazel": ("BUILD", "WORKSPACE", "MODULE.bazel"),
    "scons": ("SConstruct",),
    "nix-shell": ("shell.nix", "default.nix"),
    "cargo": ("Cargo.toml", "build.rs"),
    "go": ("go.mod",),
    "composer": ("composer.json",),
    "pip": ("setup.py", "pyproject.toml", "requirements.txt"),
    "jenkins-cli": ("Jenkinsfile",),
    "git": (".gitmodules",),
}
# Programs that run, install or load the files they are given.
_TAKE_FILES = names(
    """
dpkg apt apt-get rpm dnf yum zypper pacman apk pip pip3 npm gem ansible-playbook ansible kubectl helm code vim nvim vi
emacs insmod terraform tofu java dotnet mono wine virsh systemctl docker podman docker-compose make Rscript octave
nix-env snap flatpak installer msiexec conda nomad crontab at gdb tmux nginx psql mysql sqlite3 jupyter papermill
"""
)


def judge_downloads(call: Call) -> None:
    """Report a file that was just downloaded and that this tool runs, installs or loads."""
    shell = call.shell
    values = [value for arg in call.args for value in (arg, arg.partition("=")[2])]
    named = [value for value in values if value and not value.startswith("-")]
    picked = [resolve(name, shell) for name in _PICKED_UP.get(call.name, ())]
    if call.name in ("terraform", "tofu"):
        picked += [path for path in shell.files if path.endswith(".tf")]
    if call.name in _TAKE_FILES:
        picked += [resolve(name, shell) for name in named]
    for path in picked:
        if NET in shell.files.get(path, "") or path in shell.fetched:
            call.report(REMOTE_CODE, f"runs or installs a file that was just downloaded: {shown(path)}")
            return


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
        for line in re.findall(r"^(?:[ \t]++-?[ \t]*+@?(?:cmd:[ \t]*+)?)(\S.*)$", text, re.MULTILINE):
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
            if (call.shell.files or call.shell.fetched) and not _ONLY_LOOKS.intersection(call.args[:2]):
                judge_downloads(call)
            return judge(call)

        return both

    every = dict.fromkeys([*_TOOLS, *_COMPILERS, *_PICKED_UP, *_TAKE_FILES])
    return {name: joined(judges.get(name, fallback), name) for name in every}
