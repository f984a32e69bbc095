"""Text of the module that `generate_hermes_tools_module` writes: its two transports, and its
helpers.
"""

HEAD = '''"""Tools of the agent as functions. Written by a program."""

import json
import os
import shlex
import threading
import time

_SECONDS = 300  # for an answer
_lock = threading.Lock()


def _read(text):
    """The answer; one that is JSON in a text is read once more."""
    answer = json.loads(text)
    if isinstance(answer, str):
        try:
            return json.loads(answer)
        except ValueError:
            pass
    return answer
'''

SOCKET = """
import socket

_connection = None


def _call(tool, args):
    global _connection
    request = {"tool": tool, "args": args, "token": os.environ.get("HERMES_RPC_TOKEN", "")}
    with _lock:  # one call at a time: answers carry no number
        if _connection is None:
            _connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            _connection.settimeout(_SECONDS)
            _connection.connect(os.environ["HERMES_RPC_SOCKET"])
        _connection.sendall(json.dumps(request).encode() + b"\\n")
        answer = b""
        while not answer.endswith(b"\\n"):
            piece = _connection.recv(65536)
            if not piece:
                raise RuntimeError("the agent has disconnected")
            answer += piece
    return _read(answer.decode())
"""

FILE = """
import tempfile

_directory = os.environ.get("HERMES_RPC_DIR") or os.path.join(tempfile.gettempdir(), "hermes_rpc")
_number = 0


def _call(tool, args):
    global _number
    with _lock:
        _number += 1
        number = _number
    request, answer = (os.path.join(_directory, "%s_%06d" % (kind, number)) for kind in ("req", "res"))
    token = os.environ.get("HERMES_RPC_TOKEN", "")
    with open(request + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"tool": tool, "args": args, "seq": number, "token": token}, file)
    os.rename(request + ".tmp", request)
    deadline, pause = time.monotonic() + _SECONDS, 0.05
    while not os.path.exists(answer):
        if time.monotonic() > deadline:
            raise RuntimeError("no answer to %s after %d s" % (tool, _SECONDS))
        time.sleep(pause)
        pause = min(pause * 1.2, 0.25)
    with open(answer, encoding="utf-8") as file:
        text = file.read()
    os.unlink(answer)
    return _read(text)
"""

HELPERS = '''

def json_parse(text):
    """JSON that may hold control characters."""
    return json.loads(text, strict=False)


def shell_quote(s):
    """The text as one word of a shell command."""
    return shlex.quote(s)


def retry(fn, max_attempts=3, delay=2):
    """The result of `fn`, which is tried again with doubling delays; the last error is raised."""
    for attempt in range(max_attempts):
        try:
            return fn()
        except Exception:
            if attempt == max_attempts - 1:
                raise
            time.sleep(delay * 2**attempt)
'''
