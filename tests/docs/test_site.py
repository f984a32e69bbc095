"""The site: every page is in its contents, and it builds without a broken link."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT


def test_every_page_is_in_the_contents_of_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w/.-]+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)
    assert sorted(listed) == sorted(PAGES)


@pytest.mark.full
@pytest.mark.slow
def test_the_site_is_built_by_one_command_without_broken_links(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "build-docs", "--site-dir", tmp_path / "site"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").exists()
    assert "hermetic logs" in (tmp_path / "site" / "docs" / "cli.html").read_text(encoding="utf-8")
    assert not subprocess.run(["git", "ls-files", "build"], cwd=ROOT, capture_output=True).stdout
