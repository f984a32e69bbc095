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
from hermetic.resident.life.main import read_config
from hermetic.resident.life.resident import Refusal
from hermetic.resident.wire import fields, frames
from tests.resident.running import Client, running

COMPARED: dict[str, float] = {
    "channels.askpass.PROMPT_BYTES": limits.PROMPT.value,
    "channels.askpass.QUESTIONS": limits.QUESTIONS.value,
    "bare.jobs.BEGIN_SECONDS": limits.BARE_BEGIN.value,
    "bare.jobs.LAST_WORDS_SECONDS": limits.BARE_LAST_WORDS.value,
    "bare.keeper.FIRST_LOOK_SECONDS": limits.BARE_FIRST_LOOK.value,
    "bare.keeper.LAST_LOOK_SECONDS": limits.BARE_LAST_LOOK.value,
    "bare.line.COMPLAINT_BYTES": limits.BARE_COMPLAINT.value,
    "bare.line.RECORD_BYTES": limits.BARE_STATE.value,
    "channels.bridge.CHANNELS": limits.CHANNELS.value,
    "channels.bridge.STRANGERS": limits.CHANNEL_STRANGERS.value,
    "channels.bridge.TOKEN_SECONDS": limits.CHANNEL_TOKEN.value,
    "shells.command.READABLE_BYTES": limits.READABLE_COMMAND.value,
    "processes.start_requests.BLOBS": limits.BLOBS.value,
    "files.batches.MOST_CHANGES": limits.PATCHED_FILES.value,
    "files.requests.WORKER_BYTES": limits.FILE_AT_ONCE.value,
    "life.spin_policy.AWAKE_SECONDS": limits.AWAKE.value,
    "life.spin_policy.PATIENCE_SECONDS": limits.PATIENCE.value,
    "files.worker.AT_ONCE": limits.WORKERS.value,
    "files.worker.ANSWER_BYTES": limits.WORKER_ANSWER.value,
    "files.lines.AT_ONCE_BYTES": limits.FILE_SCAN.value,
    "files.lines.BLOCK_BYTES": limits.SCAN_BLOCK.value,
    "files.lines.KEPT": limits.SCANS.value,
    "files.lines.MOST_BLOCKS": limits.SCAN_BLOCKS.value,
    "files.lines.PAGE_BYTES": limits.PAGE.value,
    "files.lines.SAMPLE_BYTES": limits.FILE_SAMPLE.value,
    "bare.search.FETCHED_BYTES": limits.SEARCH_FETCH.value,
    "files.search_matching.BLOCK_BYTES": limits.SEARCH_BLOCK.value,
    "files.search_matching.SAMPLE_BYTES": limits.FILE_SAMPLE.value,
    "files.search_requests.LONGEST_SECONDS": limits.LONGEST_SEARCH.value,
    "files.search_requests.MOST_CONTEXT": limits.SEARCH_CONTEXT.value,
    "files.search_requests.MOST_RESULTS": limits.SEARCH_RESULTS.value,
    "files.search.ANSWER_BYTES": limits.SEARCH_ANSWER.value,
    "files.search.IGNORE_BYTES": limits.IGNORE_FILE.value,
    "files.search.TEXT_BYTES": limits.SEARCH_TEXT.value,
    "shells.pool.COPIES": limits.COPIES.value,
    "shells.pool.PROOF_SECONDS": limits.COPY_REPORT.value,
    "shells.parallel.BESIDE_SECONDS": limits.BESIDE_REPORT.value,
    "processes.following.PIECE_BYTES": limits.FOLLOW_PIECE.value,
    "wire.frames.MAX_BODY": limits.FRAME_BODY.value,
    "wire.frames.MAX_DEPTH": limits.FRAME_DEPTH.value,
    "wire.frames.MAX_FIRST_FRAME": limits.FIRST_FRAME.value,
    "wire.fields.TAG_BYTES": limits.TAG.value,
    "wire.frames.MAX_FRAME": limits.FRAME_BODY.value + limits.FRAME_HEADER.value,
    "wire.frames.MAX_ITEMS": limits.FRAME_ITEMS.value,
    "processes.job.FLOOD_PIPE_BYTES": limits.FLOOD_PIPE.value,
    "processes.job.READS_PER_TURN": limits.READS_AT_ONCE.value,
    "processes.descriptor_limit.SPAN": limits.MARKS.value,
    "life.loop.BUFFER_BYTES": limits.READ_BUFFER.value,
    "life.main.LOG_BYTES": limits.ERROR_LOG.value,
    "shells.move.LIMIT_SECONDS": limits.MOVE.value,
    "processes.output_log.FALLBACK_BYTES": limits.SPOOL_FALLBACK.value,
    "processes.output_log.HOLD_BYTES": limits.FOLLOW_HOLD.value,
    "processes.output_log.MEMORY_BYTES": limits.LOG_HEAD.value,
    "processes.output_log.MOST_SECRETS": limits.SECRETS.value,
    "processes.output_log.SECRET_BYTES": limits.SECRET_LENGTH.value,
    "processes.output_log.SPOOL_BYTES": limits.SPOOL.value,
    "processes.stdin_writer.INPUT_BYTES": limits.PENDING_INPUT.value,
    "processes.start_requests.BLOB_BYTES": limits.BLOB.value,
    "processes.start_requests.COMMAND_BYTES": limits.COMMAND.value,
    "processes.start_requests.EXCERPT_BYTES": limits.INLINE_OUTPUT.value,
    "wire.requests.LISTED": limits.LISTED.value,
    "life.resident.SESSIONS": limits.SESSIONS.value,
    "wire.requests.KILL_GRACE_SECONDS": limits.KILL_GRACE.value,
    "life.resident.PROOF_SECONDS": limits.COPY_REPORT.value,
    "processes.retention.COMMANDS": limits.KEPT_COMMANDS.value,
    "processes.retention.MEMORY_BYTES": limits.KEPT_MEMORY.value,
    "processes.retention.PROCESSES": limits.KEPT_PROCESSES.value,
    "processes.retention.SPOOL_BYTES": limits.KEPT_SPOOL.value,
    "channels.scripts.GRACE_SECONDS": limits.SCRIPT_GRACE.value,
    "channels.scripts.MODULES": limits.SCRIPT_MODULES.value,
    "channels.scripts.SPARE_SECONDS": limits.SPARE_INTERPRETER.value,
    "processes.process_quota.SPARE": limits.SPARE_PROCESSES.value,
    "life.server.CLIENTS": limits.CLIENTS.value,
    "life.server.UNGREETED": limits.UNGREETED.value,
    "life.server.GREETING_SECONDS": limits.GREETING.value,
    "life.server.OPEN_REQUESTS": limits.OPEN_REQUESTS.value,
    "life.server.OUTGOING_BYTES": limits.UNSENT.value,
    "shells.session.DEEPEST": limits.NESTING.value,
    "shells.session.LARGE_TEXT_BYTES": limits.LARGE_COMMAND.value,
    "shells.shell.INLINE_BYTES": limits.PIPED_COMMAND.value,
    "processes.tree.LIMIT_SECONDS": limits.KILL.value,
    "processes.tree.REPEAT_SECONDS": limits.TERM_AGAIN.value,
    "processes.tree.SETTLE_SECONDS": limits.KILL_LOOK.value,
    "processes.waiting._MOST_DESCRIPTORS": limits.POLLED.value,
}

