"""Outcome of a question: a person's answer, or the reason why there is none."""

from typing import Literal, NamedTuple

from hermetic.contract.approval import ANSWERS, Answer, Denial

By = Literal["user", "timeout", "withdrawn", "approver failed", "queue full"]

_ELSE = "do it in another way, or tell the user what you need"


class Reply(NamedTuple):
    """Everything but an answer by the user is "deny", and says so by `by`."""

    answer: Answer
    by: By = "user"
    reason: str = ""  # a person's, beside "deny"

    def refusal(self, seconds: float) -> str:
        """Why it is not allowed, for a model; `seconds` is the time there was for an answer."""
        if self.by == "timeout":
            silence = f"the user did not answer within {seconds:g} s, which is neither a yes nor a no"
            return f"{silence}: {_ELSE}, and try again when the user is there"
        if self.by == "withdrawn":
            return f"the question was withdrawn before the user answered: {_ELSE}"
        if self.by == "approver failed":
            return f"the user could not be asked, the approver failed: {_ELSE}"
        if self.by == "queue full":
            return "too many questions wait for the user: try again when some are answered"
        if self.reason:
            return f"the user said no: {self.reason}; follow that, and do not try this again"
        return "the user said no: do not try it again"


def reply_of(said: object) -> Reply:
    """An approver's return value as a reply; a value that is no answer means that the approver failed."""
    if isinstance(said, Denial):
        return Reply("deny", reason=said.reason)
    known = next((answer for answer in ANSWERS if answer == said), None)
    return Reply("deny", "approver failed") if known is None else Reply(known)
