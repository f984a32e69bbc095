"""The reference is fresh, every error, ending and field is on its page, and every link leads
somewhere.
"""

import re

import hermetic
from hermetic.contract import errors
from hermetic.contract.endings import Ending
from tests.docs.pages import PAGES, ROOT, read, rows
from tests.docs.reference import PAGE, reference

API = "docs/python-api.md"
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", read(page), re.MULTILINE)


def test_the_reference_is_what_the_sources_say() -> None:
    assert read(PAGE) == reference(), f"{PAGE} is not fresh: run scripts/reference"


def test_every_public_name_is_explained() -> None:
    names = [name for name in hermetic.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"\b{name}\b", read(API))] == []


def test_every_method_is_explained() -> None:
    faces = (hermetic.Session, hermetic.Environment, hermetic.Process, hermetic.Fleet)
    names = sorted({name for face in faces for name in dir(face) if not name.startswith("_")})
    assert [name for name in names if not re.search(rf"`{name}\b", read(API))] == []


def test_every_field_of_a_result_has_a_row() -> None:
    cells = " ".join(row[0] for row in rows(API))
    fields = [*hermetic.Result.__struct_fields__, "output", "stderr", "exit_code", "truncated"]
    assert [field for field in fields if f"`{field}`" not in cells] == []


def test_every_error_has_a_heading() -> None:
    names = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in names if f"`{name}`" not in headings(API)] == []


def test_every_ending_has_a_row() -> None:
    cells = [row[0] for row in rows(API)]
    names = [ending.__name__ for ending in Ending.__args__]
    assert [name for name in names if not any(cell.startswith(f"`{name}(") for cell in cells)] == []


def test_every_note_on_the_page_of_sessions_is_one_that_is_given() -> None:
    notes = [row[0].strip("… ").strip("`") for row in rows("docs/sessions.md") if len(row) == 2]
    sources = "".join(
        path.read_text() for path in (ROOT / "src" / "hermetic" / "resident").rglob("*.py")
    )
    assert notes
    assert [note for note in notes if f'"{note}' not in sources] == []


def test_every_link_leads_somewhere() -> None:
    assert [f"{page}: {link}" for page in PAGES for link in broken_links(page)] == []


def broken_links(page: str) -> list[str]:
    broken = []
    for target, anchor in LINK.findall(read(page)):
        path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        names = (
            [anchor_of(heading) for heading in headings(str(path.relative_to(ROOT)))]
            if anchor
            else []
        )
        if not path.exists() or (anchor and anchor[1:] not in names):
            broken.append(target + anchor)
    return broken


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_has_a_place_for_figures() -> None:
    text = read("README.md")
    assert text.count("<!-- figures:begin -->") == text.count("<!-- figures:end -->") == 1
    assert text.index("<!-- figures:begin -->") < text.index("<!-- figures:end -->")
