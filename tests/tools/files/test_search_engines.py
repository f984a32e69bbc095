"""Searches by ripgrep and by Python find the same in the same order."""

from pathlib import Path
from typing import Any

import msgspec

import hermetic
from tests.programs import need
from tests.sizes import scale
from tests.tools.files.trees import plant, plant_many

WISHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("foo", {}),
    ("foo", {"limit": 1000}),
    ("foo", {"offset": 7, "limit": 5}),
    ("foo", {"context": 1, "limit": 30}),
    ("foo", {"context": 2, "limit": 4, "offset": 2}),
    ("foo", {"output_mode": "count", "limit": 100}),
    ("foo", {"output_mode": "files_only", "limit": 100}),
    ("foo", {"output_mode": "files_only", "limit": 3, "offset": 2}),
    ("foo", {"glob": "*.py"}),
    ("foo", {"glob": "*.{py,txt}", "output_mode": "count", "limit": 100}),
    ("foo", {"glob": "sub/**", "output_mode": "count", "limit": 100}),
    ("foo", {"glob": "**/c.py", "output_mode": "count"}),
    ("foo", {"path": "sub"}),
    ("foo", {"path": "build/out.py"}),
    ("foo", {"path": "repo/in"}),
    ("foo", {"path": "build"}),
    ("foo", {"path": "log"}),
    ("foo", {"path": "vendor", "output_mode": "count"}),
    ("foo", {"path": ".hidden"}),
    ("^foo$", {"limit": 100}),
    ("(?i)FOO", {"limit": 1000, "output_mode": "count"}),
    (r"\bfoo\b", {"limit": 1000, "output_mode": "count"}),
    (r"f[[:alpha:]]{2}\s", {"limit": 1000, "output_mode": "count"}),
    ("ü foo|ß", {"limit": 100}),
    (r"\d+ foo", {"limit": 2000}),
    ("no such text", {}),
    ("*.py", {"target": "files"}),
    ("*", {"target": "files", "limit": 1000}),
    ("sub/**/*.py", {"target": "files"}),
    ("[ab].*", {"target": "files"}),
    ("*", {"target": "files", "path": "vendor", "limit": 2, "offset": 1}),
)


async def test_both_find_the_same(tmp_path: Path) -> None:
    need("rg")
    plant(tmp_path)
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        for pattern, wish in WISHES:
            one = await env.search_files(pattern, **wish)
            other = await env.search_files(pattern, ripgrep=False, **wish)
            assert (one.engine, other.engine) == ("ripgrep", "python")
            assert msgspec.structs.replace(one, engine="") == msgspec.structs.replace(
                other, engine=""
            ), (pattern, wish)
        assert (await env.search_files("foo", limit=1000)).total > 200


async def test_both_find_the_same_among_many(tmp_path: Path) -> None:
    need("rg")
    plant_many(tmp_path, max(2000, scale(20_000)))
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        for pattern in ("needle", "word7 word[0-9]*3", "^word1 .*word2"):
            one = await env.search_files(pattern, limit=300, context=1)
            other = await env.search_files(pattern, limit=300, context=1, ripgrep=False)
            assert msgspec.structs.replace(one, engine="") == msgspec.structs.replace(
                other, engine=""
            )
            assert one.total >= 2
