"""The laws of summaries: the identity, composition, and that they are monotone and keep to the range of times."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import IDENTITY, Direction, Enter, Leave, Product, direction, followed_by, less_equal, results_in
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.time.times import anywhere, before, laws, parts

steps = st.integers(-3, 3) | st.sampled_from([MAX_WATERMARK, MIN_WATERMARK, 2**62])
FORMS = [
    lambda number: number,
    lambda number: st.tuples(number, number),
    lambda number: st.builds(Product, number, number),
    lambda number: st.builds(Product, st.builds(Product, number, number), st.tuples(number, number)),
]


def of_one_form(summaries: int, times: int) -> st.SearchStrategy:
    """So many summaries and times that fit each other; some summaries are the identity."""
    return st.sampled_from(FORMS).flatmap(
        lambda form: st.tuples(*[form(steps) | st.just(IDENTITY)] * summaries, *[form(anywhere)] * times)
    )


def through(summaries, time):
    for summary in summaries:
        time = None if time is None else results_in(summary, time)
    return time


def small(summary) -> bool:
    """Whether no sum of a few of these can leave the range of times on the way and come back."""
    return summary is IDENTITY or all(part >= 0 for part in parts(summary))


@laws
@given(of_one_form(1, 1))
def test_the_identity_changes_nothing(given_) -> None:
    summary, time = given_
    assert results_in(IDENTITY, time) == time
    assert followed_by(IDENTITY, summary) == summary == followed_by(summary, IDENTITY)


@laws
@given(of_one_form(1, 1))
def test_each_part_is_added_and_what_leaves_the_range_of_times_is_none(given_) -> None:
    summary, time = given_
    moved = parts(summary) if summary is not IDENTITY else (0,) * len(parts(time))
    sums = tuple(a + b for a, b in zip(moved, parts(time), strict=True))
    result = results_in(summary, time)
    if all(MIN_WATERMARK <= total <= MAX_WATERMARK for total in sums):
        assert parts(result) == sums
    else:
        assert result is None


@laws
@given(of_one_form(2, 1))
def test_one_followed_by_another_is_both_in_turn(given_) -> None:
    first, after, time = given_
    both, in_turn = followed_by(first, after), through([first, after], time)
    at_once = None if both is None else results_in(both, time)
    if in_turn is not None:
        assert at_once == in_turn
    if small(first) and small(after):
        assert at_once == in_turn


@laws
@given(of_one_form(3, 1))
def test_composition_is_associative(given_) -> None:
    a, b, c, time = given_
    ab, bc = followed_by(a, b), followed_by(b, c)
    left = None if ab is None else followed_by(ab, c)
    right = None if bc is None else followed_by(a, bc)
    if ab is not None and bc is not None:
        assert left == right
    if through([a, b, c], time) is not None:
        assert left is not None
        assert right is not None


@laws
@given(of_one_form(1, 2))
def test_summaries_are_monotone(given_) -> None:
    summary, one, other = given_
    one_moved, other_moved = results_in(summary, one), results_in(summary, other)
    if before(one, other) and one_moved is not None and other_moved is not None:
        assert less_equal(one_moved, other_moved)


@laws
@given(of_one_form(1, 1))
def test_the_direction_says_where_times_go(given_) -> None:
    summary, time = given_
    result = results_in(summary, time)
    if result is None:
        return
    assert (direction(summary) is Direction.FORWARD) == (before(time, result) and time != result)
    assert (direction(summary) is Direction.STAY) == (time == result)


def test_the_identity_is_one_object() -> None:
    assert pickle.loads(pickle.dumps(IDENTITY)) is IDENTITY  # noqa: S301 - our own
    assert copy.deepcopy(IDENTITY) is IDENTITY


def test_a_class_that_does_not_say_may_move_back() -> None:
    assert direction(object()) is Direction.BACK


@pytest.mark.parametrize(
    ("summary", "time"), [(1, (1,)), ((1, 2), 1), ((1,), (1, 2)), (Product(0, 1), 5), (0.5, 5), (0, Product(1, 2))]
)
def test_a_summary_must_fit_the_time(summary, time) -> None:
    with pytest.raises(TimestampError, match="does not fit the time"):
        results_in(summary, time)


@pytest.mark.parametrize(("first", "after"), [(1, (1,)), ((1,), (1, 2)), (1, 0.5)])
def test_summaries_of_different_forms_cannot_follow_each_other(first, after) -> None:
    with pytest.raises(TimestampError, match="cannot follow"):
        followed_by(first, after)


@laws
@given(anywhere, st.integers(-3, 3), st.integers(-3, 3))
def test_ways_through_scopes_are_their_steps_in_turn(time: int, before_scope: int, after_scope: int) -> None:
    ways = [before_scope, Enter(), Product(0, 1), Enter((0, 0)), Leave(), Product(1, 1), Leave(), after_scope]
    composed = ways[0]
    for i, way in enumerate(ways[1:], start=2):
        composed = followed_by(composed, way)
        assert results_in(composed, time) == through(ways[:i], time)


def test_a_scope_entered_and_left_at_once_is_the_identity() -> None:
    assert followed_by(Enter(), Leave()) is IDENTITY
    assert direction(followed_by(Enter(), Product(0, 1))) is Direction.STAY


def test_only_a_scope_can_be_left() -> None:
    with pytest.raises(TimestampError, match=r"of no scope.*leave only"):
        results_in(Leave(), 5)
