"""What a Python text would do, by its syntax tree: calls are judged by the names and constants they are given."""

from __future__ import annotations

import ast
import re
import warnings

from hermetic.policy.tables import names

from .call import Call
from .commands.servers import check_served
from .commands.unseen import FORK_BOMB, OPAQUE_CODE, REMOTE_CODE, UNKNOWN_COMMAND, execute
from .destroys import CLOUD_DESTROYS, SQL_DESTROYS
from .effects import SECRET_READ, read, write
from .marks import DECODED, FILE, INPUT, LOCAL, NET, PIDS, SECRET, TOKEN, is_plain, marks_in
from .network import EXFIL, REVERSE_SHELL, check_address, is_local
from .paths import resolve
from .python_files import UNHANDLED, FileCalls
from .python_folding import TooLarge
from .python_libraries import library_call, loads_unseen
from .python_pure import CALLERS
from .python_values import (
    UNKNOWN,
    Bound,
    Class,
    Getter,
    Instance,
    Method,
    Name,
    Obj,
    OneOf,
    Value,
    choices,
    element_of,
    marks_of,
    one_of,
    path_of,
    text_of,
)
from .sql import destruction

MAX_SOURCE = 30_000
_SHELL_CALLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "commands.getoutput",
    "popen2.popen2",
    "asyncio.create_subprocess_shell",
}
_PROCESS_CALLS = {
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.Popen",
    "asyncio.create_subprocess_exec",
}
_SECRET_CALLS = {"keyring.get_password", "keyring.get_credential", "secretstorage.get_default_collection"}
_NET_MODULES = names(
    """
requests httpx urllib urllib2 http.client aiohttp socket ftplib smtplib paramiko websocket telnetlib urllib3
pycurl xmlrpc poplib imaplib
"""
)
_SEND = re.compile(
    r"\.(post|put|patch|get|urlopen|request|send|sendall|sendto|sendmail|send_message|storbinary|"
    r"storlines|urlretrieve|Request|head|stream|sendfile|connect)$"
)
_CLOUD_DELETE = re.compile(
    r"(^|\.)(delete\w*|terminate\w*|destroy\w*|drop\w*|purge\w*|remove_\w+|flushall|flushdb|"
    r"batch_delete|empty)$"
)
_CLOUD_MODULES = names(
    """
boto3 botocore google azure kubernetes pymongo redis elasticsearch digitalocean pulumi oci openstack docker
heroku3 hcloud psycopg2 MySQLdb pymysql stripe gitlab github ldap3 consul etcd3 cassandra sqlalchemy
"""
)


def judge_python(call: Call, source: str, *, depth: int = 0) -> None:
    """Report what the Python text would do."""
    if depth > 6 or len(source) > MAX_SOURCE:
        call.report(UNKNOWN_COMMAND, "runs Python code too large or nested too deeply to be read")
        return
    marks = marks_in(source)
    if marks:
        execute(call, source, "Python code")
        return
    text = source.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.lstrip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _unparsed(call, text)
        return
    try:
        try:
            _Walker(call, depth).whole(tree)
        except TooLarge:  # read again, and loops that count only once
            _Walker(call, depth, is_brief=True).whole(tree)
    except (RecursionError, TooLarge):
        call.report(UNKNOWN_COMMAND, "runs Python code too large to be read")


def _unparsed(call: Call, text: str) -> None:
    if re.search(r"\b(os|subprocess|shutil|socket|exec|eval|unlink|rmtree|system|popen|ctypes)\b", text):
        call.report(UNKNOWN_COMMAND, "runs Python code that cannot be read")


