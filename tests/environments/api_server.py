"""A stand-in for the API server of a cluster, for what the real Kubernetes 1.20 of the tests lacks:
version 5 of the exec protocol, runtime classes, and the objects of agent-sandbox.

Run as `python api_server.py DIRECTORY`, with the settings of `Settings` as JSON in its first line of
input; prints its port, and ends with its input. A pod is a directory and processes of this machine:
nothing is isolated, so it is for tests on loopback only. The file `objects` of the directory has all
objects as they are now.
"""

import asyncio
import contextlib
import copy
import datetime
import itertools
import json
import socket
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

sys.path.insert(0, str(Path(__file__).parents[1] / "clouds" / "sdk"))
from places import Place, end_with_input  # type: ignore[import-not-found, unused-ignore]

Object = dict[str, Any]
INPUT, OUTPUT, ERRORS, STATUS = range(4)
CLOSE = 255  # of version 5: the next byte names the channel that is closed
CLAIMS, SANDBOXES = "extensions.agents.x-k8s.io", "agents.x-k8s.io"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster has."""

    protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    runtime_classes: tuple[str, ...] = ()
    # SandboxWarmPools by name, with the image of their template; None: no agent-sandbox
    pools: dict[str, str] | None = None
    binding: float = 0.05  # seconds until the controller gives a pod to a claim
    # how many requests of each kind are put off, as by a server that has too many
    puts_off: int = 0


class Failure(Exception):
    """An answer of the API server that is no success."""

    def __init__(self, code: int, reason: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
        }


class Objects:
    """Objects of all kinds by their path, with versions, and those who watch them."""

    def __init__(self, at: Path) -> None:
        self._at, self._versions = at, itertools.count(1)
        self.found: dict[str, Object] = {}
        self._changed = asyncio.Condition()
        self._events: list[tuple[int, str, str, Object]] = []

    def get(self, path: str) -> Object:
        """The object. Raises Failure."""
        if path not in self.found:
            raise Failure(404, "NotFound", f"{path.rpartition('/')[2]!r} not found")
        return self.found[path]

    async def put(self, path: str, new: Object) -> Object:
        """Creates or replaces an object."""
        event = "MODIFIED" if path in self.found else "ADDED"
        metadata = new["metadata"]
        if event == "ADDED":
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        self.found[path] = new
        await self._note(event, path, new)
        return new

    async def drop(self, path: str) -> Object:
        """Deletes an object. Raises Failure."""
        old = self.get(path)
        del self.found[path]
        await self._note("DELETED", path, old)
        return old

    async def _note(self, event: str, path: str, object: Object) -> None:
        version = next(self._versions)
        object["metadata"]["resourceVersion"] = str(version)
        self._events.append((version, event, path, copy.deepcopy(object)))
        new = self._at / "objects.new"
        new.write_text(json.dumps(self.found))
        new.rename(self._at / "objects")
        async with self._changed:
            self._changed.notify_all()

    def _is_after(self, version: int) -> bool:
        return self._events[-1][0] > version

    async def watch(self, under: str, name: str, after: int) -> AsyncIterator[Object]:
        """Changes of an object after a version."""
        while True:
            async with self._changed:
                await self._changed.wait_for(partial(self._is_after, after))
            for version, event, path, object in list(self._events):
                if version > after and path == f"{under}/{name}":
                    yield {"type": event, "object": object}
            after = self._events[-1][0]

    def listed(self, under: str, selector: str) -> list[Object]:
        """The objects of a kind and namespace with these labels."""
        wanted = [part.partition("=") for part in selector.split(",") if part]
        return [
            one
            for path, one in self.found.items()
            if path.rpartition("/")[0] == under
            and all(
                name in (labels := one["metadata"].get("labels") or {})
                and (not sign or labels[name] == value)
                for name, sign, value in wanted
            )
        ]


class RunningPod:
    """The processes of a pod."""

    def __init__(self, root: Path, object: Object) -> None:
        self.object = object
        (self._container,) = object["spec"]["containers"]
        self._place = Place(root, object["metadata"]["uid"], self._container["image"])
        self.main: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Starts the main process; its input stays open while nothing is attached."""
        self.main = await self.started(self._container["command"])

    async def started(self, words: list[str]) -> asyncio.subprocess.Process:
        """A process in it."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._place.environ,
            cwd="/",
            start_new_session=True,
        )

    async def end(self) -> None:
        """Ends all of them."""
        await asyncio.to_thread(self._place.end)
        if self.main is not None:
            await self.main.wait()


class ApiServer:
    """Answers requests."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root, self._settings = root, settings
        self._objects = Objects(root)
        self._running: dict[str, RunningPod] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: Counter[tuple[object, ...]] = Counter()
        for name in settings.pools or ():
            metadata = {"name": name, "uid": name}
            path = self._path(f"apis/{CLAIMS}/v1beta1", "default", "sandboxwarmpools", name)
            self._objects.found[path] = {"metadata": metadata}

    @staticmethod
    def _path(group: str, namespace: str, *parts: str) -> str:
        return "/".join(("", group, "namespaces", namespace, *parts))

    def app(self) -> Starlette:
        """Its routes."""
        under = "/{group:path}/namespaces/{namespace}/{kind}"
        return Starlette(
            routes=[
                WebSocketRoute(f"{under}/{{name}}/{{action}}", self.stream),
                Route(f"{under}/{{name}}", self.one, methods=["GET", "PATCH", "DELETE"]),
                Route(under, self.many, methods=["GET", "POST"]),
                Route("/api/v1/nodes/{name}", self.node),
            ],
            exception_handlers={Failure: self._refused},
        )

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Failure)
        return self._answer(error)

    @staticmethod
    def _answer(error: Failure) -> Response:
        return JSONResponse(error.body, error.code, error.headers)

    def _admit_request(self, *kind: object) -> None:
        """Raises Failure for a request that is to be made again."""
        self._requests[kind] += 1
        if self._requests[kind] <= self._settings.puts_off:
            text = "Too many requests, please try again later."
            raise Failure(429, "TooManyRequests", text, **{"Retry-After": "0"})

    async def node(self, request: Request) -> Response:
        """A node that is ready."""
        conditions = [{"type": "Ready", "status": "True"}]
        found = {"metadata": {"name": request.path_params["name"]}}
        return JSONResponse({**found, "status": {"conditions": conditions}})

    def _check_served(self, path: str) -> None:
        if "agents.x-k8s.io/" in path and self._settings.pools is None:
            raise Failure(404, "NotFound", "the server could not find the requested resource")

    async def many(self, request: Request) -> Response:
        """Lists, watches or creates objects of a kind."""
        path = request.url.path
        self._check_served(path)
        query = request.query_params
        self._admit_request(request.method, request.path_params["kind"], "watch" in query)
        if request.method == "GET" and "watch" in query:
            name = query["fieldSelector"].partition("=")[2]
            events = self._objects.watch(path, name, int(query["resourceVersion"]))
            return StreamingResponse(self._lines(events, float(query["timeoutSeconds"])))
        if request.method == "GET":
            found = self._objects.listed(path, query.get("labelSelector", ""))
            return JSONResponse({"items": found})
        new = await request.json()
        new["metadata"]["namespace"] = request.path_params["namespace"]
        whole = f"{path}/{new['metadata']['name']}"
        if whole in self._objects.found:
            raise Failure(409, "AlreadyExists", f"{whole!r} already exists")
        if request.path_params["kind"] == "pods":
            self._admit(new)
            created = await self._objects.put(whole, {**new, "status": {"phase": "Pending"}})
            self._soon(self._run(whole))
        else:
            created = await self._objects.put(whole, new)
            self._soon(self._bind(whole))
        return JSONResponse(created, 201)

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # an error is printed

    @staticmethod
    async def _lines(events: AsyncIterator[Object], seconds: float) -> AsyncIterator[bytes]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for event in events:
                    yield json.dumps(event).encode() + b"\n"

    def _admit(self, pod: Object) -> None:
        """As the admission plugin RuntimeClass does. Raises Failure."""
        name = pod["spec"].get("runtimeClassName")
        if name is not None and name not in self._settings.runtime_classes:
            text = f'pods "{pod["metadata"]["name"]}" is forbidden: pod rejected: RuntimeClass "{name}" not found'
            raise Failure(403, "Forbidden", text)
        if name is not None:
            pod["spec"]["overhead"] = {"memory": "64Mi"}

    async def one(self, request: Request) -> Response:
        """Reads, changes or deletes an object."""
        path = request.url.path
        self._check_served(path)
        self._admit_request(request.method, request.path_params["kind"])
        found = self._objects.get(path)
        if request.method == "PATCH":
            change = await request.json()
            version = change["metadata"].pop("resourceVersion", None)
            if version not in (None, found["metadata"]["resourceVersion"]):
                raise Failure(409, "Conflict", "the object has been modified")
            return JSONResponse(await self._objects.put(path, _merged(found, change)))
        if request.method == "DELETE":
            body = await request.body()
            wanted = json.loads(body or b"{}").get("preconditions", {}).get("uid")
            if wanted not in (None, found["metadata"]["uid"]):
                raise Failure(409, "Conflict", "the UID in the precondition differs")
            await self._delete(path)
        return JSONResponse(found)

    async def _delete(self, path: str) -> None:
        """Deletes an object, and those that it owns."""
        old = await self._objects.drop(path)
        if running := self._running.pop(path, None):
            await running.end()
        for other, one in list(self._objects.found.items()):
            owners = one["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == old["metadata"]["uid"] for owner in owners):
                await self._delete(other)

    # -- pods
    async def _run(self, path: str) -> None:
        """The kubelet: starts a pod, and notes its end."""
        await self._ended(path, await self._begun(path))

    async def _begun(self, path: str) -> RunningPod:
        pod = self._objects.get(path)
        running = self._running[path] = RunningPod(self._root, pod)
        await running.begin()
        pod["spec"]["nodeName"] = "standin"
        await self._state(path, "Running", {"running": {"startedAt": _now()}})
        return running

    async def _ended(self, path: str, running: RunningPod) -> None:
        assert running.main is not None
        code = await running.main.wait()
        if self._running.get(path) is running:
            ended = {"reason": "Completed" if code == 0 else "Error", "exitCode": code}
            await self._state(path, "Failed" if code else "Succeeded", {"terminated": ended})

    async def _state(self, path: str, phase: str, state: Object) -> None:
        pod = self._objects.get(path)
        status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        await self._objects.put(path, {**pod, "status": status})

    async def stream(self, websocket: WebSocket) -> None:
        """An exec, or an attach to the main process."""
        path, _, action = websocket.url.path.rpartition("/")
        running = self._running.get(path)
        offered = websocket.scope["subprotocols"]
        chosen = next((one for one in self._settings.protocols if one in offered), None)
        try:
            if running is None or chosen is None or running.main is None:
                raise Failure(404, "NotFound", "pod not found")
            self._admit_request(action)
        except Failure as error:
            await websocket.send_denial_response(self._answer(error))
            return
        await websocket.accept(subprotocol=chosen)
        query = websocket.query_params
        process = running.main
        if action == "exec":
            process = await running.started(query.getlist("command"))
            if "stdin" not in query:
                _close(process)
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await _Streams(websocket, process, chosen, is_exec=action == "exec").carry()

    # -- agent-sandbox
    async def _bind(self, path: str) -> None:
        """The controller: gives a claim a sandbox and its pod; ends it by its clock."""
        await asyncio.sleep(self._settings.binding)
        claim = self._objects.get(path)
        namespace, name = claim["metadata"]["namespace"], claim["spec"]["warmPoolRef"]["name"]
        assert self._settings.pools is not None
        if (image := self._settings.pools.get(name)) is None:
            await self._condition(
                path, "False", "WarmPoolNotFound", f'SandboxWarmPool "{name}" not found'
            )
            return
        sandbox = f"{name}-{uuid.uuid4().hex[:5]}"
        owner = [{"uid": claim["metadata"]["uid"], "kind": "SandboxClaim"}]
        metadata = {"name": sandbox, "namespace": namespace, "ownerReferences": owner}
        metadata["annotations"] = {"agents.x-k8s.io/pod-name": f"{sandbox}-pod"}
        group = f"apis/{SANDBOXES}/v1beta1"
        made = await self._objects.put(
            self._path(group, namespace, "sandboxes", sandbox), {"metadata": metadata}
        )
        pod = self._path("api/v1", namespace, "pods", f"{sandbox}-pod")
        owner = [{"uid": made["metadata"]["uid"], "kind": "Sandbox"}]
        command = ["sleep", "infinity"]
        containers = [{"name": "workspace", "image": image, "command": command}]
        metadata = {
            "name": f"{sandbox}-pod",
            "namespace": namespace,
            "ownerReferences": owner,
            "labels": {},
        }
        await self._objects.put(
            pod, {"metadata": metadata, "spec": {"containers": containers}, "status": {}}
        )
        self._soon(self._ended(pod, await self._begun(pod)))
        claim = self._objects.get(path)
        claim["status"] = {"sandbox": {"name": sandbox}}
        await self._condition(path, "True", "DependenciesReady", "")
        over = datetime.datetime.fromisoformat(claim["spec"]["lifecycle"]["shutdownTime"])
        left = (over - datetime.datetime.now(datetime.UTC)).total_seconds()
        await asyncio.sleep(max(0.0, left))
        if path in self._objects.found:
            assert claim["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
            await self._delete(path)

    async def _condition(self, path: str, status: str, reason: str, message: str) -> None:
        claim = self._objects.get(path)
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        await self._objects.put(
            path, {**claim, "status": {**claim.get("status", {}), "conditions": [ready]}}
        )

    async def end(self) -> None:
        """Ends all pods."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for running in self._running.values():
            await running.end()


class _Streams:
    """Carries the standard streams of a process over a websocket."""

    def __init__(
        self,
        websocket: WebSocket,
        process: asyncio.subprocess.Process,
        protocol: str,
        *,
        is_exec: bool,
    ) -> None:
        self._websocket, self._process = websocket, process
        self._can_close, self._is_exec = protocol.startswith("v5"), is_exec

    async def carry(self) -> None:
        """Returns when the process has ended, or the client has gone."""
        reading = asyncio.ensure_future(self._input())
        outputs = asyncio.ensure_future(self._outputs())
        try:
            await asyncio.wait([reading, outputs], return_when=asyncio.FIRST_COMPLETED)
            if outputs.done():
                code = await self._process.wait()
                await self._send(STATUS, json.dumps(_status(code)).encode())
                await self._websocket.close()
        finally:
            for task in (reading, outputs):
                task.cancel()
            await asyncio.gather(reading, outputs, return_exceptions=True)
            if self._is_exec or not self._can_close:
                _close(self._process)

    async def _outputs(self) -> None:
        async def carry(channel: int, stream: asyncio.StreamReader | None) -> None:
            assert stream is not None
            while data := await stream.read(32768):
                await self._send(channel, data)

        await asyncio.gather(
            carry(OUTPUT, self._process.stdout), carry(ERRORS, self._process.stderr)
        )

    async def _send(self, channel: int, data: bytes) -> None:
        await self._websocket.send_bytes(bytes((channel,)) + data)

    async def _input(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await self._websocket.receive_bytes()
                if message[0] == CLOSE and self._can_close and message[1:] == bytes((INPUT,)):
                    _close(self._process)
                elif message[0] == INPUT and message[1:]:
                    with contextlib.suppress(ConnectionError):
                        self._process.stdin.write(message[1:])
                        await self._process.stdin.drain()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _close(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _status(code: int) -> Object:
    if code == 0:
        return {"status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


def _merged(base: Any, change: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    whole = {**base, **{key: _merged(base.get(key), value) for key, value in change.items()}}
    return {key: value for key, value in whole.items() if value is not None}


async def main() -> None:
    """Serves until the input ends."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=Settings)
    server = ApiServer(Path(sys.argv[1]), settings)
    config = uvicorn.Config(
        server.app(), log_level="warning", lifespan="off", ws="websockets-sansio"
    )
    web, stop = uvicorn.Server(config), asyncio.Event()
    end_with_input(stop)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        serving = asyncio.ensure_future(web.serve([listener]))
        await stop.wait()
        web.should_exit = web.force_exit = True
        await server.end()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
