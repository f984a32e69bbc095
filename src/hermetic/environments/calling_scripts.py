"""Scripts for environments that are reached by calls alone: Python code with input and output as
text.

A script carries bytes as base64 in a here-document. Its answer stands between two markers, so that
other output of a shell or an SDK does no harm.
"""

import base64
import binascii
import re
import shlex
import zlib

from hermetic.link.archive import NO_PYTHON_CODE

MARK = "hermetic:answer:"
END = "HERMETIC_END"  # of a script's input; "_" is no letter of base64
AROUND = 8_000  # characters of a script that are not its input

_ANSWER = re.compile(rf"{MARK}([A-Za-z0-9+/=]*):")

_BEFORE = f"""\
import base64, os, sys
sys.version_info >= (3, 8) or sys.exit({NO_PYTHON_CODE})
given = base64.b64decode(sys.stdin.buffer.read())
def answer(data):
    os.write(1, b"{MARK}" + base64.b64encode(data) + b":\\n")
"""

# FILE: appends the input to a file.
PUT = """\
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
with open(fd, "ab") as file:
    file.write(given)
answer(b"")
"""

# FILE BOOT: becomes a resident, with the compressed input in the file; answers with its readiness
# frame.
START = """\
import io, zlib
path, boot = sys.argv[1:]
with open(path, "rb") as file:
    packed = file.read()
os.unlink(path)
ours, theirs = os.pipe()
if os.fork() == 0:
    os.dup2(theirs, 1)
    sys.stdin = io.TextIOWrapper(io.BytesIO(zlib.decompress(packed)))
    del packed
    exec(boot, {"__name__": "__main__"})
os.close(theirs)
with open(ours, "rb") as said:  # to its end: a resident that is ready closes it
    ready = said.read()
os.wait()
ready and answer(ready)
"""

# PATH WAIT CODE ARGUMENT…: runs that Python code, which begins a stream, as a child, and a relay that
# listens at PATH; answers "+" then. The relay writes to the child what calls bring, and passes what
# the child says to a call that waits up to WAIT seconds. It exits after the child, or on request.
RELAY = """\
import select, socket, time
place, wait = sys.argv[1], float(sys.argv[2])
stream, theirs = socket.socketpair()
os.umask(0o077)
listener = socket.socket(socket.AF_UNIX)
listener.bind(place)
listener.listen(16)
if os.fork():
    answer(b"+")
    os._exit(0)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
if os.fork() == 0:
    for number in range(2):
        os.dup2(theirs.fileno(), number)
    for end in (stream, theirs, listener):
        end.close()
    code = sys.argv[3]
    sys.argv[1:] = sys.argv[4:]
    exec(code, {"__name__": "__main__"})
    os._exit(0)
theirs.close()
REST = 2.0  # seconds for a last call to fetch the rest
MOST, SOON = 4 << 20, 0.003  # bytes of one call, and seconds to wait for more
waiting, since, until = None, 0.0, float("inf")
poll = select.poll()
poll.register(listener, select.POLLIN)
def hand_out(data):
    global waiting
    try:
        waiting.sendall(data)
    except OSError:
        pass
    waiting.close()
    waiting = None
def hear(caller):
    global waiting, since
    verb = caller.recv(1)
    if verb == b">":
        if waiting:
            hand_out(b"+")
        waiting, since = caller, time.monotonic()
        return True
    while verb == b"<":
        data = caller.recv(65536)
        if not data:
            caller.sendall(b"+")
            caller.close()
            return True
        stream.sendall(data)
    return False
try:
    while waiting or time.monotonic() < until:
        if waiting or until == float("inf"):  # without a waiting call, poll for hang-up only
            poll.register(stream, select.POLLIN if waiting else 0)
        else:
            poll.unregister(stream)
        pause = (since + wait if waiting else until) - time.monotonic()
        found = dict(poll.poll(max(pause, 0) * 1000 if pause < 1e6 else None))
        if stream.fileno() in found:
            if waiting:
                data = stream.recv(1 << 20)
                if not data:
                    break
                parts = [b"+", data]
                while data and sum(map(len, parts)) < MOST and select.select([stream], [], [], SOON)[0]:
                    data = stream.recv(1 << 20)
                    parts.append(data)
                hand_out(b"".join(parts))
            else:
                until = min(until, time.monotonic() + REST)
        if listener.fileno() in found and not hear(listener.accept()[0]):
            break
        if waiting and time.monotonic() - since >= wait:
            hand_out(b"+")
except OSError:
    pass
finally:
    if waiting:
        hand_out(b"-")
    if os.path.lexists(place):
        os.unlink(place)
"""

# PATH VERB: sends a request to the relay; answers with its answer, or "-" if it has exited.
SAY = """\
import socket
stream = socket.socket(socket.AF_UNIX)
said = []
try:
    stream.connect(sys.argv[1])
    stream.sendall(sys.argv[2].encode() + given)
    stream.shutdown(socket.SHUT_WR)
    while True:
        data = stream.recv(1 << 20)
        if not data:
            break
        said.append(data)
except OSError:
    pass
answer(b"".join(said) or b"-")
"""
PUSH, PULL, LEAVE = "<", ">", "."


class NoAnswer(Exception):
    """A call failed; the message is its output."""


def script(python: str, code: str, *arguments: str, given: bytes = b"") -> str:
    """A text for any shell that runs code by that Python there, with `given` as its input."""
    words = shlex.join([python, "-I", "-S", "-c", _BEFORE + code, *arguments])
    return (
        f"command -v {python} >/dev/null 2>&1 || exit {NO_PYTHON_CODE}\n"
        f"{words} <<'{END}'\n{base64.b64encode(given).decode()}\n{END}\n"
    )


def shell_script(text: str, given: bytes) -> str:
    """The same for a script of the shell itself."""
    return f"base64 -d <<'{END}' | (\n{base64.encodebytes(given).decode()}{END}\n{text})\n"


def answered(text: str, code: int) -> bytes:
    """The script's answer. Raises NoAnswer."""
    found = _ANSWER.search(text)
    if found is None:
        raise NoAnswer(f"{text.strip()[-4000:] or 'it said nothing'} (exit code {code})")
    try:
        return base64.b64decode(found[1], validate=True)
    except binascii.Error as error:
        raise NoAnswer(f"its answer is no base64: {error}") from None


def room(longest_script: int) -> int:
    """How many bytes of input fit into a script, as base64."""
    return (longest_script - AROUND) * 3 // 4


def packed(data: bytes, size: int) -> list[bytes]:
    """The parts of at most `size` bytes in which START finds its input."""
    whole = zlib.compress(data, 6)
    return [whole[at : at + size] for at in range(0, len(whole), size)]
