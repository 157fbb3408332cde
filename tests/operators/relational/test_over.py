"""Window functions over the rows of a key: after every epoch what DuckDB gives for the rows that are there."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from tests.engines import EMBEDDED, ENGINES, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import SCHEMA, ChangeLog, at, change_logs, computed, each_epoch, read

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

IN_ORDER = {
    "number": "row_number()", "third": "ntile(3)", "before": "lag(n)", "next_but_one": "lead(v, 2)", "or_not": "lag(n, 1, -1)",
    "first": "first_value(n)",
}  # fmt: skip
PLACES = {"place": "rank()", "dense": "dense_rank()", "share": "percent_rank()", "up_to": "cume_dist()"}
RUNNING = {
    "rows_seen": "count(*)", "known": "count(v)", "total": "sum(n)", "mean": "avg(n)", "floating": "sum(v)", "least": "min(v)",
    "most": "max(v)", "some": "sum(n) FILTER (WHERE n > 1)",
}  # fmt: skip
USER, TOTAL = "n DESC NULLS LAST", "n DESC NULLS LAST, ts, k NULLS FIRST, v NULLS FIRST"
FROM_FIRST = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
"""The calls of one operator, and how DuckDB is asked for the same."""


def build(log: ChangeLog, pipeline: do.Pipeline) -> None:
    keyed = log.stream(pipeline).key_by("k")
    keyed.over("n DESC", {**IN_ORDER, **PLACES, **RUNNING}, name="ranged").to_table("ranged")
    keyed.over("n DESC", {**IN_ORDER, **RUNNING}, frame="rows", name="by_row").to_table("by_row")
    keyed.over("n DESC", {"first": "first_value(n)", **RUNNING}, frame="rows 1 preceding", name="moving").to_table("moving")


def asked(frame: str) -> str:
    key = "PARTITION BY k ORDER BY"
    if frame == "moving":
        calls = ("first_value(n)", *RUNNING.values())
        return f"SELECT *, {', '.join(f'{call} OVER ({key} {TOTAL} ROWS 1 PRECEDING)' for call in calls)} FROM rows"
    columns = [f"{call} OVER ({key} {TOTAL})" for call in IN_ORDER.values()]
    if frame == "range":
        columns += [f"{call} OVER ({key} {USER})" for call in PLACES.values()]
        columns += [f"{call} OVER ({key} {USER} RANGE {FROM_FIRST})" for call in RUNNING.values()]
    else:
        columns += [f"{call} OVER ({key} {TOTAL} ROWS {FROM_FIRST})" for call in RUNNING.values()]
    return f"SELECT *, {', '.join(columns)} FROM rows"


def check(log: ChangeLog, pipeline: do.Pipeline, epoch: int) -> None:
    for table, frame in (("ranged", "range"), ("by_row", "rows"), ("moving", "moving")):
        assert read(pipeline, table) == computed(log.rows(epoch), asked(frame)), (table, epoch)


A, B, C = ("a", 0.5, 3, at(10)), ("a", 2.0, 2, at(20)), ("a", math.nan, 3, at(30))
LOG = ChangeLog(
    (
        (("insert", A), ("insert", A), ("insert", B), ("insert", C), ("insert", (None, -0.0, None, at(5)))),
        (("delete", A), ("insert", ("b", None, 1, at(1))), ("insert", (None, 0.0, 4, at(5)))),
        (("update_before", C), ("update_after", ("b", -0.5, 7, at(0))), ("delete", ("b", None, 1, at(1)))),
    )
)


SHORTER = ChangeLog((LOG.epochs[0], LOG.epochs[1] + LOG.epochs[2]))
"""The same changes in fewer epochs, each of which takes seconds on Spark."""


@pytest.mark.sail
def test_rows_that_come_and_go(tmp_path: Path) -> None:
    each_epoch(tmp_path, SAIL, LOG, lambda p: build(LOG, p), lambda p, epoch: check(LOG, p, epoch))


FRAMES = {
    "around": "rows between 1 preceding and 2 following",
    "ahead": "ROWS BETWEEN 1 following AND unbounded following",
    "behind": "rows between 3 preceding and 2 preceding",
    "so_far_and_next": "rows between unbounded preceding and 1 following",
    "all_of_it": "rows between unbounded preceding and unbounded following",
}
ENDS = {"first": "first_value(n)", "last": "last_value(v)"}


def framed(log: ChangeLog, pipeline: do.Pipeline, names: Collection[str] = FRAMES) -> None:
    keyed = log.stream(pipeline).key_by("k")
    for name, frame in FRAMES.items():
        if name not in names:
            continue
        keyed.over("n DESC", {**ENDS, **RUNNING}, frame=frame, name=name).to_table(name)
    keyed.over("n DESC", last="last_value(v)", name="last_peer").to_table("last_peer")
    keyed.over("n DESC", last="last_value(v)", frame="rows", name="own").to_table("own")


def check_framed(log: ChangeLog, pipeline: do.Pipeline, epoch: int, names: Collection[str] = FRAMES) -> None:
    calls = (*ENDS.values(), *RUNNING.values())
    for name, frame in FRAMES.items():
        if name not in names:
            continue
        found = [f"{call} OVER (PARTITION BY k ORDER BY {TOTAL} {frame})" for call in calls]
        assert read(pipeline, name) == computed(log.rows(epoch), f"SELECT *, {', '.join(found)} FROM rows"), (name, epoch)
    peers = f"last_value(v) OVER (PARTITION BY k, n ORDER BY {TOTAL} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    assert read(pipeline, "last_peer") == computed(log.rows(epoch), f"SELECT *, {peers} FROM rows")
    assert read(pipeline, "own") == computed(log.rows(epoch), "SELECT *, v FROM rows")


@pytest.mark.sail
def test_frames_that_reach_before_and_behind_the_row(tmp_path: Path) -> None:
    some = ("around", "behind")
    each_epoch(tmp_path, SAIL, LOG, lambda p: framed(LOG, p, some), lambda p, epoch: check_framed(LOG, p, epoch, some))


@pytest.mark.spark
@pytest.mark.slow
def test_such_frames_on_spark(tmp_path: Path) -> None:
    each_epoch(tmp_path, EMBEDDED, SHORTER, lambda p: framed(SHORTER, p), lambda p, epoch: check_framed(SHORTER, p, epoch))


@pytest.mark.slow
@pytest.mark.sail
@fresh_examples(2)
@given(log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.0, -0.0, math.nan, 2.5]))))
def test_such_frames_over_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    each_epoch(tmp_path_factory.mktemp("p"), SAIL, log, lambda p: framed(log, p), lambda p, epoch: check_framed(log, p, epoch))


DISTANCES = {
    "by_number": ("n", "n NULLS FIRST", "range 1 preceding"),
    "around_it": ("n DESC", "n DESC NULLS LAST", "RANGE BETWEEN 1 preceding AND 1 following"),
    "by_time": ("ts", "ts", "range interval 10 seconds preceding"),
    "all_but_later": ("ts DESC", "ts DESC", "range between unbounded preceding and INTERVAL '5' SECONDS following"),
    "by_day": ("CAST(ts AS DATE)", "CAST(ts AS DATE)", "range interval 1 day preceding"),
    "behind_it": ("v DESC", "v DESC NULLS LAST", "range between 1.5 following and unbounded following"),
    "before_it": (
        "CAST(n AS DECIMAL(10,2))",
        "CAST(n AS DECIMAL(10,2)) NULLS FIRST",
        "range between 1.5 preceding and 0.5 preceding",
    ),
}
"""The order, and how DuckDB is asked for it, with a frame by distance, which both take."""

EVERYTHING = "range between unbounded preceding and current row"


def by_distance(log: ChangeLog, pipeline: do.Pipeline, names: Collection[str] = DISTANCES) -> None:
    keyed = log.stream(pipeline).key_by("k")
    for name in names:
        keyed.over(DISTANCES[name][0], RUNNING, frame=DISTANCES[name][2], name=name).to_table(name)


def check_by_distance(log: ChangeLog, pipeline: do.Pipeline, epoch: int, names: Collection[str] = DISTANCES) -> None:
    for name in names:
        _, order, frame = DISTANCES[name]
        found = [f"{call} OVER (PARTITION BY k ORDER BY {order} {frame})" for call in RUNNING.values()]
        assert read(pipeline, name) == computed(log.rows(epoch), f"SELECT *, {', '.join(found)} FROM rows"), (name, epoch)


@pytest.mark.sail
def test_frames_by_distance(tmp_path: Path) -> None:
    some = ("by_time", "behind_it")
    each_epoch(tmp_path, SAIL, LOG, lambda p: by_distance(LOG, p, some), lambda p, epoch: check_by_distance(LOG, p, epoch, some))


@pytest.mark.spark
@pytest.mark.slow
def test_frames_by_distance_on_spark(tmp_path: Path) -> None:
    log = SHORTER
    each_epoch(tmp_path, EMBEDDED, log, lambda p: by_distance(log, p), lambda p, epoch: check_by_distance(log, p, epoch))


@pytest.mark.slow
@pytest.mark.sail
@fresh_examples(2)
@given(log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.0, -0.0, math.nan, math.inf, 1.5, 2.5]))))
def test_frames_by_distance_over_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    root = tmp_path_factory.mktemp("p")
    each_epoch(root, SAIL, log, lambda p: by_distance(log, p), lambda p, epoch: check_by_distance(log, p, epoch))


@pytest.mark.sail
def test_a_sum_of_rows_in_no_order_is_always_the_same(tmp_path: Path) -> None:
    values = [0.1, 1e16, 0.3, -1e16, 0.7]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[("a", 1, v) for v in values]], schema="k string, n long, v double"))
    rows.key_by("k").over("n", total="sum(v)", frame="range 5 preceding").to_table("t")
    pipeline.run_epoch()
    assert {row.total for row in pipeline.read("t").collect()} == {reduce(add, sorted(values), 0.0)}


@pytest.mark.sail
def test_the_ends_of_the_whole_numbers_have_distances(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    batch = [("a", -(2**63)), ("a", 2**63 - 1), ("a", 2**63 - 3)]
    rows = pipeline.source("rows", do.MemorySource([batch], schema="k string, n long"))
    rows.key_by("k").over("n", near="count(*)", frame="range between 2 preceding and 2 following").to_table("t")
    pipeline.run_epoch()
    assert sorted((row.n, row.near) for row in pipeline.read("t").collect()) == [(-(2**63), 1), (2**63 - 3, 2), (2**63 - 1, 2)]


@pytest.mark.sail
@pytest.mark.parametrize(
    ("order", "frame", "told", "instead"),
    [
        ("ts", "range 5 preceding", "5 is no distance between values of", ("ts", "range 5 minutes preceding")),
        ("n", "range 5 minutes preceding", "a time is no distance", ("n", "range 5 preceding")),
        ("CAST(ts AS DATE)", "range 12 hours preceding", "12 hours are no whole days", ("ts", "range 12 hours preceding")),
        ("CAST(ts AS DATE)", "range 5 preceding", "5 is no distance", ("CAST(ts AS DATE)", "range 5 days preceding")),
        ("n", "range 1.5 preceding", "more digits behind the point", ("CAST(n AS DECIMAL(28,4))", "range 1.5 preceding")),
        ("k", "range 1 preceding", "a frame by distance goes by a number or a time", ("k", "rows 10 preceding")),
        ("ts", "range 101000000 days preceding", "no times are 101000000 days apart", ("ts", EVERYTHING)),
        ("ts", "range 99999999999999999999 days preceding", "no times are .* apart", ("ts", EVERYTHING)),
        ("CAST(ts AS DATE)", "range 99999999999999999999 days preceding", "no times are", ("CAST(ts AS DATE)", EVERYTHING)),
    ],
)
def test_a_distance_that_does_not_fit_the_order_is_refused_with_a_way_out(
    order: str, frame: str, told: str, instead: tuple[str, str], tmp_path: Path
) -> None:
    def built(name: str, order: str, frame: str) -> do.Pipeline:
        pipeline = do.Pipeline(name, root=str(tmp_path / name), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource([[("a", 1, at(0))]], schema="k string, n long, ts timestamp"))
        rows.key_by("k").over(order, x="count(*)", frame=frame).to_table("t")
        return pipeline

    with pytest.raises(SchemaError, match=told) as refused:
        built("refused", order, frame).run_epoch()
    assert refused.value.where["operator"] == "over"
    assert refused.value.where["expression"] == frame
    mended = built("mended", *instead)
    mended.run_epoch()
    assert [row.x for row in mended.read("t").collect()] == [1]


@pytest.mark.spark
def test_the_same_on_spark(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=EMBEDDED)
    functions = {name: (IN_ORDER | PLACES | RUNNING)[name] for name in ("number", "or_not", "place", "total", "floating", "most")}
    rows = LOG.stream(pipeline).key_by("k")
    rows.over("n DESC", functions, name="placed").to_table("placed")
    moving = {"total": "sum(n)", "mean": "avg(v)", "first": "first_value(n)", "last": "last_value(n)", "least": "min(v)"}
    around = "rows between 1 preceding and 1 following"
    rows.over("n DESC", moving, frame=around).to_table("moving")
    timed = {"total": "sum(n)", "floating": "sum(v)", "most": "max(v)"}
    rows.over("ts DESC", timed, frame="range between 5 seconds preceding and 10 seconds following", name="timed").to_table(
        "timed"
    )
    near = "RANGE BETWEEN INTERVAL 5 SECONDS PRECEDING AND INTERVAL 10 SECONDS FOLLOWING"
    by_time = [f"{text} OVER (PARTITION BY k ORDER BY ts DESC {near})" for text in timed.values()]
    last_two = [f"{text} OVER (PARTITION BY k ORDER BY {TOTAL} {around})" for text in moving.values()]
    ordered = [f"{text} OVER (PARTITION BY k ORDER BY {TOTAL})" for text in ("row_number()", "lag(n, 1, -1)")]
    others = [f"{text} OVER (PARTITION BY k ORDER BY {USER})" for text in ("rank()", "sum(n)", "sum(v)", "max(v)")]
    for epoch in (1, 2):
        pipeline.run_epoch()
        assert read(pipeline, "placed") == computed(LOG.rows(epoch), f"SELECT *, {', '.join(ordered + others)} FROM rows")
        assert read(pipeline, "moving") == computed(LOG.rows(epoch), f"SELECT *, {', '.join(last_two)} FROM rows")
        assert read(pipeline, "timed") == computed(LOG.rows(epoch), f"SELECT *, {', '.join(by_time)} FROM rows")


@pytest.mark.slow
@pytest.mark.sail
@fresh_examples(2)
@given(log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.0, -0.0, math.nan, 2.5]))))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    each_epoch(tmp_path_factory.mktemp("p"), SAIL, log, lambda p: build(log, p), lambda p, epoch: check(log, p, epoch))


@pytest.mark.sail
def test_only_rows_whose_values_change_come_out_and_latest_keeps_them(tmp_path: Path) -> None:
    batches = [[("a", 1, 10), ("a", 3, 30), ("b", 1, 5)], [("a", 2, 20)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="item string, day long, price long"))
    placed = rows.key_by("item").over("day", place="row_number()", before="lag(price)", so_far="sum(price)", name="placed")
    placed.to_table("log")
    placed.with_columns(step="price - before").latest("item", "day").select("item", "day", "step").to_table("steps")
    found = [pipeline.run_epoch().rows["log"] for _ in batches]
    assert found == [3, 3]
    assert sorted(map(tuple, pipeline.read("log", epoch=2).filter("day = 3").drop("item").collect()), key=repr) == [
        (3, 30, 2, 10, 40, "delete"), (3, 30, 2, 10, 40, "insert"), (3, 30, 3, 20, 60, "insert"),
    ]  # fmt: skip
    assert sorted(map(tuple, pipeline.read("steps").collect())) == [("a", 1, None), ("a", 2, 10), ("a", 3, 10), ("b", 1, None)]
    assert "state table state/placed.weighted" in pipeline.explain()


@pytest.mark.sail
@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ([("a", 1, "delete")], r"takes a row back that is not there \(a delete or an update_before of the key k=a\)"),
        ([("a", 2**63 - 1, "insert")] * 2, "(?i)overflow|out of range|cast"),
    ],
)
def test_what_cannot_be_is_no_result(tmp_path: Path, batch: list[tuple[str, int, str]], told: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([batch], schema="k string, n long, op string")).as_changes("op")
    rows.key_by("k").over("n", total="sum(n)").to_table("t")
    with pytest.raises(OperatorsError, match=told):
        pipeline.run_epoch()


def rows() -> do.Stream:
    return do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema=SCHEMA), event_time="ts")


def test_names_and_types_of_streams() -> None:
    placed = rows().key_by("k").over("n DESC, v", {"the place": "rank()"}, before="lag(v, 2, 0)")
    assert (placed.columns, placed.event_time) == (("k", "v", "n", "ts", "the place", "before"), None)
    assert placed._type.retracting
    assert rows().aggregate(most="max(n)").key_by().over("most", n="count(*)").columns == ("most", "n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("v - lag(v)", "not one call of a window function"),
        ("median(v)", "not one call of a window function"),
        ("lag(v) OVER (ORDER BY n)", "leave the clause out"),
        ("dense_rank(v)", r"dense_rank\(\) takes 0 arguments"),
        ("row_number(v)", r"row_number\(\) takes 0 arguments"),
        ("sum(*)", r"sum\(\) takes 1 arguments"),
        ("lag(v, 1, n)", r"the default of lag\(\) is one literal, not 'n'"),
        ("sum(lag(v))", "stands alone in over"),
        ("lag(v, -1)", "counts by a whole number"),
        ("ntile(0)", "counts by a whole number"),
        ("count(DISTINCT v)", "takes no DISTINCT"),
        ("lag(v) IGNORE NULLS", "takes no IGNORE NULLS"),
        ("rank() FILTER (WHERE v > 1)", "takes no FILTER"),
        ("sum(w)", "uses column 'w'"),
        ("sum(rand())", "a row that is taken back must be what it was"),
    ],
)
def test_what_is_no_window_function_is_refused(text: str, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        rows().key_by("k").over("n", x=text)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_frame_in_any_letters_and_blanks(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(engine)
    made = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    source = do.MemorySource([[{"k": "a", "n": n, "v": v} for n, v in ((1, 1), (2, 2), (2, 4))]], schema="k string, n int, v int")
    keyed = made.source("rows", source).key_by("k")
    frames = {
        "ranged": ("n", "RANGE"),
        "equals": ("n, k DESC", "RANGE current row"),
        "all_of_it": ("k", "range between unbounded preceding and unbounded following"),
        "by_row": ("n", "Rows"),
        "so_far": ("n", "rows  unbounded\npreceding"),
        "own": ("n", " Rows current ROW"),
    }
    functions = {"s": "sum(v)", "d": "sum(CAST(v AS DOUBLE))"}
    for name, (order, frame) in frames.items():
        keyed.over(order, functions, frame=frame, name=name).to_table(name)
    made.run_epoch()
    found = {name: made.read(name).collect() for name in frames}
    assert all(row.s == row.d for rows in found.values() for row in rows)
    sums = {name: sorted((row.v, row.s) for row in rows) for name, rows in found.items()}
    assert sums["ranged"] == [(1, 1), (2, 7), (4, 7)]
    assert sums["equals"] == [(1, 1), (2, 6), (4, 6)]
    assert sums["all_of_it"] == [(1, 7), (2, 7), (4, 7)]
    assert sums["by_row"] == sums["so_far"] == [(1, 1), (2, 3), (4, 7)]
    assert sums["own"] == [(1, 1), (2, 2), (4, 4)]


AT_LENGTH = ("range unbounded preceding", "RANGE BETWEEN unbounded preceding AND CURRENT ROW")


def test_the_usual_frame_written_at_length_is_stored_so_as_in_roots_written_before() -> None:
    for frame in AT_LENGTH:
        made = rows().key_by("k").over("n, ts", x="sum(v)", last="last_value(n)", frame=frame.replace(" ", "\n "))
        assert made._dataflow.nodes["over"].operator.config()["frame"] == frame


@pytest.mark.sail
def test_the_usual_frame_written_at_length_is_that_one(tmp_path: Path) -> None:
    """But for sums of floating-point numbers, which roots have as they are added up from the least one on."""
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = do.MemorySource([[("a", 1, 0.3), ("a", 2, 0.2), ("a", 3, 0.1), ("a", 3, 0.0)]], schema="k string, n int, v double")
    keyed = made.source("rows", source).key_by("k")
    functions = {"last": "last_value(v)", "c": "count(*)", "least": "min(v)", "whole": "sum(n)"}
    keyed.over("n, k", functions, frame="range", name="usual").to_table("usual")
    for number, frame in enumerate(AT_LENGTH):
        keyed.over("n, k", functions, frame=frame, name=f"long{number}").to_table(f"long{number}")
        keyed.over("n", s="sum(v)", a="avg(v)", frame=frame, name=f"sum{number}").to_table(f"sum{number}")
    made.run_epoch()
    usual = sorted(map(tuple, made.read("usual").collect()))
    assert len(usual) == 4
    for number, _ in enumerate(AT_LENGTH):
        assert sorted(map(tuple, made.read(f"long{number}").collect())) == usual
        last = 0.1 + 0.2 + 0.3
        assert last != 0.3 + 0.2 + 0.1
        found = {(row.n, row.s, row.a) for row in made.read(f"sum{number}").collect()}
        assert found == {(1, 0.3, 0.3), (2, 0.2 + 0.3, (0.2 + 0.3) / 2), (3, last, last / 4)}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PipelineError, match="nothing to compute"):
        rows().key_by("k").over("n")
    with pytest.raises(PipelineError, match='frame is "range", "rows" or "rows 10 preceding"'):
        rows().key_by("k").over("n", x="count(*)", frame="groups")
    with pytest.raises(PipelineError, match=r"ends before it begins.*write 'rows between 1 preceding and 1 following'"):
        rows().key_by("k").over("n", x="count(*)", frame="rows between 1 following and 1  preceding")
    rows().key_by("k").over("n", x="count(*)", frame="rows between 1 preceding and 1 following")
    with pytest.raises(PipelineError, match='frame is "range", "rows" or "rows 10 preceding"'):
        rows().key_by("k").over("n", x="count(*)", frame="rows between unbounded following and unbounded following")
    with pytest.raises(PipelineError, match=r"ends before it begins.*write 'range between 1 day preceding and current row'"):
        rows().key_by("k").over("ts", x="count(*)", frame="range between current row and 1 day preceding")
    for wrong in ("range 1 month preceding", "range between 1 preceding and 1 day following", "range unbounded following"):
        with pytest.raises(PipelineError, match=r'frame is "range", .*"range 7 days preceding" for those at most so far before'):
            rows().key_by("k").over("ts", x="count(*)", frame=wrong)
    with pytest.raises(PipelineError, match=r"goes by one thing, not by 2.*over\('ts', ...\)"):
        rows().key_by("k").over("ts, n", x="count(*)", frame="range 1 day preceding")
    with pytest.raises(PipelineError, match=r"last_value\(\) is of rows in an order.*in another over"):
        rows().key_by("k").over("ts", x="last_value(n)", frame="range 1 day preceding")
    with pytest.raises(PipelineError, match=r"last_value\(\) .* 'range current row' has several at each end"):
        rows().key_by("k").over("ts", x="last_value(n)", frame="range current row")
    rows().key_by("k").over("ts", x="count(*)", frame="range 7  days PRECEDING")
    with pytest.raises(SchemaError, match="10 is no frame"):
        rows().key_by("k").over("n", x="count(*)", frame=10)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="there is a column 'V' already"):
        rows().key_by("k").over("n", V="count(*)")
    with pytest.raises(SchemaError, match="uses column 'w'"):
        rows().key_by("k").over("w", x="count(*)")
    with pytest.raises(PipelineError, match=r"'v DESC' is neither in the order nor has a name.*put the order into a list"):
        rows().key_by("k").over("n", "v DESC", x="count(*)")  # type: ignore[arg-type]


@pytest.mark.sail
@pytest.mark.parametrize("default", ["'x'", "1.5", "9999999999"])
def test_a_default_of_another_type_is_refused_when_planned(tmp_path: Path, default: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = pipeline.source("rows", do.MemorySource([[("a", 1)]], schema="k string, n int"))
    source.key_by("k").over("n", x=f"lag(n, 1, {default})").to_table("t")
    with pytest.raises(SchemaError, match=r"the default of lag\(\) is a literal of the type of its value, int") as refused:
        pipeline.run_epoch()
    assert refused.value.where["operator"] == "over"
    assert refused.value.where["expression"] == f"lag(n, 1, {default})"


@pytest.mark.sail
@pytest.mark.parametrize(("text", "instead"), [("avg(d)", "avg(CAST(d AS DOUBLE))"), ("sum(d)", "sum(CAST(d AS DECIMAL(28,4)))")])
def test_numbers_that_may_not_fit_are_refused_with_a_way_out(tmp_path: Path, text: str, instead: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = pipeline.source("rows", do.MemorySource([[("a", 1, Decimal("1.5"))]], schema="k string, n long, d decimal(38,2)"))
    source.key_by("k").over("n", x=text).to_table("t")
    with pytest.raises(SchemaError, match="surely fit") as refused:
        pipeline.run_epoch()
    assert instead in str(refused.value)
    possible = do.Pipeline("q", root=str(tmp_path / "q"), engine=SAIL)
    source = possible.source("rows", do.MemorySource([[("a", 1, Decimal("1.5"))]], schema="k string, n long, d decimal(38,2)"))
    source.key_by("k").over("n", x=instead).to_table("t")
    possible.run_epoch()
    assert [float(row.x) for row in possible.read("t").collect()] == [1.5]
