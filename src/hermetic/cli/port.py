"""`hermetic port`: a port inside an environment, reached from this machine."""

import argparse
import asyncio
import contextlib

from hermetic.cli.command import FAILED, JSON, Command, options, report_error
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.opening import guarded
from hermetic.cli.report import one_line, print_json
from hermetic.contract.errors import ExecutionError, InvalidArgument
from hermetic.session.environment import Environment
from hermetic.session.process import Process

HERE = "127.0.0.1"
MOST_PORT = 65535
PIECE_BYTES = 1 << 16
WAIT = 60.0  # seconds that one request waits for output
# One connection, made inside: stdin goes to the port, and what the port sends to stdout. Python
# 3.8.
RELAY = """
import os, socket, sys, threading
try:
    there = socket.create_connection(("localhost", int(sys.argv[1])), 10)
except OSError as error:
    sys.exit(str(error))
there.settimeout(None)
def send():
    while True:
        data = os.read(0, 65536)
        if not data:
            break
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while True:
    data = there.recv(65536)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
"""


@interruptible
async def _main(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Accepts connections until Ctrl-C or the end of the environment."""
    for port in (arguments.port, arguments.local or 1):
        if not 0 < port <= MOST_PORT:
            raise InvalidArgument(f"{port} is no port; there are 1 to {MOST_PORT}", argument="port")
    async with guarded(arguments.task) as environment:
        name = environment.task or environment.id
        if (await environment.run("command -v python3")).exit_code != 0:
            raise ExecutionError(
                f"{name} has no python3, which carries the connections; install it there"
            )
        async with asyncio.TaskGroup() as connections:
            server = await _listen(environment, arguments, connections)
            host, port = server.sockets[0].getsockname()
            if arguments.json:
                inside = {"inside": arguments.port, "environment": environment.id}
                print_json({"host": host, "port": port, **inside})
            else:
                what = f"{host}:{port} is port {arguments.port} of {one_line(name)}"
                print(f"{what}; Ctrl-C ends it", flush=True)
            async with server:
                await _until_gone(environment)
    return 0


async def _listen(
    environment: Environment, arguments: argparse.Namespace, connections: asyncio.TaskGroup
) -> asyncio.Server:
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.create_task(_carry(environment, arguments.port, reader, writer))

    try:
        return await asyncio.start_server(accept, HERE, arguments.local or arguments.port)
    except OSError as error:
        if arguments.local is not None:
            raise ExecutionError(
                f"port {arguments.local} cannot be used here: {error.strerror}"
            ) from None
        return await asyncio.start_server(accept, HERE, 0)


async def _until_gone(environment: Environment) -> None:
    """Raises EnvironmentUnavailable when the environment has ended."""
    async for _ in environment.events():
        pass


async def _carry(
    environment: Environment, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection; its process inside ends with it."""
    try:
        process = await environment.start(
            ["python3", "-c", RELAY, str(port)], separate=True, tag="port"
        )
        sending = asyncio.create_task(_send(reader, process))
        try:
            await _receive(process, writer)
        finally:
            sending.cancel()
            await process.kill(0)
        if process.info.out == 0 and (why := await environment.read_log(f"{process.id}/err")).data:
            report_error(
                f"port {port}: {why.data.decode(errors='replace').splitlines()[-1]}", FAILED
            )
    except (ExecutionError, OSError):  # the connection ends, the others go on
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _send(reader: asyncio.StreamReader, process: Process) -> None:
    with contextlib.suppress(ExecutionError, OSError):
        while data := await reader.read(PIECE_BYTES):
            await process.write(data)
        await process.close_input()


async def _receive(process: Process, writer: asyncio.StreamWriter) -> None:
    """Raises ConnectionError when the reader here is so late that output was dropped."""
    offset, ended = 0, False
    while not ended:
        chunk = await process.read(offset, wait=WAIT)
        if chunk.start > offset:
            raise ConnectionError("output was dropped")
        writer.write(chunk.data)
        await writer.drain()
        offset, ended = chunk.end, chunk.ended


COMMANDS = {
    "port": Command(
        """\
Reaches a port inside an environment from this machine, until Ctrl-C. The environment needs no network: each connection
is carried by a process inside, which needs python3 there.

  hermetic port web 8000                127.0.0.1:8000, or a free port where that is taken
  hermetic port --local 9000 web 8000""",
        options(
            "--local PORT: int  the port here (default: the same, or a free one)",
            JSON,
            """\
task TASK       a task, or the id of an environment, or its start
port PORT: int  the port inside""",
        ),
        _main,
    ),
}
