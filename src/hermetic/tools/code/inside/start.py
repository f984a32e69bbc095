"""Makes an interpreter that has just read its script look as if it had been started with it, and
runs it.
"""

from __future__ import annotations

import gc
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn

SCRIPT = "script.py"  # what tracebacks call it
READY = b"\xff" * 4  # what a parent says when it can fork
REQUEST_BYTES = 128
AT_ONCE = 0.01  # seconds
REHEARSED = "import sys\nfrom hermetic_tools import _TOOLS\ndef check(a, *b, **c):\n    return [a, b, {1: c}, f'{a}']\n"
REHEARSED_LOOP = "for one in (1, 2):\n    if check(one, 'text', key=[one]) == 0:\n        print('never', file=sys.stderr)\n"

here: set[str] = set()  # the names of modules that were there before the script


class Modules:
    """Imports our modules from memory; there is no directory of ours that a script could be misled
    by.
    """

    codes: dict[str, bytes] = {}
    sources: dict[str, str] = {}
    same = {"hermes_tools": "hermetic_tools"}

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> Any:
        if cls.same.get(name, name) in (cls.codes or cls.sources):
            return type(sys.__spec__)(name, cls)  # type: ignore[arg-type]  # it has what a loader needs
        return None

    @classmethod
    def create_module(cls, spec: Any) -> Any:
        return __import__(cls.same[spec.name]) if spec.name in cls.same else None

    @classmethod
    def exec_module(cls, module: Any) -> None:
        name = module.__name__
        if not hasattr(module, "__loaded__"):
            module.__loaded__ = True
            code = cls.codes.get(name)
            exec(
                marshal.loads(code) if code else compile(cls.sources[name], name, "exec"),
                module.__dict__,
            )

    @classmethod
    def get_source(cls, name: str) -> str | None:
        return cls.sources.get(cls.same.get(name, name))


class NoFile:
    """Raises an error where the script is to be imported in a new interpreter, as multiprocessing
    does.
    """

    def __bool__(self) -> bool:
        return False

    @property
    def name(self) -> NoReturn:
        raise RuntimeError(
            "a script of execute_code is not a file that a new interpreter can import: "
            "fork instead, with multiprocessing.get_context('fork'), or use threads"
        )


def offer(codes: dict[str, bytes], sources: dict[str, str]) -> None:
    """From now on our modules can be imported."""
    Modules.codes, Modules.sources = codes, sources
    sys.meta_path.insert(0, Modules)


def fork_scripts() -> None:
    """Forks a copy for each request of the resident; returns in the copy, with standard streams of
    its own.

    A copy is forked twice, so that it becomes the resident's own child. A request has the copy's
    mark and three descriptors; the answer is the pid of the copy, 0 where there is none.
    """
    sockets = __import__("_socket")
    control = sockets.socket(fileno=0)
    control.send(READY)
    while True:
        data, rights, _, _ = control.recvmsg(REQUEST_BYTES, sockets.CMSG_SPACE(12))
        if not data:
            os._exit(0)
        streams = [int.from_bytes(rights[0][2][at : at + 4], sys.byteorder) for at in (0, 4, 8)]
        try:
            between = os.fork()
            if not between:
                break
            os.waitpid(between, 0)
        except OSError:
            control.send(bytes(4))
        for fd in streams:
            os.close(fd)
    pid = 0
    orphaned, until = os.pipe()  # ends with this process
    try:
        pid = os.fork()
        if pid:
            control.send(pid.to_bytes(4, "big"))
    except OSError:
        control.send(bytes(4))
        pid = -1
    if pid:
        os._exit(0)
    control.detach()
    os.close(until)
    os.read(orphaned, 1)
    os.close(orphaned)
    os.setsid()
    for target, fd in enumerate(streams):
        os.dup2(fd, target)
        os.close(fd)
    name, _, value = data.rstrip(b"\0").decode().partition("=")
    os.environ[name] = value


