"""Misuse is refused where it is written, by errors that name what to do."""

from __future__ import annotations

import datetime as dt

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import BadInputError, PipelineError

pytestmark = pytest.mark.in_process


def solution_as_broadcast_set(rows):
    loop = rows.iterate_delta(rows, 2, "k")
    return loop.close_with(
        loop.workset.map(tuple, schema="k string, v long").with_broadcast_set(loop.solution_set, "all"), loop.workset
    )


MISUSE = {
    "a part of a row": (lambda rows: rows.first(1.5), "the first 1.5 rows are none"),
    "a truth as a number of rows": (lambda rows: rows.group_by("k").first(count=True), "the first True rows are none"),
    "a part of a part": (lambda rows: rows.map(tuple).set_parallelism(1.5), "1.5 is no number of parts"),
    "a part of a round": (lambda rows: rows.iterate(1.5), "1.5 rounds are none"),
    "another order of a part": (lambda rows: rows.sort_partition("k", "down"), "no order 'down'.*ascending, descending"),
    "another order of ranges": (lambda rows: rows.partition_by_range("k", orders=["down"]), "no order 'down'"),
    "another order of a group": (lambda rows: rows.group_by("k").sort_group("v", "down"), "no order 'down'"),
    "another order of a co-group": (lambda rows: rows.co_group(rows).sort_first_group("v", "down"), "no order 'down'"),
    "a position as a forwarded field": (lambda rows: rows.map(tuple).with_forwarded_fields(0), "0 is no text.*'f0'"),
    "a position as a changed field": (lambda rows: rows.map(tuple).with_non_forwarded_fields(0), "0 is no text"),
    "a position as a field that is read": (lambda rows: rows.map(tuple).with_read_fields(0), "0 is no text"),
    "a solution set that is no input": (solution_as_broadcast_set, "joined or co-grouped on its key, and nothing else"),
}


@pytest.mark.parametrize("misuse", MISUSE)
def test_misuse_is_refused(misuse):
    call, problem = MISUSE[misuse]
    rows = LocalProgram().rows([("a", 1)], schema="k string, v long")
    with pytest.raises(PipelineError, match=problem):
        call(rows)


def test_a_null_key_names_the_operator_that_wants_it():
    program = LocalProgram(2)
    nulls, rows = program.rows([(None, 1)]).name("nulls"), program.rows([("a", 1)]).name("rows")
    for joined in (nulls.join(rows), rows.join(nulls), nulls.co_group(rows), nulls.join_with_huge(rows)):
        met = joined.where(0).equal_to(0).with_function(lambda *_: []).name("met")
        with pytest.raises(BadInputError, match=r"a key is null .*operator 'met'"):
            program.collect(met)


@pytest.mark.parametrize("values", [["a", "b"], [True, True], [[1], [2]], [dt.date(2024, 1, 1)] * 2], ids=str)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_is_no_number_has_no_sum_without_types_too(values, parallelism):
    program = LocalProgram(parallelism)
    rows = program.rows([("a", value) for value in values], "k", "v")
    for summed in (rows.group_by(0).sum(1), rows.sum("v"), rows.group_by("k").min(0).and_aggregate("sum", 1)):
        with pytest.raises(PipelineError, match="has no sum"):
            program.collect(summed)
    assert program.collect(rows.group_by(0).reduce(lambda one, other: (one[0], other[1])))
