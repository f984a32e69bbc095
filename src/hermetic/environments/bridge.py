"""Bridge: a program that connects a resident's socket, which this machine cannot reach, to its own
stdin and stdout.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.starting import skip, stderr_text
from hermetic.registry.host_process import DETACHED, end, spawn

# Run there as `python3 -I -S -c BRIDGE SOCKET`. Writes one byte when it is connected; exits when
# either side does. If its input and output are one socket, it passes that to the resident, and no
# byte goes through the bridge.
BRIDGE = """\
import os, select, socket, stat, struct, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
os.write(1, b"+")
poll = select.poll()
ends = os.fstat(0), os.fstat(1)
if stat.S_ISSOCK(ends[0].st_mode) and os.path.samestat(*ends):
    stream.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))])
    poll.register(0, 0)
    poll.register(stream, select.POLLIN)
    poll.poll()
    sys.exit()
def carry(source, target):
    data = os.read(source, 65536)
    view = memoryview(data)
    while view:
        view = view[os.write(target, view):]
    return bool(data)
ways = {0: stream.fileno(), stream.fileno(): 1}
for source in ways:
    poll.register(source, select.POLLIN)
while all(carry(source, ways[source]) for source, _ in poll.poll()):
    pass
"""

# Errors with which BRIDGE exits: no listener, and no socket file (a cleaner of temporary files may
# have removed it).
COMPLAINTS = (ConnectionRefusedError, FileNotFoundError)


async def bridged(
    argv: Sequence[str],
    *,
    seconds: float,
    environ: Mapping[str, str] | None = None,
    after: bytes = b"",
) -> socket.socket:
    """A stream to the resident through a program that runs BRIDGE there. Output before `after` is
    skipped.

    Raises: ConnectionRefusedError for a socket without listener; FileNotFoundError where there is
    no socket; EnvironmentUnavailable when the program fails.
    """
    ours, theirs = socket.socketpair()
    stderr = os.memfd_create("errors")
    # Detached: it exits when its stream ends, which may be after this event loop.
    group = spawn([*DETACHED, *argv], theirs.fileno(), theirs.fileno(), stderr, environ or {})
    try:
        theirs.close()
        ours.setblocking(False)
        async with asyncio.timeout(seconds):
            if (
                await skip(ours, after)
                and await asyncio.get_running_loop().sock_recv(ours, 1) == b"+"
            ):
                return ours
        raise _failure("it ended", stderr)
    except BaseException as error:
        ours.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        if isinstance(error, TimeoutError):
            raise _failure(f"no answer within {seconds:g} s", stderr) from None
        raise
    finally:
        end(group)
        os.close(stderr)


def _failure(reason: str, stderr: int) -> Exception:
    said = stderr_text(stderr)
    last = said.splitlines()[-1] if said else ""
    for kind in COMPLAINTS:
        if last.startswith(kind.__name__):
            return kind(last)
    said = f"; it said:\n{said}" if said else ""
    return EnvironmentUnavailable(f"the bridge to the resident did not open: {reason}{said}")
