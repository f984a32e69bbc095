"""The writer of recordings: bounded, without secrets, with the time of every piece."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.errors import InvalidArgument
from hermetic.recordings import store as stores
from hermetic.recordings.cast import FULL, CastWriter, Header, read_cast
from hermetic.recordings.store import Store
from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.redactor import Redactor

SECRET = "correct-horse-battery-staple"
KEY = [
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACBLkeXQ0dKIxrFVyYUy5ZuXQm1Qb3n0bqBqz0cKp3G6mQAAAJgQ7QZyEO0G",
    "-----END OPENSSH PRIVATE KEY-----",
]


def written(*pieces: tuple[float, bytes], **options: Any) -> list[Any]:
    """The events of a recording of these pieces."""
    file = io.BytesIO()
    writer = CastWriter(file, Header(width=80, height=24), **options)
    for at, data in pieces:
        writer.output(at, data)
    writer.close()
    return [json.loads(line) for line in file.getvalue().splitlines()][1:]


def test_pieces_keep_their_times_and_broken_characters_are_joined() -> None:
    assert written((0.5, b"a"), (1.0, b"b\r\n\xe2\x82"), (2.0, b"\xac"), (1.5, b"\xff")) == [
        [0.5, "o", "a"],
        [1.0, "o", "b\r\n"],
        [2.0, "o", "€"],
        [2.0, "o", "\ufffd"],
    ]


def test_a_secret_in_pieces_is_hidden() -> None:
    redact = Redactor([KnownSecret("TOKEN", SECRET)]).redact
    events = written(
        *((float(at), letter.encode()) for at, letter in enumerate(SECRET)),
        (99.0, b"\r\nx"),
        redact=redact,
    )
    assert SECRET not in "".join(event[2] for event in events)
    assert events[0][0] == 0.0
    assert "hidden by hermetic" in events[0][2]
    assert events[-1] == [99.0, "o", "x"]


def test_a_private_key_of_several_lines_is_hidden() -> None:
    lines = [(float(at), f"{line}\r\n".encode()) for at, line in enumerate(KEY)]
    events = written((0.0, b"$ cat key\r\n"), *lines, (9.0, b"$ "), redact=Redactor().redact)
    text = "".join(event[2] for event in events)
    assert not any(line in text for line in KEY[1:3])
    assert text.startswith("$ cat key\r\n")
    assert text.endswith("$ ")


def test_a_recording_ends_at_its_limit() -> None:
    events = written(*((float(at), b"x" * 100 + b"\n") for at in range(100)), most=2000)
    assert len(json.dumps(events)) < 2500
    assert events[-1][1:] == ["m", FULL]


def test_marks_and_sizes_are_written_in_order() -> None:
    file = io.BytesIO()
    writer = CastWriter(
        file,
        Header(width=80, height=24, title="t\udcff"),
        redact=lambda text: text.replace("s3", "*"),
    )
    writer.output(1.0, b"half a line")
    writer.mark(2.0, "$ s3 \udcff")
    writer.resize(3.0, 50, 132)
    writer.close()
    file.seek(0)
    header, events = read_cast(file)
    assert header.title == "t\\udcff"
    assert list(events) == [
        (1.0, "o", "half a line"),
        (2.0, "m", "$ * \\udcff"),
        (3.0, "r", "132x50"),
    ]


def test_marks_of_a_shells_integration_are_command_borders() -> None:
    events = written((1.0, b"$ \x1b]133;C\x07make\r\n"), (2.0, b"done\r\n\x1b]133;D;2\x1b\\$ "))
    assert [event[1:] for event in events if event[1] == "m"] == [
        ["m", "a command begins"],
        ["m", "a command ended: 2"],
    ]


def test_the_oldest_recordings_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_KEPT", 3)
    store = Store(tmp_path / "recordings")
    names = []
    for number in range(5):
        id, file = store.create(1_700_000_000 + number)
        with file:
            CastWriter(file, Header(width=80, height=24, title=str(number))).close()
        names.append(id)
    assert [one.id for one in store.all()] == names[:1:-1]
    assert ((tmp_path / "recordings").stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize(
    "id", ["", "../../etc/passwd", "rec-1", "rec-20260101-000000-12345678/../x"]
)
def test_only_ids_of_recordings_name_files(id: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        Store(tmp_path).path(id)
