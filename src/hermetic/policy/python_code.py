"""What a Python text would do, by its syntax tree: names are followed, constants folded, calls judged."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import re
import warnings
from collections.abc import Callable

from hermetic.policy.tables import names

from .call import Call
from .commands.unseen import FORK_BOMB, OPAQUE_CODE, REMOTE_CODE, UNKNOWN_COMMAND, execute
from .destroys import CLOUD_DESTROYS, SQL_DESTROYS
from .effects import delete, read, write
from .marks import DECODED, FILE, INPUT, LOCAL, NET, SECRET, TOKEN, UNSET, is_plain, marks_in, unknown_like
from .network import EXFIL, REVERSE_SHELL, check_address
from .sql import destruction

MAX_NODES = 6_000
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
_DELETES = {
    "os.remove": False,
    "os.unlink": False,
    "os.rmdir": False,
    "os.removedirs": False,
    "shutil.rmtree": True,
    "send2trash.send2trash": False,
}
_PATH_METHODS = {
    "unlink": "delete",
    "rmdir": "delete",
    "write_text": "write",
    "write_bytes": "write",
    "touch": "write",
    "mkdir": "",
    "chmod": "chmod",
    "rename": "move",
    "replace": "move",
    "read_text": "read",
    "read_bytes": "read",
    "symlink_to": "write",
    "hardlink_to": "write",
    "rmtree": "tree",
    "remove": "tree",
}
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


class Name(str):
    """A dotted name the text refers to, such as os.system."""


class Obj:
    """A value of which only its making is known: what was called, and the arguments that matter."""

    __slots__ = ("call", "path", "text")

    def __init__(self, call: str, path: str | None = None, text: str = "") -> None:
        self.call, self.path, self.text = call, path, text


Value = object  # str, bytes, int, float, bool, None, list, dict, Name, Obj
_UNKNOWN = Obj("?")


class _Budget(Exception):
    pass


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
        _Walker(call, depth).block(tree.body)
    except (RecursionError, _Budget):
        call.report(UNKNOWN_COMMAND, "runs Python code too large to be read")


def _unparsed(call: Call, text: str) -> None:
    if re.search(r"\b(os|subprocess|shutil|socket|exec|eval|unlink|rmtree|system|popen|ctypes)\b", text):
        call.report(UNKNOWN_COMMAND, "runs Python code that cannot be read")


class _Walker:
    def __init__(self, call: Call, depth: int) -> None:
        self.call = call
        self.depth = depth
        self.names: dict[str, Value] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
        self.nodes = 0
        self.active: list[str] = []
        self.socket = False
        self.loop = 0

    # --- statements

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Budget
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.names[alias.asname or alias.name.split(".")[0]] = Name(
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self._star(node.module or "")
                self.names[alias.asname or alias.name] = Name(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions[node.name] = node
            for decorator in node.decorator_list:
                self.value(decorator)
                if not isinstance(decorator, ast.Call):
                    self._decorated(decorator, node)
        elif isinstance(node, ast.ClassDef):
            self.block(node.body)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            value = self.value(node.value) if node.value else None
            if isinstance(node, ast.AugAssign):
                value = self.binary(self.value(_load(node.target)), value, node.op)
            self.assign(node.target, value)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._for(node)
        elif isinstance(node, ast.While):
            self.value(node.test)
            self.loop += 1
            self.block(node.body)
            self.loop -= 1
            self.block(node.orelse)
        elif isinstance(node, ast.If):
            self.value(node.test)
            self.block(node.body)
            self.block(node.orelse)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                value = self.value(item.context_expr)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value)
            self.block(node.body)
        elif isinstance(node, ast.Try):
            self.block(node.body)
            for handler in node.handlers:
                self.block(handler.body)
            self.block(node.orelse)
            self.block(node.finalbody)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
                elif isinstance(child, ast.stmt):
                    self.statement(child)

    def _star(self, module: str) -> None:
        for name in names(
            """
