"""No import by string, no private name of another package, no knot of modules; and the checks that
say so can fail.
"""

from pathlib import Path

import pytest

from tests.architecture.arrows import imports, unit, wrong_arrows
from tests.architecture.hidden import knots, private_names, string_imports
from tests.architecture.test_arrows import SOURCE, tree

FRAMEWORKS = (
    "agents",
    "claude_agent_sdk",
    "deepagents",
    "harbor",
    "inspect_ai",
    "minisweagent",
    "pydantic_ai",
    "pydantic",
    "smolagents",
    "swerex",
)

# pytest loads its plugins by name.
PLUGIN = "hermetic/conformance/__main__.py: 'hermetic.conformance.plugin'"

# Modules of the resident that need each other, by types and on first use. These lists may only get
# shorter.
KNOTS = {
    "resident": """
        channels.scripts life.resident
        processes.ended_jobs processes.job processes.process
        shells.command shells.exports shells.first_shell shells.move shells.orders shells.parallel shells.pool
        shells.session shells.shell shells.state shells.traps
    """,
}


def test_the_sources_keep_to_the_picture() -> None:
    """One test, so that one worker reads all sources once."""
    by_string = [
        ":".join(part for part in line.split(":") if not part.isdigit())
        for line in string_imports(SOURCE)
    ]
    known = [
        sorted(f"hermetic.resident.{name}" for name in names.split()) for names in KNOTS.values()
    ]
    assert {
        "imports that point up or sideways": wrong_arrows(SOURCE),
        "modules imported by a string": by_string,
        "private names of another package": private_names(SOURCE),
        "modules that import each other": knots(SOURCE, at_import=True),
        "modules that need each other; shorten the list when one is gone": knots(SOURCE),
        "packages that import the MCP SDK": _users("mcp", "mcp_types", "anyio"),
        "packages that import the web server": _users("starlette", "uvicorn", "websockets"),
        "packages that import the web client": _users(
            "httpx2", "httpcore2", "selectolax", "pypdf", "charset_normalizer"
        ),
        "packages that import a framework": _users(*FRAMEWORKS),
    } == {
        "imports that point up or sideways": [],
        "modules imported by a string": [PLUGIN],
        "private names of another package": [],
        "modules that import each other": [],
        "modules that need each other; shorten the list when one is gone": sorted(known),
        "packages that import the MCP SDK": {"mcp"},
        "packages that import the web server": {"serve"},
        "packages that import the web client": {"tools.web"},
        "packages that import a framework": {"adapters"},
    }


def _users(*packages: str) -> set[str]:
    """The packages of ours that import one of these."""
    return {
        unit(arrow.importer)
        for arrow in imports(SOURCE)
        if arrow.target.partition(".")[0] in packages
    }


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module('hermetic.session.shell')",
        "from importlib import import_module\nimport_module(name)",
        "__import__('shell', globals(), None, ['x'], 1)",
        "PLACE = 'hermetic.session.shell:Shell'",
        "Lazy(name)",
    ],
)
def test_an_import_by_string_is_found(tmp_path: Path, text: str) -> None:
    assert string_imports(tree(tmp_path, {"fleet/fleet.py": text, "session/shell.py": ""}))


@pytest.mark.parametrize(
    "text", ["__import__('re')", "Lazy('hermetic.session.shell')", "log = 'hermetic.session'"]
)
def test_other_strings_are_not(tmp_path: Path, text: str) -> None:
    assert string_imports(tree(tmp_path, {"fleet/fleet.py": text, "session/shell.py": ""})) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x._link",
        "from hermetic.session.shell import Shell\nclass A:\n    def f(self, x: Shell): self._link = x._link",
        "from hermetic.session.shell import _inner",
        "from hermetic.session import shell\nshell._inner",
    ],
)
def test_a_private_name_of_another_package_is_found(tmp_path: Path, text: str) -> None:
    there = "class Shell:\n    def __init__(self): self._link = 1\ndef _inner(): pass"
    assert private_names(tree(tmp_path, {"fleet/fleet.py": text, "session/shell.py": there}))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x._own\nclass A: _own = 1",
        "import os\nos._exit(1)",
        "def f(x): return x._replace()",
    ],
)
def test_other_private_names_are_not(tmp_path: Path, text: str) -> None:
    assert (
        private_names(
            tree(tmp_path, {"fleet/fleet.py": text, "session/shell.py": "class Shell: _own = 1"})
        )
        == []
    )


def test_a_knot_is_found_and_told_from_one_of_types(tmp_path: Path) -> None:
    lazily = "if TYPE_CHECKING:\n    from hermetic.fleet import a\nelse:\n    a = Lazy('hermetic.fleet.a')"
    tree(
        tmp_path,
        {
            "fleet/a.py": "from hermetic.fleet import b",
            "fleet/b.py": lazily,
            "fleet/c.py": "import os",
        },
    )
    assert knots(tmp_path) == [["hermetic.fleet.a", "hermetic.fleet.b"]]
    assert knots(tmp_path, at_import=True) == []
    (tmp_path / "hermetic/fleet/b.py").write_text("from . import a")
    assert knots(tmp_path, at_import=True) == [["hermetic.fleet.a", "hermetic.fleet.b"]]
