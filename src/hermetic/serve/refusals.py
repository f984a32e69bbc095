"""Refused requests: the status, a code for programs, and what happened and what to do for people."""

from collections.abc import Mapping

import msgspec

from hermetic.contract import errors


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed."""

    code: str
    message: str
    advice: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error."""

    error: Problem


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        advice: str = "",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(code=code, message=message, advice=advice)
        self.headers = dict(headers or {})


def refusal_of(error: Exception) -> Refused | None:
    """The answer to an error of the library; None for a fault of ours."""
    message = str(error)
    match error:
        case Refused():
            return error
        case errors.UnknownProcess():
            return Refused(
                404, "unknown_process", message, "List the processes of the environment."
            )
        case errors.UnknownApproval():
            return Refused(404, "unknown_approval", message, "List the approvals again.")
        case errors.InputClosed():
            return Refused(409, "input_closed", message)
        case errors.NotPermitted():
            return Refused(403, "not_permitted", message)
        case errors.Unreachable():
            return Refused(503, error.state, message, "Try again, or end the environment.")
        case errors.EnvironmentUnavailable():
            return Refused(404, "environment_gone", message, "List the environments again.")
        case errors.Unsupported():
            return Refused(409, "unsupported", message)
        case errors.InvalidArgument() | errors.ConfigError():
            return Refused(400, "invalid", message)
        case errors.ExecutionError():
            return Refused(503, "failed", message)
        case FileNotFoundError():
            return Refused(404, "no_such_file", message, "List the directory again.")
        case PermissionError():
            return Refused(403, "file_refused", message)
        case OSError():
            return Refused(400, "file_error", message)
    return None
