"""Frontiers: watermarks are their one-element case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import TimestampError
from dagster_operators.time import FINISHED, Frontier, Product, meet
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, combine
from tests.time.times import anywhere, laws, least, of_one_kind

sets = of_one_kind.flatmap(lambda kind: st.lists(st.lists(kind, max_size=6), max_size=4))


@laws
@given(anywhere)
def test_a_watermark_and_its_frontier_say_the_same(watermark: int) -> None:
    frontier = Frontier.from_watermark(watermark)
    assert frontier.to_watermark() == watermark
    assert frontier.finished == (watermark == MAX_WATERMARK)
    assert frontier.less_equal(watermark) == (watermark != MAX_WATERMARK)


@laws
@given(st.lists(anywhere, max_size=5))
def test_the_meet_of_watermarks_is_their_combination(watermarks: list[int]) -> None:
    assert meet(map(Frontier.from_watermark, watermarks)).to_watermark() == combine(watermarks)


@laws
@given(sets)
def test_the_meet_lets_come_what_any_of_them_does(several) -> None:
    found = meet(map(Frontier, several))
    assert set(found) == least([time for times in several for time in times])
    assert all(found.dominates(Frontier(times)) for times in several)


def test_the_ends_of_time() -> None:
    assert FINISHED.finished
    assert FINISHED.to_watermark() == MAX_WATERMARK
    assert not FINISHED.less_equal(MIN_WATERMARK)
    assert Frontier.from_watermark(MIN_WATERMARK).less_equal(MIN_WATERMARK)


def test_times_of_a_scope_are_no_watermark() -> None:
    with pytest.raises(TimestampError, match=r"is no watermark.*less_equal"):
        Frontier([Product(1, 2)]).to_watermark()


def test_it_does_not_change() -> None:
    assert not hasattr(Frontier(), "insert")
    assert {Frontier([3]): "three"}[Frontier([3, 4])] == "three"
