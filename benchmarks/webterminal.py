"""Terminals of the console beside a raw PTY and ttyd, read by the same client: echo, floods,
Ctrl-C, what is left.
"""

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import pty
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import hermetic
from benchmarks import ttyd
from benchmarks.figures import Row, Target, row
from benchmarks.measuring import MILLI, Bench, WrongResult
from benchmarks.places import Missing
from benchmarks.tab_client import INPUT, OUTPUT, TabClient
from hermetic.session.environment import Environment

SHELL = "PS1='$ ' exec bash --norc --noprofile -i"
ECHO = "echo ready; exec cat > /dev/null"
# ttyd drops output that is left when a command ends
FLOOD = "stty -echo; echo ready; read line; {}; read line"
CHANNEL = 1
RAW, TTYD = "raw PTY", "ttyd"  # yardsticks
MEGA = 1e6
SLOW_CLIENT = 8e6  # bytes a second
STEP = 1 << 14  # bytes that the slow client parses at once
TIMEOUT = 60.0  # seconds
LEAST_RATE = 0.5  # of a flood, to the same one read from a raw PTY
LEAST_RATE_TTYD = 0.6  # to the same one through ttyd
MOST_ECHO, MOST_ECHO_TTYD = 5.0, 1.5  # times the echo of a raw PTY, and of ttyd
FLOOD_SECONDS = 120.0  # for one kind of flood: on a slow machine it is repeated less often


class Shell(Protocol):
    """A command on a terminal as a client has it."""

    def send(self, data: bytes) -> None:
        """Types."""

    def receive(self) -> bytes:
        """What is printed next; it counts as parsed when the next call comes."""

    def close(self) -> None:
        """Ends it."""


