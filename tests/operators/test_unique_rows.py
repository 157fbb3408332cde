"""Rows of which each key has one are not brought together again: in the engine's own plan nothing aggregates or moves them."""

from __future__ import annotations

import contextlib
import io
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.operators.aggregates.aggregate_changes import AggregateChanges
from dagster_operators.operators.aggregates.keyed_aggregate import AggregateKeys
from dagster_operators.operators.relational.deduplicate import FirstOfKeys
from dagster_operators.operators.relational.first_rows import FirstRowsInState
from dagster_operators.operators.windows.window_aggregate import AggregateWindows
from tests.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOVES = re.compile(r"HashAggregate|AggregateExec|Window|Exchange|RepartitionExec: partitioning=Hash")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engine's plans of what aggregates give, epoch by epoch."""
    noted: list[str] = []
    for kind in (AggregateKeys, AggregateChanges, AggregateWindows, FirstRowsInState):

        def run(self: Any, *given: Any, before: Callable[..., Any] = kind.run) -> Any:
            rows, text = before(self, *given), io.StringIO()
            if rows is not None:
                with contextlib.redirect_stdout(text):
                    rows.explain()
                noted.append(text.getvalue())
            return rows

        monkeypatch.setattr(kind, "run", run)
    return noted


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2024, 1, 1, hour, minute, tzinfo=UTC)


def rows_of(root: Path, batches: list[list[dict[str, Any]]]) -> tuple[do.Pipeline, do.Stream]:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES["sail"])
    source = do.MemorySource(batches, schema="k string, v long, t timestamp")
    return pipeline, pipeline.source("rows", source, event_time="t", finished=True)


@pytest.mark.usefixtures("sail")
def test_an_aggregate_merges_only_with_rows_of_earlier_epochs(tmp_path: Path, plans: list[str]) -> None:
    batches = [[{"k": k, "v": 1, "t": at(1)} for k in "aab"], [{"k": k, "v": 5, "t": at(2)} for k in "bc"]]
    pipeline, rows = rows_of(tmp_path, batches)
    rows.key_by("k").aggregate(n="count(*)", mean="avg(v)", keys="count(DISTINCT v)", name="sums").to_table("sums")
    pipeline.run_until_caught_up()
    found = sorted((row["k"], row["n"], row["mean"], row["keys"]) for row in pipeline.read("sums").collect())
    assert found == [("a", 2, 1.0, 1), ("b", 2, 3.0, 2), ("c", 1, 5.0, 1)]
    assert [bool(MOVES.search(plan)) for plan in plans] == [False, True]


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("aggregates", "groupings", "results"),
    [
        ({"n": "count(*)", "of": "sum(v)"}, [0, 1], [("a", 1, 3), ("b", 1, 7)]),
        ({"n": "max(v)", "of": "sum(v)"}, [1, 3], [("a", 3, 3), ("b", 7, 7)]),
    ],
)
def test_aggregates_over_changes_merge_once(
    tmp_path: Path, plans: list[str], aggregates: dict[str, str], groupings: list[int], results: list[tuple[str, int, int]]
) -> None:
    """Sums need nothing more; extremes need the values that are left, of which a key may have several."""
    epochs = [[("a", 1, "insert"), ("b", 7, "insert")], [("a", 1, "delete"), ("a", 3, "insert")]]
    batches = [[{"k": k, "v": v, "op": op} for k, v, op in epoch] for epoch in epochs]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, v long, op string")).as_changes("op")
    rows.key_by("k").aggregate(**aggregates, name="sums").to_table("sums")
    pipeline.run_until_caught_up()
    assert sorted((row["k"], row["n"], row["of"]) for row in pipeline.read("sums").collect()) == results
    assert [len(re.findall("AggregateExec: mode=(?:Final|Single)", plan)) for plan in plans] == groupings


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("window", "merges", "counts"),
    [(do.Tumbling("1 hour"), [False, True], [1, 3, 1]), (do.Sliding("2 hours", "1 hour"), [True, True], [1, 1, 1, 3, 4])],
)
def test_windows_merge_only_what_several_panes_or_epochs_have(
    tmp_path: Path, plans: list[str], window: do.Window, merges: list[bool], counts: list[int]
) -> None:
    batches = [[{"k": "a", "v": 1, "t": at(1)}, *({"k": "a", "v": 1, "t": at(3, minute)} for minute in (0, 5))]]
    batches.append([{"k": "a", "v": 1, "t": at(3, 50)}, {"k": "a", "v": 1, "t": at(4)}])
    pipeline, rows = rows_of(tmp_path, batches)
    rows.key_by("k").window(window).aggregate(n="count(*)", name="sums").to_table("sums")
    pipeline.run_until_caught_up()
    found = sorted((row["window_start"], row["n"]) for row in pipeline.read("sums").collect())
    assert sorted(n for _, n in found) == sorted(counts), found
    assert [bool(MOVES.search(plan)) for plan in plans[:2]] == merges


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("n", "ranked", "best"),
    [
        (1, [False, True], [("a", 1, 2), ("b", 1, 5)]),
        (2, [True, True], [("a", 1, 2), ("a", 2, 3), ("b", 1, 5), ("b", 2, 7)]),
    ],
)
def test_first_rows_are_ranked_again_only_with_earlier_ones_or_for_their_places(
    tmp_path: Path, plans: list[str], n: int, ranked: list[bool], best: list[tuple[str, int, int]]
) -> None:
    values = [[("a", 4), ("a", 3), ("a", 2), ("b", 9)], [("b", 5), ("b", 7)]]
    pipeline, rows = rows_of(tmp_path, [[{"k": k, "v": v, "t": at(1)} for k, v in batch] for batch in values])
    first = rows.key_by("k").top(n, by="v", rank="place", name="best")
    first.with_columns(w="v").to_table("best")  # not as they are, so that they have a state of their own
    pipeline.run_until_caught_up()
    assert sorted((row["k"], row["place"], row["v"]) for row in pipeline.read("best").collect()) == best
    assert [bool(MOVES.search(plan)) for plan in plans] == ranked


@pytest.mark.usefixtures("sail")
def test_rows_of_earlier_rounds_are_those_of_earlier_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So an operator in a loop merges its rows with them, however few epochs there were."""
    rounds: list[tuple[int, list[bool]]] = []

    def run(self: Any, context: Any, *given: Any, before: Callable[..., Any] = FirstOfKeys.run) -> Any:
        rounds.append((context.round, [file.fresh for file in context.state(self.logical.name, "seen").files]))
        return before(self, context, *given)

    monkeypatch.setattr(FirstOfKeys, "run", run)
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    walk = pipeline.loop("walk")
    again = walk.variable("again", "n long")
    fresh = walk.enter(pipeline.source("rows", do.MemorySource([[{"n": 2}]], schema="n long"))).union(again)
    fresh = fresh.key_by("n").deduplicate(name="fresh")
    walk.feed(again, fresh.select("greatest(n - 1, 0L) AS n"))
    walk.leave(fresh).to_table("reached")
    pipeline.run_until_caught_up()
    assert sorted(row["n"] for row in pipeline.read("reached").collect()) == [0, 1, 2]
    assert rounds == [(0, []), (1, [False]), (2, [False] * 2), (3, [False] * 3)]
