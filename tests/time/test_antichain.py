"""Antichains against the definition: the times of which none other is before."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import Antichain, Frontier, Product
from tests.time.times import before, laws, least, of_one_kind

several = of_one_kind.flatmap(lambda kind: st.lists(kind, max_size=12))
two_sets = of_one_kind.flatmap(lambda kind: st.tuples(st.lists(kind, max_size=8), st.lists(kind, max_size=8)))
with_one_more = of_one_kind.flatmap(lambda kind: st.tuples(st.lists(kind, max_size=12), kind))


@laws
@given(several)
def test_it_keeps_the_least(times) -> None:
    assert set(Antichain(times)) == least(times)
    assert len(Antichain(times)) == len(least(times))


@laws
@given(several)
def test_insert_says_whether_the_time_was_added(times) -> None:
    antichain, seen = Antichain(), []
    for time in times:
        assert antichain.insert(time) == (not any(before(other, time) for other in seen))
        assert time in antichain or antichain.less_than(time)
        seen.append(time)
    assert antichain == Antichain(times)


@laws
@given(with_one_more)
def test_less_equal_and_less_than_ask_all_times(times_and_one) -> None:
    times, one = times_and_one
    assert Antichain(times).less_equal(one) == any(before(time, one) for time in times)
    assert Antichain(times).less_than(one) == any(before(time, one) and time != one for time in times)


@laws
@given(two_sets)
def test_dominates_is_the_order_of_what_may_still_come(sets) -> None:
    one, other = map(Antichain, sets)
    assert one.dominates(other) == all(any(before(a, b) for a in one) for b in other)
    assert (one.dominates(other) and other.dominates(one)) == (one == other)
    assert one.dominates(Antichain())


@laws
@given(two_sets)
def test_extend_is_insert_for_each(sets) -> None:
    first, more = sets
    antichain, other = Antichain(first), Antichain(first)
    added = [other.insert(time) for time in more]
    assert antichain.extend(more) == any(added)
    assert antichain == other == Antichain(more + first)


@laws
@given(several)
def test_it_is_equal_in_any_order_and_in_either_form_and_survives_json(times) -> None:
    antichain = Antichain(times)
    assert antichain == Antichain(reversed(antichain.elements)) == Frontier(times)
    assert Frontier(times) == antichain
    assert Antichain.from_json(json.loads(json.dumps(antichain.to_json()))) == antichain
    assert hash(Frontier(times)) == hash(Frontier(reversed(times)))


def test_products_as_timely_dataflow_inserts_them() -> None:
    antichain = Antichain()
    added = [antichain.insert(Product(*pair)) for pair in [(3, 5), (5, 4), (1, 9), (1, 9), (4, 4)]]
    assert added == [True, True, True, False, True]
    assert set(antichain.elements) == {Product(3, 5), Product(1, 9), Product(4, 4)}


def test_clear_leaves_nothing() -> None:
    antichain = Antichain([3])
    antichain.clear()
    assert antichain == Antichain()
    assert antichain.insert((1, 2))


def test_a_time_of_another_kind_is_refused_and_changes_nothing() -> None:
    antichain = Antichain([Product(1, 2)])
    with pytest.raises(TimestampError, match="cannot be compared"):
        antichain.insert(3)
    assert antichain == Antichain([Product(1, 2)])
    assert 3 not in antichain


def test_an_antichain_has_no_hash_because_it_changes() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Antichain())
    assert Antichain() != []
