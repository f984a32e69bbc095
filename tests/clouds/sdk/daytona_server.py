"""A stand-in for Daytona's API and for the daemon in its sandboxes, at the level of their requests.

Run as `python daytona_server.py DIRECTORY`; prints the variables to set, and ends with its input.
The SDK's own models check the answers. Like the real daemon it takes at most 64 KiB in one message
of a terminal, cuts a client that is 256 chunks behind, and keeps a terminal whose connection has
ended.
"""

import asyncio
import base64
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
import uuid
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web
from places import NO_IMAGE, STUCK, Place, end_with_input, note_created, published

KEY = "standin-key"
SHELL = "bash"
MOST_CHUNKS = 256
MOST_MESSAGE = 64 * 1024
EXIT_CONTROL, VARIABLES = "X-Daytona-Pty-Exit-Control", "X-Daytona-Pty-Envs~"

boxes: dict[str, "Box"] = {}
root = Path(sys.argv[1])
url = ""
routes = web.RouteTableDef()


class Box(Place):
    """A sandbox."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        build = (wanted.get("buildInfo") or {}).get("dockerfileContent") or ""
        super().__init__(root, str(uuid.uuid4()), build)
        self.wanted, self.state = wanted, "build_failed" if NO_IMAGE in build else "started"
        self.name, self.labels = wanted.get("name") or self.id, wanted.get("labels") or {}
        self.terminals: dict[str, tuple[int, int]] = {}  # process and descriptor, by id
        self.deadline: asyncio.TimerHandle | None = None
        if minutes := wanted.get("ttlMinutes"):
            self.deadline = asyncio.get_running_loop().call_later(minutes * 60, self.delete)

    def delete(self) -> None:
        """Ends it for good."""
        if self.deadline is not None:
            self.deadline.cancel()
        self.state = "destroyed"
        self.end()

    def shown(self) -> dict[str, Any]:
        """Its description, with every field that the SDK requires."""
        wanted = self.wanted
        return {
            "id": self.id,
            "organizationId": "org",
            "name": self.name,
            "user": "daytona",
            "labels": self.labels,
            "env": wanted.get("env") or {},
            "public": False,
            "kvm": False,
            "target": "us",
            "gpu": 0,
            "networkBlockAll": bool(wanted.get("networkBlockAll")),
            "cpu": wanted.get("cpu") or 1,
            "memory": wanted.get("memory") or 1,
            "disk": wanted.get("disk") or 3,
            "state": self.state,
            "toolboxProxyUrl": f"{url}/toolbox",
            "snapshot": wanted.get("snapshot"),
            "errorReason": "manifest unknown" if self.state == "build_failed" else None,
            "autoStopInterval": wanted.get("autoStopInterval", 15),
        }


def box(request: web.Request) -> Box:
    """The sandbox that a request names."""
    wanted = request.match_info["box"]
    for one in boxes.values():
        if wanted in (one.id, one.name) and one.state != "destroyed":
            return one
    raise web.HTTPNotFound(
        text=json.dumps({"statusCode": 404, "message": f"Sandbox {wanted} not found"})
    )


# -- the API
@routes.post("/api/sandbox")
async def create(request: web.Request) -> web.Response:
    wanted = await request.json()
    if any(one.name == wanted.get("name") and one.state != "destroyed" for one in boxes.values()):
        return web.json_response(
            {"statusCode": 409, "message": "Sandbox already exists"}, status=409
        )
    new = Box(wanted)
    boxes[new.id] = new
    note_created(
        root,
        lifetime=wanted.get("ttlMinutes", 0) * 60,
        idle=wanted["autoStopInterval"] * 60,
        cpu=wanted.get("cpu"),
        memory=(wanted.get("memory") or 0) * 1024,
        network=not wanted["networkBlockAll"],
        tags=wanted["labels"],
    )
    return web.json_response(new.shown())


@routes.get("/api/sandbox")
async def listing(request: web.Request) -> web.Response:
    wanted = json.loads(request.query.get("labels") or "{}")
    found = [
        one.shown()
        for one in boxes.values()
        if one.state != "destroyed" and wanted.items() <= one.labels.items()
    ]
    return web.json_response({"items": found, "nextCursor": None})


@routes.get("/api/sandbox/{box}")
async def get(request: web.Request) -> web.Response:
    return web.json_response(box(request).shown())


@routes.delete("/api/sandbox/{box}")
async def delete(request: web.Request) -> web.Response:
    one = box(request)
    if (root / STUCK).exists() and (root / STUCK).read_text() == one.id:
        return web.json_response({"statusCode": 500, "message": "no runner"}, status=500)
    one.delete()
    return web.json_response(one.shown())


@routes.post("/api/sandbox/{box}/start")
async def start(request: web.Request) -> web.Response:
    one = box(request)
    one.state = "started"
    one.begin()
    return web.json_response(one.shown())


@routes.post("/api/sandbox/{box}/stop")
async def stop(request: web.Request) -> web.Response:
    one = box(request)
    one.state = "stopped"
    one.stop()
    return web.json_response(one.shown())


@routes.put("/api/sandbox/{box}/labels")
async def labels(request: web.Request) -> web.Response:
    one = box(request)
    one.labels = (await request.json())["labels"]
    return web.json_response({"labels": one.labels})


# -- the daemon
@routes.post("/toolbox/{box}/process/execute")
async def execute(request: web.Request) -> web.Response:
    one, wanted = box(request), await request.json()
    process = await asyncio.create_subprocess_exec(
        SHELL,
        "-c",
        wanted["command"],
        cwd=one.home,
        env=one.environ,
        start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), wanted.get("timeout") or 360)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        return web.json_response(
            {"statusCode": 408, "message": "command execution timeout"}, status=408
        )
    return web.json_response(
        {"exitCode": process.returncode, "result": output.decode("utf-8", "replace")}
    )


@routes.post("/toolbox/{box}/files/bulk-upload")
async def upload(request: web.Request) -> web.Response:
    one, target = box(request), Path()
    async for part in await request.multipart():
        if part.name.endswith(".path"):
            target = one.home / await part.text()  # an absolute path stays what it is
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while chunk := await part.read_chunk(1 << 20):
                    file.write(chunk)
    return web.json_response({})


@routes.get("/toolbox/{box}/process/pty/create-connect")
async def terminal(request: web.Request) -> web.WebSocketResponse:
    one, loop = box(request), asyncio.get_running_loop()
    offered = [
        word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    ]
    socket = web.WebSocketResponse(protocols=(EXIT_CONTROL,), max_msg_size=MOST_MESSAGE)
    await socket.prepare(request)
    pid, fd = shell(one, request, offered)
    id = request.query["id"]
    one.terminals[id] = pid, fd
    await socket.send_str(json.dumps({"type": "control", "status": "connected"}))
    chunks: asyncio.Queue[bytes] = asyncio.Queue(MOST_CHUNKS)

    def readable() -> None:
        try:
            data = os.read(fd, 32 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or chunks.full():
            loop.remove_reader(fd)
        if chunks.full():
            closing.append(
                loop.create_task(
                    socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"slow consumer")
                )
            )
        else:
            chunks.put_nowait(data)

    async def send() -> None:
        while data := await chunks.get():
            await socket.send_bytes(data)
        code = 137
        with contextlib.suppress(ChildProcessError):  # the terminal was deleted
            code = os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1])
        if EXIT_CONTROL in offered:
            await socket.send_str(
                json.dumps({"type": "control", "status": "exited", "exitCode": code})
            )
        await socket.close(
            code=1000 if code == 0 else 1011, message=json.dumps({"exitCode": code}).encode()
        )

    closing: list[asyncio.Task[bool]] = []
    loop.add_reader(fd, readable)
    sending = loop.create_task(send())
    async for message in socket:
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            break
        data = message.data.encode() if message.type == WSMsgType.TEXT else message.data
        if not await written(fd, data):
            break
    sending.cancel()
    if id in one.terminals:
        loop.remove_reader(fd)
    return socket  # the shell stays, until it is deleted


def shell(one: Box, request: web.Request, offered: list[str]) -> tuple[int, int]:
    """A login shell on a terminal: its process, and the terminal's other end."""
    variables: dict[str, str] = {}
    for word in offered:
        if word.startswith(VARIABLES):
            text = word.removeprefix(VARIABLES)
            variables = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.chdir(one.home)
            os.execvpe(SHELL, [SHELL, "-i", "-l"], {**one.environ, "TERM": "xterm", **variables})
        finally:
            os._exit(127)
    size = struct.pack(
        "HHHH", int(request.query.get("rows") or 24), int(request.query.get("cols") or 80), 0, 0
    )
    fcntl.ioctl(fd, termios.TIOCSWINSZ, size)
    os.set_blocking(fd, False)
    return pid, fd


