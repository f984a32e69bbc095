"""Each adapter with the real framework, installed into an environment of its own."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root, need_variable, unavailable
from tests.pythons import find_python
from tests.virtual import shared

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "claude_agent_sdk": ("claude-agent-sdk", "pytest-asyncio"),
    "deepagents": ("deepagents", "pytest-asyncio"),
    "e2b": ("e2b", "starlette", "uvicorn", "websockets"),
    "harbor": ("harbor", "pytest-asyncio"),
    "hermes_agent": ("hermes-agent",),
    "inspect_ai": ("inspect_ai", "pytest-asyncio"),
    "minisweagent": ("mini-swe-agent",),
    "model_loops": ("openai", "anthropic"),
    "openai_agents": ("openai-agents", "pytest-asyncio"),
    "pydantic_ai": ("pydantic-ai-slim", "anyio", "trio"),
    "smolagents": ("smolagents",),
    "swerex": ("swe-rex", "pytest-asyncio"),
}
NEWER = {"harbor": (3, 12)}  # what needs a newer Python than Hermetic does


def python_for(name: str) -> str:
    """A Python that is new enough for a framework; ends the calling test where there is none."""
    least = NEWER.get(name, (3, 0))
    if sys.version_info >= least:
        return sys.executable
    newer = (f"{least[0]}.{minor}" for minor in range(least[1], least[1] + 8))
    missing = f"{name} needs Python {least[0]}.{least[1]} or newer; there is none on PATH"
    return next(filter(None, map(find_python, newer)), None) or unavailable(missing)


def installed(name: str) -> str:
    """The Python of an environment that has the framework and this checkout; made on first use."""
    return shared(name, "", *PACKAGES[name], python=python_for(name))


WORDS = [
    "--noconftest",
    "-q",
    "-c",
    os.devnull,
    "-p",
    "no:cacheprovider",
    "-o",
    "asyncio_mode=auto",
]
REAL = ROOT / "tests" / "adapters" / "real"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_an_adapter_works_with_the_real_framework(name: str, tmp_path: Path) -> None:
    quiet = {
        "INSPECT_DISPLAY": "none",
        "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path),
        "MSWEA_SILENT_STARTUP": "1",
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [installed(name), "-m", "pytest", *WORDS, REAL / f"test_{name}.py"],
        cwd=tmp_path,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "chosen", "ends"),
    [
        # The two are test_exec_as_user: neither kind has a second user.
        ("inspect_ai", "[local] or [sandbox]", r"\d+ passed, \d+ deselected, 2 xfailed"),
        # Nothing is skipped, as one check is for root.
        ("pydantic_ai", "TestHermeticWorkspace and [local]", r"\d+ passed, \d+ deselected"),
    ],
)
def test_a_frameworks_own_checks_pass_for_an_ordinary_user(
    name: str, chosen: str, ends: str
) -> None:
    need_root("only root may become another user")
    packages = subprocess.check_output(
        [installed(name), "-c", "import site; print(site.getsitepackages()[0])"], text=True
    ).strip()
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as directory:
        home = Path(directory)
        user = OrdinaryUser(need_variable("APPTAINER_USER"), home)
        words = [*WORDS, "-k", chosen, f"--basetemp={home}/t", str(REAL / f"test_{name}.py")]
        path = os.pathsep.join([packages, str(ROOT / "src"), str(ROOT)])
        more = {
            "INSPECT_DISPLAY": "none",
            "HERMETIC_RUNTIME_DIR": str(home / "run"),
            "XDG_STATE_HOME": str(home),
        }
        code = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
        with user.start(code, *words, PYTHONPATH=path, **more) as running:
            said, _ = running.communicate()
    assert running.returncode == 0, said[-5000:]
    assert re.fullmatch(ends + r"(, \d+ warnings?)? in .*", said.splitlines()[-1]), said[-500:]


def test_the_core_imports_no_framework() -> None:
    text = "import hermetic, sys; print([name for name in ('inspect_ai', 'pydantic', 'mcp') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout
        == "[]\n"
    )
