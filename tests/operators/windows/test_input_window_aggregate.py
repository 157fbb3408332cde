"""Aggregates over the windows that rows carry: any cut gives the aggregate of all rows' windows."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from tests.engines import SAIL
from tests.operators.cut_input import Cut, at, cuts, few, plain, run, starts_of
from tests.operators.relational.test_top import ROWS


def largest(cut: Cut, size: int, slide: int) -> Counter[Any]:
    """The largest number of rows that a key has in each window, and how many keys it has."""
    counts: dict[int, Counter[Any]] = defaultdict(Counter)
    for rows, begin, _ in cut.in_epochs():
        for row in rows:
            for start in starts_of(row["ts"], size, slide):
                counts[start][row["k"]] += start + size > begin
    most = {start: +by_key for start, by_key in counts.items()}
    return Counter(
        (plain(at(start)), plain(at(start + size)), max(by_key.values()), len(by_key)) for start, by_key in most.items() if by_key
    )


MOST = {"most": "max(n)", "ks": "count(*)"}


def add(counts: do.Stream) -> None:
    """The operator behind counts in windows, with a table."""
    counts.key_by("window_start", "window_end").window().aggregate(MOST, name="most").to_table("most")


@pytest.mark.usefixtures("sail")
@few
@example(ROWS, (10, 4), 2)
@given(cut=cuts(), window=st.tuples(st.integers(1, 20), st.integers(1, 30)), tier_length=st.sampled_from([2, 8]))
def test_any_cut_gives_the_aggregates_of_all_windows(cut: Cut, window: tuple[int, int], tier_length: int) -> None:
    size, slide = window

    def build(pipeline: do.Pipeline) -> None:
        counts = (
            cut.source(pipeline).key_by("k").window(do.Sliding(f"{size} s", f"{slide} s")).aggregate(n="count(*)", name="counts")
        )
        add(counts)
        slow = (
            Cut([[]] * 2, lateness=50)
            .source(pipeline, "slow")
            .select("k", "ts AS window_start", "ts + INTERVAL 1 SECOND AS window_end", "v AS n")
        )
        both = counts.union(slow).window().aggregate(MOST, name="behind")
        both.window().aggregate(most="max(most)", ks="max(ks)", name="again").to_table("behind")

    found = run(SAIL, build, partitions=(1, 3), tier_length=tier_length)
    assert found.tables["most"] == found.tables["behind"] == largest(cut, size, slide)
    assert not found.late.keys() & {"most", "behind", "again"}


def test_names_and_lineage() -> None:
    rows = do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema="k string, ts timestamp"), event_time="ts")
    counts = rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)")
    most = counts.window().aggregate(most="max(n)")
    assert most.columns == ("window_start", "window_end", "most")
    assert (most.event_time, most.name) == ("window_start", "aggregate_per_window")
    assert (
        rows.key_by("k").window(do.Session("1 s")).aggregate(n="count(*)").window().aggregate(m="max(n)").event_time
        == "window_end"
    )
    with pytest.raises(SchemaError, match="'m'"):
        counts.window().aggregate(most="max(m)")
    with pytest.raises(SchemaError, match="carry, and these do not"):
        counts.drop("window_end").window()