system popen remove unlink rmtree run Popen call Path kill fork execvp rmdir chmod urlopen check_output move
"""
        ):
            self.names.setdefault(name, Name(f"{module}.{name}"))

    def _decorated(self, decorator: ast.expr, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        target = self.value(decorator)
        if isinstance(target, Name) and target in ("exec", "eval", "os.system"):
            self.call.report(UNKNOWN_COMMAND, "runs what a decorator is given")

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.value(node.iter)
        items = values[:24] if isinstance(values, list) and values else [_element(values)]
        endless = isinstance(values, Obj) and values.call in (
            "iter",
            "itertools.count",
            "itertools.repeat",
            "itertools.cycle",
        )
        self.loop += endless
        for item in items:
            self.assign(node.target, item)
            self.block(node.body)
        self.loop -= endless
        self.block(node.orelse)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for at, one in enumerate(target.elts):
                self.assign(one, value[at] if isinstance(value, list) and at < len(value) else _element(value))
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            key = self.value(target.slice)
            if isinstance(base, dict) and isinstance(key, str):
                base[key] = value

    # --- expressions

    def value(self, node: ast.expr | None) -> Value:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Budget
        if node is None:
            return None
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is not None:
            found: Value = method(node)
            return found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return _UNKNOWN

    def _constant(self, node: ast.Constant) -> Value:
        return node.value if not isinstance(node.value, complex) else _UNKNOWN

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.functions:
            return Name("def:" + node.id)
        return Name(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, base: Value, attr: str) -> Value:
        if isinstance(base, Name):
            full = f"{base}.{attr}"
            if full in ("os.environ", "os.environb"):
                return Obj("os.environ", text=SECRET)
            if full in ("os.sep", "os.path.sep"):
                return "/"
            if full == "os.curdir":
                return "."
            if full == "sys.stdin":
                return Obj("stdin", text=self.call.input())
            if full == "sys.argv":
                return Obj("sys.argv", text=UNSET)
            if base.startswith("__builtins__") or base == "builtins":
                return Name(attr)
            return Name(full)
        if isinstance(base, Obj):
            if base.path is not None and attr in ("parent", "parents"):
                return Obj("Path", (base.path.rstrip("/").rpartition("/")[0] or "/"), "")
            return Obj(f"{base.call}.{attr}", base.path, base.text)
        return (
            Obj("method:" + attr, None, "") if not isinstance(base, str | bytes | list | dict) else _Bound(base, attr)
        )

    def _list(self, node: ast.List) -> Value:
        out: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                value = self.value(item.value)
                out += value if isinstance(value, list) else [_element(value)]
            else:
                out.append(self.value(item))
        return out

    _tuple = _set = _list

    def _dict(self, node: ast.Dict) -> Value:
        found: dict[str, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name = self.value(key) if key is not None else None
            value = self.value(item)
            found[name if isinstance(name, str) else f"?{len(found)}"] = value
        return found

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        return "".join(_text(self.value(part)) for part in node.values)

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        return _text(self.value(node.value))

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(self.value(node.left), self.value(node.right), node.op)

    def binary(self, left: Value, right: Value, op: ast.operator) -> Value:
        if isinstance(left, Obj) and left.path is not None and isinstance(op, ast.Div):
            return Obj("Path", left.path.rstrip("/") + "/" + _text(right))
        if isinstance(op, ast.Add):
            if isinstance(left, list) and isinstance(right, list):
                return left + right
            if isinstance(left, bytes) and isinstance(right, bytes):
                return left + right
            if (isinstance(left, str) and not isinstance(left, Name)) or (
                isinstance(right, str) and not isinstance(right, Name)
            ):
                return _text(left) + _text(right)
        if (
            isinstance(op, ast.Mult)
            and isinstance(left, str | bytes)
            and isinstance(right, int)
            and len(left) * right < 10_000
        ):
            return left * right
        if isinstance(op, ast.Mod) and isinstance(left, str):
            return self._percent(left, right)
        if isinstance(left, int) and isinstance(right, int):
            return self._numbers(left, right, op)
        return Obj("?", text=_marks(left) + _marks(right))

    def _numbers(self, left: int, right: int, op: ast.operator) -> Value:
        actions: dict[type[ast.operator], Callable[[], int]] = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.BitXor: lambda: left ^ right,
            ast.BitOr: lambda: left | right,
            ast.BitAnd: lambda: left & right,
        }
        action = actions.get(type(op))
        return action() if action and abs(left) < 2**63 and abs(right) < 2**63 else _UNKNOWN

    def _percent(self, template: str, values: Value) -> Value:
        parts = values if isinstance(values, list) else [values]
        try:
            return template % tuple(_text(part) if not isinstance(part, int | float) else part for part in parts)
        except (TypeError, ValueError):
            return unknown_like(template)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(value, int):
            return -value
        return _UNKNOWN

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        first, second = self.value(node.body), self.value(node.orelse)
        return first if first == second else _UNKNOWN

    def _boolop(self, node: ast.BoolOp) -> Value:
        values = [self.value(part) for part in node.values]
        return values[-1]

    def _lambda(self, node: ast.Lambda) -> Value:
        name = f"lambda{len(self.functions)}"
        self.functions[name] = node
        return Name("def:" + name)

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        generator = node.generators[0]
        values = self.value(generator.iter)
        items = values[:64] if isinstance(values, list) else [_element(values)]
        endless = isinstance(values, Obj) and values.call in (
            "iter",
            "itertools.count",
            "itertools.repeat",
            "itertools.cycle",
        )
        self.loop += endless
        out: list[Value] = []
        for item in items:
            self.assign(generator.target, item)
            for other in node.generators[1:]:
                self.assign(other.target, _element(self.value(other.iter)))
            for test in generator.ifs:
                self.value(test)
            out.append(self.value(node.elt))
        self.loop -= endless
        return out if isinstance(values, list) else Obj("list", text="".join(_marks(one) for one in out))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        key = _slice(node.slice, self) if isinstance(node.slice, ast.Slice) else self.value(node.slice)
        if isinstance(base, str | bytes | list) and not isinstance(base, Name) and isinstance(key, int | slice):
            try:
                return base[key]
            except (IndexError, ValueError):
                return _UNKNOWN
        if isinstance(base, dict) and isinstance(key, str):
            return base.get(key, _UNKNOWN)
        if isinstance(base, Obj) and base.call == "os.environ":
            return self._environment(key)
        if isinstance(base, Obj) and base.call in ("vars", "globals", "locals") and isinstance(key, str):
            return self.attribute(Name(base.path), key) if base.path else self.names.get(key, Name(key))
        if isinstance(base, Name) and isinstance(key, str) and base.endswith("__dict__"):
            return Name(f"{base[: -len('.__dict__')]}.{key}")
        if isinstance(base, Name) and base in ("sys.modules",) and isinstance(key, str):
            return Name(key)
        if isinstance(base, Name) and base.startswith("__builtins__") and isinstance(key, str):
            return Name(key)
        return Obj("?", text=_marks(base))

    def _environment(self, key: Value) -> Value:
        if isinstance(key, str) and not isinstance(key, Name):
            return self.call.shell.scalar(key)
        return Obj("?", text=SECRET)

    # --- calls

    def _call(self, node: ast.Call) -> Value:
        function = self.value(node.func)
        args = [self.value(arg) for arg in node.args if not isinstance(arg, ast.Starred)]
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                value = self.value(arg.value)
                args += value if isinstance(value, list) else [_element(value)]
        keywords = {keyword.arg or "**": self.value(keyword.value) for keyword in node.keywords}
        return self.invoke(function, args, keywords)

    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        if isinstance(function, _Bound):
            return self._bound(function, args, keywords)
        if isinstance(function, Name):
            if function.startswith("def:"):
                return self._own(function[4:], args, keywords)
            return self._named(str(function), args, keywords)
        if isinstance(function, Obj):
            return self._method(function, args, keywords)
        return _UNKNOWN

    def _own(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        definition = self.functions[name]
        if name in self.active:
            return _UNKNOWN
        for parameter, value in zip(definition.args.args, args, strict=False):
            self.names[parameter.arg] = value
        self.names.update(keywords)
        self.active.append(name)
        result: Value = _UNKNOWN
        if isinstance(definition, ast.Lambda):
            result = self.value(definition.body)
        else:
            self.block(definition.body)
            for statement in definition.body:
                if isinstance(statement, ast.Return):
                    result = self.value(statement.value)
        self.active.pop()
        return result

    def _named(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        first = args[0] if args else next(iter(keywords.values()), None)
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
                else _UNKNOWN
            )
        if name in ("vars", "globals", "locals"):
            return Obj(name, str(first) if isinstance(first, Name) else None)
        if name in names(
            """
