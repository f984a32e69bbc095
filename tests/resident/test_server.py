"""A mistake of ours in one request costs that request, and neither the connection nor anybody's
time.
"""

import subprocess
import sys
from pathlib import Path

SERVE = """
import socket, sys, threading
from hermetic.resident.wire.frames import CREDIT, ERROR, REPLY, REQUEST, FrameReader, pack_frame
from hermetic.resident.life.loop import Loop
from hermetic.resident.life.server import Server

failures, turns, said = [], [], []
loop = Loop(lambda: failures.append(sys.exc_info()[0].__name__))

class Requests:
    def serve(self, request):
        turns.append(request.fields["op"])
        if request.fields["op"] == "hello":
            request.client.greet(b"t")
            request.reply({})
        elif request.fields["op"] == "stays":
            request.on_credit = lambda count: {}["missing"]
        else:
            raise ZeroDivisionError(request.fields["op"])

server = Server(loop, sys.argv[1], b"t", Requests().serve)

def ask(stream, *frames):
    reader, found = FrameReader(), []
    stream.sendall(b"".join(frames))
    while len(found) < len(frames) and (data := stream.recv(4096)):
        found += [(kind, number) for kind, number, _, _ in reader.feed(data)]
    return found

def client():
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(20)
        stream.connect(sys.argv[1])
        ask(stream, pack_frame(REQUEST, 1, {"op": "hello"}))
        broken = [pack_frame(REQUEST, number, {"op": "broken"}) for number in (2, 3)]
        said.append(ask(stream, *broken) == [(ERROR, 2), (ERROR, 3)])
        said.append(ask(stream, broken[0]) == [(ERROR, 2)])
        half = pack_frame(REQUEST, 4, {"op": "stays"}) + pack_frame(CREDIT, 4, {"n": 1})
        said.append(ask(stream, half) == [])  # nobody can go on: closed, not held open for nothing

def left():
    if not server.clients:
        loop.stop()

server.on_count = left
thread = threading.Thread(target=client)
thread.start()
loop.run()
thread.join()
print(said, failures)
"""


def test_a_mistake_in_one_request_costs_that_request_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SERVE, str(tmp_path / "s")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    failures = [*["ZeroDivisionError"] * 3, "KeyError"]
    assert done.stdout == f"[True, True, True] {failures}\n", done.stderr


LATE = """
import socket, sys
from hermetic.resident.wire.frames import REQUEST, pack_frame
from hermetic.resident.life.loop import Loop
from hermetic.resident.life.server import Server

loop, asked = Loop(sys.excepthook), []

class Requests:
    def serve(self, request):
        asked.append(request)
        stream.close()

server = Server(loop, sys.argv[1], b"t", Requests().serve)
left = server.left
server.left = lambda client: (left(client), loop.stop())
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream.sendall(pack_frame(REQUEST, 1, {"op": "hello"}))
loop.run()
asked[0].client.greet(b"t")
print(len(server.clients), server.attached)
"""


def test_a_client_that_has_gone_is_not_counted_when_its_greeting_is_taken_late(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE, tmp_path / "s"], capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr) == ("0 0\n", "")


CROWDED = """
import os, resource, socket, sys
from hermetic.resident.life.loop import Loop
from hermetic.resident.wire.stream import Listener

tries, failures, users = [], [], []
loop = Loop(lambda: failures.append(sys.exc_info()[0].__name__))

def accepted(connection, pid, uid):
    users.append(uid)
    connection.close()
    loop.stop()

listener = Listener(loop, sys.argv[1], 0o600, 8, accepted)
accept, listener.watch.callback = listener.watch.callback, lambda: (tries.append(1), accept())
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
loop.call_later(0.25, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
loop.run()
print(users == [os.getuid()], failures, 1 < len(tries) < 20)
"""


def test_without_a_descriptor_a_connection_waits_and_the_loop_does_not_spin(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CROWDED, tmp_path / "s"], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True [] True\n", "")
