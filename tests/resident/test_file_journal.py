"""A change of several files that was left at any step is made whole by its note."""

import os
from pathlib import Path

import pytest

from hermetic.resident.files.changes import Change
from hermetic.resident.files.journal import CHANGING, DONE, WRITING, Journal, recover_all
from hermetic.resident.files.safe_path import find

OLD = {"kept": "kept", "gone": "gone"}
NEW = {"kept": "new", "made": "new"}


def changes_in(directory: Path) -> list[Change]:
    """One file is written anew, one goes, one comes."""
    for name, text in OLD.items():
        (directory / name).write_text(text)
    sizes = {"kept": 3, "gone": None, "made": 3}
    return [
        Change(find(f"{directory}/{name}", follow=False), size, None, None)
        for name, size in sizes.items()
    ]


def die(journal: Journal) -> None:
    """What the kernel does when the writer is killed: its lock is released."""
    assert journal.lock is not None
    os.close(journal.lock)


def texts_in(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.mark.parametrize("step", range(10))
def test_what_was_begun_is_taken_back_and_what_was_done_is_finished(
    tmp_path: Path, step: int
) -> None:
    notes, files = tmp_path / "notes", tmp_path / "files"
    notes.mkdir()
    files.mkdir()
    source = os.memfd_create("new")
    os.write(source, b"new" * 3)
    found = changes_in(files)
    journal = Journal(str(notes))
    journal.begin([change.entry() for change in found], [])
    steps = [
        *(
            lambda change=change, at=3 * at: change.prepare(source, at)
            for at, change in enumerate(found)
        ),
        lambda: journal.go_on(WRITING, CHANGING),
        *(change.commit for change in found),
        lambda: journal.go_on(CHANGING, DONE),
        found[0].finish,
    ]
    for take in steps[:step]:
        take()
    os.close(source)
    for change in found:
        change.location.close()
    die(journal)
    recover_all(str(notes))
    assert texts_in(files) == (NEW if step > 7 else OLD)
    assert list(notes.iterdir()) == []


def test_a_directory_that_is_another_by_now_is_left_alone(tmp_path: Path) -> None:
    notes, files = tmp_path / "notes", tmp_path / "files"
    notes.mkdir()
    files.mkdir()
    found = changes_in(files)
    journal = Journal(str(notes))
    journal.begin([change.entry() for change in found], [])
    journal.go_on(WRITING, CHANGING)
    for change in found:
        change.location.close()
    die(journal)
    files.rename(tmp_path / "elsewhere")
    files.mkdir()
    (files / "made").write_text("another's")
    recover_all(str(notes))
    assert texts_in(files) == {"made": "another's"}
    assert texts_in(tmp_path / "elsewhere") == OLD


def test_the_journal_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    found = changes_in(tmp_path)
    journal = Journal(str(tmp_path))
    journal.begin([change.entry() for change in found], [])
    before = set(os.listdir(tmp_path))
    recover_all(str(tmp_path))
    assert set(os.listdir(tmp_path)) == before
    for change in found:
        change.location.close()
    journal.end()
    assert texts_in(tmp_path) == OLD
