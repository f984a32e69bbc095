"""The API of a Kubernetes cluster: objects as JSON, watches, and the standard streams of a pod's
processes.

lightkube reads the kubeconfig and signs requests; it is imported on first use.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from hermetic.contract.errors import ConfigError

R = TypeVar("R")
Object = dict[str, Any]  # of the API

ANSWER_SECONDS = 30.0  # for one request
WATCH_SECONDS = 30  # of one watch, which is then begun anew
PING_SECONDS = 20.0  # between two pings of a websocket, and for their answer
RETRIES = 5  # of a request that the server puts off
BUSY_SECONDS = 1.0  # between two of them, unless the server says another time
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")  # only the first can end a process's input
MOST_MESSAGE = 1 << 22  # bytes of one message of a server
MOST_ERRORS = 4000  # bytes of error output that are kept
INPUT, OUTPUT, ERRORS, STATUS = 0, 1, 2, 3  # channels of a stream
CLOSING_SECONDS = 5.0


class ApiFailure(Exception):
    """The API server refused a request, or could not do it."""

    def __init__(self, code: int, reason: str, message: str, wait: float = 0.0) -> None:
        super().__init__(message or reason or f"status {code}")
        self.code, self.reason = code, reason
        self.wait = wait  # seconds after which a server that is busy wants to be asked again

    @property
    def is_refusal(self) -> bool:
        """Whether the same request would be refused again."""
        return 400 <= self.code < 500 and self.code not in (408, 409, 429)


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, namespace: str | None
) -> "AsyncIterator[Cluster]":
    """A client of this event loop. Raises ConfigError for a kubeconfig that cannot be used."""
    client, default = await asyncio.to_thread(_client, kubeconfig, context)
    async with client:
        yield Cluster(client, namespace or default)


def config_path(kubeconfig: str | None) -> str | None:
    """The kubeconfig in use: the option, a file of KUBECONFIG, or the usual one; None where there
    is none.
    """
    paths = [kubeconfig] if kubeconfig else os.environ.get("KUBECONFIG", "").split(os.pathsep)
    if not any(paths):
        paths = ["~/.kube/config"]
    expanded = (os.path.expanduser(path) for path in paths if path)
    return next(filter(os.path.isfile, expanded), None)


def _client(kubeconfig: str | None, context: str | None) -> tuple[Any, str]:
    """An HTTP client of the cluster, and the namespace of the context."""
    from lightkube.config.client_adapter import AsyncClient, ConnectionParams
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.core.exceptions import ConfigError as Unusable

    path = config_path(kubeconfig)
    try:
        if path is not None:
            chosen = KubeConfig.from_file(path).get(context)
        elif kubeconfig or context:
            raise ConfigError(
                f"no kubeconfig at {kubeconfig or '~/.kube/config'}", setting="kubeconfig"
            )
        else:
            chosen = KubeConfig.from_service_account().get()
        assert chosen is not None
        client = AsyncClient(chosen, ConnectionParams())
    except (Unusable, KeyError, AssertionError) as error:
        where = path or "the service account of this pod"
        raise ConfigError(f"{where} cannot be used: {error}", setting="kubeconfig") from error
    client.timeout = ANSWER_SECONDS
    client.event_hooks = {"response": [_with_body]}
    return client, chosen.namespace


async def _with_body(response: Any) -> None:
    """Reads the body of an error, which a websocket's handshake would drop."""
    if response.status_code >= 400:
        await response.aread()


def _failure(response: Any) -> ApiFailure:
    after = response.headers.get("Retry-After", "")
    wait = min(float(after), ANSWER_SECONDS) if after.isdigit() else BUSY_SECONDS
    try:
        status = response.json()
        reason, message = status.get("reason", ""), status.get("message", "")
    except (ValueError, AttributeError):
        reason, message = response.reason_phrase, response.text[:MOST_ERRORS]
    return ApiFailure(response.status_code, reason, message, wait)


async def _patiently(ask: Callable[[], Awaitable[R]]) -> R:
    """The answer of a request, which is made again where the server puts it off.

    Raises ApiFailure.
    """
    for _ in range(RETRIES):
        try:
            return await ask()
        except ApiFailure as error:
            if error.code != 429:
                raise
            await asyncio.sleep(error.wait)
    return await ask()


class Deleted(Exception):
    """The object that was watched does not exist any more."""


