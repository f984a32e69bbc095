"""Calls whose meaning is procedural, by the name that `hook` in calls.toml gives."""

from __future__ import annotations

import re

from hermetic.policy.effects import write
from hermetic.policy.marks import (
    DECODED,
    FILE,
    INPUT,
    LOCAL,
    NET,
    PIDS,
    SECRET,
    TOKEN,
    is_plain,
    marks_in,
)
from hermetic.policy.network import is_local
from hermetic.policy.paths import resolve
from hermetic.policy.programs.table import TABLE
from hermetic.policy.tables import names, regex

from .calls import Invocation
from .evaluation import Evaluation
from .values import UNKNOWN, Name, Obj, Value, is_text, items_of, marks_of, text_of

_MODE = re.compile(r"[wax]\w*\+?\w*|r\w*\+\w*|[>+]{1,3}<?|\+<")
_CLOUD_DELETE = re.compile(
    r"(begin_)?(delete|terminate|destroy|drop|purge|deallocate|power_off)(?!One\b)\w*|unlink|stop_(?!waiter)\w+|remove_\w+|flushall|flushdb|flushAll|batch_delete|empty"
    r"|(Delete|Terminate)\w*Command"
)
_SQL_METHODS = TABLE.words("sql-methods")
_STAR = "\ue010"
MAX_PRINTED = 4_000  # characters of a script's output that are kept
# Listings whose names begin with the directory, and arguments by which they do.
_WHOLE_PATHS = frozenset(
    names(
        "scandir find DirectoryIterator RecursiveDirectoryIterator FilesystemIterator join full.names"
    )
)
# Functions of the C library that the os module has under another name.
_LIBRARY = {
    **dict.fromkeys(("open64", "creat"), "os.open"),
    "fopen": "open",
    "unlinkat": "os.unlink",
    "renameat": "os.rename",
}
_KERNEL = re.compile(
    r"exec\w*|reboot|kill|killpg|syscall|mount|umount2?|set(re|e)?[ug]id|ptrace|init_module|delete_module|swapoff|"
    r"sethostname|settimeofday|fork|vfork|clone|posix_spawnp?|dlopen|ioctl|chroot|pivot_root|unshare|setns"
)


_WIDE_RIGHTS = regex(
    r"AdministratorAccess|PowerUserAccess|IAMFullAccess|0\.0\.0\.0/0|::/0|public-read|[Aa]ll(Authenticated)?Users"
    r"|Principal\W{1,6}(AWS\W{1,6})?\*|Action\W{1,6}\*|roles/(owner|editor)|cluster-admin"
)
_GIVES = regex(r"(attach|put|create|add|set|authorize|update|modify|grant|patch|replace)_?\w*")
_STOPS_ALL = regex(
    r"(?i)[\"'](replicas|desired_?(count|capacity)|min_?size|max_?size|node_?count)[\"']: 0\b"
)


def is_here(keywords: dict[str, Value]) -> bool:
    """True for a client of a stand-in on this machine."""
    given = (keywords.get(name) for name in ("endpoint_url", "endpoint", "base_url"))
    return any(is_text(one) and "://" in text_of(one) and is_local(text_of(one)) for one in given)


def _mounts(volumes: Value) -> list[str]:
    """The paths of the host that a container is given, and where it sees them."""
    texts = [f"{path}:/host" for path in volumes] if isinstance(volumes, dict) else []
    texts = texts or list(map(text_of, items_of(volumes)))
    return [text for text in texts if text.startswith(("/", "~"))]


