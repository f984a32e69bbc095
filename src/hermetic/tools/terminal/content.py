"""What kind of text a command prints or a file holds, by which secrets in it are told from ordinary data."""

import posixpath
from functools import lru_cache
from pathlib import PurePosixPath

from hermetic.redaction.patterns import Content
from hermetic.tools.terminal.invocations import Invocation, invocations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Files that a model reads in order to write them again, and whose assignments are code rather than settings.
_CODE = _words(
    """
    .py .pyi .ipynb .js .mjs .cjs .jsx .ts .tsx .vue .svelte .go .rs .c .h .cc .cpp .hpp .cs .java .kt .kts .scala
    .swift .m .mm .rb .php .pl .pm .lua .r .jl .ex .exs .erl .hs .ml .clj .dart .zig .nim .sh .bash .zsh .fish .ps1
    .bat .sql .html .htm .css .scss .less .xml .svg .md .rst .adoc .tex .csv .tsv .lock .sum .mod .map .diff .patch
    .proto .graphql .tf .hcl .nix .cmake .gradle .vim .el .asm .s .v .vhd .wat .json5 .jsonl .geojson
    """
)
_CODE_NAMES = frozenset(
    {"makefile", "dockerfile", "containerfile", "jenkinsfile", "rakefile", "gemfile", "package.json", "tsconfig.json",
     "package-lock.json", "composer.lock", "pipfile.lock", "pnpm-lock.yaml", "go.sum", "cargo.toml", "pyproject.toml",
     ".gitignore", ".editorconfig", "readme", "license", "changelog"}
)  # fmt: skip
_TEMPLATE_ENDINGS = (".example", ".sample", ".template", ".dist", ".tmpl")
_VARIABLES_NAMES = frozenset(
    {".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".my.cnf",
     "credentials", "environ", "kubeconfig", "secrets.yml", "secrets.yaml", "secrets.json", "hosts.yml", ".s3cfg",
     ".boto", "wp-config.php", "auth.json", "cookies.txt"}
)  # fmt: skip
_VARIABLES_ENDINGS = (".env", ".tfvars", ".key", ".ppk", ".p8")
_KEY_NAMES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "ssh_host_")
_VARIABLES_IN = ((".kube", "config"), (".docker", "config.json"), (".m2", "settings.xml"))

_READERS = _words("cat head tail sed less more bat batcat nl tac grep egrep fgrep rg ag diff sdiff colordiff cut")
_GIT_READS = frozenset({"diff", "show", "log", "blame", "grep", "cat-file", "stash"})
_BESIDES = frozenset(
    {"cd", "echo", "printf", "ls", "true", "wc", "sort", "uniq", "pwd", "test", "[", ":", "clear", "tr"}
)
_DECLARE = frozenset({"set", "export", "declare", "typeset", "readonly"})
_REMOTE = frozenset({"docker", "podman", "kubectl", "ssh", "docker-compose", "nerdctl", "vagrant", "fly", "heroku"})
_SHOWS_VARIABLES = (
    ("docker", "inspect"), ("podman", "inspect"), ("docker", "compose", "config"), ("docker-compose", "config"),
    ("kubectl", "secret"), ("kubectl", "secrets"), ("heroku", "config"), ("vercel", "env"), ("fly", "secrets"),
    ("systemctl", "show-environment"), ("aws", "configure"), ("vault", "read"), ("vault", "kv"), ("pass", "show"),
    ("gcloud", "auth"), ("gh", "auth"), ("terraform", "output"), ("git", "config"), ("npm", "config"),
)  # fmt: skip


def content_of_command(command: str) -> Content:
    """What the command prints: `environment` when anything in it lists variables, `code` when all of it reads code."""
    calls = invocations(command)
    if any(_lists_variables(call) for call in calls):
        return "environment"
    readers = [call for call in calls if call.name not in _BESIDES]
    return "code" if readers and all(_reads_code(call) for call in readers) else "output"


@lru_cache(maxsize=1024)  # the same files are looked at again and again
def content_of_file(path: str) -> Content:
    """What a file of this name holds."""
    folder, name = posixpath.split(path.lower())
    if name.endswith(_TEMPLATE_ENDINGS):
        return "code"
    if name in _VARIABLES_NAMES or name.startswith(".env.") or name.endswith(_VARIABLES_ENDINGS):
        return "environment"
    if (posixpath.basename(folder), name) in _VARIABLES_IN or (
        name.startswith(_KEY_NAMES) and not name.endswith(".pub")
    ):
        return "environment"
    return "code" if posixpath.splitext(name)[1] in _CODE or name in _CODE_NAMES else "output"


def _lists_variables(call: Invocation) -> bool:
    name, arguments = call.name, call.arguments
    if name in ("env", "printenv") or (name in _DECLARE and _is_listing(call)):
        return True
    if name in _REMOTE and {"env", "printenv", "export"} & set(arguments):
        return True
    if any(name == shape[0] and all(part in arguments for part in shape[1:]) for shape in _SHOWS_VARIABLES):
        return True
    return any(content_of_file(word) == "environment" for word in arguments if _is_path(word))


def _is_listing(call: Invocation) -> bool:
    """True when no variable is set: nothing follows but options."""
    return len(call.words) == len(call.arguments) + 1 and all(
        word.startswith("-") and (call.name != "set" or word == "-") for word in call.arguments
    )


def _reads_code(call: Invocation) -> bool:
    if call.name == "git":
        return bool(_GIT_READS & set(call.arguments[:4]))
    if call.name not in _READERS:
        return False
    paths = [word for word in call.arguments if _is_path(word) and "." in PurePosixPath(word).name]
    if not paths and call.words[1:] and call.name in ("grep", "rg", "ag"):
        return True  # a search through a tree
    return not paths or all(content_of_file(path) == "code" for path in paths)


def _is_path(word: str) -> bool:
    return not word.startswith("-") and " " not in word and len(word) < 4096
