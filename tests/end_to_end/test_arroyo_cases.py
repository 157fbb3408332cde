"""Cases of Arroyo's SQL tests over generated input of their kind, cut in many ways; the answers are computed in plain Python.

The inputs are those of the original cases or like them: ``impulse`` is a formula (a counter every 200 ms), ``cars`` is a list of
trips in which rows come up to 23 seconds out of order.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from tests.end_to_end.full_computation import plain
from tests.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

START = datetime(2023, 10, 9, 17, 13, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
IMPULSE = "timestamp timestamp, counter long, subtask_index long"
CARS = "timestamp timestamp, driver_id long, event_type string"
Rows = list[dict[str, Any]]


def impulse() -> Rows:
    return [{"timestamp": START + timedelta(milliseconds=200 * n), "counter": n, "subtask_index": 0} for n in range(100)]


def cars() -> Rows:
    chance = random.Random(7)  # noqa: S311 - the same rows each time
    rows = []
    for n in range(400):
        moment = START + timedelta(seconds=40 * n - chance.randrange(24))
        rows.append(
            {"timestamp": moment, "driver_id": chance.randrange(100, 120), "event_type": chance.choice(["pickup", "dropoff"])}
        )
    return rows


def source(pipeline: do.Pipeline, name: str, rows: Rows, *, schema: str, lateness: str, size: int) -> do.Stream:
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return pipeline.source(
        name, do.MemorySource(batches, schema=schema), event_time="timestamp", lateness=lateness, finished=True
    )


def session_window(pipeline: do.Pipeline, size: int) -> None:
    rows = source(pipeline, "impulse", impulse(), schema=IMPULSE, lateness="1 second", size=size)
    users = rows.key_by("CASE WHEN counter % 10 = 0 THEN 0L ELSE counter END AS user_id")
    sessions = users.window(do.Session("20 seconds")).aggregate(rows="count(*)")
    sessions.select("window_start AS start", "window_end AS end", "user_id", "rows").to_table("out")


def sessions_expected() -> Counter[Any]:
    times = defaultdict(list)
    for row in impulse():
        times[0 if row["counter"] % 10 == 0 else row["counter"]].append(row["timestamp"])
    gap = timedelta(seconds=20)  # every pause is shorter
    return Counter((min(found), max(found) + gap, user, len(found)) for user, found in times.items())


def windowed_inner_join(pipeline: do.Pipeline, size: int) -> None:
    rows = source(pipeline, "cars", cars(), schema=CARS, lateness="1 minute", size=size)
    dropoffs, pickups = (
        rows.filter(f"event_type = '{kind}'").window(do.Tumbling("1 hour")).aggregate({name: "count(DISTINCT driver_id)"})
        for kind, name in (("dropoff", "drivers"), ("pickup", "pickups"))
    )
    dropoffs.window().join(pickups.window()).select("window_start AS hour", "drivers", "pickups").to_table("out")


def join_expected() -> Counter[Any]:
    drivers: dict[Any, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in cars():
        drivers[row["timestamp"].replace(minute=0, second=0)][row["event_type"]].add(row["driver_id"])
    return Counter((hour, len(kinds["dropoff"]), len(kinds["pickup"])) for hour, kinds in drivers.items() if len(kinds) > 1)


def offset_impulse_join(pipeline: do.Pipeline, size: int) -> None:
    sides = []
    for name, lateness in (("first", "0 seconds"), ("second", "10 minutes")):
        rows = source(pipeline, name, impulse(), schema=IMPULSE, lateness=lateness, size=size)
        counts = rows.key_by("counter").window(do.Tumbling("1 second")).aggregate({f"{name}_count": "count(*)"})
        sides.append(counts.key_by("counter").window())
    sides[0].join(sides[1]).select("window_start AS start", "counter").to_table("out")


def offset_expected() -> Counter[Any]:
    return Counter((row["timestamp"].replace(microsecond=0), row["counter"]) for row in impulse())


CASES: dict[str, tuple[Callable[[do.Pipeline, int], None], Callable[[], Counter[Any]]]] = {
    "session_window": (session_window, sessions_expected),
    "windowed_inner_join": (windowed_inner_join, join_expected),
    "offset_impulse_join": (offset_impulse_join, offset_expected),
}


def check(engine: Spark, case: str, size: int, partitions: int) -> None:
    build, expected = CASES[case]
    conf, name = engine.session().conf, "spark.sql.shuffle.partitions"
    before = conf.get(name, None)
    conf.set(name, str(partitions))
    try:
        with tempfile.TemporaryDirectory() as root:
            pipeline = do.Pipeline("case", root=root, engine=engine)
            build(pipeline, size)
            late = sum(sum(result.late_rows.values()) for result in pipeline.run_until_caught_up())
            rows = Counter(tuple(map(plain, row)) for row in pipeline.read("out").collect())
    finally:
        conf.unset(name) if before is None else conf.set(name, before)
    assert rows == expected()
    assert late == 0


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [50, 1000])
@pytest.mark.parametrize("case", CASES)
def test_the_answer_does_not_depend_on_the_cut(case: str, size: int, partitions: int) -> None:
    check(SAIL, case, size, partitions)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_answer_is_the_same_on_spark() -> None:
    check(EMBEDDED, "windowed_inner_join", 200, 3)
