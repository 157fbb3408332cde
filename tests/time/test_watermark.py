"""Durations, event times for people, and how watermarks advance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.time.watermark import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    advance,
    combine,
    format_duration,
    format_timestamp,
    parse_duration,
    to_micros,
)
from tests.time.times import anywhere, laws

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1 hour 30 minutes", 5400 * SECOND),
        ("90m", 5400 * SECOND),
        ("1.5 hours", 5400 * SECOND),
        ("2 minutes 30 seconds", 150 * SECOND),
        ("1h30min", 5400 * SECOND),
        ("10s", 10 * SECOND),
        ("1 Week", 604_800 * SECOND),
        ("2 d", 172_800 * SECOND),
        ("250 ms", 250_000),
        ("7 us", 7),
        ("0 seconds", 0),
        (timedelta(days=1, microseconds=1), 86_400 * SECOND + 1),
        (timedelta(seconds=-1), -SECOND),
        (42, 42),
    ],
)
def test_durations_are_read_as_people_write_them(text, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    "text", ["", "  ", "soon", "1", "1 month", "2 years", "1 hour and 3 minutes", "1 hour 3", "-1 hour", "hour"]
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration of fixed length; write for example '1 hour'"):
        parse_duration(text)


@laws
@given(st.integers(-(10**15), 10**15))
def test_a_duration_for_people_is_read_back_as_it_was(micros: int) -> None:
    if micros >= 0:
        assert parse_duration(format_duration(micros)) == micros
    assert format_duration(micros).startswith("-") == (micros < 0)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (SECOND, "1 second"),
        (2 * SECOND, "2 seconds"),
        (604_800 * SECOND, "1 week"),
        (90 * 60 * SECOND, "90 minutes"),
        (1, "1 microsecond"),
    ],
)
def test_a_duration_is_given_in_its_largest_whole_unit(micros: int, text: str) -> None:
    assert format_duration(micros) == text


@laws
@given(st.datetimes(timezones=st.none() | st.timezones() | st.just(timezone(timedelta(hours=-5)))))
def test_a_moment_is_microseconds_since_1970_in_utc(moment: datetime) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    assert to_micros(moment) * timedelta(microseconds=1) == aware - datetime(1970, 1, 1, tzinfo=UTC)


def test_event_times_for_people() -> None:
    assert format_timestamp(0) == "1970-01-01T00:00:00Z"
    assert format_timestamp(-1) == "1969-12-31T23:59:59.999999Z"
    assert format_timestamp(MIN_WATERMARK) == "none"
    assert format_timestamp(MAX_WATERMARK) == "end"
    assert format_timestamp(MAX_WATERMARK - 1) == f"{MAX_WATERMARK - 1} microseconds"


@laws
@given(st.lists(st.none() | st.integers(-1000, 1000), max_size=8), st.integers(0, 50))
def test_a_watermark_is_the_largest_event_time_less_the_lateness_and_never_moves_back(largest, lateness: int) -> None:
    watermark, seen = MIN_WATERMARK, []
    for time in largest:
        moved = advance(watermark, time, lateness)
        seen += [] if time is None else [time]
        assert moved >= watermark
        assert moved == max((time - lateness for time in seen), default=MIN_WATERMARK)
        watermark = moved


@laws
@given(st.lists(anywhere, max_size=5))
def test_several_inputs_are_as_far_as_the_slowest(watermarks: list[int]) -> None:
    combined = combine(watermarks)
    assert all(combined <= watermark for watermark in watermarks)
    assert combined in (watermarks or [MAX_WATERMARK])
