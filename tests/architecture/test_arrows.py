"""Arrows between packages point down, and the checker that says so can tell a wrong one."""

from pathlib import Path

import pytest

from tests.architecture.arrows import imports, wrong_arrows

SOURCE = Path(__file__).parents[2] / "src"


def test_every_arrow_points_down() -> None:
    assert wrong_arrows(SOURCE) == []


def tree(at: Path, **files: str) -> Path:
    """A made-up package; `link__attach="…"` is hermetic/link/attach.py."""
    for name in ("", *files):
        path = at / "hermetic" / (name.replace("__", "/") + ".py" if name else "__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(files.get(name, ""))
    return at


def complaints(at: Path, **files: str) -> list[str]:
    there = {"contract__errors": "", "session__state": "", "resident__frames": "", "resident__loop": ""}
    return wrong_arrows(tree(at, **(there | files)))


@pytest.mark.parametrize(
    ("where", "text", "says"),
    [
        ("link__attach", "from hermetic.session import shell", "hermetic.session, which stands above"),
        ("link__attach", "import hermetic.session.shell", "hermetic.session.shell, which stands above"),
        ("link__attach", "from ..session.shell import Shell", "hermetic.session.shell, which stands above"),
        ("link__attach", "from .. import session", "hermetic.session, which stands above"),
        ("link__attach", "from hermetic import open", "hermetic, which stands above"),
        ("link__attach", "if 1:\n    import hermetic.session", "hermetic.session, which stands above"),
        ("policy__assess", "from hermetic.environments import local", "environments, which stands beside"),
        ("terminal__tool", "import hermetic.files", "hermetic.files, which stands beside"),
        ("contract__command", "from hermetic.link import attach", "hermetic.link, which stands above"),
        ("cli__run", "import hermetic.blocking", "hermetic.blocking, which stands beside"),
        ("link__attach", "from hermetic.resident import loop", "hermetic.resident.loop; outside the resident"),
        ("session__shell", "from hermetic.resident import frames", "hermetic.resident.frames; outside the resident"),
        ("contract__command", "import hermetic.resident.frames", "hermetic.resident.frames; outside the resident"),
        ("resident__shell", "from hermetic.contract import errors", "hermetic.contract.errors, which stands above"),
        ("resident__shell", "import msgspec", "msgspec; the resident has only the standard library"),
        ("link__attach", "def f():\n    import os", "imports os inside a function"),
        (
            "link__attach",
            "class C:\n    async def f(self):\n        from . import x",
            "hermetic.link inside a function",
        ),
        ("drawer__things", "", "'drawer' has no row"),
    ],
)
def test_a_wrong_arrow_is_told(tmp_path: Path, where: str, text: str, says: str) -> None:
    found = complaints(tmp_path, **{where: text})
    assert found
    assert all(says in line for line in found), found


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("session__shell", "import os\nimport msgspec\nfrom hermetic.contract.errors import ExecutionError"),
        ("session__shell", "from .state import State\nfrom . import state"),
        ("link__attach", "from hermetic.resident.frames import pack\nfrom hermetic.resident import frames"),
        ("resident__shell", "from . import loop\nfrom .frames import pack\nimport selectors"),
        ("environments__modal", "def reach():\n    import modal"),
        ("conformance__state", "import hermetic\nfrom hermetic.contract import errors"),
        ("__main__", "from hermetic.cli import main"),
    ],
)
def test_a_right_arrow_is_not(tmp_path: Path, where: str, text: str) -> None:
    assert complaints(tmp_path, **{where: text}) == []


def test_the_package_itself_may_import_on_first_use(tmp_path: Path) -> None:
    tree(tmp_path, session__shell="")
    (tmp_path / "hermetic/__init__.py").write_text("def __getattr__(name):\n    from hermetic.session import shell\n")
    assert wrong_arrows(tmp_path) == []
    assert [arrow.target for arrow in imports(tmp_path)] == ["hermetic.session.shell"]
