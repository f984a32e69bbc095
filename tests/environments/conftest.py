"""The engines of containers that tests of this directory use."""

import pytest

from tests.environments.engines import PODMAN, need_engine
from tests.programs import need_variable


@pytest.fixture(params=["docker", PODMAN])
def engine(request: pytest.FixtureRequest) -> str:
    """docker, and at full size podman."""
    need_engine(request.param)
    return str(request.param)


@pytest.fixture
def image() -> str:
    """An image with bash and python3."""
    return need_variable("IMAGE_BASE")
