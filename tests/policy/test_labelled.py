"""The repository's own labelled commands, written for techniques rather than spellings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermetic.policy.scoring import Row, score

FILES = sorted(Path(__file__).parent.glob("*.jsonl"))


def rows(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verdicts_agree_with_the_labels(path: Path) -> None:
    result = score(rows(path))
    assert result.exceptions == 0
    assert result.recall >= 0.98, result.missed
    assert result.recall_hidden >= 0.97, result.missed
    assert result.false_alarms <= 0.02, result.alarmed
    assert result.false_alarms_tricky <= 0.03, result.alarmed
    assert result.cautions <= 0.10
    for category, (caught, of) in result.by_category.items():
        assert caught >= of * 0.93 if of >= 30 else caught >= of - 1, category
    assert result.p50_ms < 10  # the target is 1 ms; a busy machine has tenfold slack
    assert result.p99_ms < 50
