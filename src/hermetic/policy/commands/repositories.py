"""Other ways to keep a history: Mercurial, Subversion, Jujutsu, and tools that rewrite one."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge

from .git import HISTORY
from .unseen import run_code


def judge_bfg(call: Call) -> str | None:
    """bfg and git-filter-repo rewrite history."""
    if call.args and not any(arg in ("--help", "--version") for arg in call.args):
        call.report(HISTORY, "rewrites the whole history")
    return None


def judge_other(call: Call) -> str | None:
    """hg, svn, jj: removing shared history or files on the server."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    text = " ".join(words)
    if (call.name == "svn" and re.match(r"(delete|rm|del|remove) \w+://", text)) or (
        call.name == "hg"
        and (re.match(r"(strip|histedit)", text) or ("--force" in call.args and words[:1] == ["push"]))
    ):
        call.report(HISTORY, "changes history that others share")
    if call.name in ("jj", "sl") and any(arg in ("--allow-backwards", "--force", "-f") for arg in call.args):
        call.report(HISTORY, "changes history that others share")
    if call.name == "hg":
        for flag, value in zip(call.args, call.args[1:], strict=False):
            if flag == "--config" and re.search(r"(alias|hooks|extensions)\.[^=]*=\s*!?(.+)", value):
                run_code(call, re.sub(r".*?=\s*!?", "", value, count=1), "hg")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("bfg", "git-filter-repo"), judge_bfg),
    **dict.fromkeys(("hg", "svn", "jj", "sl", "fossil"), judge_other),
}
