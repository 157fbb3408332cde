"""Types of fields: each operation says those of its rows, and refuses where it is written, or planned, types that do not fit."""

from __future__ import annotations

import inspect
from datetime import date

import pytest

from dagster_operators.api.datasets.base import Bag, Operation
from dagster_operators.api.datasets.co_grouping import CoGrouping
from dagster_operators.api.datasets.data_set import CustomUnaryOperation, DataSet
from dagster_operators.api.datasets.grouping import Grouping
from dagster_operators.api.datasets.joining import Crossing, Joining, Projecting
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.api.datasets.operations.row_wise import RowsAtHand
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.api.datasets.types_of_fields import schema_of, types_of
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.types.schema import Schema

pytestmark = pytest.mark.in_process

COLUMNS = "k string, v long, d double, day date"
PAIR = "k string, n long"
PROGRAM = LocalProgram()
STREAMS = {StreamRef("rows", 0): Schema.from_ddl(COLUMNS), StreamRef("pairs", 0): Schema.from_ddl(PAIR)}


class Doubled(CustomUnaryOperation):
    def set_input(self, data_set: DataSet) -> None:
        self.data_set = data_set

    def create_result(self) -> DataSet:
        return self.data_set.union(self.data_set)


def at_hand() -> tuple[DataSet, DataSet]:
    rows = PROGRAM.rows([("a", 1, 0.5, date(2026, 1, 1)), ("b", 2, 1.5, date(2026, 1, 2))], schema=COLUMNS)
    return rows, PROGRAM.rows([("a", 7)], schema=PAIR)


def of_streams() -> tuple[DataSet, DataSet]:
    rows, pairs = STREAMS
    return (
        DataSet(StreamInput(rows, None), (), ["k", "v", "d", "day"]),
        DataSet(StreamInput(pairs, None), (), ["k", "n"]),
    )


def round_of(rows: DataSet) -> DataSet:
    loop = rows.iterate(2)
    return loop.close_with(loop.rows_of_round.filter(bool))


def delta_round_of(rows: DataSet, pairs: DataSet, *, keep: bool = False) -> DataSet:
    loop = rows.iterate_delta(pairs, 2, "k", keep=keep)
    joined = loop.workset.join(loop.solution_set).where("k").equal_to("k")
    changes = joined.with_function(lambda _, row: row, schema=COLUMNS)
    return loop.close_with(changes, loop.workset.filter(bool))


def by_key(joining):
    return joining.where("k").equal_to("k")


def first_of(first, second):
    return first or second


