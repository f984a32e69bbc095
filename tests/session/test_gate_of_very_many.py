"""What stands behind very many other words, files or acts is judged all the same."""

import os
from pathlib import Path
from typing import Any, cast

import pytest

import hermetic
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.context import PolicyContext
from hermetic.approvals.gate import MOST_FOLLOWED, PolicyGate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.errors import NotPermitted
from hermetic.policy.assess import MAX_PARTS
from hermetic.policy.shell.findings import MAX_ACTS
from hermetic.registry.records import runtime_root


def files(count: int) -> str:
    return " ".join(f"f{number}" for number in range(count))


class Person:
    """Remembers what was asked, and gives one answer."""

    def __init__(self, answer: str) -> None:
        self.answer, self.asked = answer, list[ApprovalRequest]()

    async def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return cast(Any, self.answer)


def gate(person: Person, **settings: Any) -> PolicyGate:
    return PolicyGate(Approvals(ApprovalSettings(**settings), approver=person))


@pytest.fixture
def place(tmp_path: Path) -> PolicyContext:
    (tmp_path / "work").mkdir()
    isolation = hermetic.Isolation(kind="local", shared_paths=("/",))
    return PolicyContext("local", isolation, {"cwd": str(tmp_path / "work")})


@pytest.mark.parametrize("count", [0, 150, 2100, 7000])
async def test_the_records_of_environments_are_found_among_very_many_files(
    place: PolicyContext, count: int
) -> None:
    person = Person("deny")
    with pytest.raises(NotPermitted):
        await gate(person).command("t", f"cat {files(count)} {runtime_root()}/e-1/env.json", place)
    said = person.asked[0].reason
    is_all_looked_at = count < MOST_FOLLOWED
    assert ("reaches into the records" in said) == is_all_looked_at, said
    assert ("names so many files" in said) != is_all_looked_at, said


@pytest.mark.parametrize("count", [0, 150, 2100, 7000])
async def test_a_link_is_followed_among_very_many_files(
    place: PolicyContext, tmp_path: Path, count: int
) -> None:
    os.symlink("/etc/cron.d/job", tmp_path / "work/link")
    person = Person("deny")
    with pytest.raises(NotPermitted):
        await gate(person).command("t", f"echo x | tee {files(count)} link", place)
    assert len(person.asked) == 1


async def test_everyday_commands_with_many_files_are_not_asked_about(place: PolicyContext) -> None:
    person = Person("deny")
    await gate(person).command("t", f"git add {files(3000)}", place)
    await gate(person).command("t", f"cat {files(3000)}", place)
    assert person.asked == []


@pytest.mark.parametrize("count", [0, 2100, 7000])
async def test_a_denied_program_is_found_behind_very_many_acts(
    place: PolicyContext, count: int
) -> None:
    guard = gate(Person("once"), deny=("curl *",))
    with pytest.raises(NotPermitted, match=r"approvals\.deny"):
        await guard.command("t", f"cat {files(count)}; curl http://example.org/", place)


async def test_more_acts_than_are_kept_are_asked_about(place: PolicyContext) -> None:
    person = Person("deny")
    text = "for a in 1 2 3; do cat f{1..250} g{1..250} h{1..250} i{1..250}; done;" * 4
    with pytest.raises(NotPermitted):
        await gate(person).command("t", text + f"cat {files(4000)}", place)
    assert "more work than a check may take" in person.asked[0].reason
    assert MAX_ACTS > 8000  # the words of one text


async def test_answers_for_the_parts_that_were_shown_cover_no_part_that_was_not(
    place: PolicyContext,
) -> None:
    person = Person("session")
    guard = gate(person)
    removals = "; ".join(f"rm -rf /srv/x{number}" for number in range(MAX_PARTS))
    await guard.command("t", removals, place)
    assert len(person.asked) == 1
    await guard.command("t", removals, place)
    assert len(person.asked) == 1
    person.answer = "deny"
    with pytest.raises(NotPermitted):
        await guard.command("t", f"{removals}; git push --force origin main", place)
    assert len(person.asked) == 2
