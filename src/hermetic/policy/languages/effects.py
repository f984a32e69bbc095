"""What calls of scripts do: programs, code, files and addresses, with a report of each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from hermetic.policy.call import Call
from hermetic.policy.deception import deception_in_file
from hermetic.policy.dynamic_code import execute
from hermetic.policy.effects import delete, hold, read, write
from hermetic.policy.marks import DECODED, FILE, INPUT, LOCAL, NET, SECRET, TOKEN, UNSET, marks_in
from hermetic.policy.network import check_address, is_local
from hermetic.policy.paths import resolve
from hermetic.policy.programs.table import rule
from hermetic.policy.rehearsal import is_for_tests
from hermetic.policy.tables import regex

from . import values
from .calls import COMPILED, Invocation, Row, table_of
from .sql import destruction
from .values import UNKNOWN, Name, Obj, Value, is_text, marks_of, text_of

# Calls of a network library that send, others only set it up.
_SENDS = re.compile(
    r"(post|put|patch|get|urlopen|request|send|stor|urlretrieve|Request|head|stream|write|end|fetch|axios|"
    r"got|resolve|lookup|curl_setopt|setopt|mail|body|form|Post|Put|upload|query|getprint|publish|call|perform)"
)
_NOT_SENT = ("headers", "auth", "timeout", "cookies", "cert", "verify", "Authorization")
_SHELLS = re.compile(r"(/\S*/)?(ba|z|da|k|a|tc|c|fi)?sh|cmd(\.exe)?|powershell(\.exe)?")
# a command of the shell that nothing waits for
_BACKGROUND = re.compile(r"(?<![&>|\\])&\s*($|[^&>\d\s])")
_TAKES_SHELL = ("system", "popen", "_popen")  # what compiled programs hand to a shell
_SERVERS = (
    "http.server",
    "socketserver",
    "xmlrpc.server",
    "flask",
    "bottle",
    "aiohttp.web",
    "fastapi",
    "tornado",
    "sanic",
)
_MOCKS = ("moto", "fakeredis", "mongomock", "vcr", "mock_alchemy", "pytest_mock_resources")
_PUTS_IN = frozenset(
    ("replace", "replaceAll", "sub", "gsub", "insert", "preg_replace", "str_replace")
)
_ENGINE = regex(r"(?i)(/|%2f)(docker|podman|containerd|crio)\.sock")
_UPLOADS = regex(r"(?i)put|fast_?put|f?put_?(file|object)|upload\w*|send_?file|log_artifacts?")
_THIS_FILE = ("__file__", "__filename", "__FILE__")


class Effects:
    """Reports what the calls of one text do."""

    def __init__(self, call: Call, language: str, depth: int) -> None:
        self.call = call
        self.language = language
        self.depth = depth
        self.table = table_of(language)
        self.names: dict[str, Value] = {}
        # assigned to an attribute of that name, of any object
        self.attributes: dict[str, Value] = {}
        self.methods: dict[str, list[Name]] = {}  # by name alone, of all classes
        self.loop = 0  # loops around the current place
        self.endless = 0  # those that neither end nor wait
        self.conditional = 0  # branches around the current place
        self.chosen = 0  # conditions around it that hold for few of many
        self.active: list[str] = []  # functions of the text that are being called
        self.is_uncalled = False  # in a function that nothing calls, with unknown arguments
        self.handed: set[Value] = set()  # functions of the text that are given to others
        self.forked: set[str] = set()  # those in which a process is started
        self.has_shell = False  # a shell was started that reads commands
        self.socket = False
        self.network = False
        self.lists_processes = False
        self.serves = False  # it answers whoever connects
        self.is_mocked = False  # stand-ins are in the place of clouds and databases

    def report(self, name: str, reason: str) -> None:
        """Report that a rule applies."""
        if name == "sql-destroys" and self.call.row.language == "mongo":
            name = "sql-local" if is_for_tests(self.call, *self.call.options.operands[:1]) else name
        self.call.report(rule(name), reason)

    def judge_again(self, text: str) -> None:
        """Judge code in the same language."""
        raise NotImplementedError

    def change(self, row: Row, made: Invocation) -> str | None:
        """The writing and deleting of a row; gives the path written."""
        gone = made.pick(row.delete)
        if row.delete == "*" and not made.args and made.owner is None:
            gone = [self.names.get("_", UNSET)]  # what the call takes from elsewhere
        for value in gone:
            text = self.home(text_of(value))
            is_path = not values.is_function(value) and not isinstance(value, dict)
            if is_path and not self.is_given(text):
                delete(self.call, text, recursive=row.tree)
        path = None
        for value in made.pick(row.write)[:1]:
            path = self.home(text_of(value))
            data = made.pick(row.data)
            content = NET if row.fetches else content_of(data[0]) if data else ""
            if row.append:
                self.remember(path, content)
            else:
                write(self.call, path, content=content)
            if row.append and self.endless:
                self.report("use-everything-up", "fills the disk without end")
        return path

    def is_given(self, text: str) -> bool:
        """True for unknown text that a caller may give to a function which nothing calls, or a user
        to a program that is compiled.
        """
        return text.startswith(UNSET) and (self.is_uncalled or self.language in COMPILED)

    def remember(self, path: str, content: str) -> None:
        """Text added to a file, for what runs it later."""
        full = resolve(path, self.call.shell)
        hold(self.call, full, self.call.shell.files.get(full, "") + content)

    def imported(self, module: str) -> None:
        """Note what a module that is imported says about the text."""
        self.serves = self.serves or module.startswith(_SERVERS)
        held = self.call.shell.files.get(
            resolve(module.replace(".", "/") + ".py", self.call.shell), ""
        )
        if NET in held:
            self.report("run-download", "imports a module that another machine sent")
        self.is_mocked = self.is_mocked or module.startswith(_MOCKS)

    def read(self, path: str) -> str:
        """The content of a file, or of an address."""
        if re.match(r"(https?|ftp)://", path):
            self.network = True
            check_address(self.call, path)
            self.send([path])
            return NET
        return read(self.call, self.home(path))

    def home(self, path: str) -> str:
        """A path with a leading `~` replaced."""
        return self.call.shell.home + path[1:] if path == "~" or path.startswith("~/") else path

    def run(self, found: list[Value], made: Invocation, repeats: bool = False) -> str:
        """A program that is started with arguments; one text alone is shell code. Gives what it
        prints.
        """
        args, keywords = made.args, made.keywords
        if not args and keywords:
            given = keywords.get("args", next(iter(keywords.values())))
            found = given if isinstance(given, list) else [given]
        linked = [*keywords.values(), *found]
        if self.socket and any(isinstance(one, Obj) and "socket" in one.call for one in linked):
            self.report_shell()
        words = [one for one in found if not isinstance(one, dict) and not _is_callback(one)]
        if (
            self.language in COMPILED and made.last not in _TAKES_SHELL
        ):  # arguments that only the program knows
            words = list(itertools.dropwhile(lambda word: text_of(word) == UNSET, words))
        argv = [text_of(word) for word in words]
        if repeats:
            argv[1:2] = []
        is_shell = keywords.get("shell") is True or made.last in ("system", "popen")
        if self.serves and is_shell and "".join(argv[:1]).startswith(UNSET):
            self.report("reverse-shell", "runs what whoever connects asks for")
        if not argv or (made.last not in _TAKES_SHELL and self.is_given(argv[0])):
            return ""
        if _SHELLS.fullmatch(argv[0].split(" ")[0]):
            self.has_shell = self.has_shell or argv[1:] in ([], ["-i"], ["w"], ["r+"])
            self.report_shell()
        self.check_shown(words)
        stdin = text_of(keywords["input"]) if "input" in keywords else ""
        is_text_alone = len(argv) == 1 and not (args and isinstance(args[0], list))
        if is_text_alone or keywords.get("shell") is True or " " in argv[0].strip():
            return self.shell(words[0], stdin)
        return self.call.run(argv, stdin=stdin)

    def shell(self, value: Value, stdin: str = "") -> str:
        """Shell code that the script runs; gives what it prints."""
        text = text_of(value)
        marks = marks_in(text)
        if self.endless and _BACKGROUND.search(text):
            self.report("fork-bomb", "starts processes without end")
        self.check_shown([value])
        if marks and not text.strip("".join(marks) + " "):
            if self.network and UNSET in marks:
                self.report("run-download", "runs what another machine sends")
            else:
                execute(self.call, text, "a command of a script")
            return LOCAL
        if NET in marks or DECODED in marks:
            execute(self.call, text, "a command of a script")
        return self.call.shell_text(text, stdin=stdin or None)

    def check_shown(self, words: list[Value]) -> None:
        """Report a command, or a part of it, that only a decoder shows."""
        if any(isinstance(one, values.Decoded | values.Unpacked) for one in words):
            self.report("run-decoded", "runs a command that only a decoder shows")

    def check_put_in(self, method: str, args: Sequence[Value]) -> None:
        """Report text that is turned around, or that nobody sees, put in place of other text."""
        if method in _PUTS_IN and any(
            is_text(one) and not text.isascii() and deception_in_file(text)
            for one in args[1:]
            for text in [str(one)]
        ):
            self.report("deceptive-text", "puts in text that looks other than it is")

    def evaluate(self, name: str, value: Value) -> Value:
        """Code that the script runs in its own language."""
        if isinstance(value, Obj) and value.call == "compile":
            return UNKNOWN
        if isinstance(value, bytes | values.Decoded):
            self.report("run-decoded", "runs code that only a decoder shows")
        text = text_of(value)
        if (is_text(value) or isinstance(value, bytes)) and not marks_in(text):
            self.judge_again(text)
            return Obj("compile")
        marks = marks_of(value)
        is_input = isinstance(value, Obj) and value.call.startswith("stdin")
        if NET in marks or (self.network and DECODED not in marks):
            self.report("run-download", "runs code that another machine sends")
        elif DECODED in marks:
            self.report("run-decoded", "runs code that only a decoder shows")
        elif not (FILE in marks and self.language == "python" and name != "eval" and not is_input):
            kind = "run-unknown" if self.language == "python" else "run-decoded"
            self.report(kind, "runs code that cannot be known beforehand")
        return Obj("compile")

    def fork(self, row: Row, args: list[Value]) -> None:
        """A process that is started, maybe again and again."""
        if any(isinstance(one, Name) and one.endswith("P_WAIT") for one in args):
            return
        self.forked.update(self.active)
        if self.endless or (self.loop and row.forks == "loop"):
            self.report("fork-bomb", "starts processes without end")
        held = [one for arg in args for one in (arg if isinstance(arg, list) else [arg])]
        if any(isinstance(one, Name) and one in _THIS_FILE for one in held):
            self.report("fork-bomb", "starts copies of itself")

    def reach(self, row: Row, made: Invocation) -> str:
        """Addresses that a call reaches, and what it sends there; gives what comes from a local
        file.
        """
        self.socket = self.socket or row.gives == "socket"
        if self.has_shell:
            self.report_shell()
        keywords = {key: one for key, one in made.keywords.items() if key not in _NOT_SENT}
        self.connect(made.args)
        sent = marks_of([*made.args, *keywords.values()])
        is_secret = SECRET in sent or (TOKEN in sent and not made.keywords.get("headers"))
        sends = row.send is not None and _SENDS.match(made.last)
        if (sends or row.send is None) and is_secret:
            self.report_sent()
        texts = [text_of(one) for one in [*made.args, *made.keywords.values()] if is_text(one)]
        self.upload(made.last, texts)
        if any(_ENGINE.search(text) for text in texts):
            self.report("engine-socket", "speaks to the container engine, which owns the host")
        is_away = any("://" in text and not is_local(text) for text in texts)
        if is_away and (made.last in ("delete", "Delete") or "DELETE" in texts):
            self.report("cloud-destroys", "deletes something on another machine by HTTP")
        return "".join(read(self.call, text) for text in texts if text.startswith("file:"))

    def upload(self, method: str, texts: list[str]) -> None:
        """Judge files that a client of another machine is told to send by their names."""
        paths = texts if _UPLOADS.fullmatch(method) else []
        if any(SECRET in self.read(path) for path in paths if path[:1] in ("/", "~", ".")):
            self.report_sent()

    def connect(self, found: list[Value]) -> None:
        """Judge the addresses among arguments; of a host and a port the host."""
        self.network = True
        for value in found:
            host = value[0] if isinstance(value, list) and value else value
            if is_text(host):
                check_address(self.call, text_of(host))

    def report_shell(self) -> None:
        """Report a shell in a script that has a connection."""
        if self.socket:
            self.report("reverse-shell", "connects a shell to another machine")

    def report_received(self) -> None:
        """Report a shell that reads what another machine sends."""
        if self.socket:
            self.report_shell()
        elif self.network:
            self.report("run-download", "runs what another machine sends")

    def send(self, found: Sequence[Value]) -> None:
        """Judge that values go to another machine."""
        if SECRET in marks_of(found):
            self.report_sent()

    def report_sent(self) -> None:
        self.report("send-secret", "sends credentials to another machine")

    def statements(self, found: list[Value], *, local: bool) -> None:
        """SQL that a call runs."""
        for value in found:
            if is_text(value) and (reason := destruction(text_of(value))):
                self.report("sql-local" if local else "sql-destroys", reason)


def content_of(value: Value) -> str:
    """What is written to a file, as it would be read later."""
    if is_text(value) or isinstance(value, bytes):
        return text_of(value)
    return NET if NET in marks_of(value) else (marks_of(value).strip(UNSET + INPUT) or LOCAL)


def _is_callback(value: Value) -> bool:
    return (isinstance(value, Name) and value.startswith("def:")) or callable(value)
