"""The files that git throws away, for rules that name paths."""

from __future__ import annotations

from hermetic.policy.call import Call
from hermetic.policy.marks import UNSET
from hermetic.policy.options import Options


def note_undone(call: Call, verb: str, rest: list[str], options: Options, *, loses: bool) -> None:
    """Note what is written anew or deleted; which files below a directory these are cannot be known."""
    words = options.operands
    if verb == "worktree" and rest[:1] == ["remove"]:
        for path in words[1:]:
            call.machine.note("delete", call.place(path)[0], scope="tree")
    elif verb == "rm" and not options.has("cached", "n", "dry-run"):
        for path in words:
            call.machine.note("delete", call.place(path)[0], scope="tree" if options.has("r") else "one")
    elif verb in ("checkout", "restore") and not options.has("b", "B", "orphan"):
        for path in words:
            full = call.place(path)[0]
            call.machine.note("write", f"{full}/{UNSET}" if full == call.place(".")[0] else full)
    if loses and verb in ("reset", "checkout", "switch") and (verb != "checkout" or options.has("f", "force")):
        call.machine.note("write", f"{call.place('.')[0]}/{UNSET}")
