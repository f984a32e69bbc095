# The whole program text of a script's interpreter: reads what `bundle.py` has packed from standard input and runs it.
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER

stream = sys.stdin.buffer
if len(sys.argv) > 1:  # ahead of its script: what many scripts need is there when it comes
    for name in ("functools", "struct", "_socket", "json", "re", "threading", "subprocess", "pathlib"):
        try:
            __import__(name)
        except ImportError:
            pass
    os.chdir(stream.read(int.from_bytes(stream.read(4), "big")))
    os.environ["PWD"] = os.getcwd()
magic, compiled, sources, script, variables = marshal.loads(stream.read())
codes = marshal.loads(compiled) if magic == MAGIC_NUMBER else {}
start = type(sys)("_hermetic_start")
exec(codes.get(start.__name__) or compile(sources[start.__name__], start.__name__, "exec"), start.__dict__)
start.run(codes, sources, script, variables)
