"""The table and the picture show what the report holds."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from benchmarks.picture import picture
from benchmarks.readme import BEGIN, END, HEADLINES, fill, fill_headlines
from benchmarks.table import table
from tests.benchmarks.reports import report, some_rows

SVG = "{http://www.w3.org/2000/svg}"


def test_the_table_has_a_line_for_each_row() -> None:
    lines = table(report(*some_rows())).splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[2:8]]
    assert cells == [
        ["`true` & co <met>", "0.3 ms (0.4)", "1 ms bare", "0.30 ×", "≤ 0.35 ×", "yes"],
        ["slow one", "3 ms", "1 ms bare", "3.00 ×", "≤ 2 ×", "NO"],
        ["no target", "20 MB/s (10)", "100 MB/s pipe", "0.20 ×", "–", "–"],
        ["per second", "1,500/s", "1,000/s threads", "1.50 ×", "≥ 1,000/s", "yes"],
        ["on top", "1.5 ms", "1 ms bare", "1.50 × (+0.5 ms)", "≤ +0.25 ms", "NO"],
        ["left over", "0", "–", "–", "≤ 0", "yes"],
    ]
    assert "  a.count: 200 tries" in lines
    assert lines[-2] == "3 of 5 targets met; not: a.missed, a.extra"
    assert "2 cores, 24 GiB" in lines[-1]


def test_the_picture_has_a_bar_for_each_target_coloured_by_its_verdict() -> None:
    drawn = ElementTree.fromstring(picture(report(*some_rows())))
    kinds = [bar.get("class") for bar in drawn.iter(f"{SVG}rect")]
    assert (kinds.count("met"), kinds.count("missed"), kinds.count("room")) == (3, 2, 5)
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "true & co <met>" in texts
    assert "0.30 ×   (0.3 ms)" in texts
    assert "1,500/s   (≥ 1,000/s)" in texts


def test_bars_are_as_long_as_their_figures() -> None:
    drawn = ElementTree.fromstring(picture(report(*some_rows())))
    bars = list(drawn.iter(f"{SVG}rect"))
    room = [float(bar.get("width", 0)) for bar in bars if bar.get("class") == "room"]
    first, second, _, over, none = [
        float(bar.get("width", 0)) for bar in bars if bar.get("class") in ("met", "missed", "plain")
    ]
    assert (round(second / first, 2), second) == (10.0, room[0])
    assert (over, none) == (room[0], 0.0)


def test_the_picture_has_colours_for_dark_pages_and_a_ground_of_its_own() -> None:
    text = picture(report(*some_rows()))
    assert "prefers-color-scheme: dark" in text
    assert 'class="card"' in text


def test_the_picture_stays_inside_its_frame() -> None:
    drawn = ElementTree.fromstring(picture(report(*some_rows())))
    _, _, width, height = map(float, drawn.get("viewBox", "").split())
    assert all(
        float(bar.get("x", 0)) + float(bar.get("width", 0)) <= width
        for bar in drawn.iter(f"{SVG}rect")
    )
    assert all(float(text.get("y", 0)) < height for text in drawn.iter(f"{SVG}text"))


def test_a_page_gets_its_figures_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    fill(page, report(*some_rows()))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "no target" in text
    page.write_text("no markers")
    with pytest.raises(ValueError, match="no lines"):
        fill(page, report(*some_rows()))


def test_figures_of_another_run_are_added_below_those_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for add in (False, True, True):
        fill(page, report(*some_rows()), add=add)
    text = page.read_text()
    assert text.count("| what | ours (p95) |") == text.count(" targets met") == 3
    assert text.count(BEGIN) == text.count(END) == 1
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith(f"\n{END}\nafter\n")


def test_the_readme_gets_five_rows_with_their_baseline(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    first, _, _, rate, _, last = some_rows()  # two with a limit, one without
    rows = [
        msgspec.structs.replace(row, name=name)
        for row, name in zip([first, rate, *[last] * 3], HEADLINES, strict=True)
    ]
    fill_headlines(page, report(first, *rows))
    lines = page.read_text().splitlines()
    assert lines[4:6] == [
        "| a command in a docker container | 0.3 ms | 1 ms, `docker exec` |",
        "| a container for a new task, from a warm pool | 1,500/s | 1,000/s, a container that is started |",
    ]
    assert lines[8] == "| processes left after timeouts, cancels and kills | 0 | – |"
    with pytest.raises(ValueError, match=r"lacks docker\.settled-exec;"):
        fill_headlines(page, report(*rows[1:]))
