"""The errors: each means that *we* could not do our part. How a command ended is never an error.

ExecutionError
├─ InvalidArgument         an argument cannot be used; nothing was started. Also a ValueError
│  ├─ EditRefused          an edit does not fit the file; nothing was written
│  └─ FileChanged          a file is not as it was when the caller read it
├─ ConfigError             unknown kind, option or setting; names the valid ones
├─ NotPermitted            policy or a person said no
│  ├─ ApprovalRequired     it waits for an answer
│  └─ Driven               a person drives the process, and its input is theirs
├─ EnvironmentUnavailable  never came up, or is gone
│  ├─ Unreachable          it cannot be used now; it may live on
│  └─ NotInstalled         a program that this kind needs is missing on this machine
├─ Unsupported             this environment cannot do that; says what could
├─ UnknownProcess          no process with that id
├─ InputClosed             the standard input of that process is closed
├─ UnknownApproval         no pending request with that id
└─ BridgeError             a script broke the call protocol
"""

from typing import Literal

State = Literal["broken", "stalled", "full", "busy", "damaged"]


class ExecutionError(Exception):
    """Hermetic could not do its part."""

    def __reduce__(self) -> tuple[object, ...]:
        """Restored with its message and fields: a worker process can hand it to its parent."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[ExecutionError], args: tuple[object, ...]) -> ExecutionError:
    return kind.__new__(kind, *args)


class InvalidArgument(ExecutionError, ValueError):
    """An argument cannot be used; nothing was started."""

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class EditRefused(InvalidArgument):
    """An edit does not fit the files; nothing was written."""

    def __init__(self, message: str, *, reason: str, path: str = "", argument: str = "") -> None:
        super().__init__(message, argument=argument)
        # missing, ambiguous, unchanged, malformed, broken, conflict, stale, encoding, binary, …
        self.reason = reason
        self.path = path


class FileChanged(InvalidArgument):
    """A file has changed since its signature was taken; nothing was written."""


class ConfigError(ExecutionError):
    """An unknown or invalid kind, option or setting; the message names the valid ones."""

    def __init__(self, message: str, *, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class NotPermitted(ExecutionError):
    """The policy or a person refused, or no person answered."""

    def __init__(self, message: str, *, rule: str = "", reason: str = "", by: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.reason = reason
        # as in the journal: policy, rule, mode, nobody, user, timeout, withdrawn, approver failed,
        # …
        self.by = by


class ApprovalRequired(NotPermitted):
    """The approval is pending; the same call may pass after an answer."""

    def __init__(
        self,
        message: str,
        *,
        rule: str = "",
        reason: str = "",
        request: str = "",
        command: str = "",
        description: str = "",
        pattern_key: str = "",
    ) -> None:
        super().__init__(message, rule=rule, reason=reason, by="queue")
        self.request = request
        self.command = command  # the text that waits
        self.description = description  # what in it has to be allowed, and why
        self.pattern_key = pattern_key  # the rule that asks


class Driven(NotPermitted):
    """A person drives the process: it takes no other input until it is given back."""

    def __init__(self, message: str, *, process_id: str = "", driver: str = "") -> None:
        super().__init__(message, reason="a person drives the process", by="driver")
        self.process_id = process_id
        self.driver = driver  # empty: the caller drove it, and does not any more


class EnvironmentUnavailable(ExecutionError):
    """The environment did not start, or is gone."""

    def __init__(self, message: str, *, environment: str = "") -> None:
        super().__init__(message)
        self.environment = environment


class Unreachable(EnvironmentUnavailable):
    """The environment cannot be used now. Its processes may still run; nothing was ended or
    replaced.

    `state` says why, and the message what to do: "broken", the transport to it fails; "stalled",
    its resident does not answer; "full", it has as many clients as it takes; "busy", this program
    or machine has no descriptors or memory left to connect; "damaged", its record cannot be used.
    """

    def __init__(self, message: str, *, environment: str = "", state: State = "broken") -> None:
        super().__init__(message, environment=environment)
        self.state = state


class NotInstalled(EnvironmentUnavailable):
    """A program that a kind of environment needs is not on this machine, or cannot be used."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem, self.advice = problem, advice


class Unsupported(ExecutionError):
    """This environment cannot do that; the message says what can."""

    def __init__(self, message: str, *, capability: str = "") -> None:
        super().__init__(message)
        self.capability = capability


class UnknownProcess(ExecutionError):
    """No process or log has that id here."""

    def __init__(self, message: str, *, process_id: str = "") -> None:
        super().__init__(message)
        self.process_id = process_id


class InputClosed(ExecutionError):
    """The process takes no more input."""

    def __init__(self, message: str, *, process_id: str = "") -> None:
        super().__init__(message)
        self.process_id = process_id


class UnknownApproval(ExecutionError):
    """No request with that id is pending."""


class BridgeError(ExecutionError):
    """A script broke the call protocol."""
