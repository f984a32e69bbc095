"""The first call of a toolbox in a fresh program leaves the event loop free."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MOST_SECONDS = 0.05  # of CPU time that one step may hold the loop
SLACK = 10.0

PROGRAM = """
import asyncio, json, sys, threading, time
import hermetic

async def main():
    loop_thread, imported, longest = threading.get_ident(), [], 0.0

    class Finder:
        def find_spec(name, path=None, target=None):
            if threading.get_ident() == loop_thread:
                imported.append(name)

    async def beat():
        nonlocal longest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    sys.meta_path.insert(0, Finder)
    toolbox = hermetic.Toolbox(options={"login": False, "cwd": sys.argv[1]})
    if sys.argv[2] == "entered":
        await toolbox.__aenter__()
        toolbox.schemas()
    answer = json.loads(await toolbox.call("terminal", {"command": "echo hi"}))
    shown = json.loads(await toolbox.call("terminal", {"command": "sleep 60", "pty": True, "background": True}))
    await toolbox.call("process", {"action": "screen", "session_id": shown["session_id"]})
    sys.meta_path.remove(Finder)
    beating.cancel()
    await toolbox.close()
    print(json.dumps({"output": answer["output"], "longest": longest, "imported": imported}))

asyncio.run(main())
"""

LIGHT = (
    "hermetic.toolbox",
    "hermetic.toolbox.spans",
    "hermetic.resident",
    "hermetic.resident.lazy",
    "hermetic.contract",
    "hermetic.session",
    "hermetic.session.callbacks",
    "hermetic.environments",
    "hermetic.environments.catalog",
    "hermetic.environments.options",
    # of contract.limits: constants
    "hermetic.resident.limits",
    "hermetic.resident.wire",
    "hermetic.resident.wire.frames",
)


@pytest.mark.parametrize("how", ["entered", "called"])
def test_it_imports_nothing_heavy_on_the_loop_and_holds_it_for_no_long_time(
    tmp_path: Path, how: str
) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), how]
    said = json.loads(
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=100).stdout
    )
    assert said["output"] == "hi\n"
    ours = [name for name in said["imported"] if name.startswith("hermetic.")]
    assert [
        name for name in ours if name not in LIGHT and not name.startswith("hermetic.contract.")
    ] == []
    assert "pyte" not in said["imported"]
    assert said["longest"] < SLACK * MOST_SECONDS


@pytest.mark.parametrize(
    "made", ["Toolbox(environment='dokker')", "Toolbox(options={'nosuch': 1})"]
)
def test_a_wrong_kind_or_option_is_an_error_in_a_running_loop_too(made: str) -> None:
    program = f"""
import asyncio, hermetic
async def main():
    try:
        async with hermetic.{made} as toolbox:
            print("made")
    except hermetic.ConfigError as error:
        print("refused")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "refused\n"
