"""A request as a person reads it: whole, nothing hidden, the dangerous part first."""

from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.printable import escaped


def described(request: ApprovalRequest) -> str:
    """All that there is to know before answering."""
    who, where = _in_line(request.task), _in_line(request.environment)
    lines = [f"{who} wants to {_WANTS[request.subject]} in {where}, and that needs your word:", ""]
    for need in request.needs:
        lines.append(f"  !! {_in_line(need.reason)}  [{need.category}]")
        lines += [f"     {line}" for line in escaped(need.decoded).split("\n")]
    lines += ["", "The whole text:"]
    lines += [f"  | {line}" for line in escaped(request.command).split("\n")]
    for name, value in request.circumstances.items():
        lines += ["", f"Its {name}:", *(f"  | {line}" for line in escaped(value).split("\n"))]
    lines.append("")
    lines += [f"  {answer:8} {_in_line(covers)}" for answer, covers in request.scope.items()]
    return "\n".join(lines)


def _in_line(text: str) -> str:
    """The same in one line: what is not marked as the agent's text cannot pretend to be another line."""
    return escaped(text).replace("\n", "\\n")


_WANTS = {
    "command": "run a command",
    "code": "run a script",
    "input": "type into a program",
    "write": "write files",
    "batch": "do many things of one kind",
    "outside": "run a command outside of its sandbox",
}
