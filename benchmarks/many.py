"""Many processes that print while commands run: what reading them costs, beside a thread for each
of them.
"""

import asyncio
import json
import os
import sys
import time

from benchmarks.figures import Row, row
from benchmarks.measuring import Bench, Place, WrongResult, in_turns
from benchmarks.memory import MIB, Peak
from benchmarks.residents import resident_pid

LINES = 1000
COMMAND = "for ((i = 0; i < {lines}; i++)); do echo a line of some length, number $i; done"
FOREGROUND = "true"
THREADS = "a thread for each process"

# The same work as it is often done: a pipe, a thread and a buffer for each process, a fresh bash
# for each command.
READER = """
import json, os, subprocess, sys, threading, time
def memory(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field))
processes, commands, text, foreground = json.loads(sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
cpu, began, logs = time.process_time(), time.perf_counter(), []
def start():
    child = subprocess.Popen(["bash", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    def read():
        kept = b""
        while piece := os.read(child.stdout.fileno(), 4096):
            kept += piece
        child.stdout.close()
        child.wait()
        logs.append(kept)
    thread = threading.Thread(target=read)
    thread.start()
    return thread
threads = [start() for _ in range(processes)]
for _ in range(commands):
    subprocess.run(["bash", "-c", foreground], check=True)
for thread in threads:
    thread.join()
seconds, used = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps([seconds, used, memory("VmHWM") - before, sum(map(len, logs))]))
"""


async def many(bench: Bench, place: Place) -> list[Row]:
    """200 processes print 1,000 lines each while 50 commands run."""
    processes, commands = bench.times(200, 40), bench.times(50, 10)
    text = COMMAND.format(lines=LINES)
    size = processes * sum(len(f"a line of some length, number {line}\n") for line in range(LINES))
    ours: list[list[float]] = []
    theirs: list[list[float]] = []

    async def by_us() -> list[float]:
        ours.append(await _by_us(place, processes, commands, text, size))
        return []

    async def by_threads() -> list[float]:
        theirs.append(await _by_threads(processes, commands, text, size))
        return []

    await in_turns(bench.times(5, 2), by_us, by_threads, warm=0)
    note = f"{processes} processes, {commands} commands"
    return [
        row(
            f"{place.kind}.many{name}",
            f"{what} for many printing processes, {place.kind}",
            unit,
            [values[at] for values in ours],
            limit=(THREADS, [values[at] for values in theirs]),
            note=note,
        )
        for at, (name, what, unit) in enumerate(
            (
                ("", "time", "s"),
                ("-cpu", "CPU of readers", "s"),
                ("-memory", "memory of readers", "MiB"),
            )
        )
    ]


async def _by_us(place: Place, processes: int, commands: int, text: str, size: int) -> list[float]:
    """Seconds, seconds of CPU in this process and the resident, MiB that both have grown."""
    async with place.open() as env:
        await env.run("true")
        resident = await resident_pid(env)
        peak, cpu, began = Peak(os.getpid(), resident), _cpu(resident), time.perf_counter()
        started = [asyncio.ensure_future(env.start(text, stdin="null")) for _ in range(processes)]
        for _ in range(commands):
            await env.run(FOREGROUND)
        running = await asyncio.gather(*started)
        await asyncio.gather(*(process.wait() for process in running))
        seconds, used, grown = (
            time.perf_counter() - began,
            _cpu(resident) - cpu,
            peak.growth_bytes(),
        )
        if sum(info.out for info in await env.processes() if info.kind == "process") != size:
            raise WrongResult("some output is missing")
    return [seconds, used, grown / MIB]


async def _by_threads(processes: int, commands: int, text: str, size: int) -> list[float]:
    given = json.dumps([processes, commands, text, FOREGROUND])
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READER, given, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await reader.communicate()
    seconds, used, grown, got = json.loads(said)
    if got != size:
        raise WrongResult("some output is missing")
    return [seconds, used, grown / MIB]


def _cpu(resident: int) -> float:
    """Seconds of CPU that this process and the resident have used, without their children."""
    with open(f"/proc/{resident}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    own = os.times()
    return own.user + own.system + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
