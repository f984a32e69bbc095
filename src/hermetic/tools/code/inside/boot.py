# The whole program text of a script's interpreter: reads what `stubs.py` has packed from standard
# input and runs it.
import gc
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER


def take(size: int) -> bytes:  # no more than that: what follows may come with descriptors
    pieces = []
    while size:
        pieces.append(os.read(source, size))
        size -= len(pieces[-1])
        if not pieces[-1]:
            os._exit(1)
    return b"".join(pieces)


def take_part() -> bytes:
    return take(int.from_bytes(take(4), "big"))


source = 0
magic, codes, packed = marshal.loads(take_part())
sources = {}
if magic != MAGIC_NUMBER:
    codes, sources = {}, marshal.loads(__import__("zlib").decompress(packed))
start = type(sys)("_hermetic_start")
code = codes.get(start.__name__)
exec(
    marshal.loads(code) if code else compile(sources[start.__name__], start.__name__, "exec"),
    start.__dict__,
)
start.offer(codes, sources)
if sys.argv[1:] == ["asked"]:  # started by a shim: the next one is started without
    os.write(0, os.fsencode(sys.executable) + b"\0")
is_parent = sys.argv[1:] == ["warm"]
if is_parent:  # what many scripts need is there when they come
    wanted = "functools struct _socket atexit json re threading subprocess pathlib hermetic_tools _hermetic_frames"
    for name in wanted.split():
        try:
            __import__(name)
        except ImportError:
            pass
    exec(compile("sys.stdout.write('')", "", "exec"))  # what it needs of memory is there, too
    gc.collect()
gc.freeze()  # none of what is here by now is ever garbage
if is_parent:
    start.fork_scripts()
source = start.prepare()
if is_parent:
    start.rehearse(source)
place = take_part()
if place:
    os.chdir(place)
    os.environ["PWD"] = os.getcwd()
script, variables = marshal.loads(take_part())
start.run(script, variables, source)