def prepare() -> int:
    """What does not depend on the script; returns the descriptor that it is read from, which takes
    our last word.
    """
    source = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        # Line by line: what was printed before a script is ended is not lost.
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", line_buffering=True)  # type: ignore[union-attr]
    sys.argv[:] = [SCRIPT]
    here.update(sys.modules)
    return source


def rehearse(source: int) -> None:
    """Runs a script that does nothing, in a copy whose own does not come at once.

    The kernel copies each page of memory at the first write. Those that a short script writes to
    are copied now.
    """
    select = sys.modules.get("select")
    if select is None or select.select([source], [], [], AT_ONCE)[0]:
        return
    os.environ.update(HERMETIC_BRIDGE="")
    main = type(sys)("__main__")
    evaluate(REHEARSED + REHEARSED_LOOP * 8, main)
    all(map(is_plain, imported()))
    main.__dict__.clear()
    write_files()
    del os.environ["HERMETIC_BRIDGE"]
    gc.collect()
    gc.freeze()


def evaluate(script: str, main: Any) -> None:
    main.__dict__.update(__builtins__=__builtins__, __file__=SCRIPT, __spec__=NoFile())
    exec(compile(script, SCRIPT, "exec", dont_inherit=True), main.__dict__)


def run(script: str, variables: dict[str, str], source: int) -> None:
    os.environ.update(variables)
    report = os.getpid(), source
    # Modules beside the script's files can be imported, and never stand before the standard
    # library's.
    sys.path[:] = [folder for folder in sys.path if folder] + [os.getcwd()]
    main = sys.modules["__main__"] = type(sys)("__main__")
    sys.excepthook = lambda kind, error, trace: show(kind, error, trace, script)
    code: object = 0
    try:
        evaluate(script, main)
    except SystemExit as end:
        code = end.code
    leave(report, main.__dict__, code)


def imported() -> list[Any]:
    """The modules that were imported since."""
    return [module for name, module in sys.modules.items() if name not in here]


def leave(report: tuple[int, int], variables: dict[str, Any], code: object) -> NoReturn:
    """Ends the process as Python does, and without taking its modules apart, which takes as long as
    a short script.

    Threads have ended, exit functions have run, and the script's objects are released, so that its
    files are written. The kernel takes as long again for the memory: the resident gets the exit
    code before that.
    """
    is_simple = code is None or (isinstance(code, int) and abs(code) < 1 << 62)
    if not is_simple or not all(map(is_plain, imported())):
        raise SystemExit(code)
    assert code is None or isinstance(code, int), "it is simple"
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    __import__("atexit")._run_exitfuncs()
    write_files()
    variables.clear()
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # closed, or without a reader
        sys.exit(code)
    status = (code or 0) & 0xFF
    pid, way = report
    if pid == os.getpid():  # else a forked child has come to the end of its parent's script
        try:
            os.write(way, bytes((status,)))
        except OSError:  # the script has closed it
            pass
    os._exit(status)


def write_files() -> None:
    """What the script's files still hold: one in a ring of references could be closed before its
    text is written.
    """
    io = sys.modules["io"]
    for thing in gc.get_objects():
        if issubclass(type(thing), (io.TextIOWrapper, io.BufferedWriter)):
            try:
                thing.flush()
            except Exception:  # closed, detached, or one of the script's own making
                pass


LIBRARY = os.path.dirname(os.__file__) + os.sep


def is_plain(module: Any) -> bool:
    """A module of the standard library, or ours: none that could hold a file open for the script."""
    path = getattr(module, "__file__", None)
    return path is None or (path.startswith(LIBRARY) and "-packages" not in path)


def show(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None, script: str
) -> None:
    """The traceback from the script's own first line on, with its lines."""
    traceback, linecache = __import__("traceback"), __import__("linecache")
    linecache.cache[SCRIPT] = len(script), None, script.splitlines(True), SCRIPT
    while trace is not None and trace.tb_frame.f_code.co_filename != SCRIPT:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