async def written(fd: int, data: bytes) -> bool:
    """False when the terminal has no program any more."""
    loop, view = asyncio.get_running_loop(), memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(fd, writable.set)
            await writable.wait()
            loop.remove_writer(fd)
        except OSError:
            return False
    return True


@routes.delete("/toolbox/{box}/process/pty/{terminal}")
async def end_terminal(request: web.Request) -> web.Response:
    pid, fd = box(request).terminals.pop(request.match_info["terminal"])
    asyncio.get_running_loop().remove_reader(fd)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        await asyncio.to_thread(os.waitpid, pid, 0)
    os.close(fd)
    return web.json_response({})


@web.middleware
async def authorized(request: web.Request, handler: Any) -> web.StreamResponse:
    """Refuses a wrong key; notes every request."""
    with (root / "requests").open("a") as file:
        file.write(f"{request.method} {request.path}\n")
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"statusCode": 401, "message": "Unauthorized"}, status=401)
    answer: web.StreamResponse = await handler(request)
    return answer


async def serve() -> None:
    global url
    app = web.Application(middlewares=[authorized], client_max_size=1 << 30)
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with published(root, runner.addresses[0][1]) as port:
        url = f"http://127.0.0.1:{port}"
        print(json.dumps({"DAYTONA_API_URL": f"{url}/api", "DAYTONA_API_KEY": KEY}), flush=True)
        over = asyncio.Event()
        end_with_input(over)
        await over.wait()
    for one in boxes.values():
        one.end()


if __name__ == "__main__":
    asyncio.run(serve())
