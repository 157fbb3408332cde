"""Sliding windows whose slide does not divide or exceeds the size: each row in each of its windows, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, at, cuts, few, plain, run, starts_of
from tests.operators.relational.test_top import ROWS


def counted(cut: Cut, size: int, slide: int) -> tuple[Counter[Any], int]:
    """How many rows each window has, and how many rows were late; a row in a gap is neither."""
    counts: Counter[Any] = Counter()
    late = 0
    for rows, begin, _ in cut.in_epochs():
        for row in rows:
            holding = starts_of(row["ts"], size, slide)
            still_open = [start for start in holding if start + size > begin]
            late += bool(holding) and not still_open
            counts.update((row["k"], start) for start in still_open)
    return Counter((key, plain(at(start)), plain(at(start + size)), n) for (key, start), n in counts.items()), late


def add(rows: do.Stream, window: tuple[int, int]) -> do.Stream:
    """The operator with a table, and its late rows."""
    windows = rows.key_by("k").window(do.Sliding(f"{window[0]} s", f"{window[1]} s"))
    counts = windows.aggregate(n="count(*)", name="counts").to_table("counts")
    counts.late().to_table("late_for_counts")
    return counts


def check(found: Found, cut: Cut, window: tuple[int, int]) -> None:
    counts, late = counted(cut, *window)
    assert found.tables["counts"] == counts
    assert found.late_of("counts") == ({"counts": late} if late else {})
    assert found.tables["late_for_counts"].total() == late


@pytest.mark.usefixtures("sail")
@few
@example(ROWS, (2, 5), (1, 3))
@example(ROWS, (10, 4), (2,))
@given(cut=cuts(), window=st.tuples(st.integers(1, 30), st.integers(1, 40)), partitions=st.sampled_from([(1, 3), (2,)]))
def test_any_slide_gives_each_row_to_its_windows(cut: Cut, window: tuple[int, int], partitions: tuple[int, ...]) -> None:
    found = run(SAIL, lambda pipeline: add(cut.source(pipeline), window), partitions=partitions, tier_length=2)
    check(found, cut, window)


@pytest.mark.usefixtures("sail")
def test_rows_in_the_gaps_are_in_no_window_and_not_late() -> None:
    cut = Cut([[{"k": "a", "v": ts, "ts": ts} for ts in (20, 21, 22, 24, 25)], [{"k": "a", "v": 3, "ts": 23}]])

    def build(pipeline: do.Pipeline) -> None:
        cut.source(pipeline).window(do.Sliding("2 s", "5 s")).aggregate(vs="collect_set(v)", name="windows").to_table("windows")

    found = run(SAIL, build)
    assert sorted(found.tables["windows"]) == [(plain(at(20)), plain(at(22)), (20, 21)), (plain(at(25)), plain(at(27)), (25,))]
    assert found.late == {}