SAME = COLUMNS
ROW = "struct<k:string,v:bigint,d:double,day:date>"
OTHER = "struct<k:string,n:bigint>"
SUMMARY = (
    "struct<total: long, nulls: long, nans: long, infinities: long, minimum: long, maximum: long, sum: long, mean: double, "
    "variance: double, standard_deviation: double, trues: long, empties: long, shortest: long, longest: long, "
    "mean_length: double>"
)
CALLS = {
    "map": (lambda r, _: r.map(first_of, schema=PAIR), PAIR),
    "flat_map": (lambda r, _: r.flat_map(first_of, schema=PAIR), PAIR),
    "map_partition": (lambda r, _: r.map_partition(first_of, schema=PAIR), PAIR),
    "filter": (lambda r, _: r.filter(bool), SAME),
    "filter by SQL": (lambda r, _: r.filter("v > 1"), SAME),
    "select": (lambda r, _: r.select("k", "v * 2 AS w"), "k string, w long"),
    "project": (lambda r, _: r.project("v", "k"), "v long, k string"),
    "distinct": (lambda r, _: r.distinct("k"), SAME),
    "distinct by a function": (lambda r, _: r.distinct(lambda row: row.k), SAME),
    "reduce": (lambda r, _: r.reduce(first_of), SAME),
    "group_by.reduce": (lambda r, _: r.group_by("k").reduce(first_of), SAME),
    "group_by a function.reduce": (lambda r, _: r.group_by(lambda row: row.k).reduce(first_of), SAME),
    "reduce_group": (lambda r, _: r.reduce_group(iter, schema=PAIR), PAIR),
    "group_by.reduce_group": (lambda r, _: r.group_by("k").sort_group("v").reduce_group(iter, schema=PAIR), PAIR),
    "combine_group": (lambda r, _: r.combine_group(iter, schema=PAIR), PAIR),
    "group_by.combine_group": (lambda r, _: r.group_by("k").combine_group(iter, schema=PAIR), PAIR),
    "aggregate": (lambda r, _: r.aggregate("sum", "v"), SAME),
    "group_by.aggregate": (lambda r, _: r.group_by("k").aggregate("min", "day"), SAME),
    "group_by.aggregates": (lambda r, _: r.group_by("k").aggregates([("max", "day"), ("sum", "d")]), SAME),
    "and_aggregate": (lambda r, _: r.sum("v").and_aggregate("max", "day"), SAME),
    "sum": (lambda r, _: r.sum("v"), SAME),
    "min": (lambda r, _: r.min("v"), SAME),
    "max": (lambda r, _: r.max("v"), SAME),
    "group_by.sum": (lambda r, _: r.group_by("k").sum("v"), SAME),
    "count": (lambda r, _: r.count(), "rows long"),
    "group_by.min": (lambda r, _: r.group_by("k").min("v"), SAME),
    "group_by.max": (lambda r, _: r.group_by("k").with_partitioner(max).max("v"), SAME),
    "min_by": (lambda r, _: r.min_by("v"), SAME),
    "max_by": (lambda r, _: r.max_by("v", "day"), SAME),
    "group_by.min_by": (lambda r, _: r.group_by("k").min_by("v"), SAME),
    "group_by.max_by": (lambda r, _: r.group_by("k").max_by("v"), SAME),
    "first": (lambda r, _: r.first(3), SAME),
    "group_by.first": (lambda r, _: r.group_by("k").sort_group("v").first(3), SAME),
    "group_by a function.first": (lambda r, _: r.group_by(lambda row: row.k).first(3), SAME),
    "union": (lambda r, _: r.union(r.filter(bool)), SAME),
    "join.pairs": (lambda r, p: by_key(r.join(p)).pairs(), ["", ROW, OTHER]),
    "join by a function.pairs": (lambda r, p: r.join(p).where(len).equal_to(len).pairs(), ["", ROW, OTHER]),
    "join.with_function": (lambda r, p: by_key(r.join(p)).with_function(first_of, schema=PAIR), PAIR),
    "join.project_first.project_second.data_set": (
        lambda r, p: by_key(r.join(p)).project_first("d", "k").project_second("n").data_set(), "d double, k string, n long"),
    "join by a function.project_second": (
        lambda r, p: r.join(p).where(len).equal_to(len).project_second("n").data_set(), "n long"),
    "join_with_tiny": (lambda r, p: by_key(r.join_with_tiny(p)).pairs(), ["", ROW, OTHER]),
    "join_with_huge": (lambda r, p: by_key(r.join_with_huge(p)).pairs(), ["", ROW, OTHER]),
    "left_outer_join": (lambda r, p: by_key(r.left_outer_join(p)).with_function(first_of, schema=PAIR), PAIR),
    "right_outer_join": (lambda r, p: by_key(r.right_outer_join(p)).with_function(first_of, schema=PAIR), PAIR),
    "full_outer_join": (lambda r, p: by_key(r.full_outer_join(p)).with_function(first_of, schema=PAIR), PAIR),
    "co_group.with_function": (
        lambda r, p: by_key(r.co_group(p)).sort_first_group("v").sort_second_group("n").with_function(first_of, schema=PAIR),
        PAIR),
    "cross.pairs": (lambda r, p: r.cross(p).pairs(), ["", ROW, OTHER]),
    "cross.with_function": (lambda r, p: r.cross(p).with_function(first_of, schema=PAIR), PAIR),
    "cross.project_second.project_first": (
        lambda r, p: r.cross(p).project_second("n").project_first("day").data_set(), "n long, day date"),
    "cross_with_tiny": (lambda r, p: r.cross_with_tiny(p).pairs(), ["", ROW, OTHER]),
    "cross_with_huge": (lambda r, p: r.cross_with_huge(p).pairs(), ["", ROW, OTHER]),
    "rebalance": (lambda r, _: r.rebalance(), SAME),
    "partition_by_hash": (lambda r, _: r.partition_by_hash("k"), SAME),
    "partition_by_range": (lambda r, _: r.partition_by_range("v"), SAME),
    "partition_custom": (lambda r, _: r.partition_custom(max, "k"), SAME),
    "partition_custom by a function": (lambda r, _: r.partition_custom(max, lambda row: row.k), SAME),
    "sort_partition": (lambda r, _: r.sort_partition("k").sort_partition("v", "descending"), SAME),
    "iterate": (lambda r, _: round_of(r), SAME),
    "iterate_delta": (delta_round_of, SAME),
    "iterate_delta that keeps": (lambda r, p: delta_round_of(r, p, keep=True), SAME),
    "run_operation": (lambda r, _: r.run_operation(Doubled()), SAME),
    "partition_by_range with bounds": (lambda r, _: r.partition_by_range("v", bounds=[1]), SAME),
    "partition_by_range with bounds of two": (lambda r, _: r.partition_by_range("v", "k", bounds=[(1, "a")]), SAME),
    "sample": (lambda r, _: r.sample(0.5), SAME),
    "sample_with_size": (lambda r, _: r.sample_with_size(2), SAME),
    "checksum": (lambda r, _: r.checksum(), "rows long, checksum long"),
    "summarize": (lambda r, _: r.project("v").summarize(), f"v {SUMMARY}"),
    "zip_with_index": (lambda r, _: r.zip_with_index(), ["", "bigint", ROW]),
    "zip_with_unique_id": (lambda r, _: r.zip_with_unique_id(), ["", "bigint", ROW]),
    "count_elements_per_partition": (lambda r, _: r.count_elements_per_partition(), ["", "int", "bigint"]),
}  # fmt: skip
UNTYPED = {
    "name", "set_parallelism", "where", "to_stream", "to_table", "to_sink", "derive", "declaring", "declaring_as",
}  # fmt: skip
"""Calls that make no other rows."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", [at_hand, of_streams])
def test_types_follow_through_every_call(call, given):
    make, expected = CALLS[call]
    data_set = make(*given())
    types = data_set.types if given is at_hand else types_of(data_set, STREAMS)
    known = expected[1:] if isinstance(expected, list) else [str(field.type) for field in Schema.from_ddl(expected)]
    assert list(map(str, types)) == known
    if not isinstance(expected, list):
        assert schema_of(data_set, STREAMS) == Schema.from_ddl(expected)


def every_operation(kind: type[Operation] = Operation) -> set[type[Operation]]:
    below = set().union(*(every_operation(one) for one in kind.__subclasses__()))
    own = kind.__module__.startswith("dagster_operators") and not kind.__subclasses__() and not kind.__name__.startswith("_")
    return below | ({kind} if own else set())


def test_every_operation_is_among_them():
    seen: set[type[Operation]] = set()
    for make, _ in CALLS.values():
        for given in (at_hand, of_streams):
            waiting: list[Bag] = [make(*given())]
            while waiting:
                bag = waiting.pop()
                seen.add(type(bag.operation))
                waiting += bag.read
    assert {RowsAtHand, StreamInput} <= seen
    assert every_operation() - seen == set()
    assert [kind for kind in every_operation() if kind.types is Operation.types] == []


def test_every_call_is_among_them():
    tried = " ".join(inspect.getsource(make) for make, _ in CALLS.values())
    tried += "".join(map(inspect.getsource, (by_key, round_of, delta_round_of)))
    for kind in (DataSet, Grouping, Joining, CoGrouping, Crossing, Projecting):
        for name, function in inspect.getmembers(kind, inspect.isfunction):
            gives = str(inspect.signature(function).return_annotation)
            is_setting = name in UNTYPED or (kind is DataSet and name.startswith("with_"))
            if not name.startswith("_") and not is_setting and ("Self" in gives or gives in ("B", "DataSet")):
                assert f".{name}(" in tried, name


def test_types_that_functions_do_not_declare_are_not_known():
    rows, pairs = at_hand()
    assert rows.map(first_of).types is None
    assert rows.map(first_of).zip_with_index().types[1] is None
    assert [str(kind) for kind in rows.map(first_of).project(1, 0).types] == ["None", "None"]
    unknown = rows.map(first_of)
    for made in (unknown.union(pairs), unknown.group_by(0).sum(1), unknown.join(pairs).where(0).equal_to("n").pairs()):
        assert PROGRAM.plan(made)


REFUSED = {
    "join": (lambda r, p: r.join(p).where("k").equal_to("n"), "'k' is string and 'n' bigint"),
    "join of numbers": (lambda r, p: r.join(p).where("d").equal_to("n"), "'d' is double and 'n' bigint"),
    "outer join": (lambda r, p: r.left_outer_join(p).where("day").equal_to("k"), "keys of different types"),
    "co_group": (lambda r, p: r.co_group(p).where("v", "k").equal_to("n", "n"), "keys of different types"),
    "union": (lambda r, p: r.union(p), "a union of rows of different types"),
    "sum": (lambda r, _: r.group_by("k").sum("day"), "a date has no sum"),
    "second sum": (lambda r, _: r.sum("v").and_aggregate("sum", "k"), "a string has no sum"),
    "iterate": (
        lambda r, p: (loop := r.iterate(2)).close_with(by_key(loop.rows_of_round.join(p)).with_function(max, schema=PAIR)),
        "an iteration of rows of different types"),
    "delta": (
        lambda r, p: (loop := r.iterate_delta(p, 2, "k")).close_with(loop.workset, loop.workset), "a delta iteration of rows"),
    "workset": (lambda r, p: (loop := r.iterate_delta(p, 2, "k")).close_with(
        by_key(loop.solution_set.join(loop.workset)).with_function(max, schema=COLUMNS), loop.workset.project("n", "k")),
        "an iteration of rows of different types"),
    "solution set": (lambda r, p: by_key((loop := r.iterate_delta(p, 2, "v")).solution_set.join(loop.workset)
        .where("v").equal_to("k")), "keys of different types"),
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_types_that_do_not_fit_are_refused_where_they_are_written(call):
    make, problem = REFUSED[call]
    with pytest.raises(PipelineError, match=problem) as refused:
        make(*at_hand())
    assert refused.value.remedy


def written_of(make):
    written = make(*of_streams())
    return written if isinstance(written, DataSet) else written.pairs()


@pytest.mark.parametrize("call", ["join", "union", "sum", "iterate", "delta", "workset"])
def test_those_of_streams_are_refused_once_their_columns_are_known(call):
    make, problem = REFUSED[call]
    with pytest.raises(PipelineError, match=f"{problem}|different names"):
        types_of(written_of(make).filter(bool), STREAMS)


def test_the_remedy_works():
    rows, pairs = at_hand()
    with pytest.raises(PipelineError, match="map the rows of one of both"):
        rows.join(pairs).where("d").equal_to("n")
    floating = pairs.map(lambda row: (row.k, float(row.n)), schema="k string, n double")
    assert rows.join(floating).where("d").equal_to("n").pairs().types


def test_a_union_of_streams_of_other_types_is_refused_once_their_columns_are_known():
    columns = {StreamRef("rows", 0): Schema.from_ddl("k string, n int"), StreamRef("pairs", 0): Schema.from_ddl(PAIR)}
    rows, pairs = of_streams()
    united = pairs.union(rows.project(0, 1).map(tuple))
    rows.fields = ("k", "n")
    with pytest.raises(PipelineError, match="a union of rows of different types"):
        types_of(rows.union(pairs).filter(bool), columns)
    assert types_of(united, columns) is None


def test_rows_of_other_names_are_not_mixed():
    """A name would be one field of some rows, and another field of the others."""
    first, second = PROGRAM.rows([(1, 2)], schema="a long, b long"), PROGRAM.rows([(1, 2)], schema="b long, a long")
    loop = first.iterate(2)
    for mixed in (lambda: first.union(second), lambda: loop.close_with(loop.rows_of_round.map(tuple, schema="b long, a long"))):
        with pytest.raises(PipelineError, match="rows with different names") as refused:
            mixed()
        assert "map(tuple, schema=" in refused.value.remedy
    both = first.union(second.map(tuple, schema="a long, b long"))
    assert [row.a for row in PROGRAM.collect(both)] == [1, 1]


NESTED = "m map<string, int>, a array<int>, s struct<x: int, y: string>, big decimal(38, 2), small decimal(4, 1), c char(3)"


def test_maps_and_arrays_are_no_keys():
    rows = PROGRAM.rows([], schema=NESTED)
    keyed = [
        rows.group_by, rows.distinct, rows.partition_by_hash, rows.partition_by_range,
        lambda key: rows.partition_custom(max, key),
        lambda key: rows.join(rows).where(key).equal_to(key), lambda key: rows.iterate_delta(rows, 2, key),
    ]  # fmt: skip
    for call in keyed:
        for key in ("m", "a"):
            with pytest.raises(PipelineError, match=r"(a map|an array) is no key"):
                call(key)
        call("s")


def test_maps_have_no_order():
    rows = PROGRAM.rows([], schema=NESTED)
    sorted_group = rows.group_by("c").sort_group
    for call in (rows.sort_partition, rows.min_by, rows.group_by("c").max_by, rows.min, lambda key: sorted_group(key).first(1)):
        with pytest.raises(PipelineError, match="a map has no order"):
            call("m")
        call("s")


def test_keys_are_compared_by_what_their_values_are():
    rows = PROGRAM.rows([], schema=NESTED)
    other = PROGRAM.rows([], schema="p struct<a: int, b: string>, d decimal(10, 5), t string")
    assert rows.join(other).where("s", "big", "c", "s.x").equal_to("p", "d", "t", "p.a").pairs().types
    with pytest.raises(PipelineError, match=r"'s.x' is int and 'p.b' string"):
        rows.join(other).where("s.x").equal_to("p.b")


def test_rows_of_another_type_than_is_declared_are_refused():
    with pytest.raises(SchemaError, match="'x' is a str where a long is declared"):
        PROGRAM.rows([("a", "x")], schema=PAIR)


@pytest.mark.parametrize(
    ("data_set", "problem"),
    [
        (lambda r, _: r.map(first_of), "the names of the fields are not known"),
        (lambda r, p: by_key(r.join(p)).pairs(), "the names of the fields are not known"),
        (lambda r, _: r.map(first_of, schema=PAIR).union(r.map(first_of)), None),
    ],
)
def test_a_schema_needs_names_and_types(data_set, problem):
    made = data_set(*at_hand())
    if problem is None:
        with pytest.raises(PipelineError, match="the types of the fields are not known"):
            schema_of(made, {})
        return
    with pytest.raises(PipelineError, match=problem) as refused:
        schema_of(made, {})
    assert "schema='k string, v long'" in refused.value.remedy
    assert schema_of(made.declaring(PAIR), {}) == Schema.from_ddl(PAIR)
