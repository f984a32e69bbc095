"""A stand-in for Modal's control plane and for the router of its workers, at the level of their
RPCs.

Run as `python modal_server.py DIRECTORY`; prints the variables to set, and ends with its input. One
port serves both services. As with the real ones, output is read and input is written by byte
offset, a repeated write is not applied twice, and no RPC ends an exec: a caller that dies leaves
its exec with an open input.
"""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import modal  # noqa: F401  before modal_proto, which imports it
from grpclib import GRPCError, Status
from grpclib.config import Configuration
from grpclib.server import Server
from modal._utils.grpc_testing import patch_mock_servicer
from modal_proto import api_grpc, api_pb2
from modal_proto import task_command_router_grpc as router_grpc
from modal_proto import task_command_router_pb2 as router_pb2
from places import NO_IMAGE, STUCK, Place, end_with_input, note_created, published

TOKEN = {"MODAL_TOKEN_ID": "ak-standin", "MODAL_TOKEN_SECRET": "as-standin"}
WINDOW = 64 << 20
SNAPSHOT = "im-snapshot-"  # begins the id of an image of a sandbox's files
Result = api_pb2.GenericResult

boxes: dict[str, "Box"] = {}
root = Path(sys.argv[1])
url = ""


def token(seconds: float) -> str:
    """What looks like a JWT to the SDK."""
    parts = ({"alg": "none"}, {"exp": int(time.time() + seconds)})
    return ".".join(
        [
            *(
                base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=")
                for one in parts
            ),
            "x",
        ]
    )


class Output:
    """Everything that one descriptor has printed, for readers at any offset."""

    def __init__(self) -> None:
        self.data, self.has_ended, self.changed = bytearray(), False, asyncio.Condition()

    async def fill(self, stream: asyncio.StreamReader) -> None:
        """Returns at its end."""
        while True:
            chunk = await stream.read(1 << 16)
            async with self.changed:
                self.data += chunk
                self.has_ended = not chunk
                self.changed.notify_all()
            if not chunk:
                return

    async def chunks(self, offset: int) -> AsyncIterator[bytes]:
        """The rest, as it comes; never an empty one, which the SDK takes for an error."""
        while True:
            async with self.changed:
                while len(self.data) <= offset and not self.has_ended:
                    await self.changed.wait()
                part = bytes(self.data[offset : offset + (1 << 20)])
            if not part:
                return
            offset += len(part)
            yield part


