"""A tree of files with everything that a search may stumble over."""

import os
import random
from pathlib import Path

FILES: dict[str, str | bytes] = {
    "a.py": "import os\nfoo = 1\nbar foo\n",
    "b.txt": "nothing here\nFOO foo\r\nfoo at the end",
    "crlf.txt": "foo\r\nfoo bar\r\n",
    "sub/deep/c.py": "def foo():\n    return 'ß foo'\n",
    "sub/.hidden": "foo\n",
    ".hidden/d.py": "foo\n",
    ".x.py": "foo\n",
    "build/out.py": "foo\n",
    "keep/build/in.py": "foo\n",
    "log/a.log": "foo\n",
    "log/kept.log": "foo\n",
    "sub/only.tmp": "foo\n",
    "sub/deep/only.tmp": "foo\n",
    "we ird/näme [1].txt": "foo\n",
    "binary": b"foo\n\0\nfoo\n",
    "late-binary": b"foo\n" + b"x" * 20_000 + b"\n\0\nfoo\n",
    "wide.txt": "foo ü\nbar\nfoo\n".encode("utf-16"),
    "mark.txt": b"\xef\xbb\xbffoo\nbar\n",
    "latin.txt": "gr\xfcn foo\n".encode("latin-1"),
    "empty": "",
    "long": "x" * 100_000 + " foo\n",
    "many.txt": "".join(
        f"{number} foo\n" if number % 3 else f"{number}\n" for number in range(300)
    ),
    ".gitignore": "build/\n*.log\n!kept.log\n# a comment\n/sub/*.tmp\nvendor/**/gen\n",
    "keep/.gitignore": "!build/\n",
    ".ignore": "ignored-*\n",
    "ignored-file": "foo\n",
    "vendor/x/y/gen/f": "foo\n",
    "vendor/gen/f": "foo\n",
    "vendor/f": "foo\n",
    "repo/.git/HEAD": "foo\n",
    "repo/x.log": "foo\n",
    "repo/.gitignore": "y.*\n",
    "repo/in/y.txt": "foo\n",
    "repo/in/z.log": "foo\n",
    "sub/.gitignore": "deep/c.*\n!deep/c.py\n",
}


def plant(at: Path) -> None:
    """Writes the tree."""
    for name, content in FILES.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (at / "link.py").symlink_to("a.py")
    (at / "ring").symlink_to(".")
    for number, name in enumerate(sorted(FILES)):
        os.utime(at / name, (1_700_000_000 + number % 7, 1_700_000_000 + number % 7))


def plant_many(at: Path, count: int, seed: int = 7) -> None:
    """Writes so many files of some lines each, in directories of a hundred."""
    random_ = random.Random(seed)
    words = [f"word{number}" for number in range(500)]
    for number in range(count):
        if number % 100 == 0:
            folder = at / f"d{number // 10_000:02}" / f"e{number // 100 % 100:02}"
            folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(" ".join(random_.choices(words, k=8)) for _ in range(5))
        (folder / f"f{number}.txt").write_text(
            f"{text}\nneedle {number}\n" if number % 1000 == 0 else f"{text}\n"
        )
