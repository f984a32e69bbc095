"""Timeouts by the hundred leave nothing open."""

import pytest

import hermetic
from hermetic.contract.environment import EnvironmentInfo
from tests.sizes import scale


def descriptors(info: EnvironmentInfo) -> int:
    assert info.descriptors is not None
    return info.descriptors


@pytest.mark.slow
async def test_no_descriptor_is_left_by_a_thousand_timeouts() -> None:
    async with hermetic.open("local") as env:
        texts = ("sleep 600", "echo x; sleep 600 & sleep 600", "cat /dev/zero | tr '\\0' x")
        for turn in range(20):
            await env.run(texts[turn % 3], timeout=0.02, limit=100)
        before = await env.info()
        for turn in range(scale(1000)):
            result = await env.run(texts[turn % 3], timeout=0.02, limit=100, separate=turn % 2 == 0)
            assert result.exit_code == 124
        after = await env.info()
        # Each log that outgrew its head keeps one, as long as it is kept: at most 128 commands.
        spooled = sum(info.out > 65536 for info in await env.processes())
        assert descriptors(after) - descriptors(before) <= spooled + 8  # copies may be on their way
