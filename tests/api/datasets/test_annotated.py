"""Fields that functions forward, change or read: an exchange is spared by them, and wrong ones are refused."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import PipelineError

pytestmark = pytest.mark.in_process


def exchanges(program, data_set):
    return [channel.ship.name for step in program.plan(data_set) for channel in step.inputs if channel.ship.name != "FORWARD"]


def sums_of_sums(program, annotate):
    rows = program.rows([("a", 1, 2), ("b", 2, 3), ("a", 3, 4)], "k", "v", "w")
    sums = rows.group_by("k").reduce_group(list)
    sums.fields = ("k", "v", "w")
    grown = annotate(
        sums.with_forwarded_fields("k").map(lambda row: (row.k, row.v + 1, row.w), schema="k string, v long, w long")
    )
    return grown.group_by("k").reduce_group(lambda group: [max(group)])


def test_fields_that_are_not_named_are_forwarded_and_spare_an_exchange():
    program = LocalProgram(4)
    plain = exchanges(program, sums_of_sums(program, lambda rows: rows))
    forwarded = exchanges(program, sums_of_sums(program, lambda rows: rows.with_forwarded_fields("k; w")))
    others = exchanges(program, sums_of_sums(program, lambda rows: rows.with_non_forwarded_fields("v")))
    assert len(others) == len(forwarded) < len(plain)


def test_a_field_that_is_changed_all_the_same_is_named():
    program = LocalProgram(4)
    rows = sums_of_sums(program, lambda rows: rows.with_non_forwarded_fields("w").name("grown"))
    assert program.collect(rows)
    with pytest.raises(PipelineError, match="grown"):
        program.collect(
            program.rows([(key, key) for key in range(20)], "k", "v").partition_by_hash("k")
            .map(lambda row: (row.k // 2, row.v), schema="k long, v long").with_non_forwarded_fields("v").name("grown")
            .group_by("k").reduce_group(lambda group: [len(list(group))])
        )  # fmt: skip


def test_read_fields_change_no_plan():
    program = LocalProgram(4)
    assert exchanges(program, sums_of_sums(program, lambda rows: rows.with_read_fields("v", "k; w"))) == exchanges(
        program, sums_of_sums(program, lambda rows: rows)
    )


@pytest.mark.parametrize(
    ("annotate", "problem"),
    [
        (lambda rows: rows.map(tuple).with_forwarded_fields("x"), "no field 'x'"),
        (lambda rows: rows.map(tuple).with_non_forwarded_fields("x"), "no field 'x'"),
        (lambda rows: rows.filter(bool).with_read_fields("x"), "no field 'x'"),
        (lambda rows: rows.map(tuple).with_forwarded_fields("k", "v->f0"), "two fields are forwarded"),
        (lambda rows: rows.map(tuple).with_forwarded_fields("k").with_non_forwarded_fields("k"), "declared twice"),
        (lambda rows: rows.map(tuple).with_forwarded_fields_second("k"), "has one input"),
        (lambda rows: rows.map(len, schema="n long").with_non_forwarded_fields("k"), "2, and those of the result are 1"),
        (lambda rows: rows.map(tuple).map(tuple).with_non_forwarded_fields("f0"), "not known"),
    ],
)
def test_annotations_that_cannot_be_are_refused(annotate, problem):
    with pytest.raises(PipelineError, match=problem) as refused:
        annotate(LocalProgram().rows([("a", 1)], "k", "v"))
    assert refused.value.remedy
