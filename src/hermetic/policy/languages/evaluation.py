"""The engine of all script languages: attributes, items and calls of values, and what calls do.

A reader of a language feeds it; calls.toml tells it what each call does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute
from hermetic.policy.effects import delete, read, write
from hermetic.policy.marks import DECODED, FILE, INPUT, LOCAL, NET, SECRET, TOKEN, UNSET, marks_in
from hermetic.policy.network import check_address, is_local
from hermetic.policy.paths import resolve
from hermetic.policy.programs.table import rule

from . import values
from .calls import Invocation, Row, table_of
from .folds import ERRORS, FOLDS, bound_call
from .sql import destruction
from .values import UNKNOWN, Bound, Class, Name, Obj, Value, is_text, marks_of, one_of, text_of

# Kinds of results, and where the text that they hold comes from.
KINDS = {
    "net": NET,
    "socket": NET,
    "secret": SECRET,
    "output": LOCAL,
    "decoded": DECODED,
    "file": FILE,
}
ENVIRONMENT = Obj("environ", text=SECRET)
# Calls of a network library that send, others only set it up.
_SENDS = re.compile(
    r"(post|put|patch|get|urlopen|request|send|stor|urlretrieve|Request|head|stream|write|end|fetch|axios|"
    r"got|curl_setopt|setopt|mail|body|form|Post|Put|upload|query|getprint|publish|call|perform)"
)
_NOT_SENT = ("headers", "auth", "timeout", "cookies", "cert", "verify", "Authorization")
_SHELLS = re.compile(r"(/\S*/)?(ba|z|da|k|a|tc|c|fi)?sh|cmd(\.exe)?|powershell(\.exe)?")
# a command of the shell that nothing waits for
_BACKGROUND = re.compile(r"(?<![&>|\\])&\s*($|[^&>\d\s])")
_THIS_FILE = ("__file__", "__filename", "__FILE__")
_THEMSELVES = ("__call__", "__func__", "__wrapped__")  # attributes called like the function
# keywords that do not call a function
_HANDED_OVER_UNUSED = ("spec", "spec_set", "bound", "autospec", "target")


class Evaluation:
    """The values of one text, and a report of what its calls do."""

    looks_only: frozenset[str] = frozenset()  # functions that do not call what they are given

    def __init__(self, call: Call, language: str, depth: int) -> None:
        self.call = call
        self.language = language
        self.depth = depth
        self.table = table_of(language)
        self.names: dict[str, Value] = {}
        # assigned to an attribute of that name, of any object
        self.attributes: dict[str, Value] = {}
        self.loop = 0  # loops around the current place
        self.endless = 0  # those that neither end nor wait
        self.conditional = 0  # branches around the current place
        self.active: list[str] = []  # functions of the text that are being called
        self.forked: set[str] = set()  # those in which a process is started
        self.has_shell = False  # a shell was started that reads commands
        self.socket = False
        self.network = False
        self.lists_processes = False

    def report(self, name: str, reason: str) -> None:
        """Report that a rule applies."""
        self.call.report(rule(name), reason)

    # --- values
    def attribute(self, base: Value, attr: str) -> Value:
        """An attribute of a value."""
        if isinstance(base, values.OneOf):
            return one_of(self.attribute(one, attr) for one in base.values if one is not None)
        if isinstance(base, Class | values.Instance):
            return self.member(base, attr)
        is_itself = attr in _THEMSELVES or (attr in ("call", "bind") and self.language != "python")
        if is_itself and (isinstance(base, Name | Bound) or callable(base)):
            return base
        if isinstance(base, Name):
            return self.of_module(base, attr)
        if isinstance(base, Obj):
            if base.call == "environ" and self.language == "javascript":
                return self.variable(attr)
            if base.call == "Path" and attr in ("parent", "parents"):
                return Obj("Path", (base.path or "").rstrip("/").rpartition("/")[0] or "/")
            return one_of([Obj(f"{base.call}.{attr}", base.path, base.text), *self.assigned(attr)])
        if isinstance(base, str | bytes | list | dict):
            return base[attr] if isinstance(base, dict) and attr in base else Bound(base, attr)
        return one_of([Obj("method:" + attr), *self.assigned(attr)])

    def member(self, base: Class | values.Instance, attr: str) -> Value:
        """An attribute of a class of the text, or of an object of it."""
        return one_of(self.assigned(attr) or [Obj(f"object.{attr}")])

    def of_module(self, base: Name, attr: str) -> Value:
        """An attribute of a module or of a name that the text does not define."""
        full = f"{base}.{attr}"
        if full in ("os.environ", "os.environb", "process.env"):
            return ENVIRONMENT
        return one_of([Name(full), *self.assigned(attr)])

    def assigned(self, attr: str) -> list[Value]:
        """The values assigned to an attribute of that name."""
        return list(values.choices(self.attributes[attr])) if attr in self.attributes else []

    def assign_attribute(self, base: Value, attr: str, value: Value) -> None:
        """An assignment to an attribute; of a request it is what will be sent."""
        before = self.attributes.get(attr, value)
        self.attributes[attr] = one_of([*values.choices(before), value])
        if isinstance(base, Obj) and base.call.startswith("net") and SECRET in marks_of(value):
            self.report_sent()

    def item(self, base: Value, key: Value) -> Value:
        """An item of a value."""
        is_constant = isinstance(base, str | bytes | list) and not isinstance(base, Name)
        if is_constant and isinstance(key, int | slice):
            try:
                return base[key]  # type: ignore[index]
            except (IndexError, ValueError):
                return UNKNOWN
        if isinstance(base, dict) and isinstance(key, str) and key in base:
            return base[key]
        if isinstance(base, dict | list):
            return one_of([*values.items_of(base), UNKNOWN])
        if isinstance(base, Obj) and base.call == "environ":
            return self.variable(key)
        return UNKNOWN if isinstance(base, Name) else Obj("?", text=marks_of(base))

    def variable(self, key: Value) -> Value:
        """An environment variable."""
        return self.call.shell.scalar(text_of(key)) if is_text(key) else Obj("?", text=SECRET)

    # --- calls
    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """The result of a call, after its effects are reported."""
        self.call.machine.spend(1)
        if isinstance(function, values.OneOf):
            return one_of([self.invoke(one, args, keywords) for one in function.values])
        if isinstance(function, Class | values.Instance):
            return self.of_class(function, args, keywords)
        if callable(function):
            result: Value = function(args, keywords)
            return result
        if isinstance(function, Name) and function.startswith("def:"):
            return self.own(function, args, keywords)
        for at, arg in enumerate(args[:4]):
            if isinstance(arg, values.OneOf):
                ways = [[*args[:at], one, *args[at + 1 :]] for one in arg.values]
                return one_of([self.invoke(function, way, keywords) for way in ways])
        if is_text(function) and self.language != "python":
            function = Name(text_of(function).replace("::", "."))
        if isinstance(function, Name):
            self.hand_over(function, args, keywords)
            return self.named(str(function), None, args, keywords)
        if isinstance(function, Bound):
            return self.bound(function, args, keywords)
        if isinstance(function, Obj) and function is not UNKNOWN:
            self.hand_over(function.call, args, keywords)
            if "." not in function.call:
                self.unknown_call(args)
            return self.named(function.call, function, args, keywords)
        if function is not None:
            self.unknown_call(args)
        return UNKNOWN

    def bound(self, function: Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A method of a constant."""
        self.hand_over(function.attr, args, keywords)
        if self.endless and function.attr in ("append", "push", "extend"):
            self.report("use-everything-up", "fills the memory without end")
        row = self.table.methods.get(function.attr)
        if row is not None and (row.sql is not None or row.raises):
            self.apply(row, Invocation(function.attr, None, args, keywords))
        return bound_call(function, args, keywords, self.call.shell)

    def own(self, key: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A call of a function that the text defines."""
        return UNKNOWN

    def of_class(
        self, function: Class | values.Instance, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A call of a class that the text defines, or of an object of it."""
        return UNKNOWN

    def unknown_call(self, args: list[Value]) -> None:
        """A call of an unknown function: arguments that are a dangerous command count as one."""
        machine, shell = self.call.machine, self.call.shell
        for arg in args[:2]:
            if is_text(arg) and " " in text_of(arg) and not marks_in(text_of(arg)):
                if machine.probe_text(text_of(arg), shell):
                    self.call.shell_text(text_of(arg))
            elif isinstance(arg, list) and len(arg) > 1:
                argv = list(map(text_of, arg))
                if machine.probe_argv(argv, shell):
                    self.call.run(argv, stdin="")

    def named(
        self, name: str, owner: Obj | None, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """A call by its dotted name."""
        made = Invocation(name, owner, args, keywords)
        row = self.table.find(name)
        if row is not None:
            return self.apply(row, made)
        decodes = re.search(r"decode|decompress|decrypt|unhex", made.last) is not None
        if made.last == "decode":  # of bytes to text, but for these
            decodes = any(re.match(r"rot|hex|base|zip|bz2|uu", text_of(arg)) for arg in args[:1])
        held = owner.text if owner is not None else ""
        return Obj(name, None, held + made.marks + DECODED * decodes)

    def apply(self, row: Row, made: Invocation) -> Value:
        """Report what a row says, and give its result."""
        if row.hook:
            hook: Callable[[Invocation], Value] = getattr(self, "hook_" + row.hook)
            return hook(made)
        if row.fold in FOLDS:
            return self.folded(row.fold, made)
        held = (made.owner.text if made.owner is not None else "") + KINDS.get(row.gives, "")
        if row.forks:
            self.fork(row, made.args)
        if row.run is not None:
            self.run(made.pick(row.run), made, row.repeats)
        if row.calls is not None:
            return self.callback(made.args, made.keywords)
        if row.code is not None:
            given = made.args[-1:] if made.name == "Function" else made.pick(row.code)
            return self.evaluate(made.name, given[0] if given else None)
        if row.sql is not None:
            self.statements(made.pick(row.sql), local=False)
        if row.like and (words := made.command(row.like)):
            self.call.run(words)
        for value in made.pick(row.read):
            held += self.read(text_of(value))
        path = self.change(row, made)
        if row.url is not None:
            held += self.reach(row, made)
        if row.raises and not (row.unless_arguments and (made.args or made.keywords)):
            self.report(row.raises, row.reason)
        return Obj(row.gives or made.name, path if row.gives == "file" else None, held + made.marks)

    def folded(self, fold: str, made: Invocation) -> Value:
        """The result of a pure function; the marks of its arguments where it cannot be computed."""
        args = made.args
        if is_path := made.owner is not None and made.owner.path is not None:
            args = [made.owner.path, *args]
        try:
            found = FOLDS[fold](args, self.call.shell)
        except ERRORS:
            decodes = fold in ("base64", "hex", "other_base", "decoder", "buffer")
            return Obj(made.name, None, DECODED * decodes + made.marks)
        return Obj("Path", found) if is_path and isinstance(found, str) else found

    def change(self, row: Row, made: Invocation) -> str | None:
        """The writing and deleting of a row; gives the path written."""
        gone = made.pick(row.delete)
        if row.delete == "*" and not made.args and made.owner is None:
            gone = [UNSET]  # what the call takes from elsewhere
        for value in gone:
            if not values.is_function(value) and not isinstance(value, dict):
                delete(self.call, self.home(text_of(value)), recursive=row.tree)
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

    def remember(self, path: str, content: str) -> None:
        """Text added to a file, for what runs it later."""
        full = resolve(path, self.call.shell)
        files = self.call.shell.files
        files[full] = files.get(full, "") + content

    def read(self, path: str) -> str:
        """The content of a file, or of an address."""
        if re.match(r"(https?|ftp)://", path):
            self.network = True
            check_address(self.call, path)
            return NET
        return read(self.call, self.home(path))

    def home(self, path: str) -> str:
        """A path with a leading `~` replaced."""
        return self.call.shell.home + path[1:] if path == "~" or path.startswith("~/") else path

    # --- effects
    def run(self, found: list[Value], made: Invocation, repeats: bool = False) -> None:
        """A program that is started with arguments; one text alone is shell code."""
        args, keywords = made.args, made.keywords
        if not args and keywords:
            given = keywords.get("args", next(iter(keywords.values())))
            found = given if isinstance(given, list) else [given]
        linked = [*keywords.values(), *found]
        if self.socket and any(isinstance(one, Obj) and "socket" in one.call for one in linked):
            self.report_shell()
        words = [one for one in found if not isinstance(one, dict) and not _is_callback(one)]
        argv = [text_of(word) for word in words]
        if repeats:
            argv[1:2] = []
        if not argv:
            return
        if _SHELLS.fullmatch(argv[0].split(" ")[0]):
            self.has_shell = self.has_shell or argv[1:] in ([], ["-i"])
            self.report_shell()
        stdin = text_of(keywords["input"]) if "input" in keywords else ""
        is_text_alone = len(argv) == 1 and not (args and isinstance(args[0], list))
        if is_text_alone or keywords.get("shell") is True or " " in argv[0].strip():
            self.shell(words[0], stdin)
        else:
            self.call.run(argv, stdin=stdin)

    def shell(self, value: Value, stdin: str = "") -> None:
        """Shell code that the script runs."""
        text = text_of(value)
        marks = marks_in(text)
        if self.endless and _BACKGROUND.search(text):
            self.report("fork-bomb", "starts processes without end")
        if isinstance(value, values.Decoded):
            self.report("run-decoded", "runs a command that only a decoder shows")
        if marks and not text.strip("".join(marks) + " "):
            if self.network and UNSET in marks:
                self.report("run-download", "runs what another machine sends")
            else:
                execute(self.call, text, "a command of a script")
            return
        if NET in marks or DECODED in marks:
            execute(self.call, text, "a command of a script")
        self.call.shell_text(text, stdin=stdin or None)

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

    def judge_again(self, text: str) -> None:
        """Judge code in the same language."""
        raise NotImplementedError

    def callback(self, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A function that a callee calls with the arguments after it."""
        if self.language != "python" and args and is_text(args[0]):
            args = [Name(text_of(args[0]).replace("::", ".")), *args[1:]]
        at = next((at for at, arg in enumerate(args) if values.is_function(arg)), len(args))
        target = keywords.get("target", args[at] if at < len(args) else None)
        given = keywords.get("args", args[at + 1 :])
        items = list(values.items_of(given)) if isinstance(given, list) else []
        if not values.is_function(target):
            return Obj("?", text=marks_of(args))
        if len(items) == 1 and isinstance(items[0], list | bytes):  # map over the items
            known = list(items[0])[:64] + [UNKNOWN] * (len(items[0]) > 64)
            return [self.invoke(target, [item], {}) for item in known]
        return self.invoke(target, items, {})

    def hand_over(self, callee: str, args: list[Value], keywords: dict[str, Value]) -> None:
        """Harmful functions among the arguments of a callee that may call them."""
        if callee.rpartition(".")[2] in self.looks_only:
            return
        row = self.table.find(callee)
        calls = row is not None and row.calls is not None  # it calls the first one itself
        placed = [] if calls else [(arg, args[at + 1 : at + 9]) for at, arg in enumerate(args)]
        behind = keywords.get("args")
        rest = behind if isinstance(behind, list) else []
        named = [(one, rest) for key, one in keywords.items() if key not in _HANDED_OVER_UNUSED]
        for value, given in (*placed, *named):
            for one in self.harmful_in(value):
                if isinstance(one, Obj):
                    self.named(one.call, one, [], {})
                else:
                    self.named(str(one), None, given or [UNKNOWN], {})

    def harmful_in(self, value: Value) -> list[Value]:
        """The harmful functions that a value is, or holds; some of them, where they are many."""
        found: list[Value] = []
        for one in values.choices(value):
            inner = list(values.items_of(one)) if isinstance(one, list | dict) else [one]
            self.call.machine.spend(len(inner) // 16)
            for item in inner:
                if isinstance(item, Name) or (isinstance(item, Obj) and item.path is not None):
                    row = self.table.find(item if isinstance(item, Name) else item.call)
                    if row is not None and row.is_harmful:
                        found.append(item)
        return found[: values.MAX_CHOICES]

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
        self.network = True
        self.socket = self.socket or row.gives == "socket"
        if self.has_shell:
            self.report_shell()
        keywords = {key: one for key, one in made.keywords.items() if key not in _NOT_SENT}
        for value in made.args:
            pair = value[0] if isinstance(value, list) and len(value) >= 2 else value
            if is_text(pair):
                check_address(self.call, text_of(pair))
        sent = marks_of([*made.args, *keywords.values()])
        is_secret = SECRET in sent or (TOKEN in sent and not made.keywords.get("headers"))
        if row.send is not None and _SENDS.match(made.last) and is_secret:
            self.report_sent()
        texts = [text_of(one) for one in [*made.args, *made.keywords.values()] if is_text(one)]
        is_away = any("://" in text and not is_local(text) for text in texts)
        if is_away and (made.last in ("delete", "Delete") or "DELETE" in texts):
            self.report("cloud-destroys", "deletes something on another machine by HTTP")
        return "".join(read(self.call, text) for text in texts if text.startswith("file:"))

    def report_shell(self) -> None:
        """Report a shell in a script that has a connection."""
        if self.socket:
            self.report("reverse-shell", "connects a shell to another machine")

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
