"""A connection to a socket whose directory somebody else may write to."""

import asyncio
import os
import socket
import stat


async def connect(path: str) -> socket.socket:
    """A connected, non-blocking stream. Never goes through a symbolic link at `path`. Raises OSError."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise ConnectionRefusedError(f"{path} is no socket")
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.setblocking(False)
            await asyncio.get_running_loop().sock_connect(stream, f"/proc/self/fd/{handle}")
        except BaseException:
            stream.close()
            raise
    finally:
        os.close(handle)
    return stream
