"""The trace: it counts what one call passes through on the caller's side."""

import asyncio

from benchmarks.private_home import private_home
from benchmarks.trace import Line, table, trace


def traced(*names: str) -> dict[str, Line]:
    with private_home():
        return {line.name: line for line in asyncio.run(trace(names))}


def test_a_command_and_a_tool_are_counted_with_their_round_trips() -> None:
    lines = traced("env.run", "read_file")
    assert set(lines) == {"env.run", 'toolbox.call("read_file")'}
    assert 5 < lines["env.run"].calls < lines['toolbox.call("read_file")'].calls
    assert {line.round_trips for line in lines.values()} == {1}
    assert {line.policy_calls for line in lines.values()} == {0}


def test_the_share_of_the_policy_stands_apart() -> None:
    [line] = traced("terminal").values()
    assert line.policy_calls > 0
    assert line.policy_files > 0
    assert str(line.policy_calls) in table([line])


def test_a_warm_call_of_a_tool_stays_short() -> None:
    terminal, read = traced("terminal", "read_file").values()
    assert (terminal.calls <= 150, terminal.files <= 20) == (True, True), terminal
    assert (read.calls <= 70, read.files <= 15) == (True, True), read