class Exec:
    """A program in a sandbox."""

    def __init__(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        self.process = process
        self.out, self.errors = Output(), Output()
        self.written, self.is_closed, self.has_timed_out = 0, False, False
        self._input = asyncio.Lock()
        assert process.stdout is not None
        assert process.stderr is not None
        loop = asyncio.get_running_loop()
        self._reading = [
            loop.create_task(self.out.fill(process.stdout)),
            loop.create_task(self.errors.fill(process.stderr)),
        ]
        if seconds:
            loop.call_later(seconds, self.kill)

    def kill(self) -> None:
        """Ends its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def write(self, offset: int, data: bytes, *, is_last: bool) -> None:
        """Applies what is new."""
        stdin = self.process.stdin
        assert stdin is not None
        async with self._input:
            if offset > self.written:
                raise GRPCError(Status.INVALID_ARGUMENT, f"offset {offset} after {self.written}")
            if fresh := data[self.written - offset :]:
                if self.is_closed:
                    raise GRPCError(Status.FAILED_PRECONDITION, "its input is closed")
                try:
                    stdin.write(fresh)
                    await stdin.drain()
                except ConnectionError:
                    raise GRPCError(Status.FAILED_PRECONDITION, "it reads no more") from None
                self.written += len(fresh)
            if is_last and not self.is_closed:
                self.is_closed = True
                stdin.close()

    def ending(self) -> dict[str, int]:
        """Fields of an answer; none while it runs."""
        code = self.process.returncode
        return {} if code is None else {"code": code} if code >= 0 else {"signal": -code}


class Box(Place):
    """A sandbox.

    Its id must not look like one of the first version: sb- and 22 letters or digits.
    """

    def __init__(self, request: Any) -> None:
        number = len(boxes) + 1
        image = request.definition.image_id
        super().__init__(root, f"sb-standin-{os.getpid()}-{number}", image)
        if image.startswith(SNAPSHOT):
            shutil.copytree(root / "images" / image, self.home, dirs_exist_ok=True)
        self.task, self.app, self.definition = (
            f"ta-standin{number}V",
            request.app_id,
            request.definition,
        )
        self.created = time.time()
        self.labels = {tag.tag_name: tag.tag_value for tag in request.tags}
        self.execs: dict[str, Exec] = {}
        self.result: Any = None
        self.over = asyncio.Event()

    async def run(self, words: Iterable[str], seconds: float = 0) -> Exec:
        """Starts a program."""
        pipe = asyncio.subprocess.PIPE
        try:
            return Exec(
                await asyncio.create_subprocess_exec(
                    *words,
                    cwd=self.home,
                    env=self.environ,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    start_new_session=True,
                ),
                seconds,
            )
        except FileNotFoundError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"no such program: {error}") from None

    async def watch(self) -> None:
        """Ends it with its entrypoint, or when its time is over."""
        first = self.execs["entrypoint"]
        try:
            code = await asyncio.wait_for(
                first.process.wait(), self.definition.timeout_secs or None
            )
            self.finish(Result.GENERIC_STATUS_SUCCESS, code)
        except TimeoutError:
            self.finish(Result.GENERIC_STATUS_TIMEOUT)

    def finish(self, status: int, code: int = 0) -> None:
        """Ends it with all that runs there."""
        if self.result is None:
            self.result = Result(status=status, exitcode=code)
            self.end()
            self.over.set()


def box(id: str) -> Box:
    if id not in boxes:
        raise GRPCError(Status.NOT_FOUND, f"no sandbox {id}")
    return boxes[id]


def unary(function: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[None]]:
    """An RPC with one message each way."""

    async def method(self: Any, stream: Any) -> None:
        request = await stream.recv_message()
        with (root / "requests").open("a") as file:
            file.write(f"{function.__name__}\n")
        metadata = stream.metadata
        if (
            "x-modal-token-id" in metadata
            and metadata["x-modal-token-id"] != TOKEN["MODAL_TOKEN_ID"]
        ):
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID not found")
        await stream.send_message(await function(self, request))

    method.__name__ = function.__name__
    return method


@patch_mock_servicer
class Control(api_grpc.ModalClientBase):
    """The control plane."""

    @unary
    async def ClientHello(self, request: Any) -> Any:
        return api_pb2.ClientHelloResponse()

    @unary
    async def AuthTokenGet(self, request: Any) -> Any:
        return api_pb2.AuthTokenGetResponse(token=token(3600))

    @unary
    async def AppGetOrCreate(self, request: Any) -> Any:
        return api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}")

    @unary
    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        # one that the SDK knows
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api_pb2.EnvironmentMetadata(name="main", settings=settings)
        return api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    @unary
    async def ImageGetOrCreate(self, request: Any) -> Any:
        first = next(iter(request.image.dockerfile_commands), "").lower()
        id = "im-nopython" if "nopython" in first else "im-1"
        done = Result(status=Result.GENERIC_STATUS_SUCCESS)
        if NO_IMAGE in first:
            done = Result(status=Result.GENERIC_STATUS_FAILURE, exception="manifest unknown")
        return api_pb2.ImageGetOrCreateResponse(image_id=id, result=done)

    @unary
    async def ImageFromId(self, request: Any) -> Any:
        if not (root / "images" / request.image_id).is_dir():
            raise GRPCError(Status.NOT_FOUND, f"no image {request.image_id}")
        return api_pb2.ImageFromIdResponse(image_id=request.image_id)

    @unary
    async def SandboxCreateV2(self, request: Any) -> Any:
        if any(
            one.result is None and one.definition.name == request.definition.name
            for one in boxes.values()
        ):
            raise GRPCError(Status.ALREADY_EXISTS, request.definition.name)
        new = Box(request)
        boxes[new.id] = new
        wanted, sizes = request.definition, request.definition.resources
        is_blocked = (
            wanted.network_access.network_access_type
            == api_pb2.NetworkAccess.NetworkAccessType.BLOCKED
        )
        note_created(
            root,
            lifetime=wanted.timeout_secs,
            idle=wanted.idle_timeout_secs,
            cpu=sizes.milli_cpu / 1000,
            memory=sizes.memory_mb,
            network=not is_blocked,
            tags=new.labels,
        )
        new.execs["entrypoint"] = await new.run(request.definition.entrypoint_args)
        asyncio.get_running_loop().create_task(new.watch())
        access = api_pb2.CommandRouterAccess(url=url, jwt=token(3600))
        metadata = api_pb2.SandboxHandleMetadata(app_id=new.app)
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=new.id, task_id=new.task, metadata=metadata, command_router_access=access
        )

    @unary
    async def SandboxGetCommandRouterAccess(self, request: Any) -> Any:
        if box(request.sandbox_id).result is not None:
            raise GRPCError(Status.FAILED_PRECONDITION, "the sandbox has ended")
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=url, jwt=token(3600))

    @unary
    async def SandboxGetTaskIdV2(self, request: Any) -> Any:
        one = box(request.sandbox_id)
        if one.result is not None:
            return api_pb2.SandboxGetTaskIdResponse(task_result=one.result)
        return api_pb2.SandboxGetTaskIdResponse(task_id=one.task)

    @unary
    async def SandboxWaitV2(self, request: Any) -> Any:
        one = box(request.sandbox_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(one.over.wait(), request.timeout or 0.001)
        metadata = api_pb2.SandboxHandleMetadata(app_id=one.app)
        return api_pb2.SandboxWaitResponse(result=one.result, metadata=metadata)

    @unary
    async def SandboxTerminateV2(self, request: Any) -> Any:
        if (root / STUCK).exists() and (root / STUCK).read_text() == request.sandbox_id:
            raise GRPCError(Status.INTERNAL, "no worker")
        box(request.sandbox_id).finish(Result.GENERIC_STATUS_TERMINATED)
        return api_pb2.SandboxTerminateResponse()

    @unary
    async def SandboxListV2(self, request: Any) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        before = request.before_timestamp or float("inf")  # the SDK asks until a page is empty
        found = [
            api_pb2.SandboxInfo(
                id=one.id, created_at=one.created, app_id=one.app, name=one.definition.name
            )
            for one in boxes.values()
            if one.result is None and wanted.items() <= one.labels.items() and one.created < before
        ]
        return api_pb2.SandboxListResponse(
            sandboxes=sorted(found, key=lambda one: -one.created_at)[:50]
        )

    @unary
    async def SandboxGetFromNameV2(self, request: Any) -> Any:
        for one in boxes.values():
            if one.result is None and one.definition.name == request.sandbox_name:
                metadata = api_pb2.SandboxHandleMetadata(app_id=one.app)
                return api_pb2.SandboxGetFromNameResponse(sandbox_id=one.id, metadata=metadata)
        raise GRPCError(Status.NOT_FOUND, request.sandbox_name)

    @unary
    async def SandboxGetFromName(self, request: Any) -> Any:
        # there is none of the first version
        raise GRPCError(Status.NOT_FOUND, request.sandbox_name)

    @unary
    async def SandboxTagsGetV2(self, request: Any) -> Any:
        tags = box(request.sandbox_id).labels.items()
        return api_pb2.SandboxTagsGetResponse(
            tags=[api_pb2.SandboxTag(tag_name=k, tag_value=v) for k, v in tags]
        )


@patch_mock_servicer
class Router(router_grpc.TaskCommandRouterBase):
    """The worker that a sandbox runs on."""

    def _box(self, task: str) -> Box:
        for one in boxes.values():
            if one.task == task and one.result is None:
                return one
        raise GRPCError(Status.NOT_FOUND, f"no task {task}")

    def _exec(self, request: Any) -> Exec:
        execs = self._box(request.task_id).execs
        if request.exec_id not in execs:
            raise GRPCError(Status.NOT_FOUND, f"no exec {request.exec_id}")
        return execs[request.exec_id]

    @unary
    async def TaskExecStart(self, request: Any) -> Any:
        one = self._box(request.task_id)
        if request.exec_id not in one.execs:  # the SDK repeats a call without an answer
            one.execs[request.exec_id] = await one.run(request.command_args, request.timeout_secs)
        return router_pb2.TaskExecStartResponse()

    async def TaskExecStdioRead(self, stream: Any) -> None:
        request = await stream.recv_message()
        one = self._exec(request)
        is_output = request.file_descriptor == router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        async for chunk in (one.out if is_output else one.errors).chunks(request.offset):
            await stream.send_message(router_pb2.TaskExecStdioReadResponse(data=chunk))

    async def TaskExecStdinWrite(self, stream: Any) -> None:
        request = await stream.recv_message()
        await self._exec(request).write(request.offset, request.data, is_last=request.eof)
        await stream.send_message(router_pb2.TaskExecStdinWriteResponse())

    @unary
    async def TaskExecStdinStatus(self, request: Any) -> Any:
        one = self._exec(request)
        return router_pb2.TaskExecStdinStatusResponse(
            num_bytes_written=one.written, closed=one.is_closed
        )

    @unary
    async def TaskExecPoll(self, request: Any) -> Any:
        return router_pb2.TaskExecPollResponse(**self._exec(request).ending())

    @unary
    async def TaskExecWait(self, request: Any) -> Any:
        one = self._exec(request)
        await one.process.wait()
        return router_pb2.TaskExecWaitResponse(**one.ending())

    @unary
    async def TaskSnapshotFilesystem(self, request: Any) -> Any:
        id = f"{SNAPSHOT}{request.snapshot_id[:8]}"
        shutil.copytree(self._box(request.task_id).home, root / "images" / id, symlinks=True)
        return router_pb2.TaskSnapshotFilesystemResponse(image_id=id)


async def serve() -> None:
    global url
    config = Configuration(http2_connection_window_size=WINDOW, http2_stream_window_size=WINDOW)
    server = Server([Control(), Router()], config=config)
    await server.start("127.0.0.1", 0)
    async with published(root, server._server.sockets[0].getsockname()[1]) as port:
        url = f"http://127.0.0.1:{port}"
        print(json.dumps({"MODAL_SERVER_URL": url, **TOKEN}), flush=True)
        over = asyncio.Event()
        end_with_input(over)
        await over.wait()
        server.close()
    for one in boxes.values():
        one.end()


if __name__ == "__main__":
    asyncio.run(serve())
