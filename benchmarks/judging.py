"""What the door costs: a command judged with what the session's shell has defined."""

from benchmarks.figures import Row, row
from benchmarks.measuring import Bench, Place, in_a_row, in_turns
from hermetic.approvals.making import make_desk
from hermetic.approvals.settings import ApprovalSettings
from hermetic.session.door import PolicyDoor

COMMANDS = (
    "ls -la", "git status", "cd src && grep -rn 'def main' . | head -20", "python3 -m pytest -q tests/unit -k parser",
    "npm run build 2>&1 | tail -5", "sed -n 1,80p README.md", "for f in *.py; do wc -l \"$f\"; done",
    "find . -name '*.log' -mtime +7 | xargs -r gzip", "make -j4 test > build.log 2>&1; tail -20 build.log",
    "curl -s https://api.example.com/v1/items | jq '.[] | .name'",
)  # fmt: skip


async def judging(bench: Bench, place: Place) -> list[Row]:
    """Ten everyday commands, one after the other, in a session that has begun."""
    door = PolicyDoor(make_desk(ApprovalSettings()))
    async with place.open() as env:
        await env.run("helper() { echo hi; }; export STAGE=test; cd /tmp")

        async def judge() -> None:
            for command in COMMANDS:
                await door.command("benchmark", command, env)

        await judge()
        [ours] = await in_turns(bench.times(20, 5), in_a_row(judge, 10))
    return [row(
        f"{place.kind}.judging", f"judging a command before it runs, {place.kind}", "ms",
        [value / len(COMMANDS) for value in ours], target=place.target("judging"),
    )]  # fmt: skip
