"""What holds for every test: a private home, an event loop for `async def`, bounds on time, nothing
left behind.
"""

import functools
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from hermetic.registry.private import spool_base
from hermetic.registry.records import Records
from tests import event_loop, leftovers
from tests.cli.forked import ForkServer
from tests.sizes import is_full

# Generous: a test that gets here hangs. Its own waits are the tight ones.
FAST_SECONDS = 120.0
SLOW_SECONDS = 1800.0

# What a finished test still holds goes away within half a second; tenfold slack.
PATIENCE_SECONDS = 5.0

KEPT_SETTINGS = ("HERMETIC_FULL",)
FOREIGN_PREFIXES = ("HERMETIC_", "TERMINAL_", "XDG_")
FOREIGN_NAMES = (
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "CDPATH",
    "TAVILY_API_KEY",
    "TAVILY_BASE_URL",
    "EXA_API_KEY",
    "FIRECRAWL_API_KEY",
    "FIRECRAWL_API_URL",
    "SEARXNG_URL",
    "BRAVE_SEARCH_API_KEY",
)

runtime = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Gives the session a runtime directory and a home of its own, whatever the user's settings
    are.
    """
    leftovers.adopt_orphans()
    gc.disable()  # until the tests are collected: what that makes is here to stay
    # Ignored in the background of a shell or under nohup; every child would inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            )
    # Not under TMPDIR, which may be long: the path of a Unix socket has to stay below 100 bytes.
    directory = Path(tempfile.mkdtemp(prefix="hm-", dir="/tmp"))
    config.stash[runtime] = directory
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.option.basetemp = directory / "t"  # a worker's own would be longer
    for name in list(os.environ):
        if name in FOREIGN_NAMES or (
            name.startswith(FOREIGN_PREFIXES) and name not in KEPT_SETTINGS
        ):
            del os.environ[name]
    for variable, folder in (("HERMETIC_RUNTIME_DIR", "run"), ("HOME", "home")):
        (directory / folder).mkdir(mode=0o700)
        os.environ[variable] = str(directory / folder)
    # Kept between sessions and shared by workers: building a portable runtime takes seconds.
    os.environ["XDG_CACHE_HOME"] = f"/var/tmp/hermetic-tests-cache-{os.geteuid()}"
    # Every command line that a test starts would else compile the package anew, and every run all
    # tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    hypothesis.settings.register_profile(
        "hermetic",
        deadline=None,
        max_examples=1000 if is_full() else 50,
        print_blob=True,
        derandomize=not is_full(),
    )
    hypothesis.settings.load_profile("hermetic")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Takes the private directory away."""
    if directory := config.stash.get(runtime, None):
        shutil.rmtree(directory, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what runs at full size only.

    Fast tests come first; among workers the slow ones do, to overlap.
    """
    left_out = [] if is_full() else [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    items.sort(key=is_slow, reverse=hasattr(config, "workerinput"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keeps what is here to stay from garbage collection.

    Starts what forks the command line, where tests use it.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    program = sys.modules.get("tests.cli.program")
    if program is not None and not is_full() and not session.config.option.collectonly:
        program.forks.append(server := ForkServer(session.config.stash[runtime]))
        leftovers.SERVERS.add(server.pid)


def pytest_sessionfinish() -> None:
    """Ends that."""
    program = sys.modules.get("tests.cli.program")
    while program is not None and program.forks:
        server = program.forks.pop()
        leftovers.SERVERS.discard(server.pid)
        server.close()


def is_slow(item: pytest.Item) -> bool:
    """True for tests marked slow."""
    return item.get_closest_marker("slow") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Bounds the time of every test."""
    # The event loop's own bound comes first: it cancels and cleans up, the alarm only interrupts.
    with event_loop.bounded_in_time(seconds_for(item) + event_loop.AFTERWARDS):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each on a fresh event loop; True when it was one."""
    seconds = seconds_for(pyfuncitem)
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        event_loop.make_plain(pyfuncitem, seconds)
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    event_loop.run(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in wanted}, seconds)
    return True


def seconds_for(item: pytest.Item) -> float:
    """How long a test may take before it counts as hanging."""
    return SLOW_SECONDS if is_slow(item) else FAST_SECONDS


@pytest.fixture(autouse=True)
def nothing_left_behind(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fails a test that leaves a process, a thread, a descriptor or an environment's files."""
    run = pytestconfig.stash[runtime] / "run"
    before, spools = leftovers.take_stock(run), spools_of(run)
    yield
    if left := leftovers.left_since(before, patience=PATIENCE_SECONDS):
        pytest.fail("left behind by the test:\n  " + "\n  ".join(left), pytrace=False)
    # of a killed resident: for `gc`, but not for one that another test calls
    for spool in spools_of(run) - spools:
        shutil.rmtree(spool, ignore_errors=True)


def spools_of(run: Path) -> set[Path]:
    """Directories for output of the environments of a runtime directory, the living and the dead."""
    base, mark = _known_by(run)
    return (
        {base / name for name in os.listdir(base) if f".{mark}." in name}
        if base is not None
        else set()
    )


@functools.cache
def _known_by(run: Path) -> tuple[Path | None, str]:
    return spool_base(), Records(run).tag
