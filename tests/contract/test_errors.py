"""Errors: one tree, telling attributes, safe to send to another process."""

import pickle
from pathlib import Path

import pytest

from hermetic.contract import errors
from hermetic.fleet import opening
from hermetic.link import failures
from hermetic.registry import records

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


@pytest.mark.parametrize(
    "error",
    [
        errors.EditRefused("m", reason="missing", path="p"),
        errors.NotInstalled("there is no bwrap", "install it"),
        failures.ResidentGone("it ended", environment="e-1"),
        failures.GivenUp("it ended", environment="e-1"),
        failures.Stalled(environment="e-1"),
        failures.Abandoned("run", environment="e-1"),
        failures.OtherLoop("e-1"),
        opening.LivesOtherwise("a", ["cwd"]),
        records.DamagedRecord(Path("/run/e-1/record"), "it is missing"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_with_a_message_of_its_own_travels_too(error: errors.ExecutionError) -> None:
    error.add_note("a note")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_an_invalid_argument_is_also_a_value_error() -> None:
    assert issubclass(errors.InvalidArgument, ValueError)


def test_the_drawn_tree_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    classes = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in classes if name not in drawn] == []
