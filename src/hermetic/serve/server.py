"""Starts the server: its address, its port, its certificate, and the URL that lets a person in."""

import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvicorn

from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import TERMINAL_IDLE, TERMINALS
from hermetic.registry.records import Records, runtime_root
from hermetic.serve.access import Access
from hermetic.serve.app import make_app
from hermetic.serve.clients import ClientOptions
from hermetic.serve.console import Console
from hermetic.serve.direct import DirectProtocol
from hermetic.serve.environments import Guarding
from hermetic.serve.password import read_password
from hermetic.serve.protocol import MOST_HEAD, BoundedProtocol
from hermetic.serve.recordings import Wanted
from hermetic.serve.terminals import TerminalLimits
from hermetic.serve.tokens import TokenStore

HOST = "127.0.0.1"
PORT = 7625
FURTHER_PORTS = 20  # tried after PORT where it is taken
BACKLOG = 1024
MOST_FRAME = 128 << 10  # bytes of one WebSocket message
LEAVING_SECONDS = 3  # for requests in progress when the server ends

_log = logging.getLogger("hermetic.serve")


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens, and as what."""

    host: str = HOST
    port: int | None = None  # None: 7625, or the next free one
    names: tuple[str, ...] = ()  # host names under which browsers reach it
    certificate: Path | None = None
    key: Path | None = None
    terminals: int = TERMINALS  # most of persons that run at once
    terminal_idle: float = TERMINAL_IDLE  # seconds after which an unused one is closed; 0: never
    record: Wanted = "none"  # what is recorded without a request
    clients: ClientOptions = ClientOptions()  # environments of programs that connect to it


class ConsoleServer:
    """A server that is bound to its port; `run` serves until `stop` or a signal."""

    def __init__(self, options: ServerOptions, guard: Guarding = lambda environment: None) -> None:
        """`guard` may put rules before every environment. Raises ConfigError."""
        is_secure = _check_exposure(options)
        names = _names(options)
        self._socket = _bind(options)
        port: int = self._socket.getsockname()[1]
        scheme = "https" if options.certificate is not None else "http"
        store = TokenStore.of_this_user()
        store.all()  # removes expired ones
        hosts = tuple(f"{_bracketed(name)}:{port}".lower() for name in names)
        password = read_password() if is_secure else None
        self.access = Access(store, scheme=scheme, hosts=hosts, port=port, password=password)
        limits = TerminalLimits(options.terminals, options.terminal_idle)
        self.console = Console(self.access, Records(runtime_root()), guard, limits)
        self.console.recordings.automatic = options.record
        config = uvicorn.Config(
            make_app(self.console, options.clients, guard),
            http=BoundedProtocol,
            ws=DirectProtocol,
            lifespan="on",
            log_config=None,
            access_log=False,
            log_level="info",  # its debug messages quote frames, with what people type
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            ws_max_size=MOST_FRAME,
            ws_per_message_deflate=False,
            h11_max_incomplete_event_size=MOST_HEAD,
            timeout_graceful_shutdown=LEAVING_SECONDS,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        self._server = uvicorn.Server(config)

    def __repr__(self) -> str:
        return f"<ConsoleServer at {self.access.url}>"

    @property
    def is_started(self) -> bool:
        """True once requests are answered."""
        return self._server.started

    def connections(self) -> int:
        """Number of open connections."""
        return len(self._server.server_state.connections)

    async def serve(self) -> None:
        """Serves until `stop`, or in the main thread until SIGINT or SIGTERM."""
        await self._server.serve([self._socket])

    def run(self) -> None:
        """As `serve`, with an event loop of its own."""
        self._server.run([self._socket])

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Serves in a thread for the length of a block."""
        thread = threading.Thread(target=self.run, name="hermetic console", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join(2 * LEAVING_SECONDS)

    def stop(self) -> None:
        """Ends `serve`; may be called from any thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Frees the port of a server that was not run."""
        self._socket.close()


def _check_exposure(options: ServerOptions) -> bool:
    """True for a server that others can reach, which needs a login and TLS. Raises ConfigError."""
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("give both --certificate and --key", setting="certificate")
    for path in filter(None, (options.certificate, options.key)):
        if not path.is_file():
            raise ConfigError(f"there is no file {path}", setting="certificate")
    if is_loopback(options.host):
        return options.certificate is not None
    missing = []
    if options.certificate is None:
        missing.append("TLS: --certificate FILE --key FILE")
    if read_password() is None:
        missing.append("a login: hermetic serve password")
    if missing:
        raise ConfigError(
            f"{options.host} can be reached by others, so the server needs {' and '.join(missing)}",
            setting="host",
        )
    return True


def is_loopback(host: str) -> bool:
    """True for an address that only this machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(options: ServerOptions) -> Sequence[str]:
    """Names and addresses that browsers use for this server. Raises ConfigError."""
    if is_loopback(options.host):
        return tuple(dict.fromkeys((*options.names, options.host, "127.0.0.1", "localhost", "::1")))
    is_every = options.host in ("0.0.0.0", "::")
    if is_every and not options.names:
        raise ConfigError(
            f"with --host {options.host}, say under which name browsers reach it: --name",
            setting="name",
        )
    return tuple(dict.fromkeys((*options.names, *(() if is_every else (options.host,)))))


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _bind(options: ServerOptions) -> socket.socket:
    """A socket on the wanted port, else on the next free one. Raises ConfigError."""
    if options.port is not None:
        if not 0 <= options.port <= 65535:
            raise ConfigError(f"{options.port} is no port; choose one up to 65535", setting="port")
        return _listen(options.host, options.port)
    for port in range(PORT, PORT + FURTHER_PORTS):
        try:
            return _listen(options.host, port)
        except PortTaken:
            continue
    return _listen(options.host, 0)


class PortTaken(ConfigError):
    """Another program listens on the port."""


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(
            f"{host} is no address to listen on: {error.strerror}", setting="host"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if isinstance(error, PermissionError):
            raise ConfigError(
                f"port {port} needs more rights; choose one above 1023", setting="port"
            ) from error
        raise PortTaken(
            f"{host}:{port} cannot be used: {error.strerror}; choose another --port", setting="port"
        ) from error
    listener.setblocking(False)
    return listener
