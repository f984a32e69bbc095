"""An opening that is cancelled leaves nothing, also by who cancels at each `await` until the block
has ended, as anyio does.
"""

from typing import Any

import anyio
import pytest

import hermetic
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.sizes import at_full_size, is_full

TRIES = 60 if is_full() else 12


@pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])
async def test_an_opening_that_is_cancelled_again_and_again_leaves_nothing(kind: str) -> None:
    options: dict[str, Any] = {"login": False}
    if kind == "docker":
        need_engine(kind)
        options["image"] = need_variable("IMAGE_BASE")
    with anyio.CancelScope():
        started = anyio.current_time()
        async with hermetic.open(kind, **options):
            whole = anyio.current_time() - started
    for turn in range(TRIES):
        with anyio.move_on_after(whole * 1.2 * turn / TRIES):
            environment = await hermetic.open(kind, **options)
            await environment.close(remove=True)
