"""Which process of this machine is the resident of an environment, whatever number it has where it
lives.
"""

import socket
import struct

import hermetic
from benchmarks.measuring import WrongResult
from hermetic.registry.records import Records, runtime_root


async def resident_pid(environment: hermetic.Environment) -> int:
    """As the kernel says of who listens at its socket; where that is not here, as the resident says
    itself.
    """
    record = Records(runtime_root()).read(environment.id)
    if record is None:
        raise WrongResult(f"{environment} has no record")
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(record.socket)
            pid, _, _ = struct.unpack(
                "3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
    except OSError:
        pid = 0
    return int(pid) or (await environment.info()).pid
