"""A backend whose resident has no guardian and cannot take away what it has on this host, as in a
container.
"""

import os
import secrets

import msgspec

from hermetic.contract.environment import NewEnvironment, ResidentConfig, Started
from hermetic.contract.limits import LOGIN, START
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local import Local
from hermetic.environments.starting import start_resident
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.registry.file_lock import hold_directory

KIND = "unguarded"

# Holds the directory until the resident is ready, also when the opener was killed, as the client of
# an engine does.
CLIENT = ("/bin/sh", "-c", '"$@" | cat', "client")


class Unguarded(Local):
    """As `local`, but nobody cleans up where the resident ends."""

    kind = KIND
    leaves_files = True
    interpreter = os.path.realpath("/proc/self/exe")

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident beside us, without a guardian."""
        options = self.chosen
        config = ResidentConfig(
            id=f"{new.id}.{secrets.token_hex(4)}",
            token=new.token,
            directory=new.directory,
            spool=new.spool,
            label=new.label,
            cwd="/",
            environ=child_environment(os.environ),
            lease=options.lease,
            unattended=options.unattended,
            login=False,
            login_timeout=LOGIN,
            guardian=False,
        )
        given = starting_input(build_archive(), msgspec.msgpack.encode(config))
        argv = [*CLIENT, self.interpreter, "-I", "-S", "-c", BOOT]
        hold = hold_directory(new.directory)
        try:
            return await start_resident(argv, given, seconds=START, passed=hold)
        finally:
            os.close(hold)
