"""What a host remembers: private, whole, found by task, opened by one at a time."""

import asyncio
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermetic.contract.environment import EnvironmentRecord
from hermetic.registry.records import RECORD, DamagedRecord, Records, id_for_task, new_id


def record(records: Records, id: str, task: str | None = None) -> EnvironmentRecord:
    return EnvironmentRecord(
        id=id,
        kind="local",
        task=task,
        options={"lease": 1.0},
        created=time.time(),
        directory=str(records.root / id),
        spool=None,
        socket="/s",
        token=b"\x00\xff",
        resident="r",
        pid=1,
        guardian=None,
    )


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_a_record_is_found_by_task_and_by_id(records: Records) -> None:
    id = id_for_task("build")
    records.make_directory(id)
    written = record(records, id, "build")
    records.write(written)
    assert records.find("build") == records.find(id) == written
    assert records.find("other") is None
    assert records.find("../build") is None
    assert (records.root / id / RECORD).stat().st_mode & 0o777 == 0o600
    assert (records.root / id).stat().st_mode & 0o777 == 0o700


def test_records_are_listed_and_broken_ones_left_out(records: Records) -> None:
    ids = [new_id() for _ in range(3)]
    for id in ids:
        records.make_directory(id)
    records.write(record(records, ids[0]))
    records.write(record(records, ids[1]))
    (records.root / ids[2] / RECORD).write_bytes(b"{half")
    assert [one.id for one in records.all()] == ids[:2]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "e-other"),
        ("directory", "/etc"),
        ("directory", "{root}"),
        ("spool", "/srv"),
        ("spool", "{root}/../e-1.{mark}.x/.."),
        ("spool", "{root}/e-2.{mark}.0a"),
        ("spool", "e-1.{mark}.0a"),
    ],
)
def test_a_record_that_names_what_is_not_its_own_is_damaged(
    records: Records, field: str, value: str
) -> None:
    records.make_directory("e-1")
    sound = msgspec.structs.replace(
        record(records, "e-1"), spool=f"/var/tmp/x/e-1.{records.tag}.0a1b"
    )
    records.write(sound)
    assert records.read("e-1") == sound
    changed = msgspec.to_builtins(sound) | {
        field: value.format(root=records.root, mark=records.tag)
    }
    (records.root / "e-1" / RECORD).write_bytes(msgspec.json.encode(changed))
    with pytest.raises(DamagedRecord, match="hermetic rm e-1") as caught:
        records.read("e-1")
    assert caught.value.state == "damaged"
    assert (records.all(), [one.environment for one in records.damaged()]) == ([], ["e-1"])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["/", "/etc", "..", "e-1", "/var/tmp/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(
    changes=st.dictionaries(st.sampled_from(EnvironmentRecord.__struct_fields__), JSON, max_size=4),
    cut=st.floats(0, 1),
)
def test_whatever_a_record_says_only_its_own_is_named_by_it(
    changes: dict[str, object], cut: float
) -> None:
    with TemporaryDirectory() as directory:
        records = Records(Path(directory))
        records.make_directory("e-1")
        sound = msgspec.structs.replace(
            record(records, "e-1"), spool=f"/var/tmp/x/e-1.{records.tag}.0a1b"
        )
        text = msgspec.json.encode(msgspec.to_builtins(sound) | changes)
        (records.root / "e-1" / RECORD).write_bytes(
            text if cut > 0.2 else text[: int(len(text) * cut * 5)]
        )
        try:
            read = records.read("e-1")
        except DamagedRecord:
            return
        assert read is not None
        assert (read.id, os.path.realpath(read.directory)) == (
            "e-1",
            os.path.realpath(records.root / "e-1"),
        )
        assert read.spool is None or os.path.basename(read.spool).startswith(f"e-1.{records.tag}.")


def test_a_record_that_cannot_be_looked_at_is_not_taken_for_missing(records: Records) -> None:
    records.make_directory("e-1")
    (records.root / "e-1" / RECORD).symlink_to(RECORD)
    with pytest.raises(OSError, match="symbolic"):
        records.read("e-1")


def test_a_discarded_record_is_gone(records: Records) -> None:
    id = new_id()
    records.make_directory(id)
    records.write(record(records, id))
    records.discard(id)
    records.discard(id)
    assert list(records.root.iterdir()) == []


async def test_one_at_a_time_holds_a_lock(records: Records) -> None:
    inside: list[int] = []
    most = 0

    async def hold(number: int) -> None:
        nonlocal most
        async with records.lock("t-1"):
            inside.append(number)
            most = max(most, len(inside))
            await asyncio.sleep(0.001)
            inside.remove(number)

    async with asyncio.timeout(20):
        await asyncio.gather(*(hold(number) for number in range(20)))
    assert most == 1
    assert list(records.root.iterdir()) == []


async def test_a_cancelled_waiter_leaves_the_lock_to_others(records: Records) -> None:
    async with asyncio.timeout(20):
        async with records.lock("t-1"):
            waiter = asyncio.ensure_future(records.lock("t-1").__aenter__())
            await asyncio.sleep(0.05)
            waiter.cancel()
            await asyncio.wait([waiter])
        async with records.lock("t-1"):
            assert os.listdir(records.root) == ["t-1.lock"]
