"""Builds a portable runtime from the running Python, the host's bash, their loader and libraries.

The tree is made for one absolute path, its prefix:

    ld.so                 the loader, which both programs name as theirs
    lib/                  their libraries
    locl/C.utf8/          the locale
    bin/bash              apart from Python, so that it can be on PATH alone
    python/bin/python3    finds python/lib/python3.N by itself, also with -I -S
"""

import errno
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hermetic.environments.runtime.elf import Elf, Unsuitable, elf_files

VERSION = 3  # of the builder: another one builds anew
DEAD = "/.hermetic"  # begins paths that lead nowhere
OLDEST_BASH = (4, 4)
STEP_SECONDS = 120.0  # for one program of the build
LIBRARY_PATH = "LD_LIBRARY_PATH"
LOCALES = ("C.utf8", "C.UTF-8")
# Opened by name at run time, by a libc before 2.34.
BESIDE_LIBC = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")

# Parts of the standard library that no script in an environment can use, or that need a screen.
LEFT_OUT = re.compile(
    r"(test|tests|idlelib|tkinter|turtledemo|turtle\.py|ensurepip|lib2to3|venv|pydoc_data|distutils|(site|dist)-packages"
    r"|__pycache__|config-.*|(_tkinter|_test|_xx|xx|_ctypes_test|_dbm|_gdbm|nis|ossaudiodev|readline)\b.*)"
)
# What uploads hold, with all that these import: the resident's modules, and those of most scripts.
LEAN = """
__future__ _strptime base64 bisect collections.abc contextlib copy ctypes dataclasses datetime encodings.ascii
encodings.latin_1 encodings.utf_8 enum errno fcntl fnmatch functools gc glob hashlib heapq io itertools json
math operator os pathlib pickle pty random re resource select selectors shlex shutil signal socket stat string
struct subprocess tarfile tempfile termios textwrap threading time traceback tty types typing weakref zlib
"""
# Prints the files of modules. OpenSSL is the largest library by far; hashlib has digests of its own.
# A module may put another one in its place, as collections.abc does: the file of its name counts too.
CLOSURE = """\
import os, sys
sys.modules.update(dict.fromkeys(("_hashlib", "_ssl", "ssl", "_bz2", "_lzma")))
for name in sys.argv[1:]:
    __import__(name)
for name, module in list(sys.modules.items()):
    if getattr(module, "__file__", None):
        print(module.__file__)
        print(os.path.join(os.path.dirname(os.__file__), *name.split(".")) + ".py")
"""
# Appended to ssl.py: images keep their certificates at other paths than the host's OpenSSL looks
# at.
CERTIFICATES = '''

def _load_default_certs(self, purpose=Purpose.SERVER_AUTH, *, _load=SSLContext.load_default_certs):
    """Loads the certificates of this environment, wherever its distribution keeps them."""
    _load(self, purpose)
    paths = get_default_verify_paths()
    if paths.cafile is None and paths.capath is None:
        for path in (
            "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem", "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
        ):
            if os.path.isfile(path):
                self.load_verify_locations(path)
                break


SSLContext.load_default_certs = _load_default_certs
'''
# imported by the check of the whole standard library; it needs the data of sysconfig
WHOLE = ("zoneinfo",)
COMPILE = """\
import compileall, py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
source, name, level = sys.argv[1:]
options = dict(quiet=1, legacy=True, workers=0, optimize=int(level), invalidation_mode=mode)
sys.exit(not compileall.compile_dir(source, ddir=name, **options))
"""
# Run in an empty root. Everything has to come from the prefix, and bash has to know UTF-8.
CHECK = """\
import sys, ctypes, fcntl, json, select, socket, struct, subprocess, zlib
assert sys.prefix.startswith(sys.argv[1]), sys.prefix
for name in sys.argv[2:]:
    __import__(name)
said = subprocess.run([sys.argv[1] + "/bin/bash", "-c", 'x=\\u00e4; echo "${BASH_VERSINFO[*]:0:2}" "${#x}"'],
                      env={"LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE, check=True).stdout
print("runtime", *said.decode().split())
"""


class Built(NamedTuple):
    """What a runtime was built from: the version of its Python, and its programs and libraries on
    this machine.
    """

    version: str
    sources: list[Path]


def source_files() -> tuple[Path, Path]:
    """The files of the running Python and of the host's bash, static if there is one.

    Raises Unsuitable.
    """
    python = Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    bash = shutil.which("bash-static") or shutil.which("bash")
    if bash is None:
        raise Unsuitable("no bash on PATH; install bash, or bash-static")
    return python, Path(os.path.realpath(bash))


