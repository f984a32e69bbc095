"""What terminals of the console cost, held to the targets of the benchmarks with slack for a busy
machine.
"""

import pytest

from benchmarks import webterminal
from benchmarks.figures import Row
from benchmarks.measuring import Bench
from tests import event_loop
from tests.sizes import is_full


def expect(seconds: float) -> None:
    """A flood that takes minutes by its yardstick gets them, with slack for other work of the
    machine.
    """
    event_loop.allow(3 * seconds + 60)


BENCH = Bench(quick=not is_full(), expect=expect)
SLACK = 1.5 if is_full() else 10.0


def held(rows: list[Row]) -> list[str]:
    """The rows that miss their target by more than the slack."""
    return [
        f"{row.name}: {row.judged} of {row.target}" for row in rows if not row.holds(slack=SLACK)
    ]


async def test_opened_and_closed_terminals_leave_nothing() -> None:
    assert held(await webterminal.rounds(BENCH)) == []


async def test_floods_arrive_whole() -> None:
    assert held(await webterminal.floods(BENCH)) == []


async def test_ctrl_c_in_a_flood_to_a_slow_client() -> None:
    assert held(await webterminal.interrupt(BENCH)) == []


async def test_a_stalled_viewer_costs_little_and_slows_no_other() -> None:
    assert held(await webterminal.stalled(BENCH)) == []


@pytest.mark.full
async def test_idle_terminals_cost_nothing() -> None:
    assert held(await webterminal.idle(BENCH)) == []


@pytest.mark.full
@pytest.mark.alone
async def test_a_key_is_echoed_and_a_terminal_opens_soon() -> None:
    assert held([*await webterminal.echo(BENCH), *await webterminal.opening(BENCH)]) == []
