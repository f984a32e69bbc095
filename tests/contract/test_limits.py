"""The table of limits: complete, and the same as what the resident keeps to."""

import ast
import importlib
import io
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hermetic import resident
from hermetic.contract import limits
from hermetic.resident import fields, frames
from hermetic.resident.main import read_config
from hermetic.resident.resident import Refusal
from tests.resident.running import Client, running

COMPARED: dict[str, float] = {
    "askpass.PROMPT_BYTES": limits.PROMPT.value,
    "askpass.QUESTIONS": limits.QUESTIONS.value,
    "bare_jobs.BEGIN_SECONDS": limits.BARE_BEGIN.value,
    "bare_jobs.LAST_WORDS_SECONDS": limits.BARE_LAST_WORDS.value,
    "bare_keeper.FIRST_LOOK_SECONDS": limits.BARE_FIRST_LOOK.value,
    "bare_keeper.LAST_LOOK_SECONDS": limits.BARE_LAST_LOOK.value,
    "bare_line.COMPLAINT_BYTES": limits.BARE_COMPLAINT.value,
    "bare_line.RECORD_BYTES": limits.BARE_STATE.value,
    "bridge.CHANNELS": limits.CHANNELS.value,
    "bridge.STRANGERS": limits.CHANNEL_STRANGERS.value,
    "bridge.TOKEN_SECONDS": limits.CHANNEL_TOKEN.value,
    "command.READABLE_BYTES": limits.READABLE_COMMAND.value,
    "starting_requests.BLOBS": limits.BLOBS.value,
    "file_batches.MOST_CHANGES": limits.PATCHED_FILES.value,
    "file_requests.WORKER_BYTES": limits.FILE_AT_ONCE.value,
    "wakefulness.AWAKE_SECONDS": limits.AWAKE.value,
    "wakefulness.PATIENCE_SECONDS": limits.PATIENCE.value,
    "worker.AT_ONCE": limits.WORKERS.value,
    "worker.ANSWER_BYTES": limits.WORKER_ANSWER.value,
    "file_lines.AT_ONCE_BYTES": limits.FILE_SCAN.value,
    "file_lines.BLOCK_BYTES": limits.SCAN_BLOCK.value,
    "file_lines.KEPT": limits.SCANS.value,
    "file_lines.MOST_BLOCKS": limits.SCAN_BLOCKS.value,
    "file_lines.PAGE_BYTES": limits.PAGE.value,
    "file_lines.SAMPLE_BYTES": limits.FILE_SAMPLE.value,
    "bare_search.FETCHED_BYTES": limits.SEARCH_FETCH.value,
    "search_matching.BLOCK_BYTES": limits.SEARCH_BLOCK.value,
    "search_matching.SAMPLE_BYTES": limits.FILE_SAMPLE.value,
    "search_requests.LONGEST_SECONDS": limits.LONGEST_SEARCH.value,
    "search_requests.MOST_CONTEXT": limits.SEARCH_CONTEXT.value,
    "search_requests.MOST_RESULTS": limits.SEARCH_RESULTS.value,
    "searching.ANSWER_BYTES": limits.SEARCH_ANSWER.value,
    "searching.IGNORE_BYTES": limits.IGNORE_FILE.value,
    "searching.TEXT_BYTES": limits.SEARCH_TEXT.value,
    "flock.COPIES": limits.COPIES.value,
    "flock.PROOF_SECONDS": limits.COPY_REPORT.value,
    "parallel.BESIDE_SECONDS": limits.BESIDE_REPORT.value,
    "following.PIECE_BYTES": limits.FOLLOW_PIECE.value,
    "frames.MAX_BODY": limits.FRAME_BODY.value,
    "frames.MAX_DEPTH": limits.FRAME_DEPTH.value,
    "frames.MAX_FIRST_FRAME": limits.FIRST_FRAME.value,
    "fields.TAG_BYTES": limits.TAG.value,
    "frames.MAX_FRAME": limits.FRAME_BODY.value + limits.FRAME_HEADER.value,
    "frames.MAX_ITEMS": limits.FRAME_ITEMS.value,
    "job.FLOOD_PIPE_BYTES": limits.FLOOD_PIPE.value,
    "job.READS_PER_TURN": limits.READS_AT_ONCE.value,
    "limits.SPAN": limits.MARKS.value,
    "loop.BUFFER_BYTES": limits.READ_BUFFER.value,
    "main.LOG_BYTES": limits.ERROR_LOG.value,
    "move.LIMIT_SECONDS": limits.MOVE.value,
    "output_log.FALLBACK_BYTES": limits.SPOOL_FALLBACK.value,
    "output_log.HOLD_BYTES": limits.FOLLOW_HOLD.value,
    "output_log.MEMORY_BYTES": limits.LOG_HEAD.value,
    "output_log.MOST_SECRETS": limits.SECRETS.value,
    "output_log.SECRET_BYTES": limits.SECRET_LENGTH.value,
    "output_log.SPOOL_BYTES": limits.SPOOL.value,
    "feed.INPUT_BYTES": limits.PENDING_INPUT.value,
    "starting_requests.BLOB_BYTES": limits.BLOB.value,
    "starting_requests.COMMAND_BYTES": limits.COMMAND.value,
    "starting_requests.EXCERPT_BYTES": limits.INLINE_OUTPUT.value,
    "requests.LISTED": limits.LISTED.value,
    "resident.SESSIONS": limits.SESSIONS.value,
    "requests.KILL_GRACE_SECONDS": limits.KILL_GRACE.value,
    "resident.PROOF_SECONDS": limits.COPY_REPORT.value,
    "retention.COMMANDS": limits.KEPT_COMMANDS.value,
    "retention.MEMORY_BYTES": limits.KEPT_MEMORY.value,
    "retention.PROCESSES": limits.KEPT_PROCESSES.value,
    "retention.SPOOL_BYTES": limits.KEPT_SPOOL.value,
    "scripts.GRACE_SECONDS": limits.SCRIPT_GRACE.value,
    "scripts.MODULES": limits.SCRIPT_MODULES.value,
    "scripts.SPARE_SECONDS": limits.SPARE_INTERPRETER.value,
    "room.SPARE": limits.SPARE_PROCESSES.value,
    "server.CLIENTS": limits.CLIENTS.value,
    "server.UNGREETED": limits.UNGREETED.value,
    "server.GREETING_SECONDS": limits.GREETING.value,
    "server.OPEN_REQUESTS": limits.OPEN_REQUESTS.value,
    "server.OUTGOING_BYTES": limits.UNSENT.value,
    "session.DEEPEST": limits.NESTING.value,
    "session.LARGE_TEXT_BYTES": limits.LARGE_COMMAND.value,
    "shell.INLINE_BYTES": limits.PIPED_COMMAND.value,
    "tree.LIMIT_SECONDS": limits.KILL.value,
    "tree.REPEAT_SECONDS": limits.TERM_AGAIN.value,
    "tree.SETTLE_SECONDS": limits.KILL_LOOK.value,
    "waiting._MOST_DESCRIPTORS": limits.POLLED.value,
}

