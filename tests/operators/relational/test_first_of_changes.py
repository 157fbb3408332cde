"""The first rows of each key of rows that come and go: who follows moves up, and places that nobody has go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "k string, v long, _change string"
Change = tuple[str | None, int | None, str]


def built(root: Path, batches: list[list[Change]], engine: Any = SAIL) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=engine)
    named = [[dict(zip(("k", "v", "_change"), one, strict=True)) for one in batch] for batch in batches]
    rows = pipeline.source("rows", do.MemorySource(named, schema=SCHEMA)).as_changes()
    rows.key_by("k").top(2, by="v DESC", name="first").to_table("first")
    return pipeline


def found(pipeline: do.Pipeline, table: str = "first") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in pipeline.read(table).collect()), key=repr)


def expected(rows: list[tuple[str | None, int | None]]) -> list[tuple[Any, ...]]:
    """The two largest values of each key; null is the smallest."""
    keys = {k for k, _ in rows}
    values = {k: sorted((v for one, v in rows if one == k), key=lambda v: (v is not None, v), reverse=True) for k in keys}
    return sorted(((k, place, v) for k in keys for place, v in enumerate(values[k][:2], 1)), key=repr)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_places_move_up_and_go(tmp_path: Path, engine: str) -> None:
    batches: list[list[Change]] = [
        [("a", 5, "insert"), ("a", 5, "insert"), ("a", 3, "insert"), (None, 1, "insert"), ("b", None, "insert")],
        [("a", 5, "delete"), ("b", None, "update_before"), ("b", 7, "update_after")],
        [("a", 5, "delete"), ("a", 3, "delete"), (None, 1, "delete"), ("b", 9, "insert"), ("c", 1, "insert"), ("c", 1, "delete")],
    ]
    pipeline = built(tmp_path, batches, ENGINES[engine])
    tables = []
    for _ in batches:
        pipeline.run_epoch()
        tables.append(found(pipeline))
    assert tables == [
        [("a", 1, 5), ("a", 2, 5), ("b", 1, None), (None, 1, 1)],
        [("a", 1, 5), ("a", 2, 3), ("b", 1, 7), (None, 1, 1)],
        [("b", 1, 9), ("b", 2, 7)],
    ]
    assert "state table state/first.weighted" in pipeline.explain()


steps = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([None, 1, 2, 3]), st.integers(0, 6)), min_size=1, max_size=8
)


@pytest.mark.sail
@fresh_examples(4)
@given(epochs=st.lists(steps, min_size=1, max_size=3))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, epochs: list[list[tuple[str | None, int | None, int]]]) -> None:
    rows: list[tuple[str | None, int | None]] = []
    batches: list[list[Change]] = []
    for epoch in epochs:
        batch: list[Change] = []
        for k, v, which in epoch:
            if which < len(rows):
                batch.append((*rows.pop(which), "delete"))
            if which >= len(rows) or which % 2:
                rows.append((k, v))
                batch.append((k, v, "insert"))
        batches.append(batch)
    pipeline = built(tmp_path_factory.mktemp("first"), batches)
    pipeline.run_until_caught_up()
    assert found(pipeline) == expected(rows)


@pytest.mark.sail
def test_a_row_that_is_not_there_cannot_be_taken_back(tmp_path: Path) -> None:
    with pytest.raises(OperatorsError, match="takes a row back that is not there"):
        built(tmp_path, [[("a", 1, "delete")]]).run_epoch()


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_the_change_data_feed_of_a_delta_table(tmp_path: Path, engine: str) -> None:
    lake = str(tmp_path / "lake")
    rows = pa.table({"k": ["a", "a", "b"], "v": pa.array([1, 2, 3], pa.int64())})
    write_deltalake(lake, rows, configuration={"delta.enableChangeDataFeed": "true"})
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    changes = pipeline.source("rows", do.DeltaSource(lake, changes=True)).as_changes()
    changes.key_by("k").top(1, by="v DESC").to_table("first")
    changes.key_by("k").aggregate(total="sum(v)").to_table("totals")
    pipeline.run_epoch()
    assert (found(pipeline), found(pipeline, "totals")) == ([("a", 1, 2), ("b", 1, 3)], [("a", 3), ("b", 3)])
    table = DeltaTable(lake)
    table.update(updates={"v": "v - 5"}, predicate="v = 2")
    table.delete("k = 'b'")
    table.optimize.compact()
    write_deltalake(lake, rows.slice(2), mode="append")
    pipeline.run_until_caught_up()
    assert (found(pipeline), found(pipeline, "totals")) == ([("a", 1, 1), ("b", 1, 3)], [("a", -2), ("b", 3)])
