"""Data sets between streams and tables: epoch by epoch, beside other operators, and on both engines."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.errors import OperatorFailedError, OperatorsError, PipelineError, SchemaError

pytestmark = [
    pytest.mark.in_process,
    pytest.mark.parametrize(
        "engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)]
    ),
]
EPOCHS = [[("a", 1), ("a", 2), ("b", 5)], [("c", 1), ("a", 7)]]


def piped(tmp_path, engine, epochs=EPOCHS, schema="k string, v long"):
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=engine)
    return pipeline, pipeline.source("rows", MemorySource(epochs, schema=schema))


def rows_in(pipeline, table):
    return Counter(tuple(row.values()) for row in pipeline.to_arrow(table).to_pylist())


def run(pipeline, epochs=2):
    for _ in range(epochs):
        last = pipeline.run_epoch()
    return last


def test_each_epoch_appends_what_follows_from_its_rows(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    data = rows.data_set()
    tens = data.map(lambda row: (row.k, row.v * 10), schema="k string, v long")
    tens.group_by("k").reduce(lambda first, second: (first.k, first.v + second.v)).to_table("tens")
    data.group_by("k").sum("v").to_table("sums")
    run(pipeline)
    sums = Counter([("a", 3), ("b", 5), ("c", 1), ("a", 7)])
    assert rows_in(pipeline, "sums") == sums
    left = [path for path in (tmp_path / "root" / "streams").rglob("*") if path.is_file()]
    assert not left, "exchanges go with the epoch"
    assert rows_in(pipeline, "tens") == Counter((key, 10 * value) for key, value in sums)


def test_a_table_of_the_last_epoch_alone(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().group_by("k").sum("v").to_table("sums", mode="replace")
    run(pipeline, 1)
    assert rows_in(pipeline, "sums") == Counter([("a", 3), ("b", 5)])
    run(pipeline, 1)
    assert rows_in(pipeline, "sums") == Counter([("c", 1), ("a", 7)])


def test_operators_of_other_families_come_before_and_behind(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    data = rows.filter("v > 1").data_set()
    other = rows.with_columns(w="v * 2").data_set()
    joined = data.join(other).where("k").equal_to("k").project_first("k", "v").project_second("w").data_set()
    stream = joined.to_stream(name="joined")
    stream.with_columns(x="v + w").to_table("pairs", checks={"has_key": "k IS NOT NULL"})
    stream.key_by("k").aggregate(total="sum(w)").to_table("totals")
    run(pipeline)
    pairs = [(k, v, 2 * w) for epoch in EPOCHS for k, v in epoch for other, w in epoch if k == other and v > 1]
    assert rows_in(pipeline, "pairs") == Counter((k, v, w, v + w) for k, v, w in pairs)
    totals = Counter[str]()
    for key, _, twice in pairs:
        totals[key] += twice
    assert rows_in(pipeline, "totals") == Counter(totals.items())


class Point(NamedTuple):
    k: str
    v: int


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Measured:
    """A record that no row is, and that cannot be sent to workers: the property has a lock of its own."""

    v: int

    @cached_property
    def lock(self):
        return Lock()


Measured.lock.lock = Lock()  # as Python 3.11 has it, and later ones do not


@dataclass(frozen=True)
class Painted:
    point: Point
    colour: Colour


def test_rows_of_the_users_own_types(tmp_path, engine):
    @dataclass(frozen=True)
    class Total:
        k: str
        v: int

    pipeline, rows = piped(tmp_path, engine)
    points = rows.data_set().map(lambda row: Point(*row))
    painted = points.map(lambda point: Painted(point, Colour.RED if point.v > 1 else Colour.BLUE))
    reds = painted.rebalance().filter(lambda row: row.colour is Colour.RED)
    totals = reds.map(lambda row: Total(row.point.k, row.point.v))
    keyed = totals.group_by(lambda total: total.k)
    keyed.reduce(lambda first, second: Total(first.k, first.v + second.v)).to_table("reds", schema="k string, v long")
    points.group_by(0).sum(1).to_table("sums", schema="k string, v long")
    run(pipeline)
    assert rows_in(pipeline, "reds") == Counter([("a", 2), ("b", 5), ("a", 7)])
    assert rows_in(pipeline, "sums") == Counter([("a", 3), ("b", 5), ("c", 1), ("a", 7)])


def test_an_iteration_within_an_epoch(tmp_path, engine):
    """Connected components over the edges of an epoch: each vertex with the smallest one that it is connected to."""
    edges = [[(1, 2), (2, 3), (5, 6)], [(1, 9)]]
    pipeline, rows = piped(tmp_path, engine, edges, "x long, y long")
    both = rows.data_set().flat_map(lambda edge: [edge, (edge.y, edge.x)], schema="x long, y long")
    start = both.map(lambda edge: (edge.x, edge.x), schema="x long, y long").distinct("x")
    loop = start.iterate_delta(start, 100, "x")
    spread = loop.workset.join(both).where("x").equal_to("x").project_second("y").project_first("y").data_set()
    least = spread.group_by(0).min(1)
    better = (
        least.join(loop.solution_set)
        .where(0)
        .equal_to("x")
        .with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    )
    loop.close_with(better, better).to_table("components", schema="vertex long, component long")
    epoch = run(pipeline)
    assert rows_in(pipeline, "components") == Counter([(1, 1), (2, 1), (3, 1), (5, 5), (6, 5), (1, 1), (9, 1)])
    assert any(name.startswith("components.supersteps") for name in epoch.metrics)


def test_values_of_all_types_come_back_as_they_were(tmp_path, engine):
    schema = "a int, b double, c decimal(10, 2), d date, e timestamp, f binary, g boolean, h array<long>, i timestamp_ntz"
    row = (
        1, 0.1, Decimal("1.50"), dt.date(2020, 2, 29), dt.datetime(2020, 1, 1, 1, tzinfo=dt.UTC), b"\x00", True, [1, None],
        dt.datetime(2020, 1, 1),  # noqa: DTZ001 - as the type has it
    )  # fmt: skip
    pipeline, rows = piped(tmp_path, engine, [[row, (None,) * 9]], schema)
    rows.data_set().filter(lambda _: True).rebalance().to_table("same")
    rows.to_table("plain")
    run(pipeline, 1)
    assert pipeline.to_arrow("same").sort_by("a").equals(pipeline.to_arrow("plain").sort_by("a"))


def test_a_value_that_is_not_of_its_type_fails_the_epoch_with_its_column(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: (row.k, str(row.v)), schema="k string, v long").to_table("t")
    with pytest.raises(SchemaError, match=r"'\d' is a str where a long is declared.*column 'v'"):
        pipeline.run_epoch()
    assert not pipeline.history()


def test_plain_values_are_rows_of_a_column(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: row.k * 2, schema="word string").group_by("word").first(1).to_table("t")
    run(pipeline)
    assert rows_in(pipeline, "t") == Counter([("aa",), ("bb",), ("aa",), ("cc",)])


def test_rows_of_another_width_are_refused(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: (row.k, row.v, 1)).to_table("t", schema="k string, v long")
    with pytest.raises(OperatorsError, match="has 3 values where 2 are declared: k, v"):
        pipeline.run_epoch()


def test_a_failing_function_names_its_operator(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: 1 // (row.v - row.v), schema="n long").name("divide").to_table("t")
    with pytest.raises(OperatorFailedError, match=r"ZeroDivisionError.*'divide'"):
        pipeline.run_epoch()


def test_columns_whose_types_are_not_known_are_asked_for(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    untyped = rows.data_set().map(lambda row: (row.k, row.v))
    untyped.to_table("t")
    with pytest.raises(PipelineError, match=r"names of the fields are not known.*to_table\('t', schema="):
        pipeline.run_epoch()
    again, rows = piped(tmp_path / "again", engine)
    rows.data_set().map(lambda row: (row.k, row.v)).to_table("t", schema="k string, v long")
    run(again)
    assert rows_in(again, "t") == Counter(row for epoch in EPOCHS for row in epoch)


def test_a_union_of_rows_of_different_types_is_refused(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    data = rows.data_set()
    data.union(data.map(lambda row: (row.v, row.k), schema="k long, v string")).to_table("t")
    with pytest.raises(OperatorsError, match="union of rows of different types"):
        pipeline.run_epoch()


def test_a_changed_function_is_a_changed_program(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: (row.k, row.v), schema="k string, v long").to_table("t")
    run(pipeline, 1)
    changed, rows = piped(tmp_path, engine)
    rows.data_set().map(lambda row: (row.k, -row.v), schema="k string, v long").to_table("t")
    assert "applies from here on" in str(*changed.changes())
    run(changed, 1)
    assert rows_in(changed, "t") == Counter([*EPOCHS[0], *((k, -v) for k, v in EPOCHS[1])])


def test_a_table_is_updated_by_a_key_behind_a_stream(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    rows.data_set().group_by("k").sum("v").to_stream(name="sums").to_table("latest", mode="upsert", key=["k"])
    run(pipeline)
    assert rows_in(pipeline, "latest") == Counter([("a", 7), ("b", 5), ("c", 1)])