NOT_LIMITS = {
    "holder.ARCH_GET_FS": "a number of the kernel",
    "holder.ARCH_PRCTL": "a number of the kernel",
    "holder.CLONE": "a number of the kernel",
    "holder.CLONE_FILES": "a number of the kernel",
    "holder.MUNMAP": "a number of the kernel",
    "holder.PAGE": "a number of the kernel",
    "holder.PAUSE": "a number of the kernel",
    "holder.PRCTL": "a number of the kernel",
    "holder.PRIVATE_ANONYMOUS": "a number of the kernel",
    "holder.PR_SET_DUMPABLE": "a number of the kernel",
    "holder.PR_SET_NAME": "a number of the kernel",
    "holder.PR_SET_NO_NEW_PRIVS": "a number of the kernel",
    "holder.PR_SET_PDEATHSIG": "a number of the kernel",
    "holder.PR_SET_SECCOMP": "a number of the kernel",
    "holder.READ_EXECUTE": "a number of the kernel",
    "holder.READ_WRITE": "a number of the kernel",
    "holder.RESTART": "a number of the kernel",
    "holder.RSEQ": "a number of the kernel",
    "holder.RSEQ_SIGNATURE": "a number of the kernel",
    "holder.RSEQ_UNREGISTER": "a number of the kernel",
    "holder.SECCOMP_MODE_FILTER": "a number of the kernel",
    "holder.READY_SECONDS": "patience with our own start",
    "resident.HOLDER_SECONDS": "a pause, while no process can be had",
    "orders.LINES": "how a shell's program is cut into pieces: it begins anew at its end",
    "orders.OUTER_LINES": "the same",
    "orders.INNER_LINES": "the same",
    "orders.STATUSES": "of a pipeline, that the next command finds in PIPESTATUS; a report has room for no more",
    "scripts.READY": "a word of our own protocol",
    "tree.CAUGHT_SIGNALS": "a number of the kernel: a field",
    "scripts.REQUEST_BYTES": "more than any request of ours has",
    "scripts.SHIMS": "how many are remembered: a matter of speed",
    "server.PAUSE_SECONDS": "a pause, while the system is out of descriptors",
    "upkeep.END_SECONDS": "for answers to go out before the end",
    "upkeep.LOOK_SECONDS": "a pause between two looks",
    "upkeep.RECORD_BYTES": "more than any record has",
    "resident.EVENT_BYTES": "a part of what the kernel's pipes hold",
    "retention.SLACK": "a few more than the number of the table, so that they are dropped together",
    "exports.AGAIN_SECONDS": "a pause, while the system is out of descriptors",
    "starting.STARTS": "tries, while something kills each shell",
    "wakefulness.CROWDED_SECONDS": "a measure: a longer wait for the processor means that others want it",
    "fences.CAP_NET_ADMIN": "a number of the kernel: a capability",
    "fences.CAPABILITY_VERSION": "a number of the kernel: a layout",
    "fences.NEW_ROUTE": "a number of the kernel: a request",
    "fences.NEW_ROUTE_FLAGS": "a number of the kernel: flags of a request",
    "fences.UNICAST": "a number of the kernel: a kind of route",
    "fences.UNREACHABLE": "a number of the kernel: a kind of route",
    "fences.DESTINATION": "a number of the kernel: a part of a route",
    "fences.DEVICE": "a number of the kernel: a part of a route",
    "fences.MAIN_TABLE": "a number of the kernel: a table of routes",
    "fences.STATIC": "a number of the kernel: who made a route",
    "fences.ANYWHERE": "a number of the kernel: a scope",
    "fences.ON_LINK": "a number of the kernel: a scope",
    "fences.ROUTE_HEADER": "a number of the kernel: bytes of a header",
    "search_rules.MOST_BRACES": "how deep the braces of a glob may be in each other; nobody writes more than two",
    "search_ripgrep.RECORD_BYTES": "what is held of a line while its end has not come, more than is ever shown of one",
    "bare_files.HEAD_BYTES": "how much of a file a script sends ahead to tell what it is",
    "file_batches._NEW": "a number of the kernel: flags of open",
    "readers.TIOCGPGRP": "a number of the kernel",
    "readers.READERS": "how many programs are named that may read the same input: only the first few matter",
    "readers.WORDS": "how much of a program's words is told: enough to know what it reads",
    "readers.WORD_BYTES": "how much of a program's words is told: enough to know what it reads",
    "file_changes.TURNS": "how often a name that others keep changing is looked up again",
    "walking.MOST_PATTERNS": "what is kept compiled: beyond it they are compiled anew",
    "walking.MOST_LINKS": "a number of the kernel: how many links a path may lead through",
    "walking._STEP": "a number of the kernel: flags of open",
    "bare_keeper.NUMBERS": "how a mark is divided: bits that count",
    "bare_line.ERR": "a stream",
    "bare_line.OUT": "a stream",
    "bridge.TOKEN_BYTES": "how long a token is",
    "feed.PIECE_BYTES": "how much of an input is read ahead: `feed.INPUT_BYTES` bounds what waits",
    "frames.CANCEL": "a kind of frame",
    "frames.CREDIT": "a kind of frame",
    "frames.ERROR": "a kind of frame",
    "frames.EVENT": "a kind of frame",
    "frames.REPLY": "a kind of frame",
    "frames.REQUEST": "a kind of frame",
    "job.FULL_READS": "the sign of a flood: it bounds nothing",
    "job.F_SETPIPE_SZ": "a number of the kernel: an operation of fcntl",
    "job.PIPE_BYTES": "a number of the kernel: what it gives a pipe",
    "loop.READ": "a number of the standard library: an event of epoll",
    "loop.WRITE": "a number of the standard library: an event of epoll",
    "main.PR_SET_NAME": "a number of the kernel: an operation of prctl",
    "main.PR_SET_CHILD_SUBREAPER": "a number of the kernel: an operation of prctl",
    "main.PR_SET_NO_NEW_PRIVS": "a number of the kernel: an operation of prctl",
    "main.PR_SET_SECCOMP": "a number of the kernel: an operation of prctl",
    "main.SECCOMP_MODE_FILTER": "a number of the kernel: an argument of prctl",
    "main.FILTER_STEP": "a number of the kernel: the size of one step of a filter",
    "waiting.DEV_TTY": "a number of the kernel: the device of /dev/tty",
    "main.PR_SET_PDEATHSIG": "a number of the kernel: an operation of prctl",
    "process.TIOCSCTTY": "a number of the kernel: an ioctl",
    "process.TIOCSWINSZ": "a number of the kernel: an ioctl",
    "scope.ABSTRACT_UNIX_SOCKET": "a number of the kernel: what Landlock keeps apart",
    "scope.CREATE_RULESET": "a number of the kernel: a system call",
    "scope.RESTRICT_SELF": "a number of the kernel: a system call",
    "shell.FIONREAD": "a number of the kernel: an ioctl",
    "waiting._ENDLESS": "a number of the kernel: how a call without a timeout looks",
}