exec eval compile builtins.exec builtins.eval runpy.run_path code.interact execfile marshal.loads
types.FunctionType runpy.run_module
"""
        ):
            return self._exec(name, first)
        if name in ("pickle.loads", "pickle.load", "cPickle.loads", "dill.loads", "yaml.unsafe_load", "joblib.load"):
            if isinstance(first, Obj) and FILE in first.text and NET not in first.text:
                return _UNKNOWN
            if name.endswith("loads"):
                return self._hidden("loads an object that may run code")
            return _UNKNOWN
        if name in ("timeit.timeit", "timeit.repeat", "cProfile.run", "profile.run", "pdb.run", "trace.run"):
            return self._exec("exec", first)
        if name in _SHELL_CALLS:
            return self._shell(first)
        if name in _PROCESS_CALLS or name.endswith(".Popen"):
            return self._process(first if name != "asyncio.create_subprocess_exec" else args, keywords, args)
        if re.fullmatch(r"os\.(exec|spawn|posix_spawn)\w*", name):
            return self._replace(name, args)
        if name == "pty.spawn":
            return self._process(first, keywords, args)
        if name in _DELETES:
            delete(self.call, _path(first), recursive=_DELETES[name] or name == "os.removedirs")
            return None
        if name in ("open", "io.open", "codecs.open", "os.open", "builtins.open", "gzip.open", "bz2.open"):
            return self._open(name, args, keywords)
        if name in ("pathlib.Path", "Path", "pathlib.PosixPath", "pathlib.PurePath"):
            return Obj("Path", "/".join(_path(arg) for arg in args) if args else ".")
        if name in ("pathlib.Path.home", "Path.home"):
            return Obj("Path", self.call.shell.home)
        if name in ("pathlib.Path.cwd", "os.getcwd", "Path.cwd"):
            return Obj("Path", self.call.shell.cwd) if "Path" in name else self.call.shell.cwd
        if name in ("os.path.expanduser", "os.path.expandvars"):
            return self._expand(_text(first))
        if name in ("os.path.join", "posixpath.join"):
            return self._join(args)
        if name in (
            "os.path.abspath",
            "os.path.realpath",
            "os.path.normpath",
            "os.fspath",
            "str",
            "os.path.dirname",
            "os.fsdecode",
        ):
            text = _path(first) if isinstance(first, Obj) and first.path is not None else _text(first)
            return text.rpartition("/")[0] or "." if name.endswith("dirname") else text
        if name in ("glob.glob", "glob.iglob", "os.listdir", "os.scandir", "os.walk"):
            return self._listing(name, _path(first))
        if name in names(
            """
