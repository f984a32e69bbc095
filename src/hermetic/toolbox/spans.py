"""Spans of tool calls for OpenTelemetry, in programs that use it.

Nothing is imported: where the program has not loaded the API, no span can be wanted. A span holds
names and numbers, never the text of a command or its output.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermetic.contract import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Report = Callable[[Mapping[str, Any]], None]

API = "opentelemetry.trace"
FIELDS = {
    "exit_code": "process.exit.code",
    "status": "hermetic.status",
    "session_id": "hermetic.process",
}


@contextmanager
def tool_span(tool: str, task: str, kind: str) -> Iterator[Report]:
    """A span around a tool call, where `API` is loaded; the given function takes the tool's answer."""
    api: Any = sys.modules[API]
    attributes = {"hermetic.tool": tool, "hermetic.task": task, "hermetic.environment.kind": kind}
    with api.get_tracer("hermetic", VERSION).start_as_current_span(
        f"hermetic {tool}", attributes=attributes
    ) as span:

        def report(answer: Mapping[str, Any]) -> None:
            for field, name in FIELDS.items():
                if isinstance(value := answer.get(field), str | int):
                    span.set_attribute(name, value)
            if answer.get("error"):
                span.set_status(api.StatusCode.ERROR)

        yield report
