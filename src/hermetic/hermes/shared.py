"""What the functions of this package share: callbacks, the interrupt flag, overrides of tasks, and
the toolboxes.
"""

import contextlib
import inspect
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from hermetic.config import load
from hermetic.contract.approval import ANSWERS, Answer, ApprovalRequest, Denial
from hermetic.contract.errors import ConfigError
from hermetic.contract.notice import Notice
from hermetic.hermes.activity import Beat
from hermetic.hermes.host import NOBODY, Caller, Host
from hermetic.hermes.prompts import ask_at_terminal, password_at_terminal

ApprovalCallback = Callable[..., str]
PasswordCallback = Callable[[], str]

_log = logging.getLogger("hermetic.hermes")


class Shared:
    """One for the process. Its toolboxes are made with their first use, and ended by `close`."""

    def __init__(self) -> None:
        self.approval: ApprovalCallback | None = None
        self.password: PasswordCallback | None = None
        self.interrupted = threading.Event()
        self.overrides: dict[str, dict[str, Any]] = {}
        self.on_notice: Callable[[Notice], object] = lambda notice: None
        self._hosts: dict[str, Host] = {}
        self._lock = threading.RLock()

    def host(self, kind: str | None = None) -> Host:
        """The toolbox of the configured kind, or of another one. Raises ConfigError."""
        with self._lock:
            key = kind or ""
            if key not in self._hosts:
                host = self._hosts[key] = Host(
                    load(kind=kind), lambda notice: self.on_notice(notice)
                )
                for note in host.settings.notes:
                    _log.info("%s", note)
                for task, overrides in self.overrides.items():
                    host.override(task, overrides)
            return self._hosts[key]

    @property
    def hosts(self) -> list[Host]:
        """The toolboxes that were made."""
        with self._lock:
            return list(self._hosts.values())

    def close(self) -> None:
        """Ends all toolboxes and their environments. The next call reads the settings again."""
        with self._lock:
            hosts, self._hosts = self._hosts, {}
        for host in hosts.values():
            host.close(remove=True)

    def override(self, task_id: str, overrides: Mapping[str, Any]) -> None:
        """Registers the overrides of a task. They hold for its next environment."""
        self.overrides[task_id] = dict(overrides)
        for host in self.hosts:
            with contextlib.suppress(ConfigError):  # it has an environment
                host.override(task_id, overrides)

    def clear_override(self, task_id: str) -> None:
        """Forgets the overrides of a task."""
        self.overrides.pop(task_id, None)
        for host in self.hosts:
            host.clear_override(task_id)

    def caller(self, forced: str | None = None) -> Caller:
        """The ways back to the user, as the callbacks and variables say; `forced` is a text that is
        approved.
        """

        def approve(request: ApprovalRequest) -> Answer | Denial:
            return (
                "once"
                if forced is not None and request.command == forced
                else self._approve(request)
            )

        return Caller(approve, self._password, self.interrupted.is_set, Beat())

    def _approve(self, request: ApprovalRequest) -> Answer | Denial:
        if self.approval is not None:
            return answer_of_callback(self.approval, request)
        if is_set("HERMES_INTERACTIVE"):
            return ask_at_terminal(request)
        return NOBODY

    def _password(self, prompt: str) -> str | None:
        if self.password is not None:
            return self.password() or None
        return password_at_terminal(prompt) if is_set("HERMES_INTERACTIVE") else None


def answer_of_callback(callback: ApprovalCallback, request: ApprovalRequest) -> Answer:
    """The answer of a callback that takes the command and a description; an unknown one is "deny"."""
    more: dict[str, Any] = {}
    if "allow_permanent" in inspect.signature(callback).parameters:
        more["allow_permanent"] = "always" in request.scope
    answer = callback(request.command, request.reason, **more)
    return next((known for known in ANSWERS if known == answer), "deny")


def is_set(variable: str) -> bool:
    """Whether a variable says yes."""
    return os.environ.get(variable, "").strip().lower() not in ("", "0", "false", "no", "off")


shared = Shared()