os.rename os.replace shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree os.link os.symlink
os.renames
"""
        ):
            return self._transfer(name, args)
        if name in ("os.chmod", "os.chown", "os.lchown", "shutil.chown"):
            return self._permission(name, args)
        if name in ("os.truncate", "os.mkfifo", "os.mknod"):
            write(self.call, _path(first))
            return None
        if name in ("os.kill", "os.killpg"):
            return self._kill(first)
        if name in ("os.fork", "multiprocessing.Process", "os.forkpty"):
            if self.loop:
                self.call.report(FORK_BOMB, "starts processes without end")
            return _UNKNOWN
        if name == "os.chdir":
            self.call.shell.cwd = (
                _path(first) if _path(first).startswith("/") else self.call.shell.cwd + "/" + _path(first)
            )
            return None
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
            return Obj("ctypes")
        if name.split(".")[0] in _CLOUD_MODULES:
            return Obj(name)
        network = self._network(name, args, keywords)
        if network is not None:
            return network
        return self._pure(name, args, keywords)

    def _hidden(self, reason: str) -> Value:
        self.call.report(UNKNOWN_COMMAND, reason)
        return _UNKNOWN

    def _exec(self, name: str, first: Value) -> Value:
        if isinstance(first, Obj) and first.call == "compile":
            return _UNKNOWN
        if isinstance(first, bytes):
            first = first.decode("latin-1")
        if isinstance(first, str) and not isinstance(first, Name) and is_plain(first):
            if name in ("runpy.run_path", "execfile", "runpy.run_module"):
                return _UNKNOWN
            judge_python(self.call, first, depth=self.depth + 1)
            return Obj("compile")
        marks = _marks(first)
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
        text = _text(first)
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
            argv = [_text(item) for item in first]
            if keywords.get("shell") is True and argv:
                self._shell(argv[0])
            elif argv:
                self._run(argv)
        elif keywords.get("shell") is True or not isinstance(first, str):
            self._shell(first)
        else:
            self._run(_text(first).split() if keywords.get("shell") is not None else [_text(first)])
        return Obj("output", text=LOCAL)

    def _run(self, argv: list[str]) -> None:
        if self.socket and argv[0].rsplit("/", 1)[-1] in ("sh", "bash", "zsh", "dash"):
            self.call.report(REVERSE_SHELL, "connects a shell to another machine")
        self.call.run(argv, stdin="")

    def _replace(self, name: str, args: list[Value]) -> Value:
        rest = args[1:] if "spawn" in name and "posix" not in name else args
        if not rest:
            return _UNKNOWN
        given = (
            rest[1]
            if len(rest) > 1 and isinstance(rest[1], list)
            else [item for item in rest[1:] if not isinstance(item, dict)]
        )
        argv = [_text(rest[0]), *[_text(item) for item in given[1:]]] if isinstance(given, list) else [_text(rest[0])]
        self._run(argv)
        return _UNKNOWN

    def _open(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        path = _path(args[0] if args else keywords.get("file"))
        mode = args[1] if len(args) > 1 else keywords.get("mode", "r")
        if name == "os.open":
            mode = "w" if not (isinstance(mode, Name) and mode.endswith("O_RDONLY")) else "r"
        if not isinstance(mode, str) or any(letter in mode for letter in "wax+"):
            write(self.call, path)
            return Obj("file", None, FILE)
        if path.isdigit() or path == "0":
            return Obj("file", None, self.call.input())
        return Obj("file", None, read(self.call, path))

    def _expand(self, text: str) -> str:
        if text.startswith("~/") or text == "~":
            return self.call.shell.home + text[1:]
        if text.startswith("~"):
            return "/home/" + text[1:]
        return re.sub(r"\$\{?(\w+)\}?", lambda match: self.call.shell.scalar(match[1]), text)

    def _join(self, args: list[Value]) -> str:
        out = ""
        for arg in args:
            text = _path(arg)
            out = text if text.startswith("/") else f"{out.rstrip('/')}/{text}" if out else text
        return out

    def _listing(self, name: str, path: str) -> Value:
        if name.startswith("glob"):
            return [path.replace("*", "\ue010").replace("?", "\ue011")]
        if name == "os.walk":
            return [[path, ["\ue010"], ["\ue010"]]]
        if name == "os.scandir":
            return [Obj("Path", path.rstrip("/") + "/\ue010")]
        return ["\ue010"]

    def _transfer(self, name: str, args: list[Value]) -> Value:
        if len(args) < 2:
            return None
        source, target = _path(args[0]), _path(args[1])
        program = (
            "mv"
            if name in ("os.rename", "os.replace", "shutil.move", "os.renames")
            else "ln"
            if "link" in name
            else "cp"
        )
        self.call.run([program, source, target])
        return target

    def _permission(self, name: str, args: list[Value]) -> Value:
        mode = args[1] if len(args) > 1 else None
        path = _path(args[0]) if args else ""
        self.call.run(
            ["chmod", format(mode, "o") if isinstance(mode, int) else "777", path]
            if "chmod" in name
            else ["chown", "nobody", path]
        )
        return None

    def _kill(self, first: Value) -> Value:
        if isinstance(first, int):
            self.call.run(["kill", "-9", "--", str(first)])
        return None

    def _network(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value | None:
        if not any(name == module or name.startswith(module + ".") for module in _NET_MODULES):
            return None
        if name.startswith("urllib.parse"):
            return None
        if "socket" in name:
            self.socket = True
        for value in args:
            if isinstance(value, str) and not isinstance(value, Name):
                check_address(self.call, value)
            if isinstance(value, str) and value.startswith("file:"):
                return Obj("net", None, read(self.call, value))
        sent = "".join(
            _marks(value)
            for key, value in [*((None, arg) for arg in args), *keywords.items()]
            if key not in ("headers", "auth", "timeout")
        )
        if _SEND.search("." + name.rsplit(".", 1)[-1]) and (
            SECRET in sent or (TOKEN in sent and not keywords.get("headers"))
        ):
            self.call.report(EXFIL, "sends credentials to another machine")
        if name.endswith("urlretrieve") and len(args) > 1:
            write(self.call, _path(args[1]), content=NET)
        return Obj("socket" if "socket" in name else "net", None, NET)

    def _bound(self, function: _Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
        base, attr = function.base, function.attr
        if isinstance(base, str) and attr == "join" and args:
            parts = args[0] if isinstance(args[0], list) else [args[0]]
            return base.join(_text(part) for part in parts)
        if isinstance(base, bytes) and attr == "join" and args and isinstance(args[0], list):
            return base.join(part for part in args[0] if isinstance(part, bytes))
        if isinstance(base, str) and attr == "format":
            try:
                return base.format(
                    *[_text(arg) for arg in args], **{key: _text(value) for key, value in keywords.items()}
                )
            except (IndexError, KeyError, ValueError, AttributeError):
                return unknown_like(base)
        if isinstance(base, list) and attr in ("append", "insert", "extend") and args:
            base += args[-1] if attr == "extend" and isinstance(args[-1], list) else [args[-1]]
            return None
        if isinstance(base, dict):
            if attr == "get" and args and isinstance(args[0], str):
                return base.get(args[0], args[1] if len(args) > 1 else None)
            return list(base.values()) if attr == "values" else _UNKNOWN
        simple = names(
            """