class Hooks(Evaluation):
    """The hooks of calls.toml: `hook = "kill"` is `hook_kill` here."""

    def hook_open(self, made: Invocation) -> Value:
        """A file opened for reading or writing; in Perl and Ruby it may be a command."""
        args, command = made.args, ""
        if self.language == "perl" and made.name in ("open", "sysopen"):
            words = [text_of(arg).strip() for arg in args[1:]]
            mode, path = (words if len(words) > 1 else ["", *words, ""])[:2]
            glued = re.match(r"(\+?[<>]{1,2}|\|)\s*(.*)|(.*?)\s*(\|)$", path, re.DOTALL)
            if glued and not mode:
                mode, path = glued[1] or glued[4], glued[2] or glued[3] or ""
            command = " ".join([path, *words[2:]]) if "|" in mode else ""
            found = self._opened(path, mode, command)
            if args and isinstance(args[0], Name):
                self.names[args[0]] = found
            return found
        if made.owner is not None and made.owner.path is not None:
            args = [made.owner.path, *args]
        path = text_of(args[0] if args else made.keywords.get("file", ""))
        given = args[1] if len(args) > 1 else made.keywords.get("mode", "r")
        if made.name == "os.open" or (isinstance(given, Name) and "O_" in given):
            given = "r" if isinstance(given, Name) and given.endswith("O_RDONLY") else "w"
        command = path[1:] if path.startswith("|") and self.language == "ruby" else ""
        return self._opened(path, given if isinstance(given, str) else "w", command)

    def _opened(self, path: str, mode: str, command: str) -> Value:
        if command:
            self.shell(command)
            return Obj("output", text=LOCAL)
        if path.startswith("&") or not path:  # a copy of another file
            return Obj("file", None, FILE)
        if _MODE.match(mode.partition(":")[0]):
            write(self.call, self.home(path))
            return Obj("file", self.home(path), FILE)
        return Obj("file", None, self.call.input() if path.isdigit() else self.read(path))

    def hook_program(self, made: Invocation) -> Value:
        """`sh.rm("-rf", "x")`: the function's name is the program."""
        git = ["git"] if made.name.startswith("git.") else []
        name = made.last.replace("_", "-") if git else made.name.partition(".")[2]
        if made.args:
            self.call.run([*git, name, *map(text_of, made.args)], stdin="")
        return Obj("output", text=LOCAL)

    def hook_push(self, made: Invocation) -> Value:
        """What a library of git sends to another repository."""
        words = [text_of(one) for arg in made.args for one in (items_of(arg) or [arg])]
        if made.last == "push":
            forced = ["--force"] * (str(made.keywords.get("force")).lower() == "true")
            self.call.run(["git", "push", *forced, *words])
        return Obj(made.name)

    def hook_feed(self, made: Invocation) -> Value:
        """Input of a program that runs; that of a shell is code."""
        if self.has_shell and made.args:
            self.shell(made.args[0])
        return Obj("output", text=LOCAL)

    def hook_pipe(self, made: Invocation) -> Value:
        """A stream that goes into another; into a shell it is code."""
        into = made.args[0] if made.args else None
        if isinstance(into, Obj) and into.call.startswith("output.stdin") and self.has_shell:
            self.report_received()
        elif isinstance(into, Obj) and into.call.startswith(("socket", "net")):
            self.send([made.owner])
        return into

    def hook_kill(self, made: Invocation) -> Value:
        """A signal to a process; all of them by -1 or by a list of /proc."""
        numbers = [text_of(arg) for arg in made.args]
        if "-1" in numbers:
            self.call.run(["kill", "-9", "--", "-1"])
        elif made.args and isinstance(made.args[0], int) and self.language == "python":
            self.call.run(["kill", "-9", "--", str(made.args[0])])
        elif self.lists_processes or (PIDS in made.marks and not self.chosen):
            self.call.run(["kill", "-9", PIDS])
        return None

    def hook_processes(self, made: Invocation) -> Value:
        """All processes of the machine."""
        return [Obj("processes")]

    def hook_kill_each(self, made: Invocation) -> Value:
        """A signal to one of all processes; to each of them where no condition chooses."""
        if not self.chosen:
            self.call.run(["kill", "-9", PIDS])
        return None

    def hook_identity(self, made: Invocation) -> Value:
        """The process becomes another user."""
        if made.args and made.args[0] == 0:
            self.report("run-unknown", "takes the identity of another user")
        return None

    def hook_unpickle(self, made: Invocation) -> Value:
        """An object is loaded; one that the text made itself, or that a local file holds, is not
        new code.
        """
        first = made.args[0] if made.args else UNKNOWN
        if made.last == "load" and not {NET, DECODED, INPUT}.intersection(marks_of(first)):
            return UNKNOWN
        if isinstance(first, Obj):
            made_here = first.call.endswith(("dumps", "dump", "getvalue"))
            if made_here or (FILE in first.text and NET not in first.text):
                return UNKNOWN
        self.report("run-unknown", "loads an object that may run code")
        return UNKNOWN

    def hook_load(self, made: Invocation) -> Value:
        """A module or file by its name; an address is code of another machine."""
        first = made.args[0] if made.args else None
        text = re.sub(r"^(phar|zip|compress\.\w+)://", "", text_of(first) if is_text(first) else "")
        packed = (
            held
            for path, held in self.call.shell.files.items()
            if resolve(text, self.call.shell).startswith(path)
        )
        if (
            any(NET in held for held in packed)
            or NET in marks_of(first)
            or re.match(r"(https?|ftp|data):", text)
        ):
            self.report("run-download", "runs code that an address names")
        elif (held := self.call.shell.files.get(resolve(text or ".", self.call.shell))) is not None:
            self.evaluate(made.name, Obj("file", text=held) if marks_in(held) else held)
        elif text and is_plain(text):
            name = text.removeprefix("node:").removeprefix("@").replace("/promises", ".promises")
            is_run = made.name.startswith("runpy.")
            return self.invoke(Name(name + ".run"), [], {}) if is_run else Name(name)
        elif self.language == "python":
            self.report("run-unknown", "imports a module whose name is hidden")
        return UNKNOWN

    def hook_library(self, made: Invocation) -> Value:
        """C libraries by ctypes or cffi: the functions that the os module has too."""
        first = text_of(made.args[0]) if made.args else ""
        if made.owner is None:
            if first.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")):
                reason = f"loads a library from a directory open to all: {first}"
                self.report("run-decoded", reason)
            return Obj("ctypes" if made.last not in ("sizeof", "c_int", "c_char_p") else "?")
        if not first or made.last in ("LoadLibrary", "dlopen"):
            return Obj("ctypes")
        name = _LIBRARY.get(made.last, f"os.{made.last}")
        if (row := self.table.exact.get(name)) is not None:
            return self.apply(row, Invocation(name, None, made.args, {}))
        if _KERNEL.fullmatch(made.last):
            self.report("run-unknown", "calls the kernel directly")
        return UNKNOWN

    def hook_fileinput(self, made: Invocation) -> Value:
        """`fileinput.input(files, inplace=True)` rewrites the files."""
        if made.keywords.get("inplace"):
            for path in made.pick([0, "files"]):
                write(self.call, text_of(path))
        return UNKNOWN

    def hook_socket(self, made: Invocation) -> Value:
        """A method of a connection, or a function that is given one."""
        method = made.name.rpartition(".")[2]
        objects = [one for one in made.args if isinstance(one, Obj)]
        if made.owner is None and not any("socket" in one.call for one in objects):
            for file in objects[:1]:  # fwrite to a file
                if file.call == "file" and file.path:
                    self.remember(file.path, "".join(map(text_of, made.args[1:2])))
            is_socket = made.name.startswith("socket")
            return Obj("socket" if is_socket else made.name, text=made.marks)
        self.socket = True
        self.connect(made.args if method in ("connect", "connect_ex", "sendto") else [])
        given = marks_of(made.args)
        is_name = "gethost" in method or "getaddrinfo" in method
        sends = re.match(r"send|write|puts|print|end|fwrite|fputs|socket_", method)
        if (SECRET in given and (sends or is_name)) or (TOKEN in given and is_name):
            self.report_sent()
        return Obj("net" if method == "makefile" else "socket", text=NET)

    def hook_duplicate(self, made: Invocation) -> Value:
        """A file descriptor put in place of another; a socket in place of standard input is a
        shell's.
        """
        self.report_shell()
        return None

    def hook_cloud(self, made: Invocation) -> Value:
        """A client of a cloud or database: its deleting methods, and SQL."""
        method = made.last
        text = text_of(made.args[0]) if made.args else ""
        if method == "create_engine" and text.startswith("sqlite"):
            return Obj("sqlite")
        linked = [*made.args, *made.keywords.values()]
        if any(isinstance(one, Obj) and one.call.startswith("sqlite") for one in linked):
            return UNKNOWN
        self.upload(method, [text_of(one) for one in linked if is_text(one)])
        if self.is_mocked or is_here(made.keywords):
            return Obj("mocked")
        if made.name.endswith("containers.list") and "filters" not in made.keywords:
            return Obj("containers")
        if _WIDE_RIGHTS.search(given := repr(linked)) and _GIVES.match(method):
            self.report("user-account", f"gives wide rights away: {method}")
        if _STOPS_ALL.search(given):
            self.report("cloud-destroys", f"stops a shared service: {method}")
        if made.keywords.get("privileged") is True or made.keywords.get("pid_mode") == "host":
            self.report("run-unknown", "starts a container with all rights on the host")
        for mount in _mounts(made.keywords.get("volumes")):
            self.call.run(["docker", "run", "-v", mount, "image"])
        if method in _SQL_METHODS:
            self.statements(made.args, local=False)
        if _CLOUD_DELETE.fullmatch(method):
            self.report("cloud-destroys", f"deletes shared resources: {method}")
        return Obj("cloud")

    def hook_run_method(self, made: Invocation) -> Value:
        """A method `run` of an unknown object: SQL of a database, or a command of a task."""
        self.statements(made.args[:1], local=False)
        self.unknown_call([*made.args[:1], [one for one in made.args if is_text(one)]])
        return Obj(made.name)

    def hook_sqlite(self, made: Invocation) -> Value:
        """A database in a file; in the workspace or in memory its content is the agent's own."""
        path = text_of(made.args[0]) if made.args else ":memory:"
        local = path == ":memory:" or self.call.place(path)[1] in ("workspace", "temp", "null")
        return Obj("sqlite" if local else "sqlite-outside")

    def hook_variable(self, made: Invocation) -> Value:
        """An environment variable; all of them without a name."""
        if made.args and text_of(made.args[0]) == "user.home":  # of Java
            return self.call.shell.home
        return self.variable(made.args[0]) if made.args else Obj("environ", text=SECRET)

    def hook_input(self, made: Invocation) -> Value:
        """Standard input."""
        return Obj("stdin", text=INPUT if self.call.stdin is None else self.call.stdin)

    def hook_listing(self, made: Invocation) -> Value:
        """The names in a directory, or those that a pattern matches."""
        first = text_of(made.args[0]) if made.args else "."
        last = made.name.rpartition(".")[2]
        owner = made.owner.path if made.owner is not None else None
        self.lists_processes = self.lists_processes or (owner or first).startswith("/proc")
        if owner is not None:
            pattern = first.replace("*", _STAR).rpartition("/")[2] if made.args else _STAR
            return [Obj("Path", f"{owner.rstrip('/')}/{pattern}")]
        if "glob" in last or last in ("[]", "wildcard"):
            texts = map(text_of, items_of(made.args))
            return [text.replace("*", _STAR).replace("?", "\ue011") for text in texts]
        if last == "walk":
            return [[first, [_STAR], [_STAR]]]
        is_whole = last in _WHOLE_PATHS or not _WHOLE_PATHS.isdisjoint(made.keywords)
        return [Obj("Path", first.rstrip("/") + "/" + _STAR)] if is_whole else [_STAR]

    def hook_open_directory(self, made: Invocation) -> Value:
        """Perl's handle of a directory, which its first argument gets."""
        path = text_of(made.args[1]) if len(made.args) > 1 else "."
        if made.args and isinstance(made.args[0], Name):
            self.names[made.args[0]] = Obj("Path", path)
        return None

    def hook_walk(self, made: Invocation) -> Value:
        """A function called with each file below some directories as `$_`."""
        roots = made.args if "wanted" in made.keywords else made.args[1:]
        action = made.keywords.get("wanted", made.args[0] if made.args else None)
        for root in roots:
            found = Obj("Path", text_of(root).rstrip("/") + "/" + _STAR)
            self.names["_"] = self.names["File.Find.name"] = found
            self.invoke(action, [], {})
        return None

    def hook_local_sql(self, made: Invocation) -> Value:
        """SQL in a database file of the workspace."""
        self.statements(made.args[:1], local=True)
        return Obj("sqlite")

    def hook_printed(self, made: Invocation) -> Value:
        """Text that is printed, to a file or to whatever reads the script's output."""
        target = made.keywords.get("file", made.args[0] if made.args else None)
        text = " ".join(map(text_of, made.args)) + "\n"
        if isinstance(target, Obj) and target.path is not None:
            self.remember(target.path, text)
        elif len(self.call.printed) < MAX_PRINTED:
            self.call.printed += text[:MAX_PRINTED]
        return None

    def hook_change_directory(self, made: Invocation) -> Value:
        """Another current directory."""
        path = self.home(text_of(made.args[0])) if made.args else self.call.shell.home
        self.call.shell.cwd = path if path.startswith("/") else f"{self.call.shell.cwd}/{path}"
        return None

    def hook_getattr(self, made: Invocation) -> Value:
        """An attribute by its name."""
        base, key = [*made.args, None, None][:2]
        if is_text(key) and is_plain(text_of(key)):
            return self.attribute(base, text_of(key))
        hiding = ("os", "subprocess", "shutil", "builtins", "__builtins__")
        if isinstance(base, Name) and base.split(".")[0] in hiding:
            self.report("run-unknown", "picks what to run by a hidden name")
        return UNKNOWN

    def hook_namespace(self, made: Invocation) -> Value:
        """The names of a module, or of the text."""
        module = made.args[0] if made.args else None
        return Obj(made.name, str(module) if isinstance(module, Name) else None)

    def hook_operator(self, made: Invocation) -> Value:
        """operator.call calls; attrgetter and methodcaller give functions that take an attribute
        and call it.
        """
        if not made.args:
            return UNKNOWN
        if made.name.endswith("call"):
            return self.invoke(made.args[0], made.args[1:], made.keywords)
        path, rest = text_of(made.args[0]).split("."), made.args[1:]

        def take(given: list[Value], _: dict[str, Value]) -> Value:
            found = given[0] if given else UNKNOWN
            for attr in path:
                found = self.attribute(found, attr)
            calls = made.name.endswith("methodcaller")
            return self.invoke(found, rest, made.keywords) if calls else found

        return take
