"""Windows and panes: the arithmetic, checked against listing every window."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import PipelineError
from dagster_operators.operators.windows.windows import Sliding, Tumbling, Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, parse_duration

windows = st.builds(Window, size=st.integers(1, 40), slide=st.integers(1, 40), offset=st.integers(-50, 50))
times = st.integers(-200, 200)


def starts(window: Window, low: int, high: int) -> list[int]:
    """All window starts in a range, by definition."""
    return [start for start in range(low, high + 1) if (start - window.offset) % window.slide == 0]


def of_time(window: Window, time: int) -> list[int]:
    """The starts of the windows that hold a moment, by definition."""
    return [start for start in starts(window, time - window.size, time) if start <= time < start + window.size]


def pane_of(window: Window, time: int) -> int:
    return time - (time - window.offset) % window.pane


@pytest.mark.parametrize("earlier", ["-8 hours", "- 8h", " -480 minutes", timedelta(hours=-8), -8 * 3_600_000_000])
@pytest.mark.parametrize("made", [Tumbling, lambda size, **given: Sliding(size, "1 hour", **given)])
def test_a_negative_offset_gives_the_windows_of_the_positive_one_that_is_a_size_later(made, earlier):
    window, other = made("1 day", offset=earlier), made("1 day", offset="16 hours")
    moments = [parse_duration(text) * sign for text in ("0 s", "15 h", "16 h", "17 h", "40 h") for sign in (1, -1)]
    assert [window.last_start(moment) for moment in moments] == [other.last_start(moment) for moment in moments]
    assert [window.first_end(moment) for moment in moments] == [other.first_end(moment) for moment in moments]


@pytest.mark.parametrize(
    ("offset", "problem"),
    [
        ("-1 hour 30 minutes", "only the first part has a sign"),
        ("--1 hour", "no duration"),
        (-8, "8 has no unit"),
        ("-", "no dur"),
    ],
)
def test_an_offset_that_may_mean_several_things_is_refused(offset, problem):
    with pytest.raises(PipelineError, match=problem):
        Tumbling("1 day", offset=offset)


@given(windows, times)
def test_every_moment_of_a_pane_is_in_the_same_windows(window: Window, time: int) -> None:
    pane = pane_of(window, time)
    assert pane <= time < pane + window.pane
    for moment in range(pane, pane + window.pane):
        assert of_time(window, moment) == of_time(window, time)
    assert window.covers(pane) == bool(of_time(window, time))


@given(windows, times)
def test_a_pane_expires_with_its_last_window_and_first_closes_with_its_first(window: Window, time: int) -> None:
    pane, holding = pane_of(window, time), of_time(window, time)
    if not holding:
        return
    assert window.first_end(pane) == min(holding) + window.size
    last = max(holding) + window.size
    assert window.expired(pane, last)
    assert not window.expired(pane, last - 1)


@given(windows, times)
def test_the_output_watermark_is_the_first_start_still_open(window: Window, watermark: int) -> None:
    still_open = [start for start in starts(window, watermark - 200, watermark + 200) if start + window.size > watermark]
    assert window.output_watermark(watermark) == min(still_open)


def test_the_ends_of_time_stay_what_they_are() -> None:
    window = Tumbling("1 hour")
    assert window.output_watermark(MIN_WATERMARK) == MIN_WATERMARK
    assert window.output_watermark(MAX_WATERMARK) == MAX_WATERMARK


@pytest.mark.parametrize("size", ["0 s", "1 month", "soon", "-1 hour"])
def test_a_size_must_be_a_positive_fixed_duration(size: str) -> None:
    with pytest.raises(PipelineError, match="size of a window"):
        Tumbling(size)


def test_a_slide_may_exceed_the_size_and_need_not_divide_it() -> None:
    assert Sliding("10 s", "4 s").pane == 2_000_000
    assert not Sliding("1 s", "4 s").covers(2_000_000)
