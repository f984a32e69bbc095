"""What pytest needs to run the suite: the options that choose an environment, and the fixtures that tests ask for."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic.conformance.place import Place

Open = Callable[..., Awaitable[hermetic.Environment]]

_place = pytest.StashKey[Place]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --environment and --environment-option."""
    group = parser.getgroup("hermetic", "environment that is put to the suite")
    group.addoption("--environment", metavar="KIND", default="local", help="kind of environment (default: local)")
    group.addoption(
        "--environment-option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="option of that kind; the value is JSON, or else text; may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Remembers which environment is meant."""
    config.addinivalue_line("markers", "needs(capability): a place without it has to refuse it")
    options = dict(map(read_option, config.getoption("--environment-option")))
    config.stash[_place] = Place(config.getoption("--environment"), options)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the environment, before a conftest takes away what it made for the session."""
    if place := config.stash.get(_place, None):
        place.close()


def pytest_report_header(config: pytest.Config) -> str:
    """Says which environment is put to the suite."""
    place = config.stash[_place]
    return f"environment: {place.kind} {place.options or ''}".rstrip()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test on the event loop of its environment; what a place cannot do, it has to refuse."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    place = pyfuncitem.config.stash[_place]
    needed = {marker.args[0] for marker in pyfuncitem.iter_markers("needs")}
    if missing := needed & place.run(place.cannot()):
        for capability in missing:
            place.run(assert_refused(place, capability))
        return True
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    place.run(pyfuncitem.obj(**arguments))
    return True


async def assert_refused(place: Place, capability: str) -> None:
    """Fails unless the place refuses what it says it cannot do, and says what could be done."""
    environment = await place.environment()
    assert capability == "pty", f"nobody knows how to ask for {capability}"
    with pytest.raises(hermetic.Unsupported) as caught:
        await environment.start("true", pty=True)
    assert caught.value.capability == capability
    assert "without pty" in str(caught.value)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """The kind and options under test, and the event loop."""
    return request.config.stash[_place]


@pytest.fixture
def environment(place: Place) -> hermetic.Environment:
    """The environment under test. It is shared: leave its default session as it is, and end what you start."""
    return place.run(place.environment())


@pytest.fixture
def cannot(place: Place) -> frozenset[str]:
    """What the environment under test says it cannot do."""
    return place.run(place.cannot())


@pytest.fixture
def shell(place: Place, environment: hermetic.Environment) -> Iterator[hermetic.Session]:
    """A shell of its own in the environment under test."""
    session = environment.session(f"suite-{place.next_number()}")
    yield session
    place.run(_end(session))


@pytest.fixture
def directory(place: Place, environment: hermetic.Environment) -> Iterator[str]:
    """An empty directory in the environment."""
    made = place.run(environment.run("mktemp -d"))
    path = made.output.strip()
    assert path.startswith("/"), made
    yield path
    place.run(environment.run(["rm", "-rf", path]))


@pytest.fixture
def open_another(place: Place) -> Iterator[Open]:
    """Opens another environment of the same kind; it is ended after the test."""
    opened: list[hermetic.Environment] = []

    async def open_one(**more: Any) -> hermetic.Environment:
        environment = await hermetic.open(place.kind, **{**place.options, **more})
        opened.append(environment)
        return environment

    yield open_one
    for environment in opened:
        place.run(_remove(environment))


@pytest.fixture
def task(place: Place) -> str:
    """A task that nobody else has."""
    return f"suite-{place.next_number()}-{id(place):x}"


def read_option(text: str) -> tuple[str, Any]:
    """`memory_bytes=1000` → ("memory_bytes", 1000); what is no JSON is text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise pytest.UsageError(f"{text!r} is no option; write it as KEY=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


async def _end(session: hermetic.Session) -> None:
    try:
        await session.close()
    except hermetic.EnvironmentUnavailable:
        return


async def _remove(environment: hermetic.Environment) -> None:
    await environment.close()
    try:
        again = await hermetic.attach(environment.id)
    except hermetic.EnvironmentUnavailable:
        return
    await again.close(remove=True)
