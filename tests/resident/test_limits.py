"""The second mark: a number that a process and all that comes of it carry."""

import resource
import subprocess
from collections.abc import Iterator

import pytest

from hermetic.resident.limits import TREE_TAGS
from hermetic.resident.processes.descriptor_limit import ProcessTags


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as program:
        yield program
        program.kill()


def test_a_process_is_marked_from_outside(child: subprocess.Popen[bytes]) -> None:
    marks = ProcessTags()
    assert marks.apply_to(child.pid, 7)
    assert marks.number_of(child.pid, 7) == 7
    assert marks.apply_to(child.pid, TREE_TAGS + 3)
    assert marks.number_of(child.pid, TREE_TAGS + 3) == TREE_TAGS + 3


def test_the_hard_limit_stays_as_it_is(child: subprocess.Popen[bytes]) -> None:
    marks = ProcessTags()
    _, hard = resource.prlimit(child.pid, resource.RLIMIT_MSGQUEUE)
    resource.prlimit(child.pid, resource.RLIMIT_MSGQUEUE, (hard - 1, hard - 1))
    assert marks.apply_to(child.pid, 7)
    assert resource.prlimit(child.pid, resource.RLIMIT_MSGQUEUE) == (marks.base - 7, hard - 1)
    resource.prlimit(child.pid, resource.RLIMIT_MSGQUEUE, (300000, 300000))
    assert not marks.apply_to(child.pid, 8)
    assert resource.prlimit(child.pid, resource.RLIMIT_MSGQUEUE) == (300000, 300000)


def test_a_process_that_cannot_be_marked_has_to_do_it_itself() -> None:
    assert not ProcessTags().apply_to(2**22 + 1, 7)
    assert not ProcessTags().apply_to(None, 7)


def test_where_the_limit_cannot_serve_there_is_nothing_to_put_on(
    child: subprocess.Popen[bytes],
) -> None:
    marks = ProcessTags()
    marks.base = 0
    assert marks.apply_to(child.pid, 7)
    assert ProcessTags().number_of(child.pid, 7) is None
