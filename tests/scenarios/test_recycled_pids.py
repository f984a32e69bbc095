"""A pid that belongs to somebody else by now is never signalled: in a pid namespace of our own,
numbers come back.
"""

import asyncio
import os
import subprocess
import sys
import tempfile

from tests.programs import need, need_root

# Tells, a line each, of whom it gave the number of a process that had ended and who lived on.
NAMESPACE = """
import asyncio, json, os, signal, subprocess
import hermetic
from hermetic.registry.host_process import HostProcess
from hermetic.toolbox import Toolbox

innocent = []

class Taken(Exception):  # another process has got the number, such as a standby of a session
    pass

def recycle(pid):
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid - 1))
        one = subprocess.Popen(["sleep", "1000"])
        if one.pid == pid:
            innocent.append(one)
            return
        one.kill()
        one.wait()
    raise Taken(pid)

def lived(what):
    assert all(one.poll() is None for one in innocent), what
    print(what, len(innocent), flush=True)

async def ended_process():
    async with hermetic.open("local", task="a", login=False) as env:
        process = await env.start("exit 0")
        await process.wait(20)
        recycle(process.pid)
        await process.signal("KILL")
        await process.signal("KILL", tree=False)
        await process.kill(0)
        lived("ended")
    async with hermetic.attach("a") as env:  # as the next caller does
        process = await env.process(process.id)
        await process.signal("KILL")
        await process.kill(0)
        lived("attached")
        await env.close(remove=True)
    lived("closed")

async def lost_child():
    async with hermetic.open("local", login=False) as env:
        process = await env.start("sleep 1000 & echo $!.; wait; echo reaped; read -r x; sleep 1000")
        start, end = await process.wait_for(r"\\d+[.]", pattern=True, timeout=20)
        child = int((await process.read()).data[start : end - 1])
        os.kill(child, signal.SIGKILL)
        await process.wait_for("reaped", timeout=20)
        recycle(child)
        await process.signal("USR1", tree=False)
        await process.kill(0.1)
    lived("child")

async def tools():
    toolbox = Toolbox(options={"login": False})
    async def call(name, **given):
        return json.loads(await toolbox.call(name, given, task_id="t"))
    started = await call("terminal", command="exit 0", background=True)
    await call("process", action="wait", session_id=started["session_id"], timeout=20)
    recycle(started["pid"])
    assert (await call("process", action="kill", session_id=started["session_id"]))["status"] == "already_exited"
    assert await toolbox.kill_all() == 0
    await toolbox.close(remove=True)
    lived("tools")

async def watchdog():
    old = subprocess.Popen(["sleep", "1000"])
    known = HostProcess.find(old.pid)
    old.kill()
    old.wait()
    await asyncio.sleep(0.1)  # processes are told apart by the kernel's clock, which ticks a hundred times a second
    recycle(old.pid)
    await known.ensure_ended()
    lived("watchdog")

async def main():
    for part in (ended_process, lost_child, tools, watchdog):
        for left in reversed(range(10)):
            try:
                await part()
                break
            except Taken:
                if not left:
                    raise

asyncio.run(main())
"""


async def test_whoever_gets_the_number_of_a_process_that_ended_lives_on() -> None:
    need_root("only root can change the machine's view")
    unshare = need("unshare")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as runtime:
        inside = [sys.executable, "-c", NAMESPACE]
        namespace = await asyncio.create_subprocess_exec(
            unshare,
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "/bin/sh",
            "-c",
            '"$@"; exit $?',
            "sh",
            *inside,
            env={**os.environ, "HERMETIC_RUNTIME_DIR": runtime},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(90):
            said, complaints = await namespace.communicate()
    told = ["ended 1", "attached 1", "closed 1", "child 2", "tools 3", "watchdog 4"]
    assert said.decode().splitlines() == told, complaints.decode()
