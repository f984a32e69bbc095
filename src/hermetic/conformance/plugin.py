"""The pytest plugin of the suite: options that choose an environment, and the fixtures of its
tests.
"""

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

import hermetic
from hermetic import ConfigError, Environment, EnvironmentUnavailable, Session
from hermetic.cli.opening import read_option

T = TypeVar("T")
Open = Callable[..., Awaitable[Environment]]

SECONDS = 60.0  # for one test; a test that gets here hangs


class Subject:
    """The environment under test, and the event loop of all tests.

    It is opened on first use, and again after a test has ended it.
    """

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.kind = kind
        self.options = options
        self.numbers = itertools.count(1)  # for names that no other test has
        self._runner = asyncio.Runner()
        self._environment: Environment | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; an unhandled error in a task or callback fails it too."""
        unhandled: list[dict[str, Any]] = []

        async def bounded() -> T:
            asyncio.get_running_loop().set_exception_handler(
                lambda _loop, context: unhandled.append(context)
            )
            async with asyncio.timeout(SECONDS):
                return await work

        answer = self._runner.run(bounded())
        for first in unhandled:
            raise AssertionError(
                f"failed unseen on the event loop: {first['message']}"
            ) from first.get("exception")
        return answer

    async def environment(self) -> Environment:
        """The shared environment, alive."""
        if self._environment is not None:
            try:
                await self._environment.info()
            except EnvironmentUnavailable:
                await self._environment.close()
                self._environment = None
        if self._environment is None:
            self._environment = await hermetic.open(self.kind, **self.options)
        return self._environment

    def close(self) -> None:
        """Ends the environment and the event loop."""
        if self._environment is not None:
            self.run(self._environment.close())
        self._runner.close()


_subject = pytest.StashKey[Subject]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --environment and --environment-option."""
    group = parser.getgroup("hermetic", "environment that is put to the suite")
    group.addoption(
        "--environment",
        metavar="KIND",
        default="local",
        help="kind of environment (default: local)",
    )
    value = "option of that kind; the value is JSON, or else text; may be repeated"
    group.addoption(
        "--environment-option", metavar="KEY=VALUE", action="append", default=[], help=value
    )


def pytest_configure(config: pytest.Config) -> None:
    """Stores the environment under test."""
    try:
        options = dict(map(read_option, config.getoption("--environment-option")))
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_subject] = Subject(config.getoption("--environment"), options)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the environment, before a conftest removes what it made for the session."""
    if subject := config.stash.get(_subject, None):
        subject.close()


def pytest_report_header(config: pytest.Config) -> str:
    """The environment that is put to the suite."""
    subject = config.stash[_subject]
    return f"environment: {subject.kind} {subject.options or ''}".rstrip()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test on the event loop of its environment."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    subject = pyfuncitem.config.stash[_subject]
    wanted = inspect.signature(pyfuncitem.obj).parameters
    subject.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The kind and options under test, and the event loop."""
    return request.config.stash[_subject]


@pytest.fixture
def env(subject: Subject) -> Environment:
    """The environment under test.

    It is shared: leave its default session as it is, and end what you start.
    """
    return subject.run(subject.environment())


@pytest.fixture
def shell(subject: Subject, env: Environment) -> Iterator[Session]:
    """A shell of its own in the environment under test; its processes are ended after the test."""
    session = env.session(f"suite-{next(subject.numbers)}")
    yield session
    subject.run(_end(env, session))


async def _end(env: Environment, session: Session) -> None:
    with suppress(EnvironmentUnavailable):
        for info in await env.processes():
            if info.session == session.name and info.kind == "process" and info.is_running:
                await (await env.process(info.id)).kill(grace=0)
        await session.close()


@pytest.fixture
def directory(subject: Subject, env: Environment) -> Iterator[str]:
    """An empty directory in the environment."""
    made = subject.run(env.run("mktemp -d"))
    path = made.output.strip()
    assert path.startswith("/"), made
    yield path
    subject.run(env.run(["rm", "-rf", path]))


@pytest.fixture
def open_another(subject: Subject) -> Iterator[Open]:
    """Opens another environment of the same kind; it is ended after the test."""
    opened: list[Environment] = []

    async def open_one(**more: Any) -> Environment:
        environment = await hermetic.open(subject.kind, **{**subject.options, **more})
        opened.append(environment)
        return environment

    yield open_one
    for environment in opened:
        subject.run(_remove(environment))


async def _remove(environment: Environment) -> None:
    await environment.close()
    with suppress(EnvironmentUnavailable):
        await (await hermetic.attach(environment.id)).close(remove=True)


@pytest.fixture
def task(subject: Subject) -> str:
    """A task that no other caller has."""
    return f"suite-{next(subject.numbers)}-{id(subject):x}"
