"""Keys of two inputs that are never equal are refused, and no others. Without an engine."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.key_kinds import KeyKinds, kind_of

NAIVE = dt.datetime.fromisoformat("2024-01-01")
VALUES = [
    1, 1.0, True, Decimal(1), "1", b"1", (1, "a"), (1, 2), (1,), (None, "a"), dt.date(2024, 1, 1), NAIVE,
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), Fraction(1),
]  # fmt: skip
"""Values one of each kind, so that equal ones are of kinds with equal values."""


@pytest.mark.parametrize(("one", "other"), list(product(VALUES, VALUES)))
def test_values_that_are_equal_are_of_kinds_that_may_be(one, other):
    assert kind_of(one).may_equal(kind_of(other)) or one != other
    assert kind_of(one).may_equal(kind_of(other)) == kind_of(other).may_equal(kind_of(one))


@pytest.mark.parametrize("other", [1, 1.0, True, Decimal(1), Fraction(1), np.int64(1)])
def test_numbers_of_numpy_are_numbers(other):
    assert kind_of(np.int64(1)).may_equal(kind_of(other))
    assert kind_of(other).may_equal(kind_of(np.float32(1)))


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, "1"), ("1", b"1"), ((1, "a"), (1, 2)), (dt.date(2024, 1, 1), NAIVE), (1, (1,))],
)
def test_values_that_are_never_equal_are_of_other_kinds(one, other):
    assert not kind_of(one).may_equal(kind_of(other))


def joined(first, second):
    return first.join(second).where(lambda row: row[0]).equal_to(lambda row: row[0]).pairs()


def by_field(first, second):
    return first.join(second).where(0).equal_to(0).pairs()


def outer(first, second):
    return first.full_outer_join(second).where(0).equal_to(0).with_function(lambda one, other: 1)


def co_grouped(first, second):
    return first.co_group(second).where(0).equal_to(0).with_function(lambda ones, others: [1])


@pytest.mark.parametrize("call", [joined, by_field, outer, co_grouped])
@pytest.mark.parametrize("parts", [1, 3])
def test_keys_of_other_types_are_refused_wherever_the_rows_lie(call, parts):
    program = LocalProgram(parts)
    numbers, texts = program.rows([(1,), (2,)]), program.rows([("1",), ("2",)])
    with pytest.raises(PipelineError, match=r"int and str, which are never equal.*'met'.* give both keys the same type"):
        program.collect(call(numbers, texts).name("met"))
    assert program.collect(call(numbers, texts.map(lambda row: (int(row[0]),))))


def test_the_field_of_a_key_is_named():
    program = LocalProgram()
    first, second = program.rows([(1, "a")]), program.rows([(1, 2)])
    with pytest.raises(PipelineError, match="in field 2 of the key: str and int"):
        program.collect(first.join(second).where(0, 1).equal_to(0, 1).pairs())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, "none"], ["a"]),  # some are equal to some
        ([1], [2.5]),  # numbers are compared as Python compares them
        ([(1, 2)], [(1, 2, 3)]),  # values decide how long a path is
        ([(None, 1)], [("a", 1)]),  # a null within says nothing of the type
        ([], ["a"]),
    ],
)
def test_others_are_let_through(first, second):
    program = LocalProgram(2)
    ones, others = program.rows([(value,) for value in first]), program.rows([(value,) for value in second])
    assert program.collect(joined(ones, others)) == []


def test_keys_of_very_many_kinds_are_compared_with_nothing():
    kinds = KeyKinds()
    key = kinds.remembering(0, lambda row: (row,))
    for number in range(100):
        key(tuple([1] * number))
    kinds.remembering(1, lambda row: (row,))("text")
    assert len(kinds.sides[0]) < 40
    kinds.require_equality("join")
