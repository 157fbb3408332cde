"""The first rows per key and per window: any cut of the input gives the first of all rows that were on time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, at, cuts, few, plain, run, starts_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


def first(rows: Iterable[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The first rows by ``v DESC``, then by time; nulls are the smallest."""
    return sorted(rows, key=lambda row: (row["v"] is None, -(row["v"] or 0), row["ts"]))[:n]


def first_with_ties(rows: Iterable[dict[str, Any]], n: int) -> list[tuple[int, dict[str, Any]]]:
    """The rows of the first places, where equal ones share theirs."""
    ordered = first(rows, 1_000_000)
    places = [1 + sum(first([other, row], 1) == [other] and other["v"] != row["v"] for other in ordered) for row in ordered]
    return [(place, row) for place, row in zip(places, ordered, strict=True) if place <= n]


def ranked(groups: dict[Hashable, list[dict[str, Any]]], n: int, *, ties: bool = False) -> Counter[Any]:
    return Counter(
        (*key, rank, row["v"], plain(at(row["ts"])))  # type: ignore[misc]
        for key, rows in groups.items()
        for rank, row in (first_with_ties(rows, n) if ties else enumerate(first(rows, n), 1))
    )


def per_key(cut: Cut, n: int) -> Counter[Any]:
    groups: dict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    for rows in cut.epochs:
        for row in rows:
            groups[row["k"],].append(row)
    return ranked(groups, n)


def per_window(cut: Cut, n: int, size: int, slide: int, *, ties: bool = False) -> tuple[Counter[Any], int]:
    groups: dict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    late = 0
    for rows, begin, _ in cut.in_epochs():
        for row in rows:
            holding = starts_of(row["ts"], size, slide)
            still_open = [start for start in holding if start + size > begin]
            late += bool(holding) and not still_open
            for start in still_open:
                groups[row["k"], plain(at(start)), plain(at(start + size))].append(row)
    return ranked(groups, n, ties=ties), late


def add(rows: do.Stream, n: int, window: tuple[int, int], *, ties: bool = True) -> None:
    """The operators, each with a table."""
    by_key = rows.key_by("k")
    by_key.top(n, by="v DESC", name="best").to_table("best")
    windowed = by_key.window(do.Sliding(f"{window[0]} s", f"{window[1]} s"))
    windowed.top(n, by=["v DESC"], name="best_per_window").to_table("best_per_window")
    if ties:
        windowed.top(n, by="v DESC", ties=True, name="with_ties").to_table("with_ties")


def check(found: Found, cut: Cut, n: int, window: tuple[int, int]) -> None:
    windows, late = per_window(cut, n, *window)
    assert found.tables["best"] == per_key(cut, n)
    assert found.tables["best_per_window"] == windows
    if "with_ties" in found.tables:
        assert found.tables["with_ties"] == per_window(cut, n, *window, ties=True)[0]
    operators = ("best_per_window", "with_ties") if "with_ties" in found.tables else ("best_per_window",)
    assert found.late_of(*operators) == (dict.fromkeys(operators, late) if late else {})


ROWS = Cut(
    [
        [{"k": "a", "v": 1, "ts": 1}, {"k": "a", "v": 3, "ts": 2}, {"k": None, "v": None, "ts": 3}],
        [{"k": "a", "v": 3, "ts": 1}, {"k": "a", "v": 2, "ts": 30}, {"k": "b", "v": 1, "ts": 4}],
        [{"k": "a", "v": 5, "ts": 2}, {"k": "a", "v": 2, "ts": 31}],
    ]
)


@pytest.mark.usefixtures("sail")
@few
@example(ROWS, 2, (10, 4), 2)
@given(
    cut=cuts(), n=st.integers(1, 3), window=st.tuples(st.integers(1, 20), st.integers(1, 30)), tier_length=st.sampled_from([2, 8])
)
def test_any_cut_gives_the_first_of_all_rows(cut: Cut, n: int, window: tuple[int, int], tier_length: int) -> None:
    found = run(SAIL, lambda pipeline: add(cut.source(pipeline), n, window), partitions=(1, 3), tier_length=tier_length)
    check(found, cut, n, window)


@pytest.mark.usefixtures("sail")
def test_the_best_of_the_windows_of_an_aggregate() -> None:
    """Nexmark's query 5: the keys with most rows in each sliding window."""

    def build(pipeline: do.Pipeline) -> None:
        counts = ROWS.source(pipeline).key_by("k").window(do.Sliding("10 s", "5 s")).aggregate(n="count(*)")
        hot = counts.window().top(1, by="n DESC, k", name="hot")
        hot.to_table("hot")
        counts.key_by("k").window().top(5, by="n", name="each").to_table("each")

    found = run(SAIL, build)
    assert sorted(found.tables["hot"].elements()) == [
        (plain(at(-5)), plain(at(5)), 1, "a", 3),
        (plain(at(0)), plain(at(10)), 1, "a", 3),
        (plain(at(25)), plain(at(35)), 1, "a", 2),
        (plain(at(30)), plain(at(40)), 1, "a", 2),
    ]
    assert found.tables["each"].total() == 8
    assert not found.late.keys() & {"hot", "each"}


