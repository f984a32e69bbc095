"""Mutated frames against the resident's end: no crash, no hang, no growth, and everybody else goes
on.
"""

import random
import socket
from typing import Any

import pytest

from hermetic.resident.wire.frames import CANCEL, CREDIT, REQUEST, pack_frame
from tests.link.test_mutated_frames import mutate
from tests.resident.running import Resident, running
from tests.sizes import scale

# No good request here may end the resident: a mutation that is still a good frame is carried out.
REQUESTS: list[tuple[dict[str, Any], bytes]] = [
    ({"op": "run", "id": "r1", "text": 4, "timeout": 0.2, "limit": 10}, b"true"),
    ({"op": "start", "id": "s1", "text": 4, "stdin": "null"}, b"true"),
    (
        {
            "op": "start",
            "id": "s2",
            "text": 4,
            "argv": True,
            "stdin": "inline",
            "env": {"A": "b"},
            "cwd": "/",
        },
        b"trueinput",
    ),
    ({"op": "read", "log": "r1", "offset": 0, "limit": 100, "wait": 0.001}, b""),
    ({"op": "follow", "log": "r1", "offset": 0, "credit": 100, "hold": True}, b""),
    ({"op": "status", "process": "s1"}, b""),
    ({"op": "write", "process": "s1"}, b"some input"),
    ({"op": "blob", "blob": "b1"}, b"content"),
    ({"op": "signal", "process": "s1", "signal": 15}, b""),
    ({"op": "list"}, b""),
    ({"op": "info"}, b""),
    ({"op": "sessions"}, b""),
    ({"op": "read_file", "path": "/etc/hostname"}, b""),
]


def good_frames() -> list[bytes]:
    frames = [
        pack_frame(REQUEST, number + 2, fields, body)
        for number, (fields, body) in enumerate(REQUESTS)
    ]
    return [*frames, pack_frame(CREDIT, 6, {"n": 1000}), pack_frame(CANCEL, 2, {})]


def throw(resident: Resident, frames: list[bytes]) -> None:
    """Greets and sends; whatever comes back is read away, and a closed connection is a good answer."""
    with resident.connect() as stream:
        stream.sendall(
            pack_frame(
                REQUEST,
                1,
                {"op": "hello", "versions": [1], "token": resident.token, "client": "fuzz"},
            )
        )
        try:
            for frame in frames:
                stream.sendall(frame)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass
        except OSError:
            pass


@pytest.mark.slow
def test_a_hundred_thousand_mutated_frames_do_no_harm() -> None:
    chance = random.Random(7625)
    good = good_frames()
    with running() as resident, resident.client() as client:
        for _ in range(40):
            throw(resident, [mutate(chance.choice(good), chance) for _ in range(5)])
        before, _ = client.ask("info")
        left = scale(100_000)
        while left > 0:
            count = chance.randint(1, 10)
            throw(resident, [mutate(chance.choice(good), chance) for _ in range(count)])
            left -= count
        assert client.run("echo fine")[1] == b"fine\n"
        after, _ = client.ask("info")
        assert after["rss"] - before["rss"] < 8 << 20
        assert after["descriptors"] - before["descriptors"] < 20
        assert after["clients"] == 1
