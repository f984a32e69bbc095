"""/metrics: numbers on environments and on the server, as Prometheus reads them."""

from collections import Counter

from starlette.responses import Response

from hermetic.contract import VERSION
from hermetic.serve.metrics import Sample, family
from hermetic.serve.routes import Call, Resource
from hermetic.serve.views import EnvironmentView

FORMAT = "text/plain; version=0.0.4; charset=utf-8"


async def _metrics(call: Call) -> Response:
    console = call.console
    views = await console.environments.views()
    states = Counter((view.kind, view.state) for view in views)
    alive = [view for view in views if view.state == "alive"]
    counted, pending = console.metrics, len(console.approvals.watch.pending())
    families = [
        family(
            "hermetic_build_info",
            "gauge",
            "Version of this server.",
            [Sample({"version": VERSION}, 1)],
        ),
        family(
            "hermetic_environments",
            "gauge",
            "Environments of this user.",
            [
                Sample({"kind": kind, "state": state}, count)
                for (kind, state), count in sorted(states.items())
            ],
        ),
        _each("processes_running", "gauge", "Processes that run.", alive, "processes"),
        _each("sessions", "gauge", "Shell sessions.", alive, "sessions"),
        _each("clients", "gauge", "Programs that are attached.", alive, "clients"),
        _each("resident_memory_bytes", "gauge", "Memory of the resident.", alive, "rss"),
        _each("memory_bytes", "gauge", "Memory of all processes.", alive, "memory_bytes"),
        _each("cpu_seconds_total", "counter", "CPU time of all processes.", alive, "cpu_seconds"),
        _each("uptime_seconds", "gauge", "Time since the resident started.", alive, "uptime"),
        family(
            "hermetic_approvals_pending",
            "gauge",
            "Requests that wait for an answer.",
            [Sample({}, pending)],
        ),
        family(
            "hermetic_console_tabs",
            "gauge",
            "Open pages that get events.",
            [Sample({}, len(console.hub))],
        ),
        family(
            "hermetic_console_requests_total",
            "counter",
            "HTTP requests to this server.",
            [
                Sample({"method": method, "status": str(status)}, count)
                for (method, status), count in sorted(counted.requests.items())
            ],
        ),
        family(
            "hermetic_console_refused_total",
            "counter",
            "Refused requests.",
            [Sample({"code": code}, count) for code, count in sorted(counted.refused.items())],
        ),
    ]
    return Response("".join(families), media_type=FORMAT)


def _each(name: str, kind: str, meaning: str, views: list[EnvironmentView], field: str) -> str:
    samples = [
        Sample({"environment": view.id, "kind": view.kind, "task": view.task or ""}, value)
        for view in views
        if (value := getattr(view, field)) is not None
    ]
    return family(f"hermetic_environment_{name}", kind, meaning, samples)


ROUTES = (
    Resource(
        "GET", "/metrics", "view", _metrics, "Numbers in the text format of Prometheus.", prefix=""
    ),
)