def numbers_of_the_resident() -> Iterator[tuple[str, float]]:
    """`module.NAME` and value of every upper-case number that a module of the resident, or a class in it, assigns."""
    for path in sorted(Path(resident.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"{resident.__name__}.{path.stem}")
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        scopes = [vars(module), *(vars(value) for value in classes if value.__module__ == module.__name__)]
        for name in assigned_constants(path.read_text(encoding="utf-8")):
            for value in (scope[name] for scope in scopes if name in scope):
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield f"{path.stem}.{name}", value


def assigned_constants(source: str) -> set[str]:
    names = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store) and node.id.isupper()}


@pytest.fixture(scope="module")
def numbers() -> dict[str, float]:
    return dict(numbers_of_the_resident())


def test_every_limit_is_in_the_table_once() -> None:
    defined = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert sorted(defined) == sorted(limit.name.upper() for limit in limits.LIMITS)
    assert all(defined[limit.name.upper()] is limit for limit in limits.LIMITS)


def test_every_limit_has_a_value_a_unit_and_a_meaning() -> None:
    assert [limit.name for limit in limits.LIMITS if limit.value <= 0 or not limit.unit or not limit.meaning] == []


def test_both_ends_keep_to_the_same_limits(numbers: dict[str, float]) -> None:
    assert {name: value for name, value in numbers.items() if name in COMPARED} == COMPARED


