"""The order of times: a partial order, that of their components, and one that sorting agrees with."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import Antichain, Product, less_equal, less_than
from tests.time.times import before, laws, of_one_kind


def triples(kind: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(kind, kind, kind)


@laws
@given(of_one_kind.flatmap(triples))
def test_it_is_a_partial_order(times) -> None:
    a, b, c = times
    assert less_equal(a, a)
    assert not (less_equal(a, b) and less_equal(b, a)) or a == b
    assert not (less_equal(a, b) and less_equal(b, c)) or less_equal(a, c)


@laws
@given(of_one_kind.flatmap(triples))
def test_it_goes_component_by_component(times) -> None:
    a, b, _ = times
    assert less_equal(a, b) == before(a, b)
    assert less_than(a, b) == (before(a, b) and a != b)


@laws
@given(of_one_kind.flatmap(triples))
def test_sorting_puts_earlier_times_first(times) -> None:
    a, b, c = sorted(times)
    assert not any([less_than(b, a), less_than(c, a), less_than(c, b)])


@laws
@given(of_one_kind.flatmap(triples))
def test_equal_times_have_equal_hashes_and_survive_pickling(times) -> None:
    for time in times:
        copy = pickle.loads(pickle.dumps(time))  # noqa: S301 - our own
        assert copy == time
        assert hash(copy) == hash(time)


def test_the_empty_tuple_is_the_one_time_of_work_without_time() -> None:
    assert less_equal((), ())
    assert not less_than((), ())


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, (1,)), ((1, 2), (1, 2, 3)), (Product(1, 2), (1, 2)), (Product(1, 2), 1), ((1, (2,)), (1, 2)), (1, 1.0), (1, True)],
)
def test_times_of_different_kinds_cannot_be_compared(one, other) -> None:
    for pair in [(one, other), (other, one)]:
        with pytest.raises(TimestampError, match="cannot be compared as times"):
            less_equal(*pair)


@pytest.mark.parametrize("value", [0.5, True, None, "2013-01-01", [1], (1, 0.5), Product(1, 0.5), Product(1, (2, None))])
def test_other_values_are_no_times(value) -> None:
    with pytest.raises(TimestampError, match=r"is no time.*use a whole number"):
        Antichain([value])


class Version:
    """A class of one's own, as somebody else might write it: (branch, number), of one branch comparable."""

    def __init__(self, branch: str, number: int) -> None:
        self.value = (branch, number)

    def less_equal(self, other: Version) -> bool:
        return self.value[0] == other.value[0] and self.value <= other.value

    def __lt__(self, other: Version) -> bool:
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def test_a_class_of_ones_own_serves_as_a_time() -> None:
    antichain = Antichain([Version("a", 2), Version("b", 1), Version("a", 1)])
    assert set(antichain) == {Version("a", 1), Version("b", 1)}
    assert Antichain([Product(Version("a", 1), 3)]).less_equal(Product(Version("a", 2), 3))
