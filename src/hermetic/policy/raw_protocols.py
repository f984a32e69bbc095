"""Commands that a text sent over a bare connection gives to the server at its other end."""

import re

from .call import Call
from .destroys import CLOUD_DESTROYS, SQL_DESTROYS

_STORE = re.compile(
    r"(?im)^[ \t]*(FLUSHALL|FLUSHDB|FLUSH_ALL|SHUTDOWN|SWAPDB|REPLICAOF|SLAVEOF|CONFIG[ \t]+SET|SCRIPT[ \t]+FLUSH|"
    r"DEBUG[ \t]+SEGFAULT|MODULE[ \t]+LOAD|CLUSTER[ \t]+RESET|"
    r"(DROP|TRUNCATE|DELETE)[ \t]+(TABLE|DATABASE|FROM|SCHEMA)\b)"
)
_HTTP = re.compile(r"(?m)^[ \t]*DELETE[ \t]+/\S*[ \t]+HTTP/")


def check_commands(call: Call, text: str | None) -> None:
    """Report commands to a database or a web service that delete what is there."""
    if not text:
        return
    if _STORE.search(text):
        call.report(SQL_DESTROYS, "empties or stops a database over a bare connection")
    elif _HTTP.search(text):
        call.report(CLOUD_DESTROYS, "deletes something by HTTP over a bare connection")
