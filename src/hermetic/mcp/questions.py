"""Approval requests as forms of an MCP client, and the client's replies as answers."""

from mcp_types import ClientCapabilities, ElicitRequestFormParams, ElicitResult

from hermetic.approvals.prompt import described
from hermetic.contract.approval import ANSWERS, Answer, ApprovalRequest, Denial

ANSWER, REASON = "answer", "reason"
DISMISSED = "the question was closed without an answer; ask what they want instead"


def takes_forms(capabilities: ClientCapabilities | None) -> bool:
    """Whether the client shows forms to its user. Before 2025-11-25 elicitation meant just that."""
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def opens_pages(capabilities: ClientCapabilities | None) -> bool:
    """Whether the client asks its user to open a page."""
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and elicitation.url is not None


def approval_form(request: ApprovalRequest) -> ElicitRequestFormParams:
    """The request in words, and the answers that it offers."""
    answer = {"type": "string", "title": "Answer", "enum": list(request.scope), "default": "deny"}
    reason = {
        "type": "string",
        "title": "Reason, if you deny it",
        "description": "The model reads it.",
    }
    schema = {
        "type": "object",
        "properties": {ANSWER: answer, REASON: reason},
        "required": [ANSWER],
    }
    return ElicitRequestFormParams(message=described(request), requested_schema=schema)


def approval_answer(reply: ElicitResult) -> Answer | Denial:
    """The user's answer. A form that was sent without a valid one is a denial."""
    if reply.action == "cancel":
        return Denial(DISMISSED)
    content = reply.content or {}
    answer = next((known for known in ANSWERS if known == content.get(ANSWER)), None)
    if reply.action == "accept" and answer is not None and answer != "deny":
        return answer
    reason = content.get(REASON)
    return Denial(reason.strip()) if isinstance(reason, str) and reason.strip() else "deny"
