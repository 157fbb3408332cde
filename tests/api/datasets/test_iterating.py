"""Bulk and delta iterations: cases of Flink's tests and examples."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import BadInputError, OperatorFailedError, PipelineError
from dagster_operators.operators.datasets.context import RichFunction
from tests.api.datasets.flink_cases import DATA, EXPECTED, PARALLELISM, as_row, data, is_as_expected, values

pytestmark = pytest.mark.parametrize("parallelism", PARALLELISM)


def test_a_round_whose_criterion_has_no_rows_is_the_last(parallelism):
    program = LocalProgram(4 if parallelism == 4 else parallelism)
    loop = values(program, "1", "2", "3", "4", "5").iterate(5)
    step = loop.rows_of_round.reduce_group(lambda rows: [str(sum(int(row) + 1 for row in rows))])
    result = loop.close_with(step, step.filter(lambda row: int(row) < 22)).name("loop")
    is_as_expected(program, result, "bulk_iteration_termination")
    assert program.supersteps == {"loop": 3}


def least(rows):
    listed = list(rows)
    return [(listed[0][0], min(row[1] for row in listed))]


def test_connected_components(parallelism):
    program = LocalProgram(parallelism)
    edges = data(program, "components_edges").flat_map(lambda row: [(row[0], row[1]), (row[1], row[0])])
    vertices = data(program, "components_vertices").map(lambda row: (row[0], row[0]))
    loop = vertices.iterate_delta(vertices, 10, 0)
    seen = loop.workset.join(edges).where(0).equal_to(0).with_function(lambda vertex, edge: (edge[1], vertex[1]))
    smallest = seen.group_by(0).min(1)
    changed = smallest.join(loop.solution_set).where(0).equal_to(0).with_function(
        lambda new, old: [tuple(new)] if new[1] < old[1] else [], several=True
    )  # fmt: skip
    result = loop.close_with(changed, changed).name("components")
    is_as_expected(program, result, "delta_connected_components")
    assert program.supersteps == {"components": 6}


def test_a_solution_set_that_no_round_reads_may_come_of_the_rows_of_the_workset(parallelism):
    program = LocalProgram(parallelism)
    rows = program.rows([("a", 1), ("b", 2)])
    loop = rows.map(lambda row: row).iterate_delta(rows, 5, 0)
    result = loop.close_with(loop.workset.map(lambda row: (row[0], row[1] + 1)), loop.workset.filter(lambda row: False))
    assert sorted(program.collect(result)) == [("a", 2), ("b", 3)]


class Smaller(RichFunction):
    """The smaller component of a vertex; how many became smaller is added up."""

    def open(self, context):
        self.updated = context.iteration.aggregators["updated"]

    def __call__(self, new, old):
        if new[1] < old[1]:
            self.updated.add(1)
            return tuple(new)
        return tuple(old)


def smaller_of_neighbours(rows, edges):
    seen = rows.join(edges).where(0).equal_to(0).with_function(lambda vertex, edge: (edge[1], vertex[1]))
    return seen.group_by(0).reduce_group(least)


@pytest.mark.parametrize("delta", [False, True])
def test_an_aggregator_ends_the_rounds(parallelism, delta):
    program = LocalProgram(parallelism)
    vertices, edges = data(program, "convergence_vertices"), data(program, "convergence_edges")
    seen: list[int] = []

    def converged(superstep, updated):
        seen.append(updated)
        return updated < 3

    if delta:
        loop = vertices.iterate_delta(vertices, 10, 0)
        new = smaller_of_neighbours(loop.workset, edges)
        step = new.join(loop.solution_set).where(0).equal_to(0).with_function(Smaller())
    else:
        loop = vertices.iterate(10)
        new = smaller_of_neighbours(loop.rows_of_round, edges)
        step = new.join(loop.rows_of_round).where(0).equal_to(0).with_function(Smaller())
    loop.register_aggregator("updated", 0)
    loop.register_convergence_criterion("updated", converged)
    result = loop.close_with(step, step) if delta else loop.close_with(step)
    is_as_expected(program, result, "aggregator_convergence")
    assert seen == [6, 3, 2]


@pytest.mark.parametrize("computed", [False, True])
def test_page_rank(parallelism, computed):
    program = LocalProgram(parallelism)
    pages = len(DATA["page_rank_pages"])
    ranks = data(program, "page_rank_pages").map(lambda row: (row[0], 1 / pages))
    links = data(program, "page_rank_links").group_by(0).reduce_group(
        lambda rows: [(key, [target for _, target in listed]) for listed in [list(rows)] for key in [listed[0][0]]]
    )  # fmt: skip
    loop = ranks.iterate(3)
    keys = (lambda row: row[0],) * 2 if computed else (0, 0)
    shared = loop.rows_of_round.join(links).where(keys[0]).equal_to(keys[1]).with_function(
        lambda rank, link: [(target, rank[1] / len(link[1])) for target in link[1]], several=True
    )  # fmt: skip
    new = shared.group_by(0).sum(1).map(lambda row: (row[0], 0.85 * row[1] + 0.15 / pages))
    moved = new.join(loop.rows_of_round).where(0).equal_to(0).with_function(
        lambda now, before: [now] if abs(now[1] - before[1]) > 0.0001 else [], several=True
    )  # fmt: skip
    found = dict(map(tuple, program.collect(loop.close_with(new, moved))))
    assert found == {page: pytest.approx(rank, abs=0.01) for page, rank in as_row(EXPECTED["page_rank_3"])}


def test_fields_of_a_row_that_the_solution_set_has_not_are_refused(parallelism):
    program = LocalProgram(parallelism)
    rows, more = program.rows([(1, 2)], schema="k long, v long"), program.rows([(1, 3), (7, 4)], schema="k long, v long")
    loop = rows.iterate_delta(more, 2, "k")
    known = loop.workset.join(loop.solution_set).where("k").equal_to("k").project_first("k").project_second("v").data_set()
    with pytest.raises(BadInputError, match="looked the solution set up in vain") as met:
        program.collect(loop.close_with(known, known.filter(lambda row: False)))
    assert "with_function" in met.value.remedy


def test_iterations_that_cannot_be_are_refused(parallelism):
    program = LocalProgram(parallelism)
    rows = data(program, "tuple3_small")
    with pytest.raises(PipelineError, match="not made of those of the round"):
        rows.iterate(2).close_with(rows.map(tuple))
    loop = rows.iterate_delta(rows, 2, 0)
    with pytest.raises(PipelineError, match="not made of the workset"):
        loop.close_with(loop.workset.map(tuple), rows)
    wrong = loop.workset.join(loop.solution_set).where(1).equal_to(1).with_function(lambda new, old: new)
    with pytest.raises(PipelineError, match="on its key, and nothing else"):
        loop.close_with(wrong, wrong)
    with pytest.raises(PipelineError, match="on its key, and nothing else"):
        loop.close_with(loop.solution_set.map(tuple), loop.workset.map(tuple))
    with pytest.raises(PipelineError, match="key of a solution set is of fields"):
        rows.iterate_delta(rows, 2, lambda row: row[0])
    with pytest.raises(PipelineError, match="no aggregator 'sum'"):
        loop.register_convergence_criterion("sum", lambda superstep, value: True)
    with pytest.raises(PipelineError, match="read outside of the round"):
        program.collect(rows.iterate(2).rows_of_round)


def test_names_that_a_round_loses_are_told_with_the_way_out(parallelism):
    """The first round's rows have names, and the next one's have none where the step makes them without a schema."""
    program = LocalProgram(parallelism)

    def result(**declared):
        loop = program.rows([(1, 2)], "k", "v").iterate(2)
        return program.collect(loop.close_with(loop.rows_of_round.map(lambda row: (row.k, row.v + 1), **declared)))

    with pytest.raises(OperatorFailedError, match=r"'tuple' object has no attribute 'k'.*give .*schema='k string, v long'"):
        result()
    assert result(schema="k long, v long") == [(1, 4)]


READERS = {
    "a join": lambda rows, result: rows.join(result, "BROADCAST_HASH_SECOND").where("*").equal_to("*").with_function(
        lambda first, _: first
    ),
    "a broadcast set": lambda rows, result: rows.map(Counted()).with_broadcast_set(result, "result").map(lambda pair: pair[1]),
    "a product": lambda rows, result: rows.cross_with_tiny(result.first(1)).with_function(lambda first, _: first),
}  # fmt: skip


class Counted(RichFunction):
    def open(self, context):
        self.count = len(context.broadcast("result"))

    def __call__(self, row):
        return self.count, row


@pytest.mark.parametrize("way_of_reading", READERS)
@pytest.mark.parametrize("inside", [False, True], ids=["of the rows", "with the rows inside"])
def test_rows_meet_the_result_of_an_iteration_that_reads_them(parallelism, way_of_reading, inside):
    """The rows are in no fragment that waits for the iteration, which waits for the rows."""
    program = LocalProgram(parallelism)
    rows = program.rows(list(range(6))).rebalance().filter(lambda _: True)
    loop = (program.rows(list(range(6))) if inside else rows).iterate(2)
    step = loop.rows_of_round.map(lambda row: row)
    if inside:
        step = step.join(rows).where("*").equal_to("*").with_function(lambda first, _: first)
    result = READERS[way_of_reading](rows, loop.close_with(step))
    assert sorted(program.collect(result)) == list(range(6))


def test_an_iteration_is_closed_once(parallelism):
    program = LocalProgram(parallelism)
    bulk = program.rows([1]).iterate(2)
    bulk.close_with(bulk.rows_of_round.map(lambda value: value + 1))
    pairs = program.rows([(1, 2)])
    delta = pairs.iterate_delta(pairs, 2, 0)
    changed = delta.workset.join(delta.solution_set).where(0).equal_to(0).with_function(lambda new, old: [], several=True)
    delta.close_with(changed, changed)
    again = [
        lambda: bulk.close_with(bulk.rows_of_round),
        lambda: bulk.register_aggregator("sum", 0),
        lambda: bulk.register_convergence_criterion("sum", lambda superstep, value: True),
        lambda: delta.close_with(changed, changed),
    ]
    for call in again:
        with pytest.raises(PipelineError, match="closed already"):
            call()
