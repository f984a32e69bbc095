"""Text as a model may see it: no control sequences, lines as they stand at their end, no secrets.

The kind of text, by command or by file name, separates secrets from ordinary data.
"""

import codecs
import posixpath
import re
from functools import lru_cache
from pathlib import PurePosixPath

from hermetic.contract.process import Shown
from hermetic.redaction.patterns import Content
from hermetic.redaction.redactor import Redactor
from hermetic.redaction.screens import hide
from hermetic.tools.base.invocations import Invocation, invocations

# A control string ends at the first of these, finished or not. None crosses a line end, so lines
# stay countable.
_STRING = r"[^\n\x07\x18\x1a\x1b\x80-\x9f]*+"
_SEQUENCE = re.compile(
    rf"""
      \x1b\] P [0-9a-fA-F]{{7}}                                    # a palette entry of the Linux console
    | \x1bPtmux;                                                  # what follows is for the terminal around tmux
    | (?: \x1b\] | \x9d ) {_STRING} (?: \x07 | \x1b\\ | \x9c )     # OSC
    | (?: \x1b[PX^_k] | [\x90\x98\x9e\x9f] ) {_STRING} (?: \x1b\\ | \x9c )  # DCS, SOS, PM, APC, a title of screen
    | (?: \x1b\[ | \x9b ) [0-?]*+ [\x20-/]*+ [@-~]                 # CSI
    | \x1b\[ [0-?]*+ [\x20-/]*+                                    # CSI that does not end
    | \x1b [\x20-/]++ [0-~]?                                       # nF
    | \x1b [0-~]?                                                  # two characters, or the escape alone
    | [\x80-\x9f]                                                  # any other 8-bit control
    """,
    re.VERBOSE,
)
_RETURNS = re.compile(r"\r(?!\n|\Z)|\x08")
_STEP = re.compile(r"[\r\x08]|\x1b\[[02]?K|\x9b[02]?K")


def strip(text: str) -> str:
    """The text without control sequences in 7-bit or 8-bit form; the number of lines stays the
    same.

    The content of a control string is removed with it only where the string is ended.
    """
    if "\x1b" not in text and text.isascii():
        return text
    return _SEQUENCE.sub("", text)


def settle(text: str) -> str:
    """The text stripped of control sequences, each line as a terminal shows it after its last
    character.

    Carriage returns, backspaces and erased lines are followed. Movements to other lines are not: a
    screen shows those. The number of lines stays the same.
    """
    if "\r" not in text and "\x08" not in text:
        return strip(text)
    return "\n".join(_settled(line) for line in text.split("\n"))


def _settled(line: str) -> str:
    if not _RETURNS.search(line):
        return strip(line).rstrip("\r")
    cells: list[str] = []
    at = position = 0
    for step in _STEP.finditer(line):
        written = strip(line[position : step.start()])
        cells[at : at + len(written)] = written
        at += len(written)
        position = step.end()
        if step[0] == "\r":
            at = 0
        elif step[0] == "\x08":
            at = max(0, at - 1)
        elif "2" in step[0]:  # the blanks that a terminal shows before the cursor are left out
            cells.clear()
            at = 0
        else:
            del cells[at:]
    rest = strip(line[position:])
    cells[at : at + len(rest)] = rest
    return "".join(cells)


# -- kinds of text
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Files that a model reads in order to write them again, and whose assignments are code rather than
# settings.
_CODE = _words("""
    .py .pyi .ipynb .js .mjs .cjs .jsx .ts .tsx .vue .svelte .go .rs .c .h .cc .cpp .hpp .cs .java
    .kt .kts .scala .swift .m .mm .rb .php .pl .pm .lua .r .jl .ex .exs .erl .hs .ml .clj .dart
    .zig .nim .sh .bash .zsh .fish .ps1 .bat .sql .html .htm .css .scss .less .xml .svg .md .rst
    .adoc .tex .csv .tsv .lock .sum .mod .map .diff .patch .proto .graphql .tf .hcl .nix .cmake
    .gradle .vim .el .asm .s .v .vhd .wat .json5 .jsonl .geojson
""")
_CODE_NAMES = _words("""
    makefile dockerfile containerfile jenkinsfile rakefile gemfile package.json tsconfig.json
    package-lock.json composer.lock pipfile.lock pnpm-lock.yaml go.sum cargo.toml pyproject.toml
    .gitignore .editorconfig readme license changelog
""")
_TEMPLATE_ENDINGS = (".example", ".sample", ".template", ".dist", ".tmpl")
_VARIABLES_NAMES = _words("""
    .env .envrc .netrc _netrc .pgpass .npmrc .pypirc .git-credentials .htpasswd .my.cnf credentials
    environ kubeconfig secrets.yml secrets.yaml secrets.json hosts.yml .s3cfg .boto wp-config.php
    auth.json cookies.txt
""")
_VARIABLES_ENDINGS = (".env", ".tfvars", ".key", ".ppk", ".p8")
_KEY_NAMES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "ssh_host_")
_VARIABLES_IN = ((".kube", "config"), (".docker", "config.json"), (".m2", "settings.xml"))

