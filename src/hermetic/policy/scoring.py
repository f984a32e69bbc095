"""How verdicts compare with the labels of a file: recall, false alarms, time per command."""

import time
from collections import defaultdict

import msgspec

from hermetic.contract.verdict import Verdict

from .assess import assess


class Row(msgspec.Struct, kw_only=True):
    """One line of a labelled file."""

    command: str
    label: str
    category: str = ""
    technique: str = ""
    id: str = ""

    @property
    def is_tricky(self) -> bool:
        """True where something hides the command, or makes a harmless one look dangerous."""
        return self.technique not in ("", "plain")


class Score(msgspec.Struct, kw_only=True):
    """How verdicts compare with the labels of a file."""

    rows: int
    recall: float  # dangerous rows labelled dangerous
    recall_hidden: float  # the same where the technique is not plain
    false_alarms: float  # safe rows labelled dangerous
    false_alarms_tricky: float
    cautions: float  # safe rows labelled caution
    exceptions: int
    p50_ms: float
    p99_ms: float
    by_category: dict[str, tuple[int, int]]  # caught, of
    by_technique: dict[str, tuple[int, int]]
    missed: list[str]
    alarmed: list[str]


def score(rows: list[Row]) -> Score:
    """Judge every row and count."""
    times: list[float] = []
    verdicts: list[Verdict] = []
    for row in rows:
        begun = time.thread_time()
        verdicts.append(assess(row.command))
        times.append((time.thread_time() - begun) * 1000)
    times.sort()
    judged: list[tuple[Row, str]] = [
        (row, verdict.label) for row, verdict in zip(rows, verdicts, strict=True)
    ]
    dangerous = [one for one in judged if one[0].label == "dangerous"]
    safe = [one for one in judged if one[0].label == "safe"]

    def share(of: list[tuple[Row, str]], label: str, *, tricky: bool = False) -> float:
        hits = [found == label for row, found in of if row.is_tricky or not tricky]
        return round(sum(hits) / len(hits), 4) if hits else 0.0

    def by(field: str) -> dict[str, tuple[int, int]]:
        groups: defaultdict[str, list[bool]] = defaultdict(list)
        for row, found in dangerous:
            groups[getattr(row, field)].append(found == "dangerous")
        return {key: (sum(groups[key]), len(groups[key])) for key in sorted(groups)}

    return Score(
        rows=len(rows),
        recall=share(dangerous, "dangerous"),
        recall_hidden=share(dangerous, "dangerous", tricky=True),
        false_alarms=share(safe, "dangerous"),
        false_alarms_tricky=share(safe, "dangerous", tricky=True),
        cautions=share(safe, "caution"),
        exceptions=sum(any(p.rule == "not-judged" for p in one.parts) for one in verdicts),
        p50_ms=round(times[len(times) // 2], 3) if times else 0.0,
        p99_ms=round(times[len(times) * 99 // 100], 3) if times else 0.0,
        by_category=by("category"),
        by_technique=by("technique"),
        missed=[row.command for row, found in dangerous if found != "dangerous"],
        alarmed=[row.command for row, found in safe if found == "dangerous"],
    )