NOT_LIMITS = {
    "life.holder.ARCH_GET_FS": "a number of the kernel",
    "life.holder.ARCH_PRCTL": "a number of the kernel",
    "life.holder.CLONE": "a number of the kernel",
    "life.holder.CLONE_FILES": "a number of the kernel",
    "life.holder.MUNMAP": "a number of the kernel",
    "life.holder.PAGE": "a number of the kernel",
    "life.holder.PAUSE": "a number of the kernel",
    "life.holder.PRCTL": "a number of the kernel",
    "life.holder.PRIVATE_ANONYMOUS": "a number of the kernel",
    "life.holder.PR_SET_DUMPABLE": "a number of the kernel",
    "life.holder.PR_SET_NAME": "a number of the kernel",
    "life.holder.PR_SET_NO_NEW_PRIVS": "a number of the kernel",
    "life.holder.PR_SET_PDEATHSIG": "a number of the kernel",
    "life.holder.PR_SET_SECCOMP": "a number of the kernel",
    "life.holder.READ_EXECUTE": "a number of the kernel",
    "life.holder.READ_WRITE": "a number of the kernel",
    "life.holder.RESTART": "a number of the kernel",
    "life.holder.RSEQ": "a number of the kernel",
    "life.holder.RSEQ_SIGNATURE": "a number of the kernel",
    "life.holder.RSEQ_UNREGISTER": "a number of the kernel",
    "life.holder.SECCOMP_MODE_FILTER": "a number of the kernel",
    "life.holder.READY_SECONDS": "patience with our own start",
    "life.resident.HOLDER_SECONDS": "a pause, while no process can be had",
    "shells.orders.LINES": "how a shell's program is cut into pieces: it begins anew at its end",
    "shells.orders.OUTER_LINES": "the same",
    "shells.orders.INNER_LINES": "the same",
    "shells.orders.STATUSES": "of a pipeline, that the next command finds in PIPESTATUS; a report has room for no more",
    "channels.scripts.READY": "a word of our own protocol",
    "processes.tree.CAUGHT_SIGNALS": "a number of the kernel: a field",
    "channels.scripts.REQUEST_BYTES": "more than any request of ours has",
    "channels.scripts.SHIMS": "how many are remembered: a matter of speed",
    "life.server.PAUSE_SECONDS": "a pause, while the system is out of descriptors",
    "life.upkeep.END_SECONDS": "for answers to go out before the end",
    "life.upkeep.LOOK_SECONDS": "a pause between two looks",
    "life.upkeep.RECORD_BYTES": "more than any record has",
    "life.resident.EVENT_BYTES": "a part of what the kernel's pipes hold",
    "processes.retention.SLACK": "a few more than the number of the table, so that they are dropped together",
    "shells.exports.AGAIN_SECONDS": "a pause, while the system is out of descriptors",
    "shells.first_shell.STARTS": "tries, while something kills each shell",
    "life.spin_policy.CROWDED_SECONDS": "a measure: a longer wait for the processor means that others want it",
    "life.blackhole_routes.CAP_NET_ADMIN": "a number of the kernel: a capability",
    "life.blackhole_routes.CAPABILITY_VERSION": "a number of the kernel: a layout",
    "life.blackhole_routes.NEW_ROUTE": "a number of the kernel: a request",
    "life.blackhole_routes.NEW_ROUTE_FLAGS": "a number of the kernel: flags of a request",
    "life.blackhole_routes.UNICAST": "a number of the kernel: a kind of route",
    "life.blackhole_routes.UNREACHABLE": "a number of the kernel: a kind of route",
    "life.blackhole_routes.DESTINATION": "a number of the kernel: a part of a route",
    "life.blackhole_routes.DEVICE": "a number of the kernel: a part of a route",
    "life.blackhole_routes.MAIN_TABLE": "a number of the kernel: a table of routes",
    "life.blackhole_routes.STATIC": "a number of the kernel: who made a route",
    "life.blackhole_routes.ANYWHERE": "a number of the kernel: a scope",
    "life.blackhole_routes.ON_LINK": "a number of the kernel: a scope",
    "life.blackhole_routes.ROUTE_HEADER": "a number of the kernel: bytes of a header",
    "files.search_rules.MOST_BRACES": "how deep the braces of a glob may be in each other; nobody writes more than two",
    "files.search_ripgrep.RECORD_BYTES": "what is held of a line before its end comes, more than is ever shown of one",
    "bare.files.HEAD_BYTES": "how much of a file a script sends ahead to tell what it is",
    "files.batches._NEW": "a number of the kernel: flags of open",
    "processes.readers.TIOCGPGRP": "a number of the kernel",
    "processes.readers.READERS": "how many programs are named that may read the same input: only the first few matter",
    "processes.readers.WORDS": "how much of a program's words is told: enough to know what it reads",
    "processes.readers.WORD_BYTES": "how much of a program's words is told: enough to know what it reads",
    "files.changes.TURNS": "how often a name that others keep changing is looked up again",
    "files.safe_path.MOST_PATTERNS": "what is kept compiled: beyond it they are compiled anew",
    "files.safe_path.MOST_LINKS": "a number of the kernel: how many links a path may lead through",
    "files.safe_path._STEP": "a number of the kernel: flags of open",
    "bare.keeper.NUMBERS": "how a mark is divided: bits that count",
    "bare.line.ERR": "a stream",
    "bare.line.OUT": "a stream",
    "channels.bridge.TOKEN_BYTES": "how long a token is",
    "processes.stdin_writer.PIECE_BYTES": "how much of an input is read ahead: `feed.INPUT_BYTES` bounds what waits",
    "wire.frames.CANCEL": "a kind of frame",
    "wire.frames.CREDIT": "a kind of frame",
    "wire.frames.ERROR": "a kind of frame",
    "wire.frames.EVENT": "a kind of frame",
    "wire.frames.REPLY": "a kind of frame",
    "wire.frames.REQUEST": "a kind of frame",
    "processes.job.FULL_READS": "the sign of a flood: it bounds nothing",
    "processes.job.F_SETPIPE_SZ": "a number of the kernel: an operation of fcntl",
    "processes.job.PIPE_BYTES": "a number of the kernel: what it gives a pipe",
    "life.loop.READ": "a number of the standard library: an event of epoll",
    "life.loop.WRITE": "a number of the standard library: an event of epoll",
    "life.main.PR_SET_NAME": "a number of the kernel: an operation of prctl",
    "life.main.PR_SET_CHILD_SUBREAPER": "a number of the kernel: an operation of prctl",
    "life.main.PR_SET_NO_NEW_PRIVS": "a number of the kernel: an operation of prctl",
    "life.main.PR_SET_SECCOMP": "a number of the kernel: an operation of prctl",
    "life.main.SECCOMP_MODE_FILTER": "a number of the kernel: an argument of prctl",
    "life.main.FILTER_STEP": "a number of the kernel: the size of one step of a filter",
    "processes.waiting.DEV_TTY": "a number of the kernel: the device of /dev/tty",
    "life.main.PR_SET_PDEATHSIG": "a number of the kernel: an operation of prctl",
    "processes.process.TIOCSCTTY": "a number of the kernel: an ioctl",
    "processes.process.TIOCSWINSZ": "a number of the kernel: an ioctl",
    "life.landlock.ABSTRACT_UNIX_SOCKET": "a number of the kernel: what Landlock keeps apart",
    "life.landlock.CREATE_RULESET": "a number of the kernel: a system call",
    "life.landlock.RESTRICT_SELF": "a number of the kernel: a system call",
    "shells.shell.FIONREAD": "a number of the kernel: an ioctl",
    "shells.shell.F_ADD_SEALS": "a number of the kernel: an operation of fcntl",
    "shells.shell.ALL_SEALS": "a number of the kernel: flags of that operation",
    "shells.shell.HELD_DESCRIPTORS": "of orders that were never answered; one more closes the oldest",
    "processes.waiting._ENDLESS": "a number of the kernel: how a call without a timeout looks",
}


def numbers_of_the_resident() -> Iterator[tuple[str, float]]:
    """`module.NAME` and value of every upper-case number that a module of the resident, or a class in it, assigns."""
    folder = Path(resident.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        inner = ".".join(path.relative_to(folder).with_suffix("").parts)
        module = importlib.import_module(f"{resident.__name__}.{inner}")
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        scopes = [vars(module), *(vars(value) for value in classes if value.__module__ == module.__name__)]
        for name in assigned_constants(path.read_text(encoding="utf-8")):
            for value in (scope[name] for scope in scopes if name in scope):
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield f"{inner}.{name}", value


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
