"""Watermarks of earlier epochs with which a rebuild may begin epochs of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dagster_operators.runtime.history_time import marks_by_epoch


def marks(*epochs: tuple[Any, int, str]) -> list[int | None]:
    """The mark of each epoch, made of position, watermark and transition."""
    history: Any = [
        SimpleNamespace(epoch=number, offsets={"old": position}, watermarks={"old": mark}, transition=transition)
        for number, (position, mark, transition) in enumerate(epochs, 1)
    ]
    made = marks_by_epoch(history, {"new": "old"})
    return [made[number].get("new") for number in range(1, len(epochs) + 1)]


def test_time_moves_with_rows_and_by_hand() -> None:
    assert marks((None, 7, "set_watermark"), ({"n": 1}, 10, ""), ({"n": 1}, 30, "set_watermark"), ({"n": 2}, 31, "")) == [
        7,
        10,
        30,
        31,
    ]


def test_time_that_a_reset_keeps_is_not_that_of_the_position_until_rows_come() -> None:
    assert marks((1, 10, ""), (2, 20, ""), (1, 20, "reset"), (1, 25, "set_watermark"), (2, 25, ""), (3, 30, "")) == [
        10, 20, None, None, 25, 30,
    ]  # fmt: skip
    assert marks((1, 10, ""), (None, 10, "reset"), (2, 12, "")) == [10, None, 12]


def test_a_rollback_puts_time_back_with_the_position() -> None:
    assert marks((1, 10, ""), (1, 15, "set_watermark"), (2, 20, ""), (1, 15, "rollback"), (3, 30, "")) == [10, 15, 20, 15, 30]
