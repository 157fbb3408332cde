"""Rows that wait in an operator for the next epoch come out, whatever is done to the pipeline in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators import frontier
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

ROWS = [[(value, f"2026-01-01 00:00:0{value}") for value in range(3)]]
WAITING = {"slow": {"incomplete": True}, "other": {"incomplete": True}}


def pipeline(root: Path) -> do.Pipeline:
    made = do.Pipeline("limited", root=str(root), engine=SAIL)
    for name in ("slow", "other"):
        read = made.source(f"{name}_rows", do.MemorySource(ROWS, schema="v long, at timestamp"), event_time="at")
        frontier.limit_rate(read, 1, name=name).to_table(name)
    return made


def counts(made: do.Pipeline) -> list[int]:
    return [made.read(name).count() for name in ("slow", "other")]


@pytest.mark.parametrize(
    ("change", "waiting", "rows"),
    [
        (lambda made: made.rollback(1), WAITING, [3, 3]),
        (lambda made: made.reset("slow_rows", 0, tables="keep"), WAITING, [4, 3]),  # the others are late then
        (lambda made: made.reset("slow_rows", 0, tables="restart"), {"other": WAITING["other"]}, [3, 3]),
        (lambda made: made.rebuild("slow"), {"other": WAITING["other"]}, [3, 3]),
    ],
    ids=["rollback", "reset_keep", "reset_restart", "rebuild"],
)
def test_work_that_is_left(
    tmp_path: Path, change: Callable[[do.Pipeline], do.EpochResult], waiting: dict[str, object], rows: list[int]
) -> None:
    made = pipeline(tmp_path)
    for _ in range(2):
        made.run_epoch()
    change(made)
    told = made.epochs.has_news()
    assert {name: told[name] for name in WAITING.keys() & told.keys()} == waiting
    made.run_until_caught_up()
    assert counts(made) == rows
    assert made.epochs.has_news() == {}
