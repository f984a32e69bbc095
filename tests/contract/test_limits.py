"""The table of limits is complete, and a running resident enforces it."""

import io
import struct

import msgspec
import pytest

from hermetic.contract import limits
from hermetic.resident.life.main import read_config
from hermetic.resident.wire import fields, frames
from hermetic.resident.wire.fields import Refusal
from tests.docs.reference import limit_rows
from tests.resident.running import Client, running


def test_every_limit_has_a_positive_value_a_unit_and_a_meaning() -> None:
    documented = [name for name, _, _ in limit_rows()]
    defined = [
        name
        for name, value in vars(limits).items()
        if name.isupper() and isinstance(value, int | float)
    ]
    assert sorted(documented) == sorted(defined)
    assert [name for name in defined if getattr(limits, name) <= 0] == []


def test_a_resident_that_is_given_no_clocks_has_those_of_the_table() -> None:
    given = msgspec.msgpack.encode({"id": "r"})
    config = read_config(io.BytesIO(struct.pack(">I", len(given)) + given))
    assert (config["lease"], config["unattended"]) == (limits.LEASE, limits.UNATTENDED)
    assert config["login_timeout"] == limits.LOGIN


def test_the_resident_takes_ids_and_durations_up_to_their_limits() -> None:
    longest = "a" * limits.ID_LENGTH
    assert fields.job_id("id", longest) == longest
    with pytest.raises(Refusal):
        fields.job_id("id", longest + "a")
    assert fields.seconds("timeout", limits.DURATION - 1) == limits.DURATION - 1
    assert fields.seconds("timeout", limits.DURATION * 2) == limits.DURATION


def test_a_running_resident_cuts_commands_and_refuses_beyond_the_limits() -> None:
    with running() as place, place.client() as client:
        text = b"true " + b"x" * limits.COMMAND_SHOWN
        client.ask("start", text, id="long", text=len(text))
        described = client.ask("status", process="long")[0]["process"]["command"]
        [listed] = frames.unpack(client.ask("list")[1])
        assert len(described) == limits.COMMAND_SHOWN
        assert len(listed["command"]) == limits.COMMAND_LISTED
        takes_blobs_up_to(client, limits.BLOBS)
        takes_terminals_up_to(client, limits.TERMINAL)


def takes_blobs_up_to(client: Client, most: int) -> None:
    for number in range(most):
        client.ask("blob", blob=f"b{number}")
    with pytest.raises(AssertionError, match="use or drop some"):
        client.ask("blob", blob="one-more")


def takes_terminals_up_to(client: Client, most: int) -> None:
    client.ask("start", b"true", id="wide", text=4, pty=True, rows=most, cols=most)
    for side in ("rows", "cols"):
        with pytest.raises(AssertionError, match=f"{side} must be"):
            client.ask("start", b"true", id="wider", text=4, pty=True, **{side: most + 1})
