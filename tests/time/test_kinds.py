"""Kinds of times: parts, columns, the least of each, and what is written of a class of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import Frontier, Product, Times, decode_time, encode_time, less_equal
from dagster_operators.time.codec import UnknownTime, know
from dagster_operators.time.kinds import assembled, fits, is_least, names_of, parts_of, taken_apart


@dataclass(frozen=True)
class Release:
    major: int
    minor: int

    def less_equal(self, other):
        return (self.major, self.minor) <= (other.major, other.minor)

    def __lt__(self, other):
        return (self.major, self.minor) < (other.major, other.minor)


KINDS = st.recursive(
    st.sampled_from([int, datetime, Release]),
    lambda inner: st.builds(Product, inner, inner) | st.tuples(inner, inner) | st.tuples(inner),
    max_leaves=4,
)
WHOLE = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(kind=KINDS, data=st.data())
def test_a_time_is_its_parts_and_what_is_written_of_it(kind, data):
    know(Release)
    parts = tuple(data.draw(WHOLE) for _ in parts_of(kind))
    time = assembled(kind, parts)
    assert taken_apart(time) == parts
    assert fits(kind, time)
    assert decode_time(encode_time(time)) == time
    least = Times(kind, names_of(kind, "t")).least
    assert is_least(least)
    assert less_equal(least, time)
    assert is_least(time) == (time == least)


def test_a_class_that_nobody_made_known_can_be_shown_and_written_again():
    @dataclass(frozen=True)
    class Elsewhere:
        part: int

    told = encode_time(Elsewhere(5))
    found = decode_time(told)
    assert isinstance(found, UnknownTime)
    assert found.parts == (5,)
    assert encode_time(found) == told
    assert Frontier([found]) == Frontier([decode_time(told)])


@pytest.mark.parametrize("kind", [float, str, (), Product(int, float), "int"], ids=str)
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(TimestampError, match="no kind of times"):
        parts_of(kind)


def test_in_event_time_only_a_first_part_that_is_one_counts():
    assert Times(Product(datetime, int), ("t", "t_1")).watermark(Frontier([Product(6, 1), Product(5, 7)])) == 5
    assert Times((int, int), ("t", "t_1")).watermark(Frontier([(6, 1)])) == -(2**63)
    assert Times((int, int), ("t", "t_1")).watermark(Frontier()) == 2**63 - 1
