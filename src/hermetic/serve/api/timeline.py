"""What ran where, newest first, and a search over commands and kept output: /timeline and /search."""

import asyncio
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from hermetic.contract.environment import Isolation
from hermetic.contract.errors import ExecutionError
from hermetic.contract.process import ProcessInfo
from hermetic.contract.verdict import Label
from hermetic.resident.lazy import Lazy
from hermetic.serve.environments import Environments, Found
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.text import last_lines, plain
from hermetic.serve.views import ProcessView
from hermetic.session.environment import Environment

if TYPE_CHECKING:
    from hermetic import policy
else:
    policy = Lazy("hermetic.policy")  # slow to import

MOST_BLOCKS = 200
TAIL_BYTES = 8192
TAIL_LINES = 12
TAIL_WIDTH = 300  # characters
LISTED_COMMAND = 200  # bytes of a command in a list; a longer one is asked for
READERS = 16  # reads of output at once

MOST_HITS = 200
MOST_HITS_OF_PROCESS = 20
SEARCH_PIECE = 1 << 20  # bytes
MOST_SEARCHED = 64 << 20  # bytes of one search
SEARCH_SECONDS = 10.0
LONGEST_QUERY = 200  # characters


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says of a command."""

    label: Label
    reason: str


class Block(ProcessView, frozen=True, kw_only=True):
    """One command or process in the timeline."""

    environment: str
    task: str | None
    tail: str = ""  # the last lines of its output, as plain text without secrets
    verdict: Judged | None = None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Commands and processes, newest first."""

    blocks: tuple[Block, ...]
    # ids of environments whose commands are missing; an event says when they answer
    unanswered: tuple[str, ...] = ()


class WhichBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the timeline is wanted."""

    environment: str | None = None
    limit: int = 50
    before: float | None = None  # only what started before, seconds since 1970
    state: Literal["failed", "running"] | None = None


async def _timeline(call: Call) -> Timeline:
    wanted, environments = call.query(WhichBlocks), call.console.environments
    if not 1 <= wanted.limit <= MOST_BLOCKS:
        raise Refused(400, "invalid", f"limit is 1 to {MOST_BLOCKS}.")
    everything, unanswered = await environments.everything(wanted.environment)
    found = [one for one in everything if _is_wanted(one.info, wanted)]
    found.sort(key=lambda one: one.info.started, reverse=True)
    slots = asyncio.Semaphore(READERS)
    blocks = await asyncio.gather(
        *(_block(environments, one, slots) for one in found[: wanted.limit])
    )
    return Timeline(blocks=tuple(blocks), unanswered=unanswered)


def _is_wanted(info: ProcessInfo, wanted: WhichBlocks) -> bool:
    if wanted.before is not None and info.started >= wanted.before:
        return False
    match wanted.state:
        case "running":
            return info.is_running
        case "failed":
            return info.ending is not None and info.ending.exit_code != 0
    return True


async def _block(environments: Environments, found: Found, slots: asyncio.Semaphore) -> Block:
    known, info = found
    tail = ""
    async with slots:
        try:
            environment = known.attached()
            if len(info.command.encode()) >= LISTED_COMMAND:
                whole = (await environment.process(info.id)).info
                info = msgspec.structs.replace(info, command=whole.command)
            tail = await _tail(environment, info)
            judged = await asyncio.to_thread(_judge, info.command, info.cwd, environment.isolation)
        except ExecutionError:  # gone meanwhile, or dropped
            judged = None
    view = environments.view_process(known, info)
    fields = msgspec.structs.asdict(view)
    return Block(**fields, environment=known.id, task=known.record.task, tail=tail, verdict=judged)


async def _tail(environment: Environment, info: ProcessInfo) -> str:
    start = max(0, info.out - TAIL_BYTES)
    chunk = await environment.read_log(info.id, start, limit=TAIL_BYTES)
    data = chunk.data.partition(b"\n")[2] if start and b"\n" in chunk.data else chunk.data
    return last_lines(plain(data), TAIL_LINES, TAIL_WIDTH)


@lru_cache(maxsize=4096)
def _judge(command: str, cwd: str, isolation: Isolation) -> Judged:
    verdict = policy.assess(command, cwd=cwd, isolation=isolation)
    return Judged(label=verdict.label, reason=verdict.reason)


# -- search
class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A text to search for; upper and lower case count as the same."""

    q: str
    environment: str | None = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A line of output, or a command, with the text.

    `offset` is the line's first byte; None: the command.
    """

    environment: str
    process: str
    command: str
    line: str
    offset: int | None = None


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, those of the newest process first; `truncated`: there may be more."""

    hits: tuple[Hit, ...]
    truncated: bool = False
    # ids of environments that were not searched: they do not answer
    unanswered: tuple[str, ...] = ()


