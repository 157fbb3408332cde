"""Samples, summaries, checksums and ranges of given bounds, beside plain Python."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema
from tests.api.datasets.flink_cases import PARALLELISM

pytestmark = pytest.mark.parametrize("parallelism", PARALLELISM)
NUMBERS = range(1000)


def spread(program, rows):
    return program.rows(rows).rebalance()


@pytest.mark.parametrize("fraction", [0, 0.2, 1])
def test_a_sample_has_rows_once_and_about_so_many(parallelism, fraction):
    program = LocalProgram(parallelism)
    sampled = program.collect(spread(program, NUMBERS).sample(fraction, seed=1))
    assert set(sampled) <= set(NUMBERS)
    assert len(set(sampled)) == len(sampled)
    assert abs(len(sampled) - fraction * 1000) <= 5 * math.sqrt(1000 * fraction * (1 - fraction))


@pytest.mark.parametrize("fraction", [0, 0.3, 2.5])
def test_with_replacement_rows_come_several_times(parallelism, fraction):
    program = LocalProgram(parallelism)
    sampled = program.collect(spread(program, NUMBERS).sample(fraction, with_replacement=True, seed=1))
    assert set(sampled) <= set(NUMBERS)
    assert abs(len(sampled) - fraction * 1000) <= 5 * math.sqrt(1000 * fraction)
    assert (len(set(sampled)) < len(sampled)) == (fraction > 0)


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100, 1000, 1500])
def test_a_sample_of_a_size_has_it(parallelism, size, with_replacement):
    program = LocalProgram(parallelism)
    sampled = program.collect(spread(program, NUMBERS).sample_with_size(size, with_replacement=with_replacement, seed=1))
    counts = Counter(sampled)
    assert set(counts) <= set(NUMBERS)
    assert len(sampled) == (size if with_replacement else min(size, 1000))
    assert (max(counts.values(), default=1) > 1) == (with_replacement and size > 1)


def test_each_row_is_as_likely_as_the_others(parallelism):
    program, counts = LocalProgram(parallelism), Counter()
    for seed in range(30):
        counts.update(program.collect(program.rows(range(8)).rebalance().sample_with_size(4, seed=seed)))
    assert set(counts) == set(range(8))
    assert all(abs(count - 15) <= 5 * math.sqrt(30 / 4) for count in counts.values())


@pytest.mark.parametrize(
    "call", [lambda rows, seed: rows.sample(0.5, seed=seed), lambda rows, seed: rows.sample_with_size(9, seed=seed)]
)
def test_a_seed_gives_the_same_rows_again(parallelism, call):
    program = LocalProgram(parallelism)
    samples = [sorted(program.collect(call(spread(program, range(50)), seed))) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]


def test_no_rows_have_no_sample(parallelism):
    program = LocalProgram(parallelism)
    for call in (
        lambda rows: rows.sample(1), lambda rows: rows.sample_with_size(3),
        lambda rows: rows.sample_with_size(3, with_replacement=True),
    ):  # fmt: skip
        assert program.collect(call(spread(program, []))) == []


def test_rows_that_were_counted_in_other_parts_are_not_numbered(parallelism):
    program = LocalProgram(parallelism)
    for call in (lambda rows: rows.zip_with_index(), lambda rows: rows.sample_with_size(3)):
        with pytest.raises(OperatorsError, match=r"parts were counted, and 3 parts read them"):
            program.collect(call(spread(program, range(20))).set_parallelism(3))
        remedied = spread(program, range(20)).set_parallelism(3)
        assert len(program.collect(call(remedied))) in (3, 20)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda rows: rows.sample(-0.1), "-0.1 is no fraction"),
        (lambda rows: rows.sample(1.5), "1.5 is no fraction"),
        (lambda rows: rows.sample(-1, with_replacement=True), "-1 is no fraction"),
        (lambda rows: rows.sample_with_size(-1), "-1 is no number of rows"),
        (lambda rows: rows.partition_by_range(0, bounds=[2, 1]), "not in the order"),
        (lambda rows: rows.partition_by_range(0, bounds=[1, 1]), "not in the order"),
        (lambda rows: rows.partition_by_range(0, orders=["descending"], bounds=[1, 2]), "not in the order"),
        (lambda rows: rows.partition_by_range(0, 1, bounds=[1, 2]), "another number of fields"),
    ],
)
def test_calls_that_cannot_be_are_refused(parallelism, call, problem):
    with pytest.raises(PipelineError, match=problem) as refused:
        call(LocalProgram(parallelism).rows([(1, 2)]))
    assert refused.value.remedy


COLUMNS = "n long, d double, x decimal(38, 2), s string, b boolean, day date, at timestamp, a array<int>"
AT = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [
    (3, 0.1, Decimal("0.01"), "a", True, date(2026, 1, 2), AT, [1]),
    (-1, 0.2, Decimal("1e30"), "", False, date(2026, 1, 1), None, None),
    (None, None, None, None, None, None, None, None),
    (2**60, math.nan, Decimal(-5), "abcd", True, date(2026, 1, 3), AT, [2]),
    (7, math.inf, None, "xyz", None, None, AT, []),
    (8, 1e16, None, "z", None, None, AT, []),
    (9, -1e16, None, "z", None, None, AT, []),
]


def test_a_summary_has_what_python_computes(parallelism):
    program = LocalProgram(parallelism)
    summarized = program.rows(ROWS, schema=COLUMNS).rebalance().summarize()
    (row,) = program.collect(summarized)
    numbers = [3, -1, 2**60, 7, 8, 9]
    floats = [0.1, 0.2, 1e16, -1e16]
    assert (row.n.total, row.n.nulls, row.n.minimum, row.n.maximum, row.n.sum) == (7, 1, -1, 2**60, sum(numbers))
    assert row.n.mean == pytest.approx(statistics.mean(numbers))
    assert row.n.variance == pytest.approx(statistics.variance(numbers))
    assert row.n.standard_deviation == pytest.approx(statistics.stdev(numbers))
    assert (row.d.nulls, row.d.nans, row.d.infinities, row.d.sum) == (1, 1, 1, math.fsum(floats))
    assert row.d.variance == pytest.approx(statistics.variance(floats))
    assert (row.x.sum, row.x.nulls) == (Decimal("999999999999999999999999999995.01"), 4)
    assert (row.s.nulls, row.s.empties, row.s.shortest, row.s.longest, row.s.mean_length) == (1, 1, 0, 4, 10 / 6)
    assert (row.s.minimum, row.s.maximum) == ("", "z")
    assert (row.b.trues, row.b.total, row.b.nulls, row.b.mean) == (2, 7, 4, None)
    assert (row.day.minimum, row.day.maximum, row.at.minimum) == (date(2026, 1, 1), date(2026, 1, 3), AT)
    assert (row.a.total, row.a.nulls, row.a.minimum) == (7, 2, None)


def test_a_summary_can_be_written(parallelism):
    program = LocalProgram(parallelism)
    summarized = program.rows(ROWS, schema=COLUMNS).rebalance().summarize()
    schema = Schema(tuple(Field(name, kind) for name, kind in zip(summarized.fields, summarized.types, strict=True)))
    rows = program.collect(summarized)
    assert ArrowRows(schema).decode(ArrowRows(schema).encode(rows)) == rows


def test_rows_without_names_and_no_rows_have_summaries_too(parallelism):
    program = LocalProgram(parallelism)
    ((plain,),) = program.collect(spread(program, [1, 2, 3]).summarize())
    assert (plain.total, plain.sum, plain.variance) == (3, 6, 1)
    (row,) = program.collect(program.rows([], schema="k string, v long").rebalance().summarize())
    assert (row.k.total, row.v.total, row.v.sum, row.v.variance, row.v.minimum) == (0, 0, None, None, None)


def test_a_checksum_depends_on_the_rows_and_not_on_their_order(parallelism):
    program = LocalProgram(parallelism)
    rows = [(1, "a", [1, math.nan], {"x": 1, "y": 2}), (2, None, [], {}), (2, None, [], {})]
    (first,) = program.collect(spread(program, rows).checksum())
    turned = [(2, None, [], {}), (1, "a", [1, float("nan")], {"y": 2, "x": 1}), (2, None, [], {})]
    assert program.collect(spread(program, turned).checksum()) == [first]
    assert first.rows == 3
    for others in (rows[:2], [*rows[:2], (3, None, [], {})], [(1, "b", [1, math.nan], {"x": 1, "y": 2}), *rows[1:]]):
        assert program.collect(spread(program, others).checksum()) != [first]
    assert program.collect(spread(program, []).checksum()) == [(0, 0)]


def ranges(program, parted, order=sorted):
    """The rows of the parts that have some, each in order; the parts themselves come in any order."""
    parts = [order(part) for part in program.collect(parted.map_partition(lambda rows: [list(rows)])) if part]
    return sorted(parts, key=lambda part: order([row for other in parts for row in other]).index(part[0]))


@pytest.mark.parametrize("bounds", [[(10,)], [(10,), (20,), (35,)], [(n,) for n in range(5, 40)]])
def test_ranges_of_given_bounds_follow_one_another(parallelism, bounds):
    program = LocalProgram(parallelism)
    rows = [(number * 7 % 40, number) for number in range(40)]
    parts = ranges(program, spread(program, rows).partition_by_range(0, bounds=[bound for (bound,) in bounds]))
    assert sorted(row for part in parts for row in part) == sorted(rows)
    assert all(max(first)[0] < min(second)[0] for first, second in pairwise(parts))
    if len(bounds) == 3 and parallelism == 4:
        assert [max(part)[0] for part in parts] == [10, 20, 35, 39]


def test_bounds_of_several_fields_in_their_own_orders(parallelism):
    program = LocalProgram(parallelism)
    rows = [(first, second) for first in range(3) for second in range(5)]
    parted = spread(program, rows).partition_by_range(0, 1, orders=["descending", "ascending"], bounds=[(2, 3), (1, 0), (0, 2)])
    order = sorted(rows, key=lambda row: (-row[0], row[1]))
    parts = ranges(program, parted, lambda part: sorted(part, key=order.index))
    assert [row for part in parts for row in part] == order
    if parallelism == 4:
        assert [part[-1] for part in parts] == [(2, 3), (1, 0), (0, 2), (0, 4)]
