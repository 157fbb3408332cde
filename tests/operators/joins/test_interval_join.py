"""Interval joins: any cut of both inputs gives the pairs of which not both rows were late."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.joins.interval_join import IntervalJoin, parse_bound
from dagster_operators.time.watermark import MIN_WATERMARK
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, at, cuts, few, plain, run, side_by_side

if TYPE_CHECKING:
    from dagster_operators.operators.joins.join_columns import How

WAYS: list[How] = ["inner", "left", "right", "full"]


def expected(left: Cut, right: Cut, bounds: tuple[int, int], how: How) -> tuple[Counter[Any], dict[str, int]]:
    """All pairs by definition: near each other, and not both before the watermark with which the later one's epoch began."""
    lower, upper = bounds
    reach = (max(upper, 0), max(-lower, 0))
    kept: tuple[list[Any], list[Any]] = ([], [])
    late: Counter[str] = Counter()
    for sides, begin, _ in side_by_side(left, right):
        for number, name in enumerate(("near.left", "near.right")):
            for row in sides[number]:
                if row["ts"] + reach[number] < begin:
                    late[name] += 1
                else:
                    kept[number].append({**row, "begin": begin})
    pairs = [
        (one, other)
        for one in kept[0]
        for other in kept[1]
        if one["k"] is not None and one["k"] == other["k"] and lower <= other["ts"] - one["ts"] <= upper
        and max(one["ts"], other["ts"]) >= max(one["begin"], other["begin"])
    ]  # fmt: skip
    rows = Counter(result(*pair) for pair in pairs)
    if how in ("left", "full"):
        rows.update(result(one, None) for one in kept[0] if not any(pair[0] is one for pair in pairs))
    if how in ("right", "full"):
        rows.update(result(None, other) for other in kept[1] if not any(pair[1] is other for pair in pairs))
    return rows, dict(late)


def result(one: Any, other: Any) -> tuple[Any, ...]:
    ours = (one["v"], plain(at(one["ts"]))) if one else (None, None)
    theirs = (other["v"], plain(at(other["ts"]))) if other else (None, None)
    return (one or other)["k"], *ours, *theirs


def add(left: do.Stream, right: do.Stream, bounds: tuple[int, int], how: How, *, alone: bool = False) -> None:
    """The operator with a table; another one behind it if there can be, and late rows of one side, unless it is to be alone."""
    one, other = left.key_by("k"), right.rename(v="w", k="id", ts="at").key_by("id")
    near = one.interval_join(other, lower=f"{bounds[0]} s", upper=f"{bounds[1]} s", how=how, name="near").to_table("near")
    if near.event_time and not alone:
        near.window(do.Tumbling("7 s")).aggregate(n="count(*)", name="later").to_table("later")
    if not alone:
        near.side_output("late_left").to_table("left_too_late")


def check(found: Found, left: Cut, right: Cut, bounds: tuple[int, int], how: How) -> None:
    rows, late = expected(left, right, bounds, how)
    assert found.tables["near"] == rows
    assert found.late_of("near.left", "near.right") == late
    if "left_too_late" in found.tables:
        assert found.tables["left_too_late"].total() == late.get("near.left", 0)
    if "later" in found.tables:  # the output watermark is right when no row of the output is late in the next window
        assert "later" not in found.late
        assert sum(row[2] for row in found.tables["later"].elements()) == rows.total()


def row(k: str | None, v: int, ts: int) -> dict[str, Any]:
    return {"k": k, "v": v, "ts": ts}


LEFT = Cut(
    [[row("a", 1, 10), row(None, 2, 3)], [row("a", 3, 30), row("b", 4, 12)], [row("a", 5, 1), row("a", 6, 50)]], lateness=4
)
RIGHT = Cut([[row("a", 1, 14), row("a", 2, 9)], [row("a", 3, 29), row("c", 4, 40)], [row("a", 5, 31)]], lateness=4)


