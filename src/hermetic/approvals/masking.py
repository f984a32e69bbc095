"""A request as it may be shown: with a mark in place of every value that is known to be a secret."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from hermetic.contract.approval import ApprovalRequest, Need
from hermetic.contract.verdict import Part, Verdict

Mask = Callable[[str], str]
T = TypeVar("T", Need, Part)


def masked(request: ApprovalRequest, mask: Mask) -> ApprovalRequest:
    """The same without secrets; what an answer is bound to is taken from the real text."""
    return msgspec.structs.replace(
        request, command=mask(request.command), verdict=_verdict(request.verdict, mask), reason=mask(request.reason),
        needs=tuple(_part(need, mask) for need in request.needs), scope=_values(request.scope, mask),
        circumstances=_values(request.circumstances, mask),
    )  # fmt: skip


def _verdict(verdict: Verdict, mask: Mask) -> Verdict:
    parts = tuple(_part(part, mask) for part in verdict.parts)
    return msgspec.structs.replace(verdict, reason=mask(verdict.reason), decoded=mask(verdict.decoded), parts=parts)


def _part(part: T, mask: Mask) -> T:
    return msgspec.structs.replace(
        part, decoded=mask(part.decoded), reason=mask(part.reason), argv=tuple(map(mask, part.argv)),
        path=mask(part.path),
    )  # fmt: skip


def _values(texts: dict[str, str], mask: Mask) -> dict[str, str]:
    return {name: mask(text) for name, text in texts.items()}
