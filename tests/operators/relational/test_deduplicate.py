"""One row per key: any cut of the input gives the first, or the last, of the rows that were on time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, at, cuts, few, plain, run


def in_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """By time, then by all columns, nulls first."""
    return row["ts"], row["v"] is not None, row["v"] or 0


def firsts(cut: Cut, within: float) -> tuple[Counter[Any], int]:
    """What is kept, row by row: each when the watermark has passed it, if no row kept before is nearer than ``within``."""
    waiting: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    late = 0
    for rows, begin, end in cut.in_epochs():
        on_time = [row for row in rows if row["ts"] + within > begin]
        late += len(rows) - len(on_time)
        waiting += on_time
        for row in sorted((row for row in waiting if row["ts"] < end), key=in_order):
            if not any(one["k"] == row["k"] and abs(one["ts"] - row["ts"]) < within for one in kept):
                kept.append(row)
        waiting = [row for row in waiting if row["ts"] >= end]
    return counted(kept), late


def counted(rows: Any) -> Counter[Any]:
    return Counter((row["k"], row["v"], plain(at(row["ts"]))) for row in rows)


def lasts(cut: Cut) -> Counter[Any]:
    found: dict[Any, dict[str, Any]] = {}
    for row in sorted((row for rows in cut.epochs for row in rows), key=in_order):
        found[row["k"]] = row
    return counted(found.values())


def add(rows: do.Stream, within: int, *, alone: bool = False) -> None:
    """The operators, each with a table; and late rows unless they are to be alone."""
    by_key = rows.key_by("k")
    by_key.deduplicate(name="first").to_table("first")
    spaced = by_key.deduplicate(within=f"{within} s", name="spaced").to_table("spaced")
    if not alone:
        spaced.late().to_table("late_for_spaced")
    by_key.deduplicate(keep="last").to_table("last")


def check(found: Found, cut: Cut, within: int) -> None:
    spaced, late = firsts(cut, within)
    assert found.tables["first"] == firsts(cut, float("inf"))[0]
    assert found.tables["spaced"] == spaced
    assert found.tables["last"] == lasts(cut)
    assert found.late_of("first", "spaced") == ({"spaced": late} if late else {})
    if "late_for_spaced" in found.tables:
        assert found.tables["late_for_spaced"].total() == late


ROWS = Cut(
    [
        [{"k": "a", "v": 1, "ts": 10}, {"k": "a", "v": 2, "ts": 12}, {"k": None, "v": 3, "ts": 11}],
        [{"k": "a", "v": 4, "ts": 9}, {"k": "a", "v": 5, "ts": 20}, {"k": None, "v": 6, "ts": 3}],
        [{"k": "b", "v": 7, "ts": 1}, {"k": "a", "v": 8, "ts": 40}],
    ],
    lateness=2,
)


@pytest.mark.usefixtures("sail")
@few
@example(ROWS, 5, 2)
@example(ROWS, 10, 8)
@given(cut=cuts(), within=st.integers(1, 40), tier_length=st.sampled_from([2, 8]))
def test_any_cut_gives_the_first_and_the_last_of_all_rows(cut: Cut, within: int, tier_length: int) -> None:
    found = run(SAIL, lambda pipeline: add(cut.source(pipeline), within), partitions=(1, 3), tier_length=tier_length)
    check(found, cut, within)


@pytest.mark.usefixtures("sail")
def test_with_enough_lateness_the_first_is_the_first_of_all_rows() -> None:
    cut = Cut(ROWS.epochs, lateness=100)
    first = {}
    for row in sorted((row for rows in cut.epochs for row in rows), key=in_order):
        first.setdefault(row["k"], row)
    assert firsts(cut, float("inf"))[0] == counted(first.values())


@pytest.mark.usefixtures("sail")
def test_without_an_event_time_the_first_epoch_with_the_key_decides(tmp_path: Any) -> None:
    batches = [[("a", 2), ("a", 1)], [("a", 0), ("b", 5)], [("b", 4)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, v long"))
    rows.key_by("k").deduplicate().to_table("first")
    assert [pipeline.run_epoch().rows["first"] for _ in batches] == [1, 1, 0]
    assert sorted(map(tuple, pipeline.read("first").collect())) == [("a", 1), ("b", 5)]


def stream() -> do.Stream:
    rows = do.MemorySource([], schema="k string, v long, ts timestamp")
    return do.Pipeline("p", root="nowhere").source("rows", rows, event_time="ts")


def test_names_and_types_of_streams() -> None:
    first = stream().key_by("v").deduplicate(within="1 day")
    assert (first.columns, first.event_time, first._type.updating) == (("k", "v", "ts"), "ts", False)
    last = stream().key_by("v").deduplicate(keep="last")
    assert (last.columns, last._type.keys) == (("v", "k", "ts"), ("v",))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PipelineError, match="cannot keep 'any'"):
        stream().key_by("k").deduplicate(keep="any")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="within: '1 month'"):
        stream().key_by("k").deduplicate(within="1 month")
    with pytest.raises(PipelineError, match="more than nothing"):
        stream().key_by("k").deduplicate(within="0 s")
    with pytest.raises(PipelineError, match="goes with keep='first'"):
        stream().key_by("k").deduplicate(keep="last", within="1 day")
    with pytest.raises(SchemaError, match="needs an event time"):
        stream().drop("ts").key_by("k").deduplicate(keep="last")
    with pytest.raises(SchemaError, match="within= needs an event time"):
        stream().drop("ts").key_by("k").deduplicate(within="1 day")
    with pytest.raises(SchemaError, match="which row of a key is the first"):
        stream().key_by("k").aggregate(n="count(*)").key_by("k").deduplicate()
