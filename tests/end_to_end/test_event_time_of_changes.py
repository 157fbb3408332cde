"""Change events and extracts with the event time of their rows: what goes by time takes their changes."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError
from tests.engines import ENGINES, SAIL

SCHEMA = "id long, k string, v long, at timestamp"
UNSENT = "__debezium_unavailable_value"
Row = dict[str, Any]


def hour(number: int) -> str:
    return f"{dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number):%Y-%m-%dT%H:%M:%SZ}"


def over(
    folder: Path, kind: str, engine: Any = SAIL, lateness: str = "0 seconds", **settings: Any
) -> tuple[do.Pipeline, do.Stream]:
    (folder / "in").mkdir(exist_ok=True)
    path = str(folder / "in")
    events = do.FileSource(path, format="debezium-json", schema=SCHEMA, key="id", **settings)
    extracts = do.SnapshotSource(do.FileSource(path, schema=SCHEMA), key="id", max_deleted=1.0)
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    source = events if kind == "events" else extracts
    return pipeline, pipeline.source("rows", source, event_time="at", lateness=lateness)


def arrive(folder: Path, number: int, lines: list[Row]) -> None:
    path = folder / "in" / f"{number:03}.json"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def changed(randomly: random.Random, there: dict[int, Row]) -> list[Row]:
    """Some change events, of rows by their keys, which become what the events leave."""
    events: list[Row] = []
    for _ in range(randomly.randint(1, 6)):
        key = randomly.randint(1, 5)
        row = {"id": key, "k": randomly.choice("ab"), "v": randomly.randint(0, 9), "at": hour(randomly.randint(0, 40))}
        known = there.get(key)
        if known and randomly.random() < 0.3:
            del there[key]
            events.append({"op": "d", "before": {"id": key}})
            continue
        unsent = known is not None and randomly.random() < 0.3
        events.append({"op": "u" if known else "c", "after": {**row, "at": UNSENT} if unsent else row})
        there[key] = {**row, "at": known["at"]} if known and unsent else row
    return events


@pytest.mark.sail
@pytest.mark.parametrize("kind", ["events", "extracts"])
def test_windows_of_change_events_and_extracts(tmp_path: Path, kind: str) -> None:
    randomly = random.Random(7)  # noqa: S311 - the same changes each time
    pipeline, rows = over(tmp_path, kind, lateness="100 days")
    windows = rows.key_by("k").window(do.Tumbling("6 hours"))
    windows.aggregate(n="count(*)", total="sum(v)", most="max(v)").to_table("windows")
    rows.key_by("k").aggregate(n="count(*)", forget_after="200 days", name="counts").to_table("counts")
    there: dict[int, Row] = {}
    for number in range(5):
        events = changed(randomly, there)
        arrive(tmp_path, number, events if kind == "events" else [*there.values()])
        assert not any(pipeline.run_epoch().late_rows.values())
        wanted: dict[tuple[str, int], list[int]] = {}
        for row in there.values():
            begins = dt.datetime.fromisoformat(row["at"]).timestamp() // (6 * 3600)
            wanted.setdefault((row["k"], int(begins)), []).append(row["v"])
        found = {
            (row.k, int(row.window_start.replace(tzinfo=row.window_start.tzinfo or dt.UTC).timestamp() // (6 * 3600))): tuple(
                row
            )[-3:]
            for row in pipeline.read("windows").collect()
        }
        assert found == {key: (len(values), sum(values), max(values)) for key, values in wanted.items()}
        assert {row.k: row.n for row in pipeline.read("counts").collect()} == Counter(row["k"] for row in there.values())


def event(op: str, key: int, at: int | None = None, v: int = 0, **before: Any) -> Row:
    row = {"id": key, "k": "a", "v": v, "at": None if at is None else hour(at)}
    return {"op": op, "before": {"id": key}} if op == "d" else {"op": op, "before": before or None, "after": row}


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_what_is_taken_back_has_the_time_that_it_came_with(tmp_path: Path, engine: str) -> None:
    pipeline, rows = over(tmp_path, "events", ENGINES[engine], lateness="2 hours")
    rows.window(do.Tumbling("1 hour")).aggregate(n="count(*)", total="sum(v)", name="windows").to_table("windows")
    rows.final().select("id", "v").to_table("final")
    rows.within_last("6 hours").latest("id").to_table("recent")
    epochs = [
        [event("c", 1, 0, 1), event("c", 2, 4, 2), event("c", 3, 5, 3)],  # the watermark is at 3
        [event("u", 2, 5, 20), event("d", 1)],  # the row at 0 is of a closed window, and stays there
        [event("u", 3, 10, 30), {"op": "u", "after": {"id": 2, "k": "a", "v": 21, "at": UNSENT}}],  # the watermark is at 8
        [event("c", 4, 14, 4)],
    ]
    late = []
    for number, events in enumerate(epochs):
        arrive(tmp_path, number, events)
        late.append(pipeline.run_epoch().late_rows.get("windows", 0))
    assert late == [0, 1, 0, 0]
    found = {row.window_start.hour: (row.n, row.total) for row in pipeline.read("windows").collect()}
    assert found == {0: (1, 1), 5: (1, 21), 10: (1, 30), 14: (1, 4)}
    assert sorted(tuple(row) for row in pipeline.read("final").collect()) == [(1, 1), (2, 21), (3, 30)]
    assert sorted(row.id for row in pipeline.read("recent").collect()) == [3, 4]


@pytest.mark.sail
def test_a_row_without_the_time_is_refused_or_set_aside_with_all_that_its_event_does(tmp_path: Path) -> None:
    without = event("c", 1, 0), event("c", 2, 0), event("u", 3, None, id=1), event("u", 2, None), event("d", 2)
    pipeline, rows = over(tmp_path, "events")
    rows.latest("id").to_table("current")
    arrive(tmp_path, 0, [*without])
    with pytest.raises(BadInputError, match="2 rows have no event time"):
        pipeline.run_epoch()
    again, rows = over(tmp_path, "events", corrupt="reject")
    rows.latest("id").to_table("current")
    again.run_epoch()
    assert [row.id for row in again.read("current").collect()] == [1]
    assert again.read("rows_rejects").count() == 2