@pytest.mark.usefixtures("sail")
@few
@example((LEFT, RIGHT), (-2, 5), "full", 2)
@example((LEFT, RIGHT), (-9, -3), "left", 8)
@example((LEFT, RIGHT), (1, 9), "right", 8)
@given(
    sides=st.tuples(cuts(rows=5), cuts(rows=5, lateness=[0, 3, 20])),
    bounds=st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(lambda pair: (min(pair), max(pair))),
    how=st.sampled_from(WAYS),
    tier_length=st.sampled_from([2, 8]),
)
def test_any_cut_gives_the_pairs_of_all_rows(sides: Any, bounds: tuple[int, int], how: How, tier_length: int) -> None:
    left, right = sides

    def build(pipeline: do.Pipeline) -> None:
        add(left.source(pipeline, "left"), right.source(pipeline, "right"), bounds, how)

    check(run(SAIL, build, partitions=(1, 3), tier_length=tier_length), left, right, bounds, how)


@pytest.mark.usefixtures("sail")
def test_an_inner_pair_comes_out_in_the_epoch_of_its_second_row(tmp_path: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    left = Cut([[row("a", 1, 10)], [], [row("a", 2, 10)]], lateness=100).source(pipeline, "left")
    right = Cut([[], [row("a", 7, 11)], []], lateness=100).source(pipeline, "right").rename(v="w", ts="at")
    left.key_by("k").interval_join(right.key_by("k"), lower="0 s", upper="1 s").to_table("pairs")
    assert [pipeline.run_epoch().rows["pairs"] for _ in range(3)] == [0, 1, 1]


@pytest.mark.usefixtures("sail")
def test_a_stream_joins_itself_and_keys_are_not_needed() -> None:
    cut = Cut([[row("a", 1, 0), row("b", 2, 5)], [row("c", 3, 9)]], lateness=50)

    def build(pipeline: do.Pipeline) -> None:
        rows = cut.source(pipeline)
        other = rows.select("v AS w", "ts AS at").key_by()
        rows.key_by().interval_join(other, lower="1 s", upper="5 s", columns=["w", "v"]).to_table("pairs")

    assert run(SAIL, build).tables["pairs"] == Counter({(2, 1): 1, (3, 2): 1})


def stream(pipeline: do.Pipeline, name: str) -> do.Stream:
    return pipeline.source(name, do.MemorySource([], schema="k string, v long, ts timestamp"), event_time="ts")


def test_names_event_time_and_watermark() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    left, right = stream(pipeline, "left").key_by("k"), stream(pipeline, "right").rename(v="w", ts="at").key_by("k")
    both = {how: left.interval_join(right, lower="-1 hour", upper="10 s", how=how) for how in WAYS}
    assert both["inner"].columns == ("k", "v", "ts", "w", "at")
    assert [both[how].event_time for how in WAYS] == ["ts", "ts", "at", None]
    operator = pipeline.dataflow.nodes[both["inner"].name].operator
    assert isinstance(operator, IntervalJoin)
    assert operator.watermark(60_000_000) == 50_000_000
    assert operator.watermark(MIN_WATERMARK) == MIN_WATERMARK
    both["full"].to_table("pairs")
    assert "interval_join" in pipeline.explain()
    assert "at <- right.ts" in pipeline.explain()


def test_bounds_have_a_sign() -> None:
    assert parse_bound(" -90 s") == -90_000_000
    assert parse_bound("+1 s") == 1_000_000
    assert parse_bound(-5_000_000) == -5_000_000
    with pytest.raises(ValueError, match="5 has no unit"):
        parse_bound(-5)


def test_what_does_not_fit_is_refused() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    left, right = stream(pipeline, "left").key_by("k"), stream(pipeline, "right").rename(v="w", ts="at").key_by("k")
    with pytest.raises(PipelineError, match="the interval is empty"):
        left.interval_join(right, lower="1 s", upper="0 s")
    with pytest.raises(PipelineError, match="'1 month' is no duration"):
        left.interval_join(right, lower="-1 month", upper="0 s")
    with pytest.raises(PipelineError, match="no stream with keys"):
        left.interval_join(stream(pipeline, "more"), lower="0 s", upper="0 s")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="the right one has none"):
        left.interval_join(stream(pipeline, "timeless").drop("ts").key_by("k"), lower="0 s", upper="0 s")
    with pytest.raises(SchemaError, match="both sides have a column 'v'"):
        left.interval_join(stream(pipeline, "same").key_by("k"), lower="0 s", upper="0 s")