async def _search(call: Call) -> Hits:
    wanted = call.query(SearchQuery)
    if not wanted.q.strip() or len(wanted.q) > LONGEST_QUERY:
        raise Refused(400, "invalid", f"q has 1 to {LONGEST_QUERY} characters.")
    found, unanswered = await call.console.environments.everything(wanted.environment)
    found.sort(key=lambda one: one.info.started, reverse=True)
    search = Search(wanted.q)
    for one in found:
        if search.is_over:
            break
        await search.look(one)
    return Hits(hits=tuple(search.hits), truncated=search.is_over, unanswered=unanswered)


class Search:
    """A search in progress, within bounds of time, bytes and hits."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._data = text.lower().encode()
        self._until = time.monotonic() + SEARCH_SECONDS
        self._left = MOST_SEARCHED
        self.hits: list[Hit] = []

    def __repr__(self) -> str:
        return f"<Search: {len(self.hits)} hits>"

    @property
    def is_over(self) -> bool:
        """True when a bound was reached."""
        return len(self.hits) >= MOST_HITS or self._left <= 0 or time.monotonic() > self._until

    async def look(self, found: Found) -> None:
        """Adds the hits of one process."""
        if self._text in found.info.command.lower():
            self._add(found, plain(found.info.command.encode()), None)
        at, before = 0, len(self.hits)
        try:
            environment = found.known.attached()
            while (
                at < found.info.out
                and not self.is_over
                and len(self.hits) - before < MOST_HITS_OF_PROCESS
            ):
                chunk = await environment.read_log(found.info.id, at, limit=SEARCH_PIECE)
                if not chunk.data:
                    break
                whole = self._whole_lines(chunk.data, chunk.ended or chunk.end >= found.info.out)
                self._left -= len(whole)
                for start, line in self._matching(whole):
                    self._add(found, line, chunk.start + start)
                at = chunk.start + len(whole)
        except ExecutionError:  # gone meanwhile, or dropped
            return

    @staticmethod
    def _whole_lines(data: bytes, is_last: bool) -> bytes:
        """The data up to its last line end, so that no line is cut."""
        end = data.rfind(b"\n") + 1
        return data if is_last or not end else data[:end]

    def _matching(self, data: bytes) -> list[tuple[int, str]]:
        lowered, at = data.lower(), 0
        found: list[tuple[int, str]] = []
        while len(found) < MOST_HITS_OF_PROCESS and (hit := lowered.find(self._data, at)) >= 0:
            start = data.rfind(b"\n", 0, hit) + 1
            end = data.find(b"\n", hit)
            at = len(data) if end < 0 else end + 1
            found.append((start, plain(data[start : at - 1 if end >= 0 else at])))
        return found

    def _add(self, found: Found, line: str, offset: int | None) -> None:
        if len(self.hits) < MOST_HITS:
            where = {
                "environment": found.known.id,
                "process": found.info.id,
                "command": found.info.command,
            }
            self.hits.append(Hit(**where, line=last_lines(line, 1, TAIL_WIDTH), offset=offset))


ROUTES = (
    Resource(
        "GET",
        "/timeline",
        "view",
        _timeline,
        "What ran, newest first.",
        Timeline,
        query=WhichBlocks,
    ),
    Resource(
        "GET",
        "/search",
        "view",
        _search,
        "Commands and output that hold a text.",
        Hits,
        query=SearchQuery,
    ),
)
