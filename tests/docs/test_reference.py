"""Every public name, error, ending and limit is on its page, with what is true of it."""

import inspect
import re

import pytest

import hermetic
from hermetic.contract import errors
from hermetic.contract.endings import Ending
from hermetic.contract.limits import LIMITS, Limit
from tests.docs.pages import PAGES, ROOT, read, rows

API = "docs/python-api.md"
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", read(page), re.MULTILINE)


def members(face: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(face) if not name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in hermetic.__all__ if not name.startswith("_")])
def test_every_public_name_is_described(name: str) -> None:
    assert re.search(rf"\b{name}\b", read(API)), f"{API} does not mention {name}"


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for face in (hermetic.Session, hermetic.Environment, hermetic.Process, hermetic.Fleet)
            for name in members(face)
        }
    ),
)
def test_every_method_is_described(name: str) -> None:
    assert re.search(rf"`{name}\b", read(API)), f"{API} does not describe {name}"


@pytest.mark.parametrize("field", [*hermetic.Result.__struct_fields__, "output", "stderr", "exit_code", "truncated"])
def test_every_field_of_a_result_is_described(field: str) -> None:
    assert any(f"`{field}`" in row[0] for row in rows(API)), f"{API} has no row for {field}"


@pytest.mark.parametrize("name", [name for name, value in vars(errors).items() if isinstance(value, type)])
def test_every_error_has_a_heading(name: str) -> None:
    assert f"`{name}`" in headings(API)


@pytest.mark.parametrize("ending", Ending.__args__, ids=lambda ending: ending.__name__)
def test_every_ending_has_a_row(ending: type) -> None:
    assert any(row[0].startswith(f"`{ending.__name__}(") for row in rows(API))


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_every_limit_has_a_row_with_its_value(limit: Limit[int] | Limit[float]) -> None:
    assert [f"`{limit.name}`", f"{limit.value:,}", limit.unit, limit.meaning] in rows(API)


@pytest.mark.parametrize("row", [row for row in rows("docs/sessions.md") if len(row) == 2], ids=lambda row: row[0])
def test_every_note_that_is_described_is_given(row: list[str]) -> None:
    note = row[0].strip("… ").strip("`")
    sources = [path.read_text() for path in (ROOT / "src" / "hermetic" / "resident").glob("*.py")]
    assert any(f'"{note}' in text for text in sources), f"nothing gives the note {note!r}"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    broken = []
    for target, anchor in LINK.findall(read(page)):
        path = (ROOT / page).parent / target if target else ROOT / page
        names = [anchor_of(heading) for heading in headings(str(path.relative_to(ROOT)))] if anchor else []
        if not path.exists() or (anchor and anchor[1:] not in names):
            broken.append(target + anchor)
    assert broken == []


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_has_a_place_for_figures() -> None:
    text = read("README.md")
    assert text.count("<!-- figures:begin -->") == text.count("<!-- figures:end -->") == 1
    assert text.index("<!-- figures:begin -->") < text.index("<!-- figures:end -->")
