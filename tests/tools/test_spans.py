"""Tool calls as OpenTelemetry spans, in a program that uses it and in one that does not."""

import json
import subprocess
import sys

PROGRAM = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import hermetic

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    async with hermetic.Toolbox() as toolbox:
        with trace.get_tracer("caller").start_as_current_span("agent"):
            await toolbox.call("terminal", {"command": "echo hidden-text; exit 3"})
            await toolbox.call("read_file", {"path": "/no/such/file"})

asyncio.run(main())
print(json.dumps([
    {"name": span.name, "attributes": dict(span.attributes), "status": span.status.status_code.name,
     "parent": span.parent is not None}
    for span in exporter.get_finished_spans()
]))
"""


def test_every_tool_call_is_a_span_of_its_caller() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    terminal, read, _ = json.loads(done.stdout)
    assert (terminal["name"], terminal["parent"]) == ("hermetic terminal", True)
    assert terminal["attributes"]["process.exit.code"] == 3
    assert terminal["attributes"]["hermetic.environment.kind"] == "local"
    assert terminal["attributes"]["hermetic.task"] == "default"
    assert (read["name"], read["status"]) == ("hermetic read_file", "ERROR")
    assert "hidden-text" not in done.stdout


def test_a_program_without_it_does_not_import_it() -> None:
    code = (
        "import asyncio, sys, hermetic\n"
        "async def main():\n"
        "    async with hermetic.Toolbox() as toolbox: print(await toolbox.call('terminal', {'command': 'echo hi'}))\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    answer, loaded = done.stdout.splitlines()
    assert json.loads(answer)["output"] == "hi\n"
    assert loaded == "[]"
