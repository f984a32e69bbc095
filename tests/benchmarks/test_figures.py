"""Figures are judged as the targets say."""

import msgspec
import pytest

from benchmarks.figures import Report, Target, row, sample
from tests.benchmarks.reports import ratio, report, some_rows


def test_a_sample_tells_median_p95_and_worst() -> None:
    taken = sample([float(value) for value in range(100, 0, -1)])
    assert (taken.median, taken.p95, taken.worst, taken.count) == (50.5, 95.0, 100.0, 100)


def test_of_a_rate_the_low_values_are_the_bad_ones() -> None:
    taken = sample([float(value) for value in range(1, 101)], is_rate=True)
    assert (taken.p95, taken.worst) == (6.0, 1.0)
    assert row("r", "", "MB/s", [1.0, 2.0]).ours.worst == 1.0


def test_the_ratio_is_of_the_medians() -> None:
    made = row("x", "", "ms", [1.0, 2.0, 90.0], limit=("bare", [4.0, 4.0, 1.0]), target=ratio(0.5))
    assert (made.ratio, made.judged, made.met) == (0.5, 0.5, True)


@pytest.mark.parametrize(
    ("target", "met", "with_slack"),
    [
        (Target(of="ratio", most=1.9), False, True),
        (Target(of="ratio", most=0.19), False, False),
        (Target(of="p95-ratio", most=3.5), True, True),
        (Target(of="p95-ratio", most=3.0), False, True),
        (Target(of="difference", most=2.0), True, True),
        (Target(of="difference", most=0.1), False, False),
        (Target(of="worst", most=6.0), False, True),
        (Target(of="median", least=4.0), True, True),
        (Target(of="median", least=50.0), False, False),
        (Target(of="median", most=0.0), False, False),
    ],
)
def test_a_target_is_met_or_not_and_slack_widens_it(
    target: Target, met: bool, with_slack: bool
) -> None:
    made = row("x", "", "ms", [4.0, 4.0, 7.0], limit=("bare", [2.0]), target=target)
    assert (made.met, made.holds(slack=1.0), made.holds(slack=10.0)) == (met, met, with_slack)


def test_a_target_that_takes_a_limit_is_not_met_without_one() -> None:
    made = row("x", "", "ms", [4.0], target=ratio(5.0))
    assert made.met is None
    assert not made.holds(slack=10.0)


def test_a_report_goes_through_json() -> None:
    made = report(*some_rows())
    assert msgspec.json.decode(msgspec.json.encode(made), type=Report) == made
