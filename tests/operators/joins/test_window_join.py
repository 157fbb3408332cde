"""Joins in windows: any cut of both inputs gives the join of the rows that were on time, window by window."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, at, cuts, few, plain, run, side_by_side, starts_of

if TYPE_CHECKING:
    from dagster_operators.operators.joins.join_columns import HowInWindows as How

WAYS: list[How] = ["inner", "left", "right", "full", "semi", "anti"]
ONE_SIDED = ("semi", "anti")


def joined(lefts: list[Any], rights: list[Any], how: How) -> list[tuple[Any, Any]]:
    """The pairs of two lists of rows of one window, by definition: nulls are equal to nothing."""
    pairs = [(one, other) for one in lefts for other in rights if one["k"] is not None and one["k"] == other["k"]]
    alone_left = [(one, None) for one in lefts if not any(pair[0] is one for pair in pairs)]
    alone_right = [(None, other) for other in rights if not any(pair[1] is other for pair in pairs)]
    if how in ONE_SIDED:
        return alone_left if how == "anti" else [(one, None) for one in lefts if any(pair[0] is one for pair in pairs)]
    return pairs + (alone_left if how in ("left", "full") else []) + (alone_right if how in ("right", "full") else [])


def expected(left: Cut, right: Cut, size: int, slide: int, how: How) -> tuple[Counter[Any], dict[str, int]]:
    windows: dict[int, list[list[Any]]] = defaultdict(lambda: [[], []])
    late = {"joined.left": 0, "joined.right": 0}
    for sides, begin, _ in side_by_side(left, right):
        for number, name in enumerate(late):
            for row in sides[number]:
                holding = starts_of(row["ts"], size, slide)
                still_open = [start for start in holding if start + size > begin]
                late[name] += bool(holding) and not still_open
                for start in still_open:
                    windows[start][number].append(dict(row))
    rows: Counter[Any] = Counter()
    for start, (lefts, rights) in windows.items():
        for one, other in joined(lefts, rights, how):
            values = [side and side["v"] for side in ((one,) if how in ONE_SIDED else (one, other))]
            rows[(one or other)["k"], plain(at(start)), plain(at(start + size)), *values] += 1
    return rows, {name: count for name, count in late.items() if count}


def add(left: do.Stream, right: do.Stream, window: tuple[int, int], how: How, *, alone: bool = False) -> None:
    """The operator with a table, and late rows unless it is to be alone."""
    windows = do.Sliding(f"{window[0]} s", f"{window[1]} s")
    one, other = left.key_by("k").window(windows), right.rename(v="w", k="id", ts="at").key_by("id").window(windows)
    joined = one.join(other, how=how, columns=["v"] if how in ONE_SIDED else ["v", "w"], name="joined").to_table("joined")
    for side in () if alone else ("late_left", "late_right"):
        joined.side_output(side).to_table(side)


def check(found: Found, left: Cut, right: Cut, window: tuple[int, int], how: How) -> None:
    rows, late = expected(left, right, *window, how)
    assert found.tables["joined"] == rows
    assert found.late_of("joined.left", "joined.right") == late
    for side in {"late_left", "late_right"} & found.tables.keys():
        assert found.tables[side].total() == late.get(f"joined.{side.removeprefix('late_')}", 0)


def join(left: Cut, right: Cut, window: tuple[int, int], how: How, **spread: Any) -> None:
    def build(pipeline: do.Pipeline) -> None:
        add(left.source(pipeline, "left"), right.source(pipeline, "right"), window, how)

    check(run(SAIL, build, **spread), left, right, window, how)


def row(k: str | None, v: int, ts: int) -> dict[str, Any]:
    return {"k": k, "v": v, "ts": ts}


LEFT = Cut([[row("a", 1, 1), row("b", 2, 2), row(None, 3, 3)], [row("a", 4, 25), row("a", 5, 1)], [row("a", 6, 26)]])
RIGHT = Cut([[row("a", 1, 9), row("a", 2, 9), row(None, 3, 3)], [row("c", 4, 30)]])


@pytest.mark.usefixtures("sail")
@few
@example((LEFT, RIGHT), (10, 10), "full", 8)
@example((LEFT, RIGHT), (10, 4), "inner", 2)
@given(
    sides=st.tuples(cuts(epochs=3, rows=5), cuts(epochs=3, rows=5, lateness=[0, 20])),
    window=st.tuples(st.integers(1, 20), st.integers(1, 30)),
    how=st.sampled_from(WAYS),
    tier_length=st.sampled_from([2, 8]),
)
def test_any_cut_gives_the_join_of_all_rows(sides: tuple[Cut, Cut], window: tuple[int, int], how: How, tier_length: int) -> None:
    join(*sides, window, how, partitions=(1, 3), tier_length=tier_length)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("how", WAYS)
def test_each_way_of_joining(how: How) -> None:
    join(LEFT, RIGHT, (10, 10), how)


@pytest.mark.usefixtures("sail")
def test_without_keys_everything_in_a_window_is_joined_and_windows_may_come_from_the_input() -> None:
    def build(pipeline: do.Pipeline) -> None:
        window = do.Tumbling("10 s")
        left, right = LEFT.source(pipeline, "left"), RIGHT.source(pipeline, "right")
        ours, theirs = left.window(window).aggregate(ours="count(*)"), right.window(window).aggregate(theirs="count(*)")
        ours.window().join(theirs.window(), how="full").to_table("counts")
        left.window(window).join(right.select("v AS w", "ts AS at").window(window), columns=["v", "w"]).to_table("pairs")

    found = run(SAIL, build)
    assert sorted(found.tables["counts"].elements()) == [
        (plain(at(0)), plain(at(10)), 4, 3),
        (plain(at(20)), plain(at(30)), 2, None),
        (plain(at(30)), plain(at(40)), None, 1),
    ]
    assert sorted(row[2:] for row in found.tables["pairs"].elements()) == [(v, w) for v in (1, 2, 3, 5) for w in (1, 2, 3)]


def stream(name: str = "rows", schema: str = "k string, v long, ts timestamp", of: do.Pipeline | None = None) -> do.Stream:
    pipeline = of or do.Pipeline("p", root="nowhere")
    return pipeline.source(name, do.MemorySource([], schema=schema), event_time="ts")


def test_names_and_lineage() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    left, right = stream(of=pipeline), stream("more", "id string, w long, ts timestamp", of=pipeline)
    window = do.Tumbling("1 hour")
    both = left.key_by("k").window(window).join(right.rename(ts="at").key_by("id").window(window), how="left")
    assert both.columns == ("k", "window_start", "window_end", "v", "ts", "w", "at")
    assert both.event_time == "window_start"
    both.to_table("both")
    assert "window_join" in pipeline.explain()
    assert "w <- more.w" in pipeline.explain()
    assert "k <- more.id, rows.k" in pipeline.explain()


def test_two_columns_of_one_name_are_refused_with_a_remedy() -> None:
    pipeline, window = do.Pipeline("p", root="nowhere"), do.Tumbling("1 hour")
    left, right = stream(of=pipeline), stream("more", of=pipeline)
    with pytest.raises(SchemaError, match=r"both sides have a column 'v'.*rename") as caught:
        left.key_by("k").window(window).join(right.key_by("k").window(window))
    assert caught.value.column == "v"
    with pytest.raises(SchemaError, match="'x', which the join does not have"):
        left.key_by("k").window(window).join(right.rename(v="w", ts="at").key_by("k").window(window), columns=["x"])
    with pytest.raises(SchemaError, match="'window_start', which the join's output has too"):
        left.window(window).aggregate(n="count(*)").window(window).join(right.window(window))


def test_what_does_not_fit_is_refused() -> None:
    pipeline, hour = do.Pipeline("p", root="nowhere"), do.Tumbling("1 hour")
    left, right = stream(of=pipeline), stream("more", of=pipeline)
    with pytest.raises(PipelineError, match="same windows"):
        left.window(hour).join(right.window(do.Tumbling("2 hours")))
    with pytest.raises(PipelineError, match="no sessions"):
        left.window(do.Session("1 s")).join(right.window(do.Session("1 s")))
    with pytest.raises(PipelineError, match="keys k, the right side none"):
        left.key_by("k").window(hour).join(right.window(hour))
    with pytest.raises(PipelineError, match="cannot be 'outer'"):
        left.window(hour).join(right.window(hour), how="outer")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="no stream in windows"):
        left.window(hour).join(right)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="carry"):
        left.window()


@pytest.mark.usefixtures("sail")
def test_keys_of_different_kinds_are_refused_when_the_pipeline_is_planned(tmp_path: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    left, right = stream(of=pipeline), stream("more", "id long, w long, ts timestamp", of=pipeline)
    window = do.Tumbling("1 hour")
    left.key_by("k").window(window).join(right.rename(ts="at").key_by("id").window(window)).to_table("pairs")
    with pytest.raises(SchemaError, match="'k' is a string on the left side, and 'id' a number"):
        pipeline.epochs.plan()


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("key", "other", "casts"),
    [("float", "long", {"k", "id"}), ("double", "decimal(10,2)", {"id"})],
)
def test_keys_that_sail_makes_another_type_of_are_refused_and_casts_mend_it(
    key: str, other: str, casts: set[str], tmp_path: Any
) -> None:
    def plan(*cast: str) -> None:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        sides = (
            stream(schema=f"k {key}, v long, ts timestamp", of=pipeline),
            stream("more", f"id {other}, ts timestamp", of=pipeline),
        )
        window = do.Tumbling("1 hour")
        left, right = (
            (side.with_columns(**{name: f"CAST({name} AS double)"}) if name in cast else side).key_by(name).window(window)
            for side, name in ((sides[0], "k"), (sides[1].rename(ts="at"), "id"))
        )
        left.join(right, how="full").to_table("pairs")
        pipeline.epochs.plan()

    with pytest.raises(SchemaError, match="Sail makes another type of both than Spark") as told:
        plan()
    assert {name for name in ("k", "id") if f"{name}='CAST({name} AS double)'" in told.value.remedy} == casts
    plan(*casts)
