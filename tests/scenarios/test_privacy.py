"""What an environment keeps on disk is for its owner alone, and it has a name that nobody else has."""

import os
import re
import stat
from pathlib import Path

import hermetic
from hermetic.registry.records import Records, runtime_root


async def test_everything_on_disk_is_private() -> None:
    async with hermetic.open("local") as env:
        await env.run("export SECRET=1; umask 000")
        await env.run("head -c 1000000 /dev/zero")
        record = Records(runtime_root()).read(env.id)
        assert record is not None
        assert record.spool is not None
        directory = Path(record.directory)
        for folder in (directory, Path(record.spool)):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        names = sorted(os.listdir(directory))
        assert {"env.json", "s"} <= set(names)
        open_to_others = {
            name for name in names if stat.S_IMODE((directory / name).lstat().st_mode) & 0o077
        }
        assert open_to_others == set()
        assert os.listdir(record.spool) == [], "the spool's files have no names"


async def test_each_environment_has_an_id_of_its_own() -> None:
    async with hermetic.open("local") as first, hermetic.open("local") as second:
        assert first.id != second.id
        assert all(re.fullmatch(r"e-[0-9a-f]{12}", env.id) for env in (first, second))
