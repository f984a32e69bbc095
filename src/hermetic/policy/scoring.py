"""How verdicts compare with the labels of a file: recall, false alarms, time per command."""

import time
from collections import Counter

import msgspec

from .assess import assess


class Row(msgspec.Struct, kw_only=True):
    """One line of a labelled file."""

    command: str
    label: str
    category: str = ""
    technique: str = ""
    id: str = ""


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
    caught: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    missed: list[str] = []
    alarmed: list[str] = []
    counts: Counter[str] = Counter()
    for row in rows:
        begun = time.thread_time()
        verdict = assess(row.command)
        label = verdict.label
        times.append((time.thread_time() - begun) * 1000)
        counts["exceptions"] += any(part.rule == "not-judged" for part in verdict.parts)
        counts[row.label] += 1
        tricky = row.technique not in ("", "plain")
        counts[f"{row.label} tricky"] += tricky
        if row.label == "dangerous":
            hit = label == "dangerous"
            counts["hits"] += hit
            counts["hits tricky"] += hit and tricky
            for key in (f"c:{row.category}", f"t:{row.technique}"):
                totals[key] += 1
                caught[key] += hit
            if not hit:
                missed.append(row.command)
        elif row.label == "safe":
            counts["alarms"] += label == "dangerous"
            counts["alarms tricky"] += label == "dangerous" and tricky
            counts["cautions"] += label == "caution"
            if label == "dangerous":
                alarmed.append(row.command)
    return _score(rows, counts, caught, totals, times, missed, alarmed)


def _score(
    rows: list[Row],
    counts: Counter[str],
    caught: Counter[str],
    totals: Counter[str],
    times: list[float],
    missed: list[str],
    alarmed: list[str],
) -> Score:
    def share(part: str, whole: str) -> float:
        return round(counts[part] / counts[whole], 4) if counts[whole] else 0.0

    times.sort()
    return Score(
        rows=len(rows),
        recall=share("hits", "dangerous"),
        recall_hidden=share("hits tricky", "dangerous tricky"),
        false_alarms=share("alarms", "safe"),
        false_alarms_tricky=share("alarms tricky", "safe tricky"),
        cautions=share("cautions", "safe"),
        exceptions=counts["exceptions"],
        p50_ms=round(times[len(times) // 2], 3) if times else 0.0,
        p99_ms=round(times[min(len(times) * 99 // 100, len(times) - 1)], 3) if times else 0.0,
        by_category={
            key[2:]: (caught[key], totals[key]) for key in sorted(totals) if key.startswith("c:")
        },
        by_technique={
            key[2:]: (caught[key], totals[key]) for key in sorted(totals) if key.startswith("t:")
        },
        missed=missed,
        alarmed=alarmed,
    )
