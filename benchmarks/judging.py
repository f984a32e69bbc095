"""What the gate costs: a command judged with what its shell has defined, what was allowed before,
and the journal.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Row, row
from benchmarks.measuring import Bench, Place, in_a_row, in_turns
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings, RuleSettings
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approval
from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.redactor import Redactor

COMMANDS = (
    "ls -la",
    "git status",
    "cd src && grep -rn 'def main' . | head -20",
    "python3 -m pytest -q tests/unit -k parser",
    "npm run build 2>&1 | tail -5",
    "sed -n 1,80p README.md",
    'for f in *.py; do wc -l "$f"; done',
    "find . -name '*.log' -mtime +7 | xargs -r gzip",
    "make -j4 test > build.log 2>&1; tail -20 build.log",
    "curl -s https://api.example.com/v1/items | jq '.[] | .name'",
    "git push --force origin feature/parser",
)
KEPT = 50  # answers "always"
RULES = (
    RuleSettings(decision="deny", command=("npm", "publish"), matches=("npm publish",)),
    RuleSettings(decision="ask", path="migrations/**", matches=("touch migrations/x",)),
)


async def judging(bench: Bench, place: Place) -> list[Row]:
    """Eleven commands of every day, one of them dangerous and allowed before, in a session that has
    begun.
    """
    with tempfile.TemporaryDirectory() as directory:
        gate = _gate(Path(directory))
        async with place.open() as env:
            await env.run("helper() { echo hi; }; export STAGE=test; cd /tmp")

            async def judge() -> None:
                for command in COMMANDS:
                    await gate.command("benchmark", command, env)

            await judge()
            [ours] = await in_turns(bench.times(20, 5), in_a_row(judge, 10))
    return [
        row(
            f"{place.kind}.judging",
            f"judging a command before it runs, {place.kind}",
            "ms",
            [value / len(COMMANDS) for value in ours],
            target=place.target("judging"),
        )
    ]


def _gate(directory: Path) -> PolicyGate:
    """All of it: rules, kept answers, a journal on disk without secrets, and somebody who answers
    the first time.
    """
    now = time.time()
    Store(directory / "approvals.toml").add(
        *(
            Approval(
                command="x",
                covers="x",
                key=f"{number:032x}",
                environment="local",
                granted=now,
                expires=now + 3600,
            )
            for number in range(KEPT)
        )
    )
    settings = ApprovalSettings(
        file=str(directory / "approvals.toml"),
        log=str(directory / "decisions.jsonl"),
        rules=RULES,
        deny=("git push --mirror*",),
    )
    redactor = Redactor([KnownSecret("TOKEN", "a-value-that-nobody-sees")])
    return PolicyGate(
        Approvals(settings, approver=lambda request: "always", redact=redactor.redact)
    )
