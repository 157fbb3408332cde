"""A rebuild cut as the pipeline was gives what its epochs gave, whatever moved time between them without any row."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("sail")

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SOURCES = ("left", "right")
_TABLES = ("windows", "sessions", "late")


def _program(place: Path, lateness: str, finished: str) -> do.Pipeline:
    made = do.Pipeline("moved", root=str(place / "root"), engine=SAIL)
    left, right = (
        made.source(
            name, do.FileSource(f"{place}/{name}/*.csv", schema="v long, at timestamp"), event_time="at", lateness=lateness,
            finished=name == finished,
        )
        for name in _SOURCES
    )  # fmt: skip
    rows = left.union(right)
    windows = rows.window(do.Tumbling("10 minutes")).aggregate(n="count(*)", total="sum(v)", name="per_window")
    windows.to_table("windows")
    windows.late().to_table("late")
    rows.window(do.Session("5 minutes")).aggregate(total="sum(v)", name="per_session").to_table("sessions")
    return made


def _content(made: do.Pipeline) -> dict[str, Counter[Any]]:
    return {table: Counter(map(tuple, made.read(table).collect())) for table in _TABLES}


def _land(place: Path, name: str, epoch: int, minutes: list[int]) -> None:
    lines = [f"{10**number},{(_BEGIN + timedelta(minutes=minute)).isoformat()}" for number, minute in enumerate(minutes)]
    (place / name / f"{epoch:03d}.csv").write_text("\n".join(["v,at", *lines, ""]))


def _moved(place: Path, seed: int) -> tuple[dict[str, Counter[Any]], do.Pipeline]:
    """A pipeline whose rows hang behind its watermark, which moves with rows, by hand, back with an epoch and to the end."""
    chance = random.Random(seed)  # noqa: S311 - the same history each time
    for name in _SOURCES:
        (place / name).mkdir()
    finished = ""
    for epoch in range(6):
        for name in chance.sample(_SOURCES, chance.randint(1, 2)):
            _land(place, name, epoch, [max(0, 10 * epoch - chance.randrange(25)), 10 * epoch + chance.randrange(10)])
        made = _program(place, chance.choice(["0 minutes", "15 minutes"]), finished)
        made.run_until_caught_up()
        last = made.history()[-1].epoch
        move = chance.choice(["by hand", "by hand", "back", "end", "none"])
        if move == "by hand":
            to = _BEGIN + timedelta(minutes=10 * epoch + chance.randrange(5, 25))
            for name in chance.sample(_SOURCES, chance.randint(1, 2)):
                if made.history()[-1].watermarks.get(name, 0) < to.timestamp() * 1_000_000:
                    made.set_watermark(name, to.isoformat())
        elif move == "back" and last > 1:
            made.rollback(to=chance.randint(max(1, last - 3), last - 1))
        elif move == "end" and epoch > 3:
            finished = chance.choice(_SOURCES)
    made = _program(place, "0 minutes", finished)
    made.run_until_caught_up()
    return _content(made), made


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_a_rebuild_ends_each_epoch_at_the_time_at_which_the_next_one_began(seed: int, tmp_path: Path) -> None:
    there, made = _moved(tmp_path, seed)
    made.rebuild(epochs_at_once=1)
    assert _content(made) == there


def _at(made: do.Pipeline) -> set[tuple[int, int]]:
    """The minute at which each window begins, and its total."""
    return {
        (int((row["window_start"] - _BEGIN).total_seconds() // 60), row["total"]) for row in made.to_arrow("windows").to_pylist()
    }


def _begun(place: Path, *rows: tuple[str, list[int]]) -> do.Pipeline:
    for name in _SOURCES:
        (place / name).mkdir()
    made = _program(place, "0 minutes", "")
    for epoch, (name, minutes) in enumerate(rows):
        _land(place, name, epoch, minutes)
        made.run_until_caught_up()
    return made


def test_time_that_moved_before_the_first_row_is_that_of_the_first_epoch(tmp_path: Path) -> None:
    made = _begun(tmp_path, ("right", [100]))
    made.set_watermark("left", (_BEGIN + timedelta(minutes=30)).isoformat())
    _land(tmp_path, "left", 1, [1, 45, 90])
    made.run_until_caught_up()
    assert _at(made) == {(40, 10)}
    made.rebuild(epochs_at_once=1)
    assert _at(made) == {(40, 10)}


@pytest.mark.parametrize("at_once", [1, 200])
def test_rows_that_were_late_are_so_where_earlier_epochs_are_left_out(at_once: int, tmp_path: Path) -> None:
    made = _begun(tmp_path, ("left", [1, 35]), ("right", [1, 35]), ("left", [2, 36, 90]), ("right", [90]))
    assert _at(made) == {(0, 2), (30, 30)}
    made.rebuild(since=3, epochs_at_once=at_once)
    assert _at(made) == {(30, 10)}  # the row of minute 2 is in no window, as it was late


@pytest.mark.parametrize("to", [0, 1])
def test_rows_that_came_again_behind_a_time_that_was_kept_count_once(to: int, tmp_path: Path) -> None:
    made = _begun(tmp_path, ("left", [1, 35]), ("left", [36, 45]), ("right", [60]))
    there = _at(made)
    made.reset("left", to=to, tables="keep")
    made.run_until_caught_up()
    made.rebuild(epochs_at_once=1)
    assert _at(made) == there == {(0, 1), (30, 11)}
