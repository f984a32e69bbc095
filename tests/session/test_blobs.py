"""Input that is sent ahead in pieces, over connections that break."""

import pytest

import hermetic
from hermetic.link import answers
from hermetic.link.failures import BrokenOff
from hermetic.session.blobs import TRIES, with_blob
from hermetic.session.keeping import link_of


async def test_input_that_is_lost_with_each_connection_is_no_fault_of_the_callers() -> None:
    async with hermetic.open("local", login=False) as env:
        link, tried = link_of(env), 0

        async def use(blob: str) -> None:
            nonlocal tried
            tried += 1
            link.drop("the test breaks it")
            await link.ask("write_file", answers.done, path="/tmp/none", blob=blob)

        with pytest.raises(BrokenOff, match="nothing was done"):
            await with_blob(link, lambda: [b"input"], use)
        assert tried == TRIES
        assert (await env.run("cat", stdin=b"x" * (2 << 20), limit=1)).total_bytes == 2 << 20
