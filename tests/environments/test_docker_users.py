"""Users of containers, and the directories that their commands start in."""

import pytest

import hermetic
from hermetic.session.keeping import record_of
from tests.environments.engines import both_engines, ours
from tests.sizes import at_full_size


@both_engines
@pytest.mark.parametrize("user", ["1000:1000", *at_full_size("1000", "nobody")])
async def test_another_user_has_a_directory_of_its_own(engine: str, image: str, user: str) -> None:
    async with hermetic.open(engine, image=image, user=user) as env:
        result = await env.run("pwd; echo $HOME; touch here ~/there && stat -c %U $PWD && id -u")
        assert result.exit_code == 0, result
        assert result.output.splitlines()[:2] == ["/root", "/root"]
        assert any(note.startswith("/root was made for user") for note in record_of(env).notes)


@pytest.mark.parametrize("user", ["1000:1000", None])
async def test_a_missing_cwd_is_made_for_the_user(
    engine: str, image: str, user: str | None
) -> None:
    async with hermetic.open(engine, image=image, user=user, cwd="/data/new") as env:
        result = await env.run("pwd; touch f && id -u")
        assert result.output.splitlines() == ["/data/new", "1000" if user else "0"]
        notes = [note for note in record_of(env).notes if note.startswith("/data/new was made")]
        assert len(notes) == (user is not None)
        assert (await env.run("stat -c %u /data/new")).output == ("1000\n" if user else "0\n")


async def test_a_cwd_that_is_closed_to_the_user_is_named(engine: str, image: str) -> None:
    with pytest.raises(
        hermetic.EnvironmentUnavailable, match="/var/cache/ldconfig' cannot be entered by user 1000"
    ):
        await hermetic.open(engine, image=image, user="1000:1000", cwd="/var/cache/ldconfig")
    assert ours(engine) == []
