"""Programs of data sets as values: a change of any setting or function is seen, and nothing else is."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import ClassVar

import pytest

from dagster_operators import Pipeline
from dagster_operators.api.datasets.base import Operation
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.errors import PipelineError, PlanError
from dagster_operators.functions.content import former_digest_of
from dagster_operators.operators.datasets.context import RichFunction
from dagster_operators.operators.datasets.data_sets import DataSets
from dagster_operators.optimizer.drawing.drawn import drawn_plan, to_json
from dagster_operators.optimizer.estimates import UNKNOWN
from dagster_operators.plans.changed_lines import told_in_short

pytestmark = pytest.mark.in_process

ROWS = [("a", 1), ("b", 2)]


def fingerprint(made, engine="sail"):
    pipeline = Pipeline("p", root="unused", engine=engine)
    rows = pipeline.source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    made(rows).to_stream(name="made", schema="a string, b long")
    return pipeline.dataflow.nodes["made"].operator.fingerprint()


def of(number):
    return lambda row: (row[0], row[1] + number)


class Adding(RichFunction):
    def __init__(self, number):
        self.number = number

    def __call__(self, row):
        return row[0], row[1] + self.number

    def added(self, row):
        return self(row)


def record(number):
    class Record(tuple):
        __slots__ = ()

        def __new__(cls, row):
            return super().__new__(cls, (row[0], row[1] + number))

    return Record


def aggregating(start, criterion=None):
    def made(rows):
        loop = rows.iterate(2)
        loop.register_aggregator("sum", start)
        if criterion is not None:
            loop.register_convergence_criterion("sum", criterion)
        return loop.close_with(loop.rows_of_round.map(of(1)))

    return made


CHANGES = {
    "the user's function": (lambda rows: rows.map(lambda row: row), lambda rows: rows.map(lambda row: (row[0], row[1]))),
    "a function's closure": (lambda rows: rows.map(of(1)), lambda rows: rows.map(of(2))),
    "the kind of an aggregate": (lambda rows: rows.group_by("k").sum("v"), lambda rows: rows.group_by("k").max("v")),
    "the field of an aggregate": (lambda rows: rows.group_by("k").max("v"), lambda rows: rows.group_by("k").max("k")),
    "the number of first rows": (lambda rows: rows.first(1), lambda rows: rows.first(2)),
    "the fields of the smallest row": (lambda rows: rows.min_by("v"), lambda rows: rows.min_by("k")),
    "smallest or largest": (lambda rows: rows.min_by("v"), lambda rows: rows.max_by("v")),
    "the key": (lambda rows: rows.distinct("k"), lambda rows: rows.distinct("v")),
    "a computed key": (lambda rows: rows.distinct(lambda row: row[0]), lambda rows: rows.distinct(lambda row: row[1])),
    "the order of a group": (
        lambda rows: rows.group_by("k").sort_group("v").first(1),
        lambda rows: rows.group_by("k").sort_group("v", "descending").first(1),
    ),
    "projected fields": (lambda rows: rows.project("k", "v"), lambda rows: rows.project("v", "k")),
    "a parameter": (
        lambda rows: rows.map(of(1)).with_parameters(a=1),
        lambda rows: rows.map(of(1)).with_parameters(a=2),
    ),
    "the number of rounds": (
        lambda rows: (loop := rows.iterate(2)).close_with(loop.rows_of_round.map(of(1))),
        lambda rows: (loop := rows.iterate(3)).close_with(loop.rows_of_round.map(of(1))),
    ),
    "a function in a round": (
        lambda rows: (loop := rows.iterate(2)).close_with(loop.rows_of_round.map(of(1))),
        lambda rows: (loop := rows.iterate(2)).close_with(loop.rows_of_round.map(of(2))),
    ),
    "the sides of a join": (
        lambda rows: rows.join(rows.map(of(1))).where(0).equal_to(0).project_first(0).project_second(1).data_set(),
        lambda rows: rows.join(rows.map(of(1))).where(0).equal_to(0).project_second(0).project_first(1).data_set(),
    ),
    "which rows of a join are kept": (
        lambda rows: rows.left_outer_join(rows).where(0).equal_to(0).with_function(max),
        lambda rows: rows.right_outer_join(rows).where(0).equal_to(0).with_function(max),
    ),
    "a partitioner": (
        lambda rows: rows.partition_custom(lambda key, parts: 0, "k"),
        lambda rows: rows.partition_custom(lambda key, parts: 1 % parts, "k"),
    ),
    "a broadcast data set": (
        lambda rows: rows.map(of(1)).with_broadcast_set(rows, "a"),
        lambda rows: rows.map(of(1)).with_broadcast_set(rows.distinct(), "a"),
    ),
    "the attributes of a rich function": (lambda rows: rows.map(Adding(1)), lambda rows: rows.map(Adding(2))),
    "the object of a method": (lambda rows: rows.map(Adding(1).added), lambda rows: rows.map(Adding(2).added)),
    "the arguments of a partial function": (
        lambda rows: rows.map(partial(pow, 1)),
        lambda rows: rows.map(partial(pow, 2)),
    ),
    "a class that makes rows": (lambda rows: rows.map(record(1)), lambda rows: rows.map(record(2))),
    "the item that a key is": (lambda rows: rows.distinct(itemgetter(0)), lambda rows: rows.distinct(itemgetter(1))),
    "a key of a chain": (
        lambda rows: rows.distinct(lambda row: row.k),
        lambda rows: rows.distinct(lambda row: row.v),
    ),
    "which input's fields are forwarded": (
        lambda rows: rows.join(rows).where("k").equal_to("k").with_function(max).with_forwarded_fields_first("f0"),
        lambda rows: rows.join(rows).where("k").equal_to("k").with_function(max).with_forwarded_fields_second("f0"),
    ),
    "the start of an aggregator": (aggregating(0), aggregating(1)),
    "the criterion of an aggregator": (aggregating(0, of(1)), aggregating(0, of(2))),
    "a combiner": (
        lambda rows: rows.group_by("k").reduce_group(list, combine=list),
        lambda rows: rows.group_by("k").reduce_group(list, combine=sorted),
    ),
    "bounds of ranges": (
        lambda rows: rows.partition_by_range("v", bounds=[1]),
        lambda rows: rows.partition_by_range("v", bounds=[2]),
    ),
    "the number of parts": (
        lambda rows: rows.map_partition(list).set_parallelism(1),
        lambda rows: rows.map_partition(list).set_parallelism(2),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_another_program(change):
    before, after = CHANGES[change]
    assert fingerprint(before) == fingerprint(before)
    assert fingerprint(before) != fingerprint(after)


def test_settings_of_any_type_are_told_apart():
    @dataclass(frozen=True)
    class Since(Operation):
        given: object
        kind: ClassVar[str] = "Since"

        def node(self, data_set, inputs, translation):
            raise NotImplementedError

    settings = [dt.date(2020, 1, 1), dt.date(2020, 1, 2), Decimal("1.0"), Decimal("1.5"), 1, "1", (1, 2), {"a": 1}, {"a": 2}]
    assert len({fingerprint(lambda rows, given=given: rows.derive(Since(given))) for given in settings}) == len(settings)


def test_a_stored_plan_tells_the_program_and_cannot_run_it():
    pipeline = Pipeline("p", root="unused", engine="sail")
    rows = pipeline.source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    rows.group_by("k").sum("v").to_table("sums")
    again = Pipeline.from_plan(pipeline.to_plan(), root="elsewhere")
    operator = again.dataflow.nodes["sums"].operator
    assert operator.program.columns == ("k", "v")
    assert operator == pipeline.dataflow.nodes["sums"].operator
    assert operator.fingerprint() == pipeline.dataflow.nodes["sums"].operator.fingerprint()
    with pytest.raises(PlanError, match="run the program that defines the pipeline"):
        operator.program.plan(1, [])


def test_what_cannot_go_back_into_a_pipeline_is_refused():
    from dagster_operators.api.datasets.local_program import LocalProgram

    with pytest.raises(PipelineError, match="computed of no stream"):
        LocalProgram().rows(ROWS).to_table("t")
    one, two = (Pipeline(name, root="unused").source("rows", MemorySource([ROWS], schema="k string, v long")) for name in "pq")
    with pytest.raises(PipelineError, match="belongs to pipeline 'p'"):
        one.data_set().union(two.data_set()).to_table("t")


def kept(rounds, other=0):
    def made(rows):
        loop = rows.iterate_delta(rows, rounds, "k", keep=True)
        changed = (
            loop.workset.join(loop.solution_set).where("k").equal_to("k").with_function(of(other), schema="k string, v long")
        )
        return loop.close_with(changed, changed.filter(lambda row: False))

    return made


def test_more_rounds_of_an_iteration_that_keeps_are_no_change():
    """Too few are an error, and its remedy is to give more: state must not be asked about then."""
    assert fingerprint(kept(3)) == fingerprint(kept(30))
    assert fingerprint(kept(3)) != fingerprint(kept(3, other=1))


def test_rows_of_a_round_that_leave():
    rows = Pipeline("p", root="unused").source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    with pytest.raises(PipelineError, match=r"close_with"):
        rows.iterate(2).rows_of_round.map(of(1), schema="k string, v long").to_table("t")


def made(shift, *, filtered=False):
    pipeline = Pipeline("p", root="unused", engine="sail")
    rows = pipeline.source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    shifted = rows.map(of(shift), schema="k string, v long")
    (shifted.filter(bool) if filtered else shifted).group_by("k").sum("v").to_table("sums")
    return pipeline


def test_a_change_is_told_by_what_changed_and_not_by_whole_programs():
    before = made(1).dataflow.nodes["sums"].operator.reference
    for after, lines in ((made(2), ["-functions", "+functions"]), (made(1, filtered=True), ["+outline: 2: Filter"])):
        now = after.dataflow.nodes["sums"].operator.reference
        text = told_in_short("program", before, now)
        assert all(line in text for line in lines), text
        assert "1: Map" not in text, "what stayed is not told"
        assert len(text) < 800


def test_operators_of_one_name_are_counted_apart():
    pipeline = Pipeline("p", root="unused", engine="sail")
    rows = pipeline.source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    for _ in range(2):
        loop = rows.iterate(2)
        rows = loop.close_with(loop.rows_of_round.map(of(1), schema="k string, v long"))
    rows.to_table("t")
    plan, _ = pipeline.dataflow.nodes["t"].operator.program.plan(2, [UNKNOWN])
    found = drawn_plan(plan, rounds={"Bulk Iteration": 1, "Bulk Iteration (2)": 2})
    text = to_json(found)
    assert "Bulk Iteration (2)" in text
    assert "Map (2)" in text


def importing(row):
    from tests.api.datasets import test_stream_program

    return row[0], row[1] + len(test_stream_program.ROWS)


def stored(operator, code):
    """A program as an earlier version stored it, which knew less of the user's functions."""
    known = dict(operator.reference.attributes)
    functions = tuple(one for one in known["functions"] if one.qualname != "Twice")
    known |= {"code": code, "functions": functions}
    reference = replace(operator.reference, attributes=tuple(sorted(known.items())))
    return DataSets.decode({**operator.encode(), "program": reference})


