"""Union: rows by the names of their columns, the time of the slowest input, and what does not fit together."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.operators.cut_input import Cut, Found, at, plain, run
from tests.operators.one_table import few, lineage, result, source

PAIRS = "k string, v long"


def pairs(pipeline: do.Pipeline | None = None, *batches: Any, name: str = "rows", schema: str = PAIRS) -> do.Stream:
    return source(pipeline, *batches, name=name, schema=schema)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_rows_are_matched_by_name_whatever_the_order_and_case(engine: str) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        first = pairs(pipeline, [{"k": "a", "v": 1}], [{"k": "b", "v": None}])
        other = pairs(pipeline, [{"V": 2, "K": "c"}], name="other", schema="V long, K string")
        return first.union(other, first.filter("v = 1"))

    found = result(ENGINES[engine], build)
    assert list(found.types.items()) == [("k", "string"), ("v", "bigint")]
    assert found.rows == Counter({("a", 1): 2, ("b", None): 1, ("c", 2): 1})


@pytest.mark.usefixtures("sail")
def test_inputs_without_rows_leave_names_and_types_as_they_are() -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        return pairs(pipeline).union(pairs(pipeline, [{"V": 2, "K": "c"}], name="other", schema="V long, K string"))

    assert result(SAIL, build).rows == Counter([("c", 2)])


@pytest.mark.usefixtures("sail")
def test_windows_behind_it_wait_for_the_slowest_input() -> None:
    fast = Cut([[{"k": "a", "v": 1, "ts": 1}, {"k": "a", "v": 2, "ts": 100}], []])
    slow = Cut([[{"k": "b", "v": 3, "ts": 2}], [{"k": "b", "v": 4, "ts": 3}]])

    def counts(*, lateness: int) -> Found:
        def build(pipeline: do.Pipeline) -> None:
            both = fast.source(pipeline, "fast").union(Cut(slow.epochs, lateness).source(pipeline, "slow"))
            both.window(do.Tumbling("10 s")).aggregate(n="count(*)").to_table("counts")

        return run(SAIL, build)

    windows = Counter([(plain(at(0)), plain(at(10)), 3), (plain(at(100)), plain(at(110)), 1)])
    assert counts(lateness=0) == counts(lateness=1000) == Found({"counts": windows}, {})


def test_columns_event_time_and_lineage() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    first, other = source(pipeline), source(pipeline, name="other", schema="TS timestamp, s string, k string")
    both = first.select("k", "ts").union(other.select("TS", "upper(concat(k, s)) AS k"))
    assert (both.columns, both.event_time) == (("k", "ts"), "ts")
    assert lineage(both) == {"k": "other.k, other.s, rows.k", "ts": "other.TS, rows.ts"}


def test_inputs_of_different_event_times_have_none_in_common() -> None:
    rows = source().select("k", "ts", "ts AS at")
    timeless = source().with_columns(ts="ts + INTERVAL 1 DAY").select("k", "ts")
    assert rows.union(rows.rename(ts="at", at="ts")).event_time is None
    other = rows.select("k", "ts").with_columns(ts="ts + INTERVAL 1 DAY")
    assert (timeless.event_time, rows.select("k", "ts").union(other).event_time) == (None, None)


def test_columns_that_one_side_lacks_are_named() -> None:
    rows = pairs()
    with pytest.raises(SchemaError, match="the streams of a union differ in 'v', 'w'") as caught:
        rows.union(rows.rename(v="w"))
    assert (caught.value.operator, caught.value.column) == ("union", "v")
    assert caught.value.remedy == "select the same columns on both sides"
    assert rows.select("k", "v").union(rows.rename(v="w").select("k", "w AS v")).columns == ("k", "v")


@pytest.mark.usefixtures("sail")
def test_columns_of_different_types_are_named_and_a_cast_mends_it() -> None:
    def build(pipeline: do.Pipeline, *, cast: bool) -> do.Stream:
        rows = pairs(pipeline, [{"k": "a", "v": 1}])
        narrow = rows.with_columns(v="CAST(v AS int)")
        return rows.union(narrow.with_columns(v="CAST(v AS long)") if cast else narrow)

    with pytest.raises(SchemaError, match="column 'v' is bigint in one stream of the union and int in another") as caught:
        result(SAIL, lambda pipeline: build(pipeline, cast=False))
    assert caught.value.remedy == "cast it on one side, before the union"
    assert result(SAIL, lambda pipeline: build(pipeline, cast=True)).rows == Counter({("a", 1): 2})


@pytest.mark.usefixtures("sail")
def test_columns_that_are_known_only_when_the_pipeline_is_planned() -> None:
    def build(pipeline: do.Pipeline, *columns: str) -> do.Stream:
        rows = pairs(pipeline, [{"k": "a", "v": 1}])
        return rows.union(rows.transform(lambda frame: frame.select(*columns)))

    assert result(SAIL, lambda pipeline: build(pipeline, "v", "k")).rows == Counter({("a", 1): 2})
    with pytest.raises(SchemaError, match="the streams of a union differ in 'v'"):
        result(SAIL, lambda pipeline: build(pipeline, "k"))


def left(pipeline: do.Pipeline, table: str) -> Counter[tuple[Any, ...]]:
    """The rows that a table of changes leaves."""
    found = Counter[tuple[Any, ...]]()
    for row in pipeline.read(table).collect():
        found[row["k"], row["v"]] += 1 if row["_change"] in {"insert", "update_after"} else -1
    return +found


changing = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=4)


@pytest.mark.usefixtures("sail")
@few
@given(epochs=st.lists(changing, min_size=1, max_size=3))
def test_current_rows_and_rows_that_stay_become_changes(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[tuple[str, int]]]
) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path_factory.mktemp("union")), engine=SAIL)
    batches = [[{"k": k, "v": v} for k, v in epoch] for epoch in epochs]
    rows = pairs(pipeline, *batches)
    sums = rows.key_by("k").aggregate(v="sum(v)", name="sums")
    most = rows.key_by("k").aggregate(v="max(v)", name="most")
    sums.union(most, name="current").to_table("current")
    rows.union(sums, name="mixed").to_table("mixed")
    sums.to_changes(name="told").union(rows, name="turned").key_by("k").aggregate(n="count(*)", v="sum(v)", name="n").to_table(
        "n"
    )
    given: list[tuple[str, int]] = []
    for epoch in epochs:
        pipeline.run_epoch()
        given += epoch
        values = {key: [v for k, v in given if k == key] for key, _ in given}
        summed = Counter((k, sum(each)) for k, each in values.items())
        assert left(pipeline, "current") == summed + Counter((k, max(each)) for k, each in values.items())
        assert left(pipeline, "mixed") == summed + Counter(given)
        found = {row["k"]: (row["n"], row["v"]) for row in pipeline.read("n").collect()}
        assert found == {k: (len(each) + 1, 2 * sum(each)) for k, each in values.items()}


def test_what_becomes_of_current_rows_is_kept_before_it() -> None:
    pipeline = do.Pipeline("p", root="unused")
    rows = pairs(pipeline)
    totals = rows.key_by("k").aggregate(v="sum(v)", name="totals")
    assert totals.union(rows)._type.retracting
    assert rows.union(totals)._dataflow.nodes["totals_changes"].operator.kind == "to_changes"
    with pytest.raises(SchemaError, match="differ in 'v', 'w'"):
        totals.union(rows.select("k", "v AS w"))
    loop = pipeline.loop("round")
    within = loop.enter(rows)
    with pytest.raises(SchemaError, match="union takes append or retracting streams") as refused:
        within.key_by("k").aggregate(v="sum(v)").union(within)
    assert "behind loop.leave" in refused.value.remedy
    behind = loop.leave(within)
    assert behind.key_by("k").aggregate(v="sum(v)").union(behind)._type.retracting


def test_only_streams_of_one_pipeline() -> None:
    with pytest.raises(PipelineError, match=r"belongs to pipeline 'q'.*PipelineSource"):
        pairs().union(pairs(do.Pipeline("q", root="nowhere")))
    with pytest.raises(PipelineError, match="'rows' is no stream"):
        pairs().union("rows")  # type: ignore[arg-type]


values = st.fixed_dictionaries({"k": st.none() | st.sampled_from("ab"), "v": st.none() | st.integers(0, 3)})
inputs = st.lists(st.lists(st.lists(values, max_size=4), max_size=3), min_size=1, max_size=3)


@pytest.mark.usefixtures("sail")
@few
@given(sources=inputs, times=st.integers(1, 2))
def test_any_inputs_give_all_their_rows(sources: list[list[list[dict[str, Any]]]], times: int) -> None:
    def build(pipeline: do.Pipeline) -> do.Stream:
        streams = [pairs(pipeline, *epochs, name=f"rows_{number}") for number, epochs in enumerate(sources)] * times
        return streams[0].union(*streams[1:])

    rows = [row for epochs in zip_longest(*sources, fillvalue=[]) for rows in epochs for row in rows]
    expected = Counter((row["k"], row["v"]) for row in rows * times)
    if any(epochs for epochs in sources):
        assert result(SAIL, build).rows == expected