def build(root: Path, *, prefix: str, lean: bool) -> Built:
    """Builds the runtime for `prefix` below the empty directory `root`.

    Raises Unsuitable, OSError.
    """
    tree = root / prefix[1:]
    for name in ("lib", "bin", "python/bin"):
        (tree / name).mkdir(parents=True)
    python, bash = source_files()
    loader = Elf(python).interpreter
    if loader is None:
        raise Unsuitable(f"{python} has no loader: it is linked statically")
    modules = (
        tree
        / "python"
        / sys.platlibdir
        / f"python{sys.version_info.major}.{sys.version_info.minor}"
    )
    extensions = _copy_modules(modules, _closure(python) if lean else None)
    if (ssl := modules / "ssl.py").exists():
        ssl.write_text(ssl.read_text() + CERTIFICATES)
    level = "2" if lean else "0"  # without docstrings
    _run(
        [python, "-I", "-S", "-c", COMPILE, modules, f"{prefix}/{modules.relative_to(tree)}", level]
    )
    for path in modules.rglob("*.py"):
        path.unlink()
    _copy(python, tree / "python/bin/python3")
    _copy(bash, tree / "bin/bash")
    libraries = _libraries([python, bash, *extensions])
    for library in libraries:
        if os.path.realpath(library) != os.path.realpath(loader):
            _copy(library, tree / "lib" / library.name)
    if strip := shutil.which("strip"):
        _run([strip, "--strip-unneeded", *(elf.path for elf in elf_files(tree))])
    _copy(Path(loader), tree / "ld.so")
    _copy_locale(tree / "locl")
    _rewrite(tree, prefix)
    _check(root, prefix, () if lean else WHOLE)
    return Built(
        sys.version.split()[0], [python, bash, Path(loader), *extensions, *sorted(libraries)]
    )


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _copy_modules(target: Path, files: set[str] | None) -> list[Path]:
    """Copies the standard library, or these files of it; the extension modules among them, as they
    were.
    """
    stdlib = Path(sysconfig.get_path("stdlib"))
    (target / "lib-dynload").mkdir(parents=True)
    extensions = []
    for folder, below, names in os.walk(stdlib):
        below[:] = [name for name in below if not LEFT_OUT.fullmatch(name)]
        for name in names:
            path = Path(folder, name)
            if (
                LEFT_OUT.fullmatch(name)
                or path.suffix not in (".py", ".so")
                or (files and str(path) not in files)
            ):
                continue
            if path.suffix == ".so":
                extensions.append(path)
            (target / path.relative_to(stdlib)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.relative_to(stdlib))
    return extensions


def _closure(python: Path) -> set[str]:
    """The files of the lean standard library."""
    return set(_run([python, "-I", "-S", "-c", CLOSURE, *LEAN.split()]).split("\n"))


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The libraries that these files need, as the host's loader finds them."""
    said = _run(["ldd", *programs], may_fail=True)
    found = {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE)}
    libc = [path for path in found if path.name.startswith("libc.so")]
    version = re.findall(r"\d+", os.confstr("CS_GNU_LIBC_VERSION") or "")
    has_own_services = tuple(map(int, version)) >= (2, 34)
    beside = [path.with_name(name) for path in libc for name in BESIDE_LIBC if not has_own_services]
    return found.union(path for path in beside if path.exists())


def _copy_locale(target: Path) -> None:
    """Copies C.UTF-8. Without it, bash counts bytes instead of characters."""
    for name in LOCALES:
        source = Path("/usr/lib/locale", name)
        if source.is_dir():
            shutil.copytree(source, target / LOCALES[0], copy_function=shutil.copyfile)
            return


def _rewrite(tree: Path, prefix: str) -> None:
    libraries = f"{prefix}/lib"
    has_default = False
    for elf in sorted(elf_files(tree), key=lambda elf: elf.path.name != "ld.so"):
        is_program = elf.interpreter is not None
        if elf.path.name == "ld.so":
            has_default = elf.set_default_directories(libraries) > 0
            elf.replace_paths("/etc/ld.so.cache", f"{DEAD}/cache")
            elf.replace_paths("/etc/ld.so.preload", f"{DEAD}/preload")
        else:
            elf.set_interpreter(f"{prefix}/ld.so")
            if (
                not elf.set_library_path(libraries, may_add=is_program)
                and is_program
                and not has_default
            ):
                raise Unsuitable(f"{elf.path.name} has no room for a library path")
        elf.replace_paths("/usr/lib/locale", f"{prefix}/locl")
        for match in set(re.findall(rb"(?<=\0)/usr/lib[^\0]*?/gconv(?=[\0/])", elf.data)):
            elf.replace_paths(match.decode(), f"{DEAD}/gconv")
        elf.save()


def _check(root: Path, prefix: str, modules: Sequence[str]) -> None:
    """Runs both programs in the root that holds nothing else, where this user can enter one.

    Raises Unsuitable.
    """
    chroot = ("chroot", str(root))
    entering = [
        chroot,
        ("unshare", "--user", "--map-root-user", *chroot),
        ("bwrap", "--bind", str(root), "/"),
    ]
    for enter in entering if os.geteuid() == 0 else entering[1:]:
        probe = ["/" if word == str(root) else word for word in enter]
        try:
            _run([*probe, "true"])
        except Unsuitable:
            continue
        said = _run(
            [*enter, f"{prefix}/python/bin/python3", "-I", "-S", "-c", CHECK, prefix, *modules]
        ).split()
        if said[:1] != ["runtime"] or tuple(map(int, said[1:3])) < OLDEST_BASH:
            raise Unsuitable(
                f"bash {'.'.join(said[1:3])} is too old; install {'.'.join(map(str, OLDEST_BASH))}"
            )
        return


def _run(argv: Sequence[str | Path], *, may_fail: bool = False) -> str:
    """The output of a program. Raises Unsuitable; OSError if the disk is full."""
    environ = {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin", "LC_ALL": "C"}
    if LIBRARY_PATH in os.environ:  # this Python may need it
        environ[LIBRARY_PATH] = os.environ[LIBRARY_PATH]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=STEP_SECONDS,
            cwd="/",
            env=environ,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unsuitable(f"{argv[0]} failed: {error}") from error
    # compileall prints errors
    if done.returncode and os.strerror(errno.ENOSPC) in done.stderr + done.stdout:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode and not may_fail:
        raise Unsuitable(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout
