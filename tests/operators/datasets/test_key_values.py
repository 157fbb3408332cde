"""Keys are compared as one order of all their values: NaN is a key, and the largest of numbers; a set is none."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import BadInputError
from dagster_operators.operators.datasets.key_values import NOT_A_NUMBER, key_value
from dagster_operators.operators.datasets.rows import in_order, key_of
from dagster_operators.optimizer.properties.ordering import Direction, Ordering
from tests.examples import fresh_examples

NUMBERS = st.sampled_from([float("nan"), float("inf"), 1.0, 2.0, -1.0, 0.0, -0.0]) | st.just(None).map(lambda _: float("nan"))
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 3)), max_size=12)
NAN = ("NaN",)


@dataclass(frozen=True)
class Point:
    x: float


def known(value: float) -> Any:
    """A number in an order of all numbers, by other means."""
    return NAN if value != value else (value,)  # noqa: PLR0124 - it is not, of a NaN


def after(value: float) -> tuple[bool, float]:
    return (value != value, 0.0 if value != value else value)  # noqa: PLR0124


def placed(rows: list[tuple[float, int]], parts: int) -> Any:
    program = LocalProgram(parts)
    return program, program.rows(rows, schema="k double, v long").rebalance()


@pytest.mark.parametrize("parts", [1, 3])
@fresh_examples(15)
@given(ROWS)
def test_groups_are_those_of_equal_keys(parts, rows):
    program, data_set = placed(rows, parts)
    expected: Counter[Any] = Counter()
    for key, value in rows:
        expected[known(key)] += value + 1
    sums = program.collect(data_set.map(lambda row: (row.k, row.v + 1), schema="k double, v long").group_by("k").sum("v"))
    assert {known(key): value for key, value in sums} == dict(expected)
    assert len(sums) == len(expected) == len(program.collect(data_set.distinct("k")))


@pytest.mark.parametrize("hint", ["REPARTITION_SORT_MERGE", "REPARTITION_HASH_FIRST", "BROADCAST_HASH_SECOND"])
@fresh_examples(10)
@given(ROWS, ROWS)
def test_pairs_are_those_of_equal_keys(hint, rows, others):
    program, first = placed(rows, 2)
    second = program.rows(others, schema="k double, v long").rebalance()
    pairs = program.collect(
        first.join(second, hint).where("k").equal_to("k").project_first("k", "v").project_second("v").data_set()
    )
    expected = Counter(
        (known(key), value, other) for (key, value), (other_key, other) in product(rows, others) if known(key) == known(other_key)
    )
    assert Counter((known(key), value, other) for key, value, other in pairs) == expected


@pytest.mark.parametrize("parts", [1, 3])
@fresh_examples(15)
@given(ROWS.filter(bool))
def test_extremes_and_orders_do_not_depend_on_where_a_nan_is(parts, rows):
    program, data_set = placed(rows, parts)
    keys = sorted((key for key, _ in rows), key=after)
    for calls, expected in ((("min", "min_by"), keys[0]), (("max", "max_by"), keys[-1])):
        for call in calls:
            (row,) = program.collect(getattr(data_set, call)("k"))
            assert known(row.k) == known(expected), call
    (part,) = program.collect(
        data_set.sort_partition("k").set_parallelism(1).map_partition(lambda part: [[row.k for row in part]])
    )
    assert list(map(known, part)) == list(map(known, keys))


@given(ROWS)
def test_rows_are_sorted_both_ways(rows):
    for direction in Direction.ASCENDING, Direction.DESCENDING:
        found = [row[0] for row in in_order(rows, Ordering.of([0], direction))]
        keys = sorted((key for key, _ in rows), key=after, reverse=direction is Direction.DESCENDING)
        assert list(map(known, found)) == list(map(known, keys))


def test_a_nan_within_a_key_is_one_too():
    nan = float("nan")
    for make in (lambda: ("a", (nan + 1, 2)), lambda: Point(nan + 1), lambda: Point(float("nan"))):
        key = key_of((0,))
        assert len({key((make(),)) for _ in range(3)}) == 1
    assert pickle.loads(pickle.dumps(NOT_A_NUMBER)) == NOT_A_NUMBER  # noqa: S301
    assert sorted([2, NOT_A_NUMBER, 1.0, float("inf")]) == [1.0, 2, float("inf"), NOT_A_NUMBER]
    assert key_value((1, "a")) == (1, "a")


@pytest.mark.parametrize("key", [frozenset({1}), {1}, {"a": 1}], ids=lambda key: type(key).__name__)
def test_a_key_without_an_order_is_refused(key):
    with pytest.raises(BadInputError, match=f"a {type(key).__name__} is no key"):
        key_of((0,))((key,))