_READERS = _words(
    "cat head tail sed less more bat batcat nl tac grep egrep fgrep rg ag diff sdiff colordiff cut"
)
_GIT_READS = _words("diff show log blame grep cat-file stash")
_BESIDES = _words("cd echo printf ls true wc sort uniq pwd test [ : clear tr")
_DECLARE = _words("set export declare typeset readonly")
_REMOTE = _words("docker podman kubectl ssh docker-compose nerdctl vagrant fly heroku")
# A program, and words of its arguments with which it lists variables or credentials.
_SHOWS_VARIABLES = [
    row.split()
    for row in str.split(
        "docker inspect,podman inspect,docker compose config,docker-compose config,kubectl secret,"
        "kubectl secrets,heroku config,vercel env,fly secrets,systemctl show-environment,"
        "aws configure,vault read,vault kv,pass show,gcloud auth,gh auth,terraform output,"
        "git config,npm config",
        ",",
    )
]


def content_of_command(command: str) -> Content:
    """What the command prints:

    `environment` when anything in it lists variables, `code` when all of it reads code.
    """
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
    is_key = name.startswith(_KEY_NAMES) and not name.endswith(".pub")
    if is_key or (posixpath.basename(folder), name) in _VARIABLES_IN:
        return "environment"
    return "code" if posixpath.splitext(name)[1] in _CODE or name in _CODE_NAMES else "output"


def _lists_variables(call: Invocation) -> bool:
    name, arguments = call.name, call.arguments
    if name in ("env", "printenv") or (name in _DECLARE and _is_listing(call)):
        return True
    if name in _REMOTE and not {"env", "printenv", "export"}.isdisjoint(arguments):
        return True
    if any(
        name == row[0] and all(word in arguments for word in row[1:]) for row in _SHOWS_VARIABLES
    ):
        return True
    return any(content_of_file(word) == "environment" for word in arguments if _is_path(word))


def _is_listing(call: Invocation) -> bool:
    """True when no variable is set: nothing follows but options."""
    return len(call.words) == len(call.arguments) + 1 and all(
        word.startswith("-") and (call.name != "set" or word == "-") for word in call.arguments
    )


def _reads_code(call: Invocation) -> bool:
    if call.name == "git":
        return not _GIT_READS.isdisjoint(call.arguments[:4])
    if call.name not in _READERS:
        return False
    paths = [word for word in call.arguments if _is_path(word) and "." in PurePosixPath(word).name]
    if not paths and call.words[1:] and call.name in ("grep", "rg", "ag"):
        return True  # a search through a tree
    return all(content_of_file(path) == "code" for path in paths)


def _is_path(word: str) -> bool:
    return not word.startswith("-") and " " not in word and len(word) < 4096


class Show:
    """Shows texts to a model, whole or in parts; a part that ends within a known secret is not
    taken for all of it.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self.redactor = redactor  # None: secrets are shown

    def __repr__(self) -> str:
        return f"<Show {'without' if self.redactor else 'with'} secrets>"

    def __call__(self, text: str, command: str) -> str:
        """The text that this command printed; for the text of a command itself pass ""."""
        if self.redactor is None:
            return settle(text)
        return self.redactor.redact(
            settle(text), content_of_command(command) if command else "output"
        )

    def join(self, before: str, text: str) -> str:
        """The text without the rest of a secret that began in the text before it."""
        return self.redactor.join(before, text) if self.redactor else text

    def unfinished(self, text: str) -> int:
        """The number of trailing characters that may be the start of a secret."""
        return self.redactor.unfinished(text) if self.redactor else 0

    def finished(self, data: bytes, before: str = "") -> bytes:
        """The output of a process that still runs, without the start of a character or of a secret
        at its end, which may have begun in the text before it.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        data = data[: len(data) - len(decoder.getstate()[0])]
        unfinished = text[max(0, len(text) - self.unfinished(before + text)) :]
        return data[: len(data) - len(unfinished.encode("utf-8", "surrogatepass"))]

    def screen(self, shown: Shown, command: str) -> list[str]:
        """The rows of a terminal that this command draws on."""
        if self.redactor is None:
            return list(shown.lines)
        return hide(shown, self.redactor, content_of_command(command))

    def file(self, text: str, path: str) -> str:
        """Lines of a file with this name: without secrets, all else as it is."""
        return self.redactor.redact(text, content_of_file(path)) if self.redactor else text