@pytest.mark.usefixtures("sail")
def test_every_column_decides_between_rows_that_are_equal_otherwise() -> None:
    columns = "k string, v long, m map<string,int>, s struct<x:int>, a array<double>"
    rows = [{"k": "a", "v": 1, "m": {"x": x}, "s": {"x": 1}, "a": [float(x)], "ts": 0} for x in (3, 1, 2)]
    found = []
    for order in ([0, 1, 2], [2, 1, 0]):
        cut = Cut([[rows[index] for index in order]], columns=columns)

        def build(pipeline: do.Pipeline, cut: Cut = cut) -> None:
            best = cut.source(pipeline).key_by("k").top(1, by="v")
            best.select("k", "rank", "m['x'] AS x", "a").to_table("best")

        found.append(run(SAIL, build).tables["best"])
    assert found == [Counter({("a", 1, 1, (1.0,)): 1})] * 2


def stream(schema: str = "k string, v long, ts timestamp") -> do.Stream:
    return do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema=schema), event_time="ts")


def test_names_and_lineage() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, ts timestamp"), event_time="ts")
    best = rows.key_by("k").top(3, by="v DESC").to_table("best")
    assert best.columns == ("k", "rank", "v", "ts")
    assert best._type.keys == ("k", "rank")
    windowed = rows.key_by("k").window(do.Tumbling("1 hour")).top(3, by="v DESC", rank="place").to_table("windowed")
    assert windowed.columns == ("k", "window_start", "window_end", "place", "v", "ts")
    assert windowed.event_time == "window_start"
    assert "rank <- rows.v" in pipeline.explain()
    assert "window_end <- rows.ts" in pipeline.explain()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"by='w DESC.*' uses column 'w'"):
        stream().key_by("k").top(1, by="w DESC")
    with pytest.raises(PipelineError, match="no row at all"):
        stream().key_by("k").top(0, by="v")
    with pytest.raises(SchemaError, match=r"the name of the column 'rank'.*place"):
        stream("k string, rank long, ts timestamp").key_by("k").top(1, by="rank")
    with pytest.raises(SchemaError, match="'window_start', which"):
        stream("window_start string, v long, ts timestamp").window(do.Tumbling("1 s")).top(1, by="v")
    with pytest.raises(PipelineError, match=r"a session has no top rows.*\.window\(\)\.top"):
        stream().window(do.Session("1 s")).top(1, by="v")
    changes = stream("v long, ts timestamp, op string").as_changes("op")
    with pytest.raises(PipelineError, match=r"or top behind it: aggregate\(...\)\.key_by\(...\)\.top"):
        changes.window(do.Session("1 s")).top(1, by="v")
    changes.window(do.Session("1 s")).aggregate(most="max(v)", best="max_by(v, ts)").key_by().top(1, by="most")
    with pytest.raises(AttributeError, match=r"no attribute 'pivot'; write key_by\(...\)\.pivot"):
        stream().pivot("v", [1], n="count(*)")  # type: ignore[operator]
    with pytest.raises(AttributeError, match=r"no attribute 'over'; .*frame='range 10 minutes preceding'"):
        stream().key_by("k").window(do.Tumbling("10 minutes")).over("ts", n="count(*)")  # type: ignore[operator]
    stream().key_by("k").over("ts", n="count(*)", frame="range 10 minutes preceding")


@pytest.mark.usefixtures("sail")
def test_state_of_closed_windows_is_dropped_however_wide_the_rows(tmp_path: Any) -> None:
    wide = ", ".join(f"c{number} long" for number in range(40))
    batches = [[{"k": "a", "v": 1, "ts": at(ts)}] for ts in (0, 20, 40)]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=f"{wide}, k string, v long, ts timestamp"), event_time="ts")
    rows.window(do.Tumbling("10 s")).top(1, by="v", name="best").to_table("best")
    rows.key_by("k").deduplicate(within="5 s", name="spaced").to_table("spaced")
    for _ in batches:
        pipeline.run_epoch()
    files = {
        name: pipeline.epochs.coordinator.files(f"state/{name}", pipeline.history()[-1].versions[f"state/{name}"])
        for name in ("best.panes", "spaced.waiting", "spaced.seen")
    }
    assert {name: sum(file.rows for file in found) for name, found in files.items()} == {
        "best.panes": 1,
        "spaced.waiting": 1,
        "spaced.seen": 0,
    }
