"""The names of Hermes: what they share is ended after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermetic import hermes
from hermetic.hermes.containers import find_docker


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A directory of its own as the place of commands; callbacks, the interrupt and all
    environments end here.
    """
    for name in (
        "HERMES_INTERACTIVE",
        "HERMES_GATEWAY_SESSION",
        "HERMES_EXEC_ASK",
        "HERMES_HOME",
        "SUDO_PASSWORD",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERMINAL_CWD", str(tmp_path))
    find_docker.cache_clear()
    yield
    hermes.set_interrupt_event(False)
    hermes.set_approval_callback(None)
    hermes.set_sudo_password_callback(None)
    hermes.cleanup_all_environments()
    hermes.close_all_terminals()
    for task in ("t", "a", "b"):
        hermes.clear_task_env_overrides(task)
    while not hermes.process_registry.completion_queue.empty():
        hermes.process_registry.completion_queue.get_nowait()
    find_docker.cache_clear()
