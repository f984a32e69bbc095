"""Arrows between packages point down, and the checker that says so can tell a wrong one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.arrows import imports, wrong_arrows

SOURCE = Path(__file__).parents[2] / "src"


def test_nothing_imports_the_mcp_sdk_until_a_client_is_served() -> None:
    code = (
        "import sys, hermetic, hermetic.blocking, hermetic.cli.mcp, hermetic.mcp.stdio\n"
        "hermetic.Toolbox().schemas('mcp')\n"
        "print(sorted({'mcp', 'mcp_types', 'anyio', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_web_server_imports_no_mcp_sdk_until_a_client_comes() -> None:
    code = "import sys, hermetic.serve.server\nprint(sorted({'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_nothing_imports_the_web_server_until_it_is_started() -> None:
    code = (
        "import sys, hermetic, hermetic.cli.serve\n"
        "print(sorted({'starlette', 'uvicorn', 'websockets', 'anyio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def tree(at: Path, files: dict[str, str]) -> Path:
    """A made-up package: file below hermetic/ → its text."""
    for name, text in ({"__init__.py": ""} | files).items():
        path = at / "hermetic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return at


def complaints(at: Path, where: str, text: str) -> list[str]:
    there = (
        "contract/errors.py",
        "session/state.py",
        "resident/wire/frames.py",
        "resident/life/loop.py",
    )
    return wrong_arrows(tree(at, dict.fromkeys(there, "") | {where: text}))


@pytest.mark.parametrize(
    ("where", "text", "says"),
    [
        (
            "link/attach.py",
            "from hermetic.session import shell",
            "hermetic.session, which stands above",
        ),
        (
            "link/attach.py",
            "import hermetic.session.shell",
            "hermetic.session.shell, which stands above",
        ),
        (
            "link/attach.py",
            "from ..session.shell import Shell",
            "hermetic.session.shell, which stands above",
        ),
        ("link/attach.py", "from .. import session", "hermetic.session, which stands above"),
        ("link/attach.py", "from hermetic import open", "hermetic, which stands above"),
        (
            "link/attach.py",
            "if 1:\n    import hermetic.session",
            "hermetic.session, which stands above",
        ),
        (
            "policy/assess.py",
            "from hermetic.environments import local",
            "environments, which stands beside",
        ),
        (
            "tools/terminal/tool.py",
            "import hermetic.tools.files.x",
            "hermetic.tools.files.x, which stands beside",
        ),
        (
            "tools/edits/diff.py",
            "import hermetic.tools.base.task",
            "hermetic.tools.base.task, which stands above",
        ),
        (
            "contract/command.py",
            "from hermetic.link import attach",
            "hermetic.link, which stands above",
        ),
        ("mcp/server.py", "import hermetic.blocking", "hermetic.blocking, which stands beside"),
        ("mcp/server.py", "import hermetic.cli.run", "hermetic.cli.run, which stands above"),
        (
            "link/attach.py",
            "from hermetic.resident.life import loop",
            "hermetic.resident.life.loop; outside the resident",
        ),
        (
            "session/shell.py",
            "from hermetic.resident.wire import frames",
            "hermetic.resident.wire.frames; outside the resident",
        ),
        (
            "contract/command.py",
            "import hermetic.resident.life.loop",
            "hermetic.resident.life.loop; outside the resident",
        ),
        (
            "resident/shell.py",
            "from hermetic.contract import errors",
            "hermetic.contract.errors, which stands above",
        ),
        (
            "resident/shell.py",
            "import msgspec",
            "msgspec; the resident has only the standard library",
        ),
        ("link/attach.py", "def f():\n    import os", "imports os inside a function"),
        (
            "link/attach.py",
            "class C:\n    async def f(self):\n        from . import x",
            "hermetic.link inside a function",
        ),
        (
            "link/attach.py",
            'x = Lazy("hermetic.session.shell")',
            "hermetic.session.shell, which stands above",
        ),
        ("drawer/things.py", "", "'drawer' has no row"),
    ],
)
def test_a_wrong_arrow_is_told(tmp_path: Path, where: str, text: str, says: str) -> None:
    found = complaints(tmp_path, where, text)
    assert found
    assert all(says in line for line in found), found


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            "session/shell.py",
            "import os\nimport msgspec\nfrom hermetic.contract.errors import ExecutionError",
        ),
        ("session/shell.py", "from .state import State\nfrom . import state"),
        (
            "link/attach.py",
            "from hermetic.resident.wire.frames import pack\nfrom hermetic.resident.wire import frames",
        ),
        (
            "resident/shells/shell.py",
            "from ..life import loop\nfrom ..wire.frames import pack\nimport selectors",
        ),
        ("environments/modal.py", "def reach():\n    import modal"),
        ("conformance/state.py", "import hermetic\nfrom hermetic.contract import errors"),
        (
            "session/shell.py",
            'from hermetic.resident.lazy import Lazy\nx = Lazy("hermetic.contract.errors")',
        ),
        (
            "resident/shells/shell.py",
            'from ..lazy import Lazy\nx = Lazy("..life.loop", __package__)',
        ),
        ("__main__.py", "from hermetic.cli import main"),
    ],
)
def test_a_right_arrow_is_not(tmp_path: Path, where: str, text: str) -> None:
    assert complaints(tmp_path, where, text) == []


def test_the_package_itself_may_import_on_first_use(tmp_path: Path) -> None:
    lazily = "def __getattr__(name):\n    from hermetic.session import shell\n"
    tree(tmp_path, {"__init__.py": lazily, "session/shell.py": ""})
    assert wrong_arrows(tmp_path) == []
    assert [arrow.target for arrow in imports(tmp_path)] == ["hermetic.session.shell"]