class _Walker(FileCalls):
    """Judges the calls of a text."""

    def _call(self, node: ast.Call) -> Value:
        function = self.visit(node.func)
        args: list[Value] = []
        for arg in node.args:
            value = self.visit(arg)
            if isinstance(arg, ast.Starred):
                args += value if isinstance(value, list) else [element_of(value)]
            else:
                args.append(value)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            keywords.update(value if keyword.arg is None and isinstance(value, dict) else {keyword.arg or "**": value})
        return self.invoke(function, args, keywords)

    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        if isinstance(function, OneOf):
            return one_of([self.invoke(one, args, keywords) for one in function.values])
        if isinstance(function, Method):
            return self.own(function.function, [function.owner, *args], keywords)
        if isinstance(function, Class | Instance):
            return self._of_class(function, args, keywords)
        if isinstance(function, Name) and function.startswith("def:"):
            return self.own(function, args, keywords)
        for at, arg in enumerate(args[:4]):
            if isinstance(arg, OneOf):
                ways = [[*args[:at], one, *args[at + 1 :]] for one in arg.values]
                return one_of([self.invoke(function, way, keywords) for way in ways])
        if isinstance(function, Bound):
            if function.attr == "sort":
                self._hand_over(function.attr, args, keywords)
            return self._bound(function, args, keywords)
        if isinstance(function, Getter):
            return self._taken(function, args)
        if isinstance(function, Name | Obj):
            self._hand_over(str(function) if isinstance(function, Name) else function.call, args, keywords)
        if isinstance(function, Name):
            return self._named(str(function), args, keywords)
        if isinstance(function, Obj) and function is not UNKNOWN:
            if function.call.rpartition(".")[2] in CALLERS:
                self._callback(args, keywords)
            if "." not in function.call:
                self._unknown_call(args)
            return self._method(function, args, keywords)
        if function is not None:
            self._unknown_call(args)
        return UNKNOWN

    def _taken(self, getter: Getter, args: list[Value]) -> Value:
        """What operator.attrgetter or operator.methodcaller gives for an object."""
        found = args[0] if args else UNKNOWN
        for attr in getter.attr.split("."):
            found = self.attribute(found, attr)
        return found if getter.args is None else self.invoke(found, getter.args, getter.keywords)

    def _of_class(self, function: Class | Instance, args: list[Value], keywords: dict[str, Value]) -> Value:
        """A class makes an object; an object may be called itself."""
        made = Instance(function) if isinstance(function, Class) else function
        found = made.kind.find("__init__" if isinstance(function, Class) else "__call__")
        given = [one for one in choices(found) if isinstance(one, Name) and one.startswith("def:")]
        results = [self.own(one, [made, *args], keywords) for one in given]
        return made if isinstance(function, Class) else one_of(results)

    def _unknown_call(self, args: list[Value]) -> None:
        """A call of an unknown function: arguments that are a dangerous command are taken for one."""
        for arg in args[:2]:
            is_text = isinstance(arg, str) and not isinstance(arg, Name) and " " in arg and is_plain(arg)
            if is_text and self.call.machine.probe_text(text_of(arg), self.call.shell):
                self.call.shell_text(text_of(arg))
            if isinstance(arg, list) and len(arg) > 1:
                argv = [text_of(item) for item in arg]
                if self.call.machine.probe_argv(argv, self.call.shell):
                    self.call.run(argv, stdin="")

    def _named(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        first = args[0] if args else next(iter(keywords.values()), None)
        if name.startswith("sh.") and args:
            self._run([name[3:], *[text_of(arg) for arg in args]])
            return Obj("output", text=LOCAL)
        if name == "operator.methodcaller" and args and text_of(args[0]) in ("system", "popen"):
            return self._shell(args[1] if len(args) > 1 else UNKNOWN)
        if name in ("operator.attrgetter", "operator.methodcaller") and isinstance(first, str) and is_plain(first):
            return Getter(first, args[1:], keywords) if name.endswith("methodcaller") else Getter(first)
        if name == "operator.call" and args:
            return self.invoke(first, args[1:], keywords)
        if name.startswith(("posix.", "nt.")):
            name = "os." + name.partition(".")[2]
        if name in ("__import__", "importlib.import_module", "importlib.__import__"):
            return (
                Name(first)
                if isinstance(first, str) and is_plain(first)
                else self._hidden("imports a module whose name is hidden")
            )
        if name == "getattr":
            key = args[1] if len(args) > 1 else None
            if isinstance(key, str) and is_plain(key):
                return self.attribute(first, key)
            return (
                self._hidden("picks what to run by a hidden name")
                if isinstance(first, Name)
                and first.split(".")[0] in ("os", "subprocess", "shutil", "builtins", "__builtins__")
                else UNKNOWN
            )
        if name in ("vars", "globals", "locals"):
            return Obj(name, str(first) if isinstance(first, Name) else None)
        if name in names(
            """
exec eval compile builtins.exec builtins.eval runpy.run_path code.interact execfile marshal.loads marshal.load
types.FunctionType runpy.run_module
"""
        ):
            return self._exec(name, first)
        if name in ("pickle.loads", "pickle.load", "cPickle.loads", "dill.loads", "yaml.unsafe_load", "joblib.load"):
            if isinstance(first, Obj) and FILE in first.text and NET not in first.text:
                return UNKNOWN
            if name.endswith("loads"):
                return self._hidden("loads an object that may run code")
            return UNKNOWN
        if name in ("timeit.timeit", "timeit.repeat", "cProfile.run", "profile.run", "pdb.run", "trace.run"):
            return self._exec("exec", first)
        if name in _SECRET_CALLS:
            self.call.report(SECRET_READ, "shows stored credentials")
            return Obj("secret", text=SECRET)
        if name in _SHELL_CALLS:
            return self._shell(first)
        if name in _PROCESS_CALLS or name.endswith(".Popen"):
            return self._process(first if name != "asyncio.create_subprocess_exec" else args, keywords, args)
        if re.fullmatch(r"os\.(exec|spawn|posix_spawn)\w*", name):
            return self._replace(name, args)
        if name == "pty.spawn":
            return self._process(first, keywords, args)
        done = self.file_call(name, args, keywords)
        if done is not UNHANDLED:
            return done
        if name in ("os.kill", "os.killpg"):
            return self._kill(first)
        if name in ("os.fork", "multiprocessing.Process", "os.forkpty"):
            if self.loop:
                self.call.report(FORK_BOMB, "starts processes without end")
            self._callback(args, keywords)
            return UNKNOWN
        if name in ("os.getenv", "os.environ.get"):
            return self._environment(first)
        if name in ("os.setuid", "os.seteuid", "os.setreuid"):
            self.call.report(UNKNOWN_COMMAND, "takes the identity of another user") if first == 0 else None
            return None
        if name in ("input", "raw_input", "sys.stdin.read"):
            return Obj("stdin", text=INPUT if self.call.stdin is None else self.call.stdin)
        if name == "os.dup2" and self.socket:
            self.call.report(REVERSE_SHELL, "connects a shell to another machine")
            return None
        if name.split(".")[0] in ("ctypes", "cffi") and not name.endswith(("sizeof", "c_int", "c_char_p")):
            loads_unseen(self.call, first)
            return Obj("ctypes")
        if name.split(".")[0] in _CLOUD_MODULES:
            self._cloud(name.rpartition(".")[2], args)
            return Obj(name)
        network = self._network(name, args, keywords)
        if network is not None:
            return network
        return self._pure(name, args, keywords)

    def _hidden(self, reason: str) -> Value:
        self.call.report(UNKNOWN_COMMAND, reason)
        return UNKNOWN

    def _exec(self, name: str, first: Value) -> Value:
        if isinstance(first, Obj) and first.call == "compile":
            return UNKNOWN
        if isinstance(first, bytes):
            self.call.report(OPAQUE_CODE, "runs Python code that only a decoder shows")
            first = first.decode("latin-1")
        if isinstance(first, str) and not isinstance(first, Name) and is_plain(first):
            if name in ("runpy.run_path", "execfile", "runpy.run_module"):
                return UNKNOWN
            judge_python(self.call, first, depth=self.depth + 1)
            return Obj("compile")
        marks = marks_of(first)
        if NET in marks:
            self.call.report(REMOTE_CODE, "runs Python code that another machine sends")
        elif DECODED in marks or "marshal" in name:
            self.call.report(OPAQUE_CODE, "runs Python code that only a decoder shows")
        elif FILE in marks and name != "eval" and not (isinstance(first, Obj) and first.call.startswith("stdin")):
            return Obj("compile")
        else:
            self._hidden("runs Python code that cannot be known beforehand")
        return Obj("compile")

    def _shell(self, first: Value) -> Value:
        text = text_of(first)
        marks = marks_in(text)
        if marks and not text.strip("".join(marks)):
            execute(self.call, text, "a command of a Python text")
        else:
            if NET in marks or DECODED in marks:
                execute(self.call, text, "a command of a Python text")
            self.call.shell_text(text)
        return Obj("output", text=LOCAL)

    def _process(self, first: Value, keywords: dict[str, Value], args: list[Value]) -> Value:
        if self.socket and any(isinstance(value, Obj) and "socket" in value.call for value in keywords.values()):
            self.call.report(REVERSE_SHELL, "connects a shell to another machine")
        if "args" in keywords and first is None:
            first = keywords["args"]
        if isinstance(first, list):
            argv = [text_of(item) for item in first]
            if keywords.get("shell") is True and argv:
                self._shell(argv[0])
            elif argv:
                self._run(argv)
        elif keywords.get("shell") is True or not isinstance(first, str):
            self._shell(first)
        else:
            self._run(text_of(first).split() if keywords.get("shell") is not None else [text_of(first)])
        return Obj("output", text=LOCAL)

    def _run(self, argv: list[str]) -> None:
        if self.socket and argv[0].rsplit("/", 1)[-1] in ("sh", "bash", "zsh", "dash"):
            self.call.report(REVERSE_SHELL, "connects a shell to another machine")
        self.call.run(argv, stdin="")

    def _replace(self, name: str, args: list[Value]) -> Value:
        rest = args[1:] if "spawn" in name and "posix" not in name else args
        if not rest:
            return UNKNOWN
        given = (
            rest[1]
            if len(rest) > 1 and isinstance(rest[1], list)
            else [item for item in rest[1:] if not isinstance(item, dict)]
        )
        argv = (
            [text_of(rest[0]), *[text_of(item) for item in given[1:]]]
            if isinstance(given, list)
            else [text_of(rest[0])]
        )
        self._run(argv)
        return UNKNOWN

    def _kill(self, first: Value) -> Value:
        if isinstance(first, int):
            self.call.run(["kill", "-9", "--", str(first)])
        elif self.lists_processes:
            self.call.run(["kill", "-9", PIDS])
        return None

    def _network(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value | None:
        if not any(name == module or name.startswith(module + ".") for module in _NET_MODULES):
            return None
        if name.startswith("urllib.parse"):
            return None
        if "socket" in name:
            self.socket = True
        for value in args:
            _note_pair(self.call, value)
            if isinstance(value, str) and not isinstance(value, Name):
                check_address(self.call, value)
            if isinstance(value, str) and value.startswith("file:"):
                return Obj("net", None, read(self.call, value))
        sent = "".join(
            marks_of(value)
            for key, value in [*((None, arg) for arg in args), *keywords.items()]
            if key not in ("headers", "auth", "timeout")
        )
        if _SEND.search("." + name.rsplit(".", 1)[-1]) and (
            SECRET in sent or (TOKEN in sent and not keywords.get("headers"))
        ):
            self.call.report(EXFIL, "sends credentials to another machine")
        last = name.rsplit(".", 1)[-1]
        deletes = last == "delete" or "DELETE" in (keywords.get("method"), *args)
        addresses = [value for value in [*args, *keywords.values()] if isinstance(value, str) and "://" in value]
        if deletes and any(not is_local(address) for address in addresses):
            self.call.report(CLOUD_DESTROYS, "deletes something on another machine by HTTP")
        if name.endswith("urlretrieve") and len(args) > 1:
            write(self.call, path_of(args[1]), content=NET)
        return Obj("socket" if "socket" in name else "net", None, NET)

    def _method(self, function: Obj, args: list[Value], keywords: dict[str, Value]) -> Value:
        base, _, method = function.call.rpartition(".")
        first = args[0] if args else None
        if function.path is not None:
            return self._path_method(function, method, args, keywords)
        if base == "os.environ" or function.call == "os.environ.get":
            if method in ("get", "pop", "setdefault", "__getitem__"):
                return self._environment(first)
            return Obj("dict", text=SECRET)
        if base.startswith("socket") or base == "socket":
            self.socket = True
            for value in args if method in ("connect", "connect_ex", "sendto") else ():
                _note_pair(self.call, value)
            if "".join(marks_of(arg) for arg in args).count(SECRET) and method.startswith("send"):
                self.call.report(EXFIL, "sends credentials to another machine")
            if method == "fileno":
                return Obj("socket")
            return Obj(base if method != "makefile" else "net", text=NET)
        if (
            base.startswith("net")
            and _SEND.search("." + method)
            and SECRET in "".join(marks_of(arg) for arg in [*args, *keywords.values()])
        ):
            self.call.report(EXFIL, "sends credentials to another machine")
        if base.startswith("ctypes"):
            command = library_call(self.call, method, args)
            if command is not None:
                self._shell(command)
            return Obj("ctypes") if method in ("LoadLibrary", "dlopen") else UNKNOWN
        if method in ("runsource", "runcode", "push", "run_cell", "runctx") and isinstance(first, str):
            return self._exec("exec", first)
        root = base.split(".")[0]
        if root in _CLOUD_MODULES:
            if keywords.get("privileged") is True or keywords.get("pid_mode") == "host":
                self._hidden("starts a container with all rights on the host")
            self._cloud(method, args)
            return Obj(function.call)
        if isinstance(first, str) and method in (
            "execute",
            "executemany",
            "executescript",
            "raw",
            "query",
            "run",
            "sql",
        ):
            reason = destruction(first)
            if reason:
                self.call.report(SQL_DESTROYS, reason)
        if base == "file" and method in ("write", "writelines") and self.written:
            full = resolve(self.written, self.call.shell)
            sent = NET if NET in marks_of(first) else text_of(first) if isinstance(first, str | bytes) else ""
            self.call.shell.files[full] = self.call.shell.files.get(full, "") + sent
        if method == "decode" and isinstance(first, str) and re.match(r"rot|hex|base|zip|bz2|uu", first):
            return Obj(function.call, None, DECODED + function.text)
        if method in ("extractall", "extract"):
            self._unpack(args[method == "extract" :], keywords.get("path"))
        if method == "serve_forever":
            check_served(self.call, ".")
        if method in ("communicate", "stdin.write") and isinstance(first, str | bytes):
            return Obj("output", text=LOCAL)
        return Obj(function.call, None, function.text + "".join(marks_of(arg) for arg in args))

    def _cloud(self, method: str, args: list[Value]) -> None:
        for arg in args:
            if isinstance(arg, str) and method in ("execute", "executemany", "executescript", "sql", "query", "text"):
                reason = destruction(arg)
                if reason:
                    self.call.report(SQL_DESTROYS, reason)
        if _CLOUD_DELETE.search("." + method):
            self.call.report(CLOUD_DESTROYS, f"deletes shared resources: {method}")


def _note_pair(call: Call, value: Value) -> None:
    """Note the host of a pair of a host and a port."""
    if isinstance(value, list | tuple) and len(value) >= 2 and isinstance(value[0], str):
        check_address(call, value[0])