replace lower upper strip lstrip rstrip split encode decode title swapcase translate hex removeprefix splitlines
zfill
"""
        )
        if (
            isinstance(base, str | bytes)
            and attr in simple
            and all(isinstance(arg, str | int | bytes | dict) for arg in args)
        ):
            try:
                result: Value = (
                    getattr(base, attr)(*args)
                    if attr != "decode" or not args or args[0] not in ("rot13", "hex", "base64")
                    else _codec(base, str(args[0]))
                )
            except (TypeError, ValueError, LookupError, UnicodeError):
                return unknown_like(base if isinstance(base, str) else "")
            return result
        return Obj("?", text=_marks(base))

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
            if "".join(_marks(arg) for arg in args).count(SECRET) and method.startswith("send"):
                self.call.report(EXFIL, "sends credentials to another machine")
            if method == "fileno":
                return Obj("socket")
            return Obj(base if method != "makefile" else "net", text=NET)
        if (
            base.startswith("net")
            and _SEND.search("." + method)
            and SECRET in "".join(_marks(arg) for arg in [*args, *keywords.values()])
        ):
            self.call.report(EXFIL, "sends credentials to another machine")
        if base.startswith("ctypes") and method in names(
            """
system unlink remove execve execvp execl reboot kill popen syscall rmdir
"""
        ):
            text = first.decode("latin-1") if isinstance(first, bytes) else _text(first)
            if method in ("system", "popen"):
                self._shell(text)
            elif method in ("unlink", "remove", "rmdir"):
                delete(self.call, text, recursive=False)
            else:
                self._hidden("calls the kernel directly")
            return _UNKNOWN
        if method in ("runsource", "runcode", "push", "run_cell", "runctx") and isinstance(first, str):
            return self._exec("exec", first)
        root = base.split(".")[0]
        if root in _CLOUD_MODULES:
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
        if method in ("communicate", "stdin.write") and isinstance(first, str | bytes):
            return Obj("output", text=LOCAL)
        return Obj(function.call, None, function.text + "".join(_marks(arg) for arg in args))

    def _cloud(self, method: str, args: list[Value]) -> None:
        for arg in args:
            if isinstance(arg, str) and method in ("execute", "executemany", "executescript", "sql", "query", "text"):
                reason = destruction(arg)
                if reason:
                    self.call.report(SQL_DESTROYS, reason)
        if _CLOUD_DELETE.search("." + method):
            self.call.report(CLOUD_DESTROYS, f"deletes shared resources: {method}")

    def _path_method(self, function: Obj, method: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        path = function.path or ""
        kind = _PATH_METHODS.get(method)
        if kind in ("delete", "tree"):
            delete(self.call, path, recursive=kind == "tree")
        elif kind == "write":
            write(self.call, path)
        elif kind == "chmod":
            mode = args[0] if args else None
            self.call.run(["chmod", format(mode, "o") if isinstance(mode, int) else "777", path])
        elif kind == "move":
            self.call.run(["mv", path, _path(args[0]) if args else ""])
        elif kind == "read":
            return Obj("text", None, read(self.call, path))
        elif method == "open":
            return self._open("open", [path, *args], keywords)
        elif method in ("glob", "rglob", "iterdir"):
            pattern = _text(args[0]).replace("*", "\ue010") if args else "\ue010"
            return [Obj("Path", path.rstrip("/") + "/" + pattern.rsplit("/", 1)[-1])]
        elif method == "expanduser":
            return Obj("Path", self._expand(path))
        elif method in ("joinpath", "with_name", "with_suffix"):
            return Obj("Path", path.rstrip("/") + "/" + "/".join(_path(arg) for arg in args))
        elif method in ("resolve", "absolute"):
            return Obj("Path", path)
        elif method in ("exists", "is_file", "is_dir", "stat"):
            return _UNKNOWN
        return _UNKNOWN

    def _pure(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        first = args[0] if args else None
        last = name.rsplit(".", 1)[-1]
        data = first.encode("latin-1", "replace") if isinstance(first, str) and not isinstance(first, Name) else first
        try:
            if isinstance(data, bytes):
                if last in ("b64decode", "urlsafe_b64decode", "decodebytes", "a2b_base64", "standard_b64decode"):
                    return base64.b64decode(
                        data + b"=" * (-len(data) % 4), altchars=b"-_" if "urlsafe" in last else None
                    )
                if last in ("b32decode", "b16decode", "b85decode", "a85decode"):
                    found: bytes = getattr(base64, last)(data)
                    return found
                if last in ("unhexlify", "a2b_hex"):
                    return binascii.unhexlify(data)
                if last == "fromhex":
                    return bytes.fromhex(data.decode("latin-1"))
            if last == "chr" and isinstance(first, int) and 0 <= first < 0x110000:
                return chr(first)
            if last == "ord" and isinstance(first, str) and len(first) == 1:
                return ord(first)
            if last in ("bytes", "bytearray") and isinstance(first, list) and all(isinstance(n, int) for n in first):
                return bytes(n & 255 for n in first if isinstance(n, int))
            if last == "reversed" and isinstance(first, str | list | bytes):
                return list(first)[::-1]
            if last in ("list", "tuple", "sorted") and isinstance(first, str | list) and not isinstance(first, Name):
                return list(first)
            if last == "map" and len(args) > 1:
                items = (
                    args[1]
                    if isinstance(args[1], list)
                    else [chr(n) if isinstance(n, int) else n for n in args[1]]
                    if isinstance(args[1], str | bytes) and not isinstance(args[1], Name)
                    else [_element(args[1])]
                )
                if isinstance(args[1], bytes):
                    items = list(args[1])
                return [self.invoke(args[0], [item], {}) for item in items[:64]]
            if last == "int" and isinstance(first, str) and is_plain(first):
                return int(first, args[1] if len(args) > 1 and isinstance(args[1], int) else 10)
            if name == "codecs.decode" and len(args) > 1 and isinstance(first, str | bytes):
                return _codec(first, str(args[1]))
            if last == "range" and isinstance(first, int) and first <= 64 and len(args) == 1:
                return list(range(first))
            if name.startswith(("zlib.", "gzip.", "bz2.", "lzma.")):
                return Obj("?", text=DECODED + _marks(first))
            if last == "iter":
                return Obj("iter")
            if name.startswith("shlex.split") and isinstance(first, str):
                return list(first.split())
            if last in names(
                """