class Cluster:
    """Requests to one cluster. Methods raise ApiFailure, and errors of httpx2."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<Cluster {self._client.base_url}, namespace {self.namespace}>"

    def path(self, *parts: str, group: str = "api/v1", namespace: str | None = None) -> str:
        """The path of objects of a namespace."""
        return "/".join(("", *group.split("/"), "namespaces", namespace or self.namespace, *parts))

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        params: Mapping[str, Any] | None = None,
    ) -> Object:
        """The object that is answered."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body).encode()

        async def ask() -> Object:
            response = await self._client.request(
                method, path, params=params, content=content, headers={"Content-Type": kind}
            )
            if response.status_code >= 400:
                raise _failure(response)
            answer: Object = response.json()
            return answer

        return await _patiently(ask)

    async def changed(self, path: str, object: Object) -> Object:
        """The next state of an object of a list; after a while, the present one. Raises Deleted."""
        name, version = object["metadata"]["name"], object["metadata"]["resourceVersion"]

        async def ask() -> Object | None:
            async with contextlib.aclosing(self._watch(path, name, version)) as events:
                async for event, found in events:
                    if event == "DELETED":
                        raise Deleted(f"{name} was deleted")
                    return found
            return None

        if (seen := await _patiently(ask)) is not None:
            return seen
        try:
            return await self.request("GET", f"{path}/{name}")
        except ApiFailure as error:
            if error.code == 404:
                raise Deleted(f"{name} was deleted") from error
            raise

    async def _watch(
        self, path: str, name: str, version: str
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Changes of one object after a version, for a while: what happened, and the object."""
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": version,
            "timeoutSeconds": WATCH_SECONDS,
        }
        timeout = WATCH_SECONDS + ANSWER_SECONDS
        async with self._client.stream("GET", path, params=params, timeout=timeout) as response:
            if response.status_code >= 400:
                raise _failure(response)
            async for line in response.aiter_lines():
                event = json.loads(line)
                # the version is too old: the caller reads the object again
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    async def stream(
        self,
        action: str,
        pod: str,
        container: str,
        words: Sequence[str] = (),
        *,
        with_input: bool = True,
        namespace: str | None = None,
    ) -> "PodStream":
        """Runs a program in a container (`exec`), or joins its main process (`attach`)."""
        params = [("container", container), ("stdout", "true"), ("stderr", "true")]
        params += [("stdin", "true")] * with_input + [("command", word) for word in words]
        path = self.path("pods", pod, action, namespace=namespace)

        async def ask() -> PodStream:
            stream = PodStream()
            await stream.open(self._client, path, params)
            return stream

        return await _patiently(ask)


class PodStream:
    """The standard streams of a process in a pod, over one websocket."""

    size = 128 * 1024  # bytes of one message

    def __init__(self) -> None:
        self.errors = b""  # the end of its error output
        self.exit_code: int | None = None  # None while it runs, and where it is not known
        self.failure = ""  # why there is no exit code
        self.protocol = ""  # the version that the server has chosen
        self._socket: Any = None
        self._closing = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PodStream: {self.failure or self.exit_code}>"

    async def open(self, client: Any, path: str, params: Sequence[tuple[str, str]]) -> None:
        """Connects.

        A task of its own holds the websocket, whose context must be left where it was entered.
        """
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(client, path, params, opened))
        try:
            self._socket = await opened
        except BaseException:
            self._holder.cancel()
            await asyncio.wait([self._holder])
            raise

    async def _hold(
        self,
        client: Any,
        path: str,
        params: Sequence[tuple[str, str]],
        opened: "asyncio.Future[Any]",
    ) -> None:
        try:
            websocket = client.websocket(
                path,
                subprotocols=list(PROTOCOLS),
                params=list(params),
                max_message_size_bytes=MOST_MESSAGE,
                keepalive_ping_interval_seconds=PING_SECONDS,
                keepalive_ping_timeout_seconds=PING_SECONDS,
            )
            async with websocket as socket:
                self.protocol = socket.subprotocol or ""
                opened.set_result(socket)
                await self._closing.wait()
        # after the opening: of a connection that broke, which a reader notices
        except BaseException as error:
            # no websocket was opened
            if (response := getattr(error, "response", None)) is not None:
                error = _failure(response)
            if not opened.done():
                opened.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def write(self, data: bytes) -> None:
        """Sends input."""
        await self._socket.send_bytes(bytes((INPUT,)) + data)

    async def read(self) -> bytes:
        """The next output; empty at the end, or when the connection broke."""
        while self.exit_code is None and not self.failure:
            try:
                message = await self._socket.receive_bytes()
            except Exception as error:  # of httpx2 or anyio, by how the connection ended
                self.failure = f"the stream broke ({type(error).__name__})"
                break
            channel, data = message[0], message[1:]
            if channel == OUTPUT and data:
                return bytes(data)
            if channel == ERRORS:
                self.errors = (self.errors + data)[-MOST_ERRORS:]
            elif channel == STATUS:
                self._end(json.loads(data))
        return b""

    def _end(self, status: Object) -> None:
        causes = (status.get("details") or {}).get("causes") or []
        codes = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
        if status.get("status") == "Success":
            self.exit_code = 0
        elif codes:
            self.exit_code = int(codes[0])
        else:
            self.failure = status.get("message", "") or "it failed"

    async def close(self) -> None:
        """Closes the connection: the process reads the end of its input."""
        self._closing.set()
        if self._holder is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await asyncio.wait([self._holder])
            self._holder.cancel()
