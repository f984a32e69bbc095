"""Programs that tell names: of paths and their parts, of programs, of who and where."""

from __future__ import annotations

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import LOCAL
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve


def judge_path_part(call: Call) -> str | None:
    """basename, dirname, realpath, readlink and pwd work on names."""
    options = parse_options(call.args, "s", ("suffix", "relative-to"))
    operands = options.operands
    if call.name == "pwd":
        return call.shell.cwd + "\n"
    if call.name == "basename":
        names = [operands[0]] if operands and not options.has("a", "multiple") else operands
        suffix = operands[1] if len(operands) > 1 and not options.has("a") else options.value("s") or ""
        return "".join(name.rstrip("/").rsplit("/", 1)[-1].removesuffix(suffix) + "\n" for name in names)
    if call.name == "dirname":
        return "".join(
            (name.rstrip("/").rpartition("/")[0] or ("/" if name.startswith("/") else ".")) + "\n" for name in operands
        )
    return "".join(resolve(name, call.shell) + "\n" for name in operands)


def judge_mktemp(call: Call) -> str | None:
    """mktemp gives a fresh name below the temporary directory."""
    options = parse_options(call.args, "p", ("tmpdir", "suffix"))
    template = options.operands[0] if options.operands else "tmp.XXXXXXXXXX"
    if options.has("u"):
        return LOCAL + "\n"
    if "/" in template and not options.has("t"):
        return template + "\n"
    base = options.value("p", "tmpdir") or "/tmp"
    return f"{base}/{template}\n"


def judge_which(call: Call) -> str | None:
    """which, type and whereis only look names up."""
    names = [arg for arg in call.args if not arg.startswith("-")]
    return "".join(f"/usr/bin/{name}\n" for name in names) if call.name == "which" else LOCAL + "\n"


def judge_identity(call: Call) -> str | None:
    """whoami, id, hostname, uname tell who and where."""
    return {"whoami": call.shell.user, "logname": call.shell.user}.get(call.name, LOCAL) + "\n"


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("basename", "dirname", "realpath", "readlink", "pwd"), judge_path_part),
    "mktemp": judge_mktemp,
    **dict.fromkeys(("which", "type", "whereis"), judge_which),
    **dict.fromkeys(("whoami", "id", "logname", "uname", "groups"), judge_identity),
}