class RawShell:
    """A terminal that this process reads itself."""

    def __init__(self, command: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvpe("bash", ["bash", "-c", command], {**os.environ, "TERM": "xterm-256color"})

    def send(self, data: bytes) -> None:
        """Types."""
        while data:
            data = data[os.write(self.fd, data) :]

    def receive(self) -> bytes:
        """What is printed next."""
        if not select.select([self.fd], [], [], TIMEOUT)[0]:
            raise TimeoutError
        return os.read(self.fd, 1 << 16)

    def close(self) -> None:
        """Ends it."""
        os.close(self.fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Server:
    """A running `hermetic serve`, and the environment in which terminals are opened."""

    def __init__(self, url: str, token: str, environment: Environment, pid: int) -> None:
        self.url, self.token, self.environment, self.pid = url, token, environment, pid

    @property
    def terminals(self) -> str:
        """The path of the terminals in the API."""
        return f"/environments/{self.environment.id}/terminals"

    def tab(self) -> TabClient:
        """A new tab."""
        return TabClient(self.url, self.token)


class ConsoleShell:
    """The same terminal through the console's server."""

    def __init__(self, server: Server, command: str = SHELL, tab: TabClient | None = None) -> None:
        self.server, self.tab = server, tab or server.tab()
        self.id = str(
            self.tab.api("POST", server.terminals, command=command, rows=24, cols=80)["id"]
        )
        self.tab.attach(server.environment.id, self.id, CHANNEL)
        self._parsed, self._inputs = 0, 0

    def send(self, data: bytes) -> None:
        """Types."""
        self._inputs += 1
        self.tab.frame(INPUT, CHANNEL, self._inputs, data)

    def receive(self) -> bytes:
        """What is printed next."""
        self.tab.parsed(CHANNEL, self._parsed)
        while True:
            pieces = [payload for type, _, _, payload in self.tab.read(TIMEOUT) if type == OUTPUT]
            if pieces:
                self._parsed += sum(map(len, pieces))
                return b"".join(pieces)

    def close(self) -> None:
        """Ends the terminal and the tab."""
        self.tab.api("DELETE", f"{self.server.terminals}/{self.id}")
        self.tab.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """A server of its own process, and a local environment. Raises Missing."""
    for package in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(package) is None:
            raise Missing(f"the package {package} is not installed; pip install 'hermetic[serve]'")
    command = [sys.executable, "-m", "hermetic", "serve"]
    pipe = asyncio.subprocess.PIPE
    made = await asyncio.create_subprocess_exec(
        *command, "token", "--scope", "admin", "--expires", "1h", stdout=pipe
    )
    token = (await made.communicate())[0].decode().split()[0]
    async with hermetic.open("local", login=False) as environment:
        process = await asyncio.create_subprocess_exec(
            *command, "--port", "0", stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            words = (await asyncio.wait_for(process.stdout.readline(), TIMEOUT)).decode().split()
            url = next(word for word in words if word.startswith("http"))
            yield Server(url.partition("/#")[0], token, environment, process.pid)
        finally:
            process.terminate()
            await process.wait()


@contextmanager
def shown(shell: Shell) -> Iterator[Shell]:
    """The terminal once its command says that it is ready, ended with the block."""
    try:
        seen = b""
        while b"ready\r\n" not in seen:
            seen += shell.receive()
        yield shell
    finally:
        shell.close()


def echo_times(shell: Shell, count: int) -> list[float]:
    """Milliseconds from a key to its echo."""
    found = []
    with shown(shell):
        for number in range(count + 20):
            time.sleep(0.005)
            key = b"%c" % (97 + number % 26)
            started = time.perf_counter()
            shell.send(key)
            while key not in shell.receive():
                pass
            if number >= 20:
                found.append((time.perf_counter() - started) * MILLI)
    return found


def flood_rate(shell: Shell, size: int, digest: str) -> float:
    """Megabytes a second of a flood that arrived whole. Raises WrongResult."""
    seen, total = hashlib.sha256(), 0
    with shown(shell):
        started = time.perf_counter()
        shell.send(b"\r")
        while total < size:
            data = shell.receive()
            seen.update(data)
            total += len(data)
        seconds = time.perf_counter() - started
    if total != size or seen.hexdigest() != digest:
        raise WrongResult(f"{total} of {size} bytes, and another hash")
    return total / MEGA / seconds


def interrupt_time(shell: Shell) -> float:
    """Milliseconds from Ctrl-C in a flood to the prompt, for a client that parses 8 MB/s."""
    try:
        seen = b""
        while not seen.endswith(b"$ "):
            seen += shell.receive()
        shell.send(b"yes\r")
        until = time.perf_counter() + 1.0
        while time.perf_counter() < until:
            _parse_slowly(shell.receive())
        started = time.perf_counter()
        shell.send(b"\x03")
        tail = b""
        while b"$ " not in tail:
            data = shell.receive()
            _parse_slowly(data)
            tail = tail[-8:] + data
        return (time.perf_counter() - started) * MILLI
    finally:
        shell.close()


def _parse_slowly(data: bytes) -> None:
    for at in range(0, len(data), STEP):
        time.sleep(len(data[at : at + STEP]) / SLOW_CLIENT)


def memory_bytes(*pids: int) -> int:
    """Resident set sizes together."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(*pids: int) -> float:
    """Processor time so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def threads_of(pid: int) -> int:
    """Number of threads."""
    return len(os.listdir(f"/proc/{pid}/task"))


def descriptors_of(pid: int) -> int:
    """Number of open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


async def echo(bench: Bench) -> list[Row]:
    """A key to its echo."""
    count = bench.times(400, 30)
    ours: list[float] = []
    limits: dict[str, list[float]] = {}
    async with serving() as server:
        for _ in range(bench.times(5, 1)):
            ours += await asyncio.to_thread(lambda: echo_times(ConsoleShell(server, ECHO), count))
            for name, make in yardsticks(ECHO).items():
                shell = await asyncio.to_thread(make)
                limits.setdefault(name, []).extend(
                    await asyncio.to_thread(echo_times, shell, count)
                )
    what = "console terminal: a key to its echo"
    rows = []
    for name, limit in limits.items():
        suffix, most = ("-ttyd", MOST_ECHO_TTYD) if name == TTYD else ("", MOST_ECHO)
        targets = {"": Target(of="ratio", most=most), "-p95": Target(of="p95-ratio", most=most)}
        for more, target in targets.items():
            rows.append(
                row(
                    f"console.echo{suffix}{more}",
                    what,
                    "ms",
                    ours,
                    limit=(name, limit),
                    target=target,
                )
            )
    return rows


def yardsticks(command: str) -> dict[str, Callable[[], Shell]]:
    """What starts the same command on other terminals, by their names."""
    found: dict[str, Callable[[], Shell]] = {RAW: lambda: RawShell(command)}
    if (program := ttyd.path()) is not None:
        found[TTYD] = lambda: ttyd.TtydShell(program, command)
    return found


def _lines(last: int) -> tuple[str, int, str]:
    """A command that counts, the number of bytes it prints, and their hash."""
    text = "".join(f"{number}\r\n" for number in range(1, last + 1)).encode()
    return f"seq 1 {last}", len(text), hashlib.sha256(text).hexdigest()


def _yes(size: int) -> tuple[str, int, str]:
    """The same of `yes`."""
    lines = size // 3
    seen = hashlib.sha256()
    for at in range(0, lines, 1 << 20):
        seen.update(b"y\r\n" * min(1 << 20, lines - at))
    return f"yes 2>/dev/null | head -n {lines}", lines * 3, seen.hexdigest()


async def floods(bench: Bench) -> list[Row]:
    """Output that arrives whole, and its rate."""
    rows = []
    async with serving() as server:
        for name, (command, size, digest) in {
            "seq": _lines(bench.times(5_000_000, 100_000)),
            "yes": _yes(bench.times(200_000_000, 4_000_000)),
        }.items():
            ours: list[float] = []
            limits: dict[str, list[float]] = {}
            flood = FLOOD.format(command)
            times = bench.times(5, 1)
            while len(ours) < times:
                for yardstick, make in yardsticks(flood).items():
                    shell = await asyncio.to_thread(make)
                    rate = await asyncio.to_thread(flood_rate, shell, size, digest)
                    limits.setdefault(yardstick, []).append(rate)
                    if yardstick == RAW and not ours:
                        # of one round
                        seconds = size / MEGA / rate * (1 + len(yardsticks(flood)) / LEAST_RATE)
                        times = min(times, max(1, int(FLOOD_SECONDS / seconds)))
                bench.expect(seconds * (times - len(ours)))
                made = await asyncio.to_thread(ConsoleShell, server, flood)
                ours.append(await asyncio.to_thread(flood_rate, made, size, digest))
            for yardstick, limit in limits.items():
                suffix, least = (
                    ("-ttyd", LEAST_RATE_TTYD) if yardstick == TTYD else ("", LEAST_RATE)
                )
                rows.append(
                    row(
                        f"console.{name}{suffix}",
                        f"console terminal: `{command}`, whole by hash",
                        "MB/s",
                        ours,
                        limit=(f"{yardstick}, same client", limit),
                        target=Target(of="ratio", least=least),
                    )
                )
    return rows


async def interrupt(bench: Bench) -> list[Row]:
    """Ctrl-C in a flood."""
    async with serving() as server:
        ours = [
            await asyncio.to_thread(lambda: interrupt_time(ConsoleShell(server)))
            for _ in range(bench.times(20, 2))
        ]
    return [
        row(
            "console.interrupt",
            "console terminal: Ctrl-C in `yes` to the prompt, client at 8 MB/s",
            "ms",
            ours,
            target=Target(of="median", most=100.0),
        )
    ]


async def stalled(bench: Bench) -> list[Row]:
    """Memory for a viewer that reads nothing, while another one reads a flood."""
    seconds, grown = bench.times(5, 1), []
    async with serving() as server:
        resident = (await server.environment.info()).pid
        for _ in range(bench.times(3, 1)):
            reader = await asyncio.to_thread(ConsoleShell, server)
            reader.receive()
            asleep = await asyncio.to_thread(server.tab)
            before = memory_bytes(server.pid, resident)
            asleep.op(
                "attach",
                channel=1,
                environment=server.environment.id,
                process=reader.id,
                **{"from": None},
            )
            reader.send(b"yes\r")
            total = await asyncio.to_thread(_read_for, reader, seconds)
            grown.append((memory_bytes(server.pid, resident) - before) / (1 << 20))
            asleep.close()
            await asyncio.to_thread(reader.close)
            if total < seconds * MEGA:
                raise WrongResult(f"the reader got {total} bytes in {seconds} s")
    return [
        row(
            "console.stalled",
            "console: memory for a viewer that reads nothing of a flood",
            "MiB",
            grown,
            target=Target(of="worst", most=4.0),
        )
    ]


def _read_for(shell: Shell, seconds: float) -> int:
    until, total = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        total += len(shell.receive())
    shell.send(b"\x03")
    return total


async def idle(bench: Bench) -> list[Row]:
    """Processor time of idle terminals."""
    count, seconds = bench.times(100, 10), bench.times(10, 5)
    async with serving() as server:
        resident = (await server.environment.info()).pid
        tab = await asyncio.to_thread(server.tab)
        threads = threads_of(server.pid)
        started = time.perf_counter()
        for channel in range(count):
            made = await asyncio.to_thread(lambda: tab.api("POST", server.terminals, command=SHELL))
            await asyncio.to_thread(tab.attach, server.environment.id, made["id"], channel)
            if channel == 0:
                bench.expect((time.perf_counter() - started) * count + seconds)
        await asyncio.sleep(2.0)  # shells print their prompts
        more = threads_of(server.pid) - threads
        before = cpu_seconds(server.pid, resident)
        await asyncio.sleep(seconds)
        used = (cpu_seconds(server.pid, resident) - before) / seconds * 100
        tab.close()
    if more >= count:
        raise WrongResult(f"{more} more threads for {count} terminals")
    return [
        row(
            "console.idle",
            f"console: CPU of {count} idle terminals, {more} more threads",
            "%",
            [used],
            target=Target(of="median", most=1.0),
        )
    ]


async def rounds(bench: Bench) -> list[Row]:
    """What is left after terminals were opened and closed."""
    count = bench.times(50, 5)
    async with serving() as server:
        started = time.perf_counter()
        await asyncio.to_thread(_round, server, is_abrupt=False)  # what is made once is made
        bench.expect((time.perf_counter() - started) * count)
        resident = (await server.environment.info()).pid
        before = descriptors_of(server.pid) + descriptors_of(resident)
        for number in range(count):
            await asyncio.to_thread(_round, server, is_abrupt=number % 2 == 1)
        processes = (await server.environment.info()).processes
        left = processes + await _settled(
            lambda: descriptors_of(server.pid) + descriptors_of(resident) - before
        )
    return [
        row(
            "console.rounds",
            f"console: processes and descriptors left by {count} terminals",
            "left",
            [float(left)],
            target=Target(of="worst", most=0.0),
        )
    ]


def _round(server: Server, *, is_abrupt: bool) -> None:
    shell = ConsoleShell(server)
    shell.send(
        b"sleep 9981 & nohup sleep 9982 >/dev/null 2>&1 & setsid sleep 9983 & echo rea''dy\r"
    )
    seen = b""
    while b"ready\r\n" not in seen:
        seen += shell.receive()
    if is_abrupt:
        shell.tab.close()
        shell.tab = server.tab()
    shell.close()


async def _settled(measure: Callable[[], int]) -> int:
    """The measure once it is 0, or after a while."""
    for _ in range(100):
        if measure() <= 0:
            return 0
        await asyncio.sleep(0.1)
    return measure()


async def opening(bench: Bench) -> list[Row]:
    """From the click to the first prompt."""

    def once(server: Server, tab: TabClient) -> float:
        started = time.perf_counter()
        shell = ConsoleShell(server, tab=tab)
        seen = b""
        while b"$ " not in seen:
            seen += shell.receive()
        taken = (time.perf_counter() - started) * MILLI
        tab.api("DELETE", f"{server.terminals}/{shell.id}")
        tab.event("ended")
        return taken

    async with serving() as server:
        tab = await asyncio.to_thread(server.tab)
        ours = [await asyncio.to_thread(once, server, tab) for _ in range(bench.times(20, 3))]
        tab.close()
    return [
        row(
            "console.open",
            "console terminal: start to the first prompt",
            "ms",
            ours,
            target=Target(of="median", most=300.0),
        )
    ]
