"""Counters of the server, and numbers in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Sample(NamedTuple):
    """One number, with its labels."""

    labels: Mapping[str, str]
    value: float


class Metrics:
    """What this server has counted since its start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # method and status
        self.refused: Counter[str] = Counter()  # code

    def __repr__(self) -> str:
        return f"<Metrics of {self.requests.total()} requests>"


def family(name: str, kind: str, meaning: str, samples: list[Sample]) -> str:
    """One metric with all its samples, as Prometheus reads it."""
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
    for sample in samples:
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in sample.labels.items())
        lines.append(
            f"{name}{{{labels}}} {sample.value:.17g}" if labels else f"{name} {sample.value:.17g}"
        )
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
