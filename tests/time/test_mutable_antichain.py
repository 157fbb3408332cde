"""Counted times against counting them anew after each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import Antichain, ChangeBatch, Frontier, MutableAntichain, Product, less_equal
from dagster_operators.time import mutable_antichain as module
from tests.time.times import laws, least, of_one_kind

batches = of_one_kind.flatmap(lambda kind: st.lists(st.lists(st.tuples(kind, st.integers(-2, 2)), max_size=6), max_size=25))


@laws
@given(batches, st.sampled_from([-100, 0, module._SLACK]))
def test_the_frontier_is_that_of_the_positive_counts_after_every_change(given_batches, slack: int) -> None:
    times, counts, summed = MutableAntichain(), Counter(), ChangeBatch()
    for batch in given_batches:
        with mock.patch.object(module, "_SLACK", slack):
            changes = times.update(batch)
        for time, difference in batch:
            counts[time] += difference
        expected = least(time for time, count in counts.items() if count > 0)
        assert set(times.frontier()) == expected
        assert times.is_empty() == (not expected)
        assert changes == sorted(changes)
        assert all(abs(difference) == 1 for _, difference in changes)
        summed.extend(changes)
        assert dict(summed) == dict.fromkeys(expected, 1)
        for time, count in counts.items():
            assert times.count_for(time) == count
            assert times.less_equal(time) == Antichain(expected).less_equal(time)
            assert times.less_than(time) == Antichain(expected).less_than(time)


def test_the_changes_of_timely_dataflow() -> None:
    times = MutableAntichain([1])
    assert times.update([(1, -1), (2, 7)]) == [(1, -1), (2, 1)]
    assert times.frontier() == Frontier([2])
    assert times.count_for(2) == 7
    assert times.update([(0, 1)]) == [(0, 1), (2, -1)]
    assert times.frontier() == Frontier([0])


def test_a_negative_count_waits_for_the_time_to_come() -> None:
    times = MutableAntichain()
    assert times.update([(3, -2)]) == []
    assert times.is_empty()
    assert times.update([(3, 2)]) == []
    assert times.update([(3, 1)]) == [(3, 1)]


def test_what_came_and_went_takes_no_room() -> None:
    times = MutableAntichain([7, 8])
    for time in range(9, 2000):
        times.update([(time, 1)])
        times.update([(time, -1)])
    assert len(times._under) <= 2 * 2 + module._SLACK
    assert times.update([(7, -1)]) == [(7, -1), (8, 1)]


def test_a_time_of_another_kind_is_refused_and_changes_nothing() -> None:
    times = MutableAntichain([3])
    with pytest.raises(TimestampError, match="cannot be compared"):
        times.update([(4, 1), (3, -1), (Product(1, 2), 1)])
    assert times.frontier() == Frontier([3])
    assert times.count_for(4) == 0
    with pytest.raises(TimestampError, match="no time"):
        MutableAntichain([0.5])


@pytest.mark.parametrize(
    "make",
    [lambda i: i, lambda i: Product(i, 0), lambda i: Product(0, i), lambda i: (i // 20, i % 20)],
    ids=["numbers", "outer", "inner", "grid"],
)
def test_times_that_go_one_by_one_are_not_all_compared_each_time(make: Callable, monkeypatch) -> None:
    compared = 0

    def counting(one, other) -> bool:
        nonlocal compared
        compared += 1
        return less_equal(one, other)

    monkeypatch.setattr(module, "less_equal", counting)
    monkeypatch.setattr(module, "less_than", counting)
    count = 1000
    order = sorted(range(count), key=lambda i: i * 7919 % count)
    times = MutableAntichain(make(i) for i in order)
    for i in range(count):
        assert times.count_for(make(i)) == 1
        times.update([(make(i), -1)])
    assert times.is_empty()
    assert compared < 60 * count
