# The whole program text of a script's interpreter: reads what `bundle.py` has packed from standard input and runs it.
import gc
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER

stream = sys.stdin.buffer
magic, codes, packed = marshal.loads(stream.read(int.from_bytes(stream.read(4), "big")))
sources = {}
if magic != MAGIC_NUMBER:
    codes, sources = {}, marshal.loads(__import__("zlib").decompress(packed))
start = type(sys)("_hermetic_start")
code = codes.get(start.__name__)
exec(marshal.loads(code) if code else compile(sources[start.__name__], start.__name__, "exec"), start.__dict__)
start.offer(codes, sources)
if len(sys.argv) > 1:  # ahead of its script: what many scripts need is there when it comes
    wanted = "functools struct _socket atexit json re threading subprocess pathlib hermetic_tools _hermetic_frames"
    for name in wanted.split():
        try:
            __import__(name)
        except ImportError:
            pass
    exec(compile("sys.stdout.write('')", "", "exec"))  # what it needs of memory is there, too
    gc.collect()
gc.freeze()  # none of what is here by now is ever garbage
place = stream.read(int.from_bytes(stream.read(4), "big"))
if place:
    os.chdir(place)
    os.environ["PWD"] = os.getcwd()
script, variables = marshal.loads(stream.read(int.from_bytes(stream.read(4), "big")))
start.run(script, variables)