filter reduce partial submit Thread Timer call_soon apply starmap run_in_executor register
"""
            ):
                self._callback(args, keywords)
        except (ValueError, TypeError, binascii.Error, LookupError, UnicodeError, OverflowError):
            return Obj("?", text=DECODED)
        if not isinstance(first, Obj | str) and name.startswith("itertools."):
            return Obj(name)
        decoded = (
            DECODED if re.search(r"decode|decompress|decrypt|unhex|loads", last) and last not in ("loads",) else ""
        )
        return Obj(name, None, decoded + "".join(_marks(arg) for arg in [*args, *keywords.values()]))

    def _callback(self, args: list[Value], keywords: dict[str, Value]) -> None:
        target = keywords.get("target", args[0] if args else None)
        given = keywords.get("args", args[1:])
        if isinstance(target, Name):
            self.invoke(target, given if isinstance(given, list) else [], {})


class _Bound:
    """A method of a constant."""

    __slots__ = ("attr", "base")

    def __init__(self, base: str | bytes | list[Value] | dict[str, Value], attr: str) -> None:
        self.base, self.attr = base, attr


def _load(target: ast.expr) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load()) if isinstance(target, ast.Name) else target


def _slice(node: ast.Slice, walker: _Walker) -> slice | None:
    parts = [walker.value(part) if part is not None else None for part in (node.lower, node.upper, node.step)]
    if all(part is None or isinstance(part, int) for part in parts):
        return slice(*parts)
    return None


def _element(value: Value) -> Value:
    return Obj("?", value.path, value.text) if isinstance(value, Obj) else _UNKNOWN


def _marks(value: Value) -> str:
    if isinstance(value, Obj):
        return marks_in(value.text)
    if isinstance(value, str) and not isinstance(value, Name):
        return marks_in(value)
    if isinstance(value, list):
        return "".join(_marks(item) for item in value[:32])
    if isinstance(value, dict):
        return "".join(_marks(item) for item in list(value.values())[:32])
    return ""


def _text(value: Value) -> str:
    """The value as text of the shell; marks where it is not known."""
    if isinstance(value, Name):
        return UNSET
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else "".join(
                char if ord(char) >= 0xE000 else char.encode("utf-8", "replace").decode("latin-1") for char in value
            )
        )
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, Obj):
        if value.path is not None:
            return value.path
        return marks_in(value.text) or UNSET
    if isinstance(value, list):
        return _marks(value) or UNSET
    return UNSET


def _path(value: Value) -> str:
    return _text(value)


def _codec(data: str | bytes, name: str) -> Value:
    """`codecs.decode` for the text transforms people hide behind."""
    return (
        codecs.decode(data, name)
        if isinstance(data, bytes)
        else codecs.decode(data, "rot13")
        if name.replace("_", "") == "rot13"
        else Obj("?", text=DECODED)
    )