class Twice(tuple):
    __slots__ = ()

    def __new__(cls, row):
        return super().__new__(cls, (row[0], row[1] * 2))


def program(*functions):
    pipeline = Pipeline("p", root="unused", engine="sail")
    rows = pipeline.source("rows", MemorySource([ROWS], schema="k string, v long")).data_set()
    for function in functions:
        rows = rows.map(function)
    rows.to_stream(name="made", schema="a string, b long")
    return pipeline.dataflow.nodes["made"].operator


@pytest.mark.parametrize("functions", [(importing,), (Twice,), (Twice, importing)])
def test_an_upgrade_is_no_change_of_a_program(functions):
    now = program(*functions)
    before = stored(now, former_digest_of(*(one for one in functions if one is not Twice)))
    assert before != now
    goes_on = now.going_on(before, (), ())
    assert goes_on == before
    assert goes_on.fingerprint() == before.fingerprint()
    assert goes_on.program.modules == now.program.modules
    assert goes_on.going_on(goes_on, (), ()) == before
    assert goes_on.going_on(now, (), ()) == now
    assert goes_on.going_on(stored(now, "another"), (), ()) == now
    assert program(*functions, of(1)).going_on(before, (), ()) == program(*functions, of(1))


def test_digests_of_earlier_versions_stay_as_they_were():
    assert former_digest_of(importing) == "250160e443c093a9"
