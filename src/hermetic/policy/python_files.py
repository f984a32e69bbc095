"""What Python calls and methods do to files: os, shutil, glob and pathlib."""

from __future__ import annotations

import re

from hermetic.policy.tables import names

from .effects import delete, read, write
from .marks import FILE
from .python_pure import Computing
from .python_values import UNKNOWN, Name, Obj, Value, path_of, text_of

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
UNHANDLED: Value = Obj("unhandled")


class FileCalls(Computing):
    """Calls that read, write, move, list or delete files."""

    written = ""  # the file last opened for writing
    lists_processes = False  # it has looked through /proc

    def file_call(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call that is about files gives; UNHANDLED for any other."""
        first = args[0] if args else next(iter(keywords.values()), None)
        if name in _DELETES:
            delete(self.call, path_of(first), recursive=_DELETES[name] or name == "os.removedirs")
            return None
        if name in ("open", "io.open", "codecs.open", "os.open", "builtins.open", "gzip.open", "bz2.open"):
            return self._open(name, args, keywords)
        if name in ("pathlib.Path", "Path", "pathlib.PosixPath", "pathlib.PurePath"):
            return Obj("Path", "/".join(path_of(arg) for arg in args) if args else ".")
        if name in ("pathlib.Path.home", "Path.home"):
            return Obj("Path", self.call.shell.home)
        if name in ("pathlib.Path.cwd", "os.getcwd", "Path.cwd"):
            return Obj("Path", self.call.shell.cwd) if "Path" in name else self.call.shell.cwd
        if name in ("os.path.expanduser", "os.path.expandvars"):
            return self._expand(text_of(first))
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
            text = path_of(first) if isinstance(first, Obj) and first.path is not None else text_of(first)
            return text.rpartition("/")[0] or "." if name.endswith("dirname") else text
        if name in ("glob.glob", "glob.iglob", "os.listdir", "os.scandir", "os.walk"):
            return self._listing(name, path_of(first))
        if name in names(
            """
os.rename os.replace shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree os.link os.symlink
os.renames
"""
        ):
            return self._transfer(name, args)
        if name in ("os.chmod", "os.chown", "os.lchown", "shutil.chown"):
            return self._permission(name, args)
        if name == "fileinput.input" and keywords.get("inplace"):
            for value in [*args, keywords.get("files")]:
                for path in value if isinstance(value, list) else [value]:
                    write(self.call, path_of(path) if path else "")
            return UNKNOWN
        if name in ("site.getusersitepackages", "site.getsitepackages", "sysconfig.get_path"):
            found = f"{self.call.shell.home}/.local/lib/python3" if "user" in name else "/usr/lib/python3/dist-packages"
            return [found] if name.endswith("getsitepackages") else found
        if name in ("tempfile.mkdtemp", "tempfile.mktemp", "tempfile.TemporaryDirectory", "tempfile.gettempdir"):
            return "/tmp" if name.endswith("gettempdir") else "/tmp/tmpXXXXXXXX"
        if name == "shutil.unpack_archive":
            self._unpack(args[1:], keywords.get("extract_dir"))
            return None
        if name in ("os.truncate", "os.mkfifo", "os.mknod"):
            write(self.call, path_of(first))
            return None
        if name == "os.chdir":
            self.call.shell.cwd = (
                path_of(first) if path_of(first).startswith("/") else self.call.shell.cwd + "/" + path_of(first)
            )
            return None
        return UNHANDLED

    def _open(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        path = path_of(args[0] if args else keywords.get("file"))
        mode = args[1] if len(args) > 1 else keywords.get("mode", "r")
        if name == "os.open":
            mode = "w" if not (isinstance(mode, Name) and mode.endswith("O_RDONLY")) else "r"
        if not isinstance(mode, str) or any(letter in mode for letter in "wax+"):
            write(self.call, path)
            self.written = path
            return Obj("file", None, FILE)
        if path.isdigit() or path == "0":
            return Obj("file", None, self.call.input())
        return Obj("file", None, read(self.call, path))

    def _unpack(self, args: list[Value], path: Value) -> None:
        """An archive that is unpacked to a directory, by place or by name."""
        target = args[0] if args else path
        if target is not None:
            self.call.run(["tar", "-x", "-f", "archive.tar", "-C", path_of(target)])

    def _expand(self, text: str) -> str:
        if text.startswith("~/") or text == "~":
            return self.call.shell.home + text[1:]
        if text.startswith("~"):
            return "/home/" + text[1:]
        return re.sub(r"\$\{?(\w+)\}?", lambda match: self.call.shell.scalar(match[1]), text)

    def _join(self, args: list[Value]) -> str:
        out = ""
        for arg in args:
            text = path_of(arg)
            out = text if text.startswith("/") else f"{out.rstrip('/')}/{text}" if out else text
        return out

    def _listing(self, name: str, path: str) -> Value:
        self.lists_processes = self.lists_processes or path.startswith("/proc")
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
        source, target = path_of(args[0]), path_of(args[1])
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
        path = path_of(args[0]) if args else ""
        self.call.run(
            ["chmod", format(mode, "o") if isinstance(mode, int) else "777", path]
            if "chmod" in name
            else ["chown", "nobody", path]
        )
        return None

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
            self.call.run(["mv", path, path_of(args[0]) if args else ""])
        elif kind == "read":
            return Obj("text", None, read(self.call, path))
        elif method == "open":
            return self._open("open", [path, *args], keywords)
        elif method in ("glob", "rglob", "iterdir"):
            pattern = text_of(args[0]).replace("*", "\ue010") if args else "\ue010"
            return [Obj("Path", path.rstrip("/") + "/" + pattern.rsplit("/", 1)[-1])]
        elif method == "expanduser":
            return Obj("Path", self._expand(path))
        elif method in ("joinpath", "with_name", "with_suffix"):
            return Obj("Path", path.rstrip("/") + "/" + "/".join(path_of(arg) for arg in args))
        elif method in ("resolve", "absolute"):
            return Obj("Path", path)
        elif method in ("exists", "is_file", "is_dir", "stat"):
            return UNKNOWN
        return UNKNOWN
