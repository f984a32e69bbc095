"""A desk from settings: with its file of approvals, its journal, and whoever answers."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hermetic.approvals.desk import Desk
from hermetic.approvals.journal import Journal
from hermetic.approvals.masking import Mask
from hermetic.approvals.prompt import TerminalPrompt
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approver, Mode, Reviewer

APPROVALS = "approvals.toml"
DECISIONS = "decisions.jsonl"


def make_desk(
    settings: ApprovalSettings, *, mode: Mode | None = None, approver: Approver | None = None,
    reviewer: Reviewer | None = None, keeps: bool = False, redact: Mask | None = None, mask: Mask = str,
    sources: Sequence[str] = (),
) -> Desk:  # fmt: skip
    """`keeps`: approvals and decisions are kept in the user's own directory where the settings name no other.

    `sources` are files of settings, which say what is allowed. `mask` hides known secrets and nothing else from whoever
    is asked, `redact` what looks like one from the journal.

    Raises ConfigError for rules that say too much, and for files that cannot be trusted.
    """
    if mode is not None:
        settings = msgspec.structs.replace(settings, mode=mode)
    prompt = TerminalPrompt(settings.timeout) if approver is None and settings.answers == "terminal" else None
    own = state_directory(os.environ) if keeps else None
    approvals, decisions = _path(settings.file, own, APPROVALS), _path(settings.log, own, DECISIONS)
    return Desk(
        settings, approver=approver or (prompt if prompt is not None and prompt.is_there else None), reviewer=reviewer,
        store=None if approvals is None else Store(approvals), journal=Journal(decisions, redact), mask=mask,
        ours=[*sources, *(str(path) for path in (approvals, decisions) if path is not None)],
    )  # fmt: skip


def state_directory(environ: Mapping[str, str]) -> Path | None:
    """Where approvals and decisions of this user are kept; None without a home."""
    base = environ.get("XDG_STATE_HOME") or (f"{environ['HOME']}/.local/state" if environ.get("HOME") else "")
    return Path(base, "hermetic") if base.startswith("/") else None


def _path(named: str | None, own: Path | None, name: str) -> Path | None:
    if named is not None:
        return Path(named).expanduser().absolute()
    return None if own is None else own / name
