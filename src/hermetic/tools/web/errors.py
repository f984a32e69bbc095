"""Errors of the web tools."""

from hermetic.contract.errors import ExecutionError


class FetchError(ExecutionError):
    """Nothing could be fetched, or what came cannot be read."""


class Refused(FetchError):
    """An address that must not be fetched.

    `rule` is the user's rule that excludes it, if one does.
    """

    def __init__(self, message: str, *, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule
