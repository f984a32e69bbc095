"""Errors: one tree, telling attributes, safe to send to another process."""

import pickle

import pytest

from hermetic.contract import errors

WITH_ATTRIBUTES: list[tuple[errors.ExecutionError, str]] = [
    (errors.InvalidArgument("m", argument="a"), "argument"),
    (errors.ConfigError("m", setting="a"), "setting"),
    (errors.NotPermitted("m", rule="a", reason="b"), "rule"),
    (errors.EnvironmentUnavailable("m", environment="a"), "environment"),
    (errors.Unreachable("m", environment="a"), "environment"),
    (errors.Unsupported("m", capability="a"), "capability"),
    (errors.UnknownProcess("m", process_id="a"), "process_id"),
    (errors.InputClosed("m", process_id="a"), "process_id"),
]


@pytest.mark.parametrize(
    ("error", "attribute"), WITH_ATTRIBUTES, ids=lambda value: type(value).__name__
)
def test_an_error_says_what_it_is_about(error: errors.ExecutionError, attribute: str) -> None:
    assert isinstance(error, errors.ExecutionError)
    assert getattr(error, attribute) == "a"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), getattr(copy, attribute)) == (type(error), "m", "a")


def test_an_invalid_argument_is_also_a_value_error() -> None:
    assert issubclass(errors.InvalidArgument, ValueError)


def test_the_drawn_tree_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    classes = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in classes if name not in drawn] == []
