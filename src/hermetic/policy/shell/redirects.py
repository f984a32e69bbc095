"""Redirections: what a command reads from and writes to besides its arguments."""

from __future__ import annotations

import msgspec

from hermetic.policy import effects
from hermetic.policy.budget import joined
from hermetic.policy.call import Call
from hermetic.policy.marks import INPUT, NET, SECRET, TOKEN, shown
from hermetic.policy.network import EXFIL
from hermetic.policy.paths import classify
from hermetic.policy.programs.texts import judge_patterns

from .expansion import Folder
from .syntax import Redirect


class Streams(msgspec.Struct):
    """Standard input as text, where output goes, and the descriptors that were opened."""

    stdin: str | None
    outputs: list[str]
    opened: dict[str, str]
    captured: bool = False  # standard output goes to a file, not on
    to_network: bool = False


def open_streams(
    redirects: list[Redirect], folder: Folder, call: Call, stdin: str | None
) -> Streams:
    """Judge the redirections of a command and say what its streams are."""
    streams, shell = Streams(stdin, [], {}), call.shell
    for redirect in redirects:
        fd, is_named = redirect.fd, redirect.fd.startswith("{")
        if is_named:  # `{name}<file`: a new descriptor, whose number the variable holds
            fd = str(10 + len(shell.descriptors))
            shell.set(redirect.fd.strip("{}"), fd)
        if redirect.op not in ("<<", "<<-", "<<<"):
            _open(redirect.op, fd, folder.target(redirect.target), call, streams)
        else:
            text = folder.text(redirect.target) + ("\n" if redirect.op == "<<<" else "")
            if fd in ("", "0"):
                streams.stdin = text
            else:
                streams.opened[fd] = f"/dev/fd/{fd}"
                shell.files[f"/dev/fd/{fd}"] = text
        if is_named and fd in streams.opened:  # it stays open
            shell.descriptors[fd] = streams.opened[fd]
    return streams


def _open(op: str, fd: str, target: str, call: Call, streams: Streams) -> None:
    if op in ("<&", ">&") and (target.rstrip("-").isdigit() or target == "-"):
        _duplicate(op, fd, target.rstrip("-"), call, streams)
        return
    full, place = call.place(target)
    reads, network = op in ("<", "<>", "<&"), place == "network"
    number = fd or ("0" if reads else "1")
    streams.opened[number] = full
    if network:
        call.machine.note("reach", full.split("/")[3])
        streams.to_network |= not reads or (op == "<>" and number in ("0", "1"))
    if not reads:
        if place == "hook" and number == "1":  # it is judged when its content is known
            call.shell.files[full] = call.shell.files.get(full, "") if op in (">>", "&>>") else ""
        elif not network:
            before = call.shell.files.get(full, "") if op in (">>", "&>>") else ""
            effects.write(call, target, content=before)
        if number == "1" or op in ("&>", "&>>", ">&"):
            streams.outputs.append(target)
            streams.captured = True
        return
    content = NET if network else effects.read(call, target)
    if full.startswith(("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")):
        for directory in ("/dev/fd", "/proc/self/fd"):
            call.shell.copies[f"{directory}/{number}"] = full.rsplit("/", 1)[-1]
    if number == "0":
        streams.stdin = content
    elif full in call.shell.files:
        call.shell.files[f"/dev/fd/{number}"] = call.shell.files[full]
    if op == "<>" and not network:
        effects.write(call, target)


def _duplicate(op: str, fd: str, number: str, call: Call, streams: Streams) -> None:
    path = streams.opened.get(number) or call.shell.descriptors.get(number)
    ours = fd or ("0" if op == "<&" else "1")
    if path is None:
        if ours == "1" and number == "2":
            streams.captured = True
        return
    streams.opened[ours] = path
    network = classify(path, call.shell) == "network"
    if ours == "0":
        streams.stdin = NET if network else call.shell.files.get(path, INPUT)
    elif ours in ("1", "2"):
        streams.to_network = streams.to_network or network
        if ours == "1":
            streams.outputs.append(path)
            streams.captured = True


def deliver(target: str, output: str, call: Call) -> None:
    """Judge and record output that a redirection sends to a file or to another machine."""
    full, place = call.place(target)
    if place == "network":
        judge_patterns(call, output, "connection")
        if any(mark in output for mark in (SECRET, TOKEN)):
            call.report(EXFIL, f"sends credentials to another machine: {shown(target)}")
    elif place == "hook":
        effects.write(call, target, content=joined((call.shell.files.get(full, ""), output)))
    elif full in call.shell.files:
        effects.hold(call, full, joined((call.shell.files[full], output)))