def test_every_number_of_the_resident_is_in_the_table_or_has_a_reason_not_to_be(numbers: dict[str, float]) -> None:
    unknown = numbers.keys() - COMPARED.keys() - NOT_LIMITS.keys()
    assert sorted(unknown) == [], "give each a row in contract/limits.py and compare it here, or say why it is no limit"


def test_every_number_that_is_no_limit_exists_and_is_not_compared(numbers: dict[str, float]) -> None:
    assert sorted(NOT_LIMITS.keys() - numbers.keys()) == []
    assert sorted(NOT_LIMITS.keys() & COMPARED.keys()) == []


def test_the_numbers_of_a_module_and_of_its_classes_are_found_but_not_those_it_imports() -> None:
    source = "from .loop import READ\nMOST, _LEAST = 2, 1\nDEEP: int = 8\nclass Mark:\n    SPAN = 4\n"
    assert assigned_constants(source) == {"MOST", "_LEAST", "DEEP", "SPAN"}


def test_a_resident_that_is_told_no_clocks_has_those_of_the_table() -> None:
    given = msgspec.msgpack.encode({"id": "r"})
    config = read_config(io.BytesIO(struct.pack(">I", len(given)) + given))
    clocks = (limits.LEASE.value, limits.UNATTENDED.value, limits.LOGIN.value)
    assert (config["lease"], config["unattended"], config["login_timeout"]) == clocks


def test_the_resident_takes_ids_and_durations_up_to_their_limits() -> None:
    longest = "a" * limits.ID_LENGTH.value
    assert fields.job_id({"id": longest}) == longest
    with pytest.raises(Refusal):
        fields.job_id({"id": longest + "a"})
    assert fields.seconds({"timeout": limits.DURATION.value - 1}, "timeout") == limits.DURATION.value - 1
    assert fields.seconds({"timeout": limits.DURATION.value * 2}, "timeout") == limits.DURATION.value


def test_a_running_resident_cuts_commands_and_refuses_beyond_the_limits() -> None:
    with running() as place, place.client() as client:
        text = b"true " + b"x" * limits.COMMAND_SHOWN.value
        client.ask("start", text, id="long", text=len(text))
        described = client.ask("status", process="long")[0]["process"]["command"]
        [listed] = frames.unpack(client.ask("list")[1])
        assert len(described) == limits.COMMAND_SHOWN.value
        assert len(listed["command"]) == limits.COMMAND_LISTED.value
        takes_blobs_up_to(client, limits.BLOBS.value)
        takes_terminals_up_to(client, limits.TERMINAL.value)


def takes_blobs_up_to(client: Client, most: int) -> None:
    for number in range(most):
        client.ask("blob", blob=f"b{number}")
    with pytest.raises(AssertionError, match="use or drop some"):
        client.ask("blob", blob="one-more")


def takes_terminals_up_to(client: Client, most: int) -> None:
    client.ask("start", b"true", id="wide", text=4, pty=True, rows=most, cols=most)
    for side in ("rows", "cols"):
        with pytest.raises(AssertionError, match=f"{side} must be"):
            client.ask("start", b"true", id="wider", text=4, pty=True, **{side: most + 1})
