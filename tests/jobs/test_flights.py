"""The flights job over some days: what the operators of its own come to, against a plain computation over all rows."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta

import pytest
from deltalake import DeltaTable

from dagster_operators.testing import OperatorHarness
from jobs.feed import drop_days, drop_weather, write_reference
from jobs.flights import build
from jobs.late_aircraft import LateAircraft
from tests.spark_jobs import last_job

DAYS = 3
JOBS = 18
"""So many an epoch has on Spark: a job for each stage with one query, and for each state that is written before it is read."""

FIRST = date(2013, 1, 1)
HOUR = timedelta(hours=1)
LEG = "tailnum string, sched_dep timestamp, carrier string, flight int, origin string, dest string, dep_delay int, arr_delay int"


@pytest.fixture
def folder(tmp_path, monkeypatch, sail):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    write_reference(tmp_path / "reference")
    drop_weather(tmp_path / "reports", FIRST, DAYS)
    drop_days(tmp_path / "landing", FIRST, DAYS)
    return tmp_path


def flown(folder):
    """The flights that left, by aircraft, in the order of departure."""
    aircraft = {}
    for file in sorted((folder / "landing").glob("*.csv")):
        for row in csv.DictReader(file.open(encoding="utf-8")):
            if row["dep_delay"] and row["tailnum"]:
                time = datetime.fromisoformat(row["sched_dep"])
                arrival = int(row["arr_delay"]) if row["arr_delay"] else None
                leg = (time, row["carrier"], int(row["flight"]), int(row["dep_delay"]), arrival, row["air_time"])
                aircraft.setdefault(row["tailnum"], []).append(leg)
    return {tail: sorted(legs, key=lambda leg: leg[:3]) for tail, legs in aircraft.items()}


def test_delays_travel_with_the_aircraft_across_midnight(folder):
    pipeline = build(folder)
    pipeline.run_until_caught_up()
    end = datetime.fromtimestamp(pipeline.history()[-1].watermarks["landed_flights"] / 1e6, UTC)
    expected = set()
    for tail, legs in flown(folder).items():
        before = None
        for time, carrier, number, delay, arrival, _ in legs:
            carried = 0
            if before and before[4] is not None and time - before[0] <= 12 * HOUR:
                carried = max(min(before[4], delay), 0)
            if time < end:
                expected.add((tail, time, carrier, number, before and before[0], carried))
            before = (time, carrier, number, delay, arrival)
    found = {
        (row.tailnum, row.sched_dep.replace(tzinfo=UTC), row.carrier, row.flight,
         row.previous_dep and row.previous_dep.replace(tzinfo=UTC), row.inherited_delay)
        for row in pipeline.read("late_aircraft").collect()
    }  # fmt: skip
    assert len(found) > 2000
    assert found == expected
    assert any(row[4] and row[4].date() != row[1].date() and row[5] for row in found), "a delay crosses midnight"


def test_stretches_of_an_aircraft(folder):
    pipeline = build(folder)
    pipeline.run_until_caught_up()
    end = datetime.fromtimestamp(pipeline.history()[-1].watermarks["landed_flights"] / 1e6, UTC)
    expected = {}
    for tail, legs in flown(folder).items():
        stretches = []
        for leg in legs:
            if not stretches or leg[0] - stretches[-1][-1][0] >= 8 * HOUR:
                stretches.append([])
            stretches[-1].append(leg)
        expected.update({
            (tail, stretch[0][0]): len(stretch) for stretch in stretches if stretch[-1][0] + 8 * HOUR <= end
        })  # fmt: skip
    rows = pipeline.read("aircraft_stretches").collect()
    assert {(row.tailnum, row.window_start.replace(tzinfo=UTC)): row.legs for row in rows} == expected


def test_flights_that_left_before_their_weather_was_reported(folder):
    reported = {}
    for file in (folder / "reports").glob("*.csv"):
        for row in csv.DictReader(file.open(encoding="utf-8")):
            reported[row["origin"], row["time_hour"]] = datetime.fromisoformat(row["reported"])
    expected = set()
    for file in (folder / "landing").glob("*.csv"):
        for row in csv.DictReader(file.open(encoding="utf-8")):
            known, left = reported.get((row["origin"], row["time_hour"])), datetime.fromisoformat(row["sched_dep"])
            if row["dep_delay"] and known and known > left:
                expected.add((row["carrier"], int(row["flight"]), left, known))
    pipeline = build(folder)
    pipeline.run_until_caught_up()
    found = {
        (row.carrier, row.flight, row.sched_dep.replace(tzinfo=UTC), row.reported.replace(tzinfo=UTC), row.hours_late)
        for row in pipeline.read("late_weather").collect()
    }
    assert len(found) > 30
    assert {flight[:4] for flight in found} == expected
    assert all(hours == pytest.approx((known - left) / HOUR) for *_, left, known, hours in found)
    assert {flight[3].date() - flight[2].date() for flight in found} >= {timedelta(days=1)}, "it came with a later day's file"


def test_the_league_of_each_day_has_its_ten_worst_delays(folder):
    days = {}
    for file in (folder / "landing").glob("*.csv"):
        for row in csv.DictReader(file.open(encoding="utf-8")):
            if row["dep_delay"] and int(row["dep_delay"]) >= 60:
                day = (datetime.fromisoformat(row["sched_dep"]) - 5 * HOUR).date()
                flight = (int(row["dep_delay"]), row["carrier"], int(row["flight"]), row["origin"], row["dest"])
                days.setdefault(day, []).append(flight)
    pipeline = build(folder)
    pipeline.run_until_caught_up()
    table = pipeline.read("worst_delays")
    found = {}
    for row in table.collect():
        found.setdefault((row.day - 5 * HOUR).date(), []).append(tuple(row)[1:])
    assert dict(table.dtypes)["place"] == "int"
    assert sorted(found) == sorted(days)[:-1], "the last day is not over"
    for day, places in found.items():
        expected = enumerate(sorted(days[day], reverse=True)[:10], start=1)
        assert sorted(places) == [(place, *flight) for place, flight in expected]


@pytest.mark.parametrize("sizes", [(1,) * 8, (3, 5), (8,)])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_operator_does_not_depend_on_the_cut(sizes, parallelism):
    start = datetime(2024, 1, 1, 20, tzinfo=UTC)
    legs = [
        {"tailnum": "N1", "sched_dep": start + number * HOUR, "carrier": "XX", "flight": number, "origin": "JFK", "dest": "BOS",
         "dep_delay": 10 * number, "arr_delay": 5 * number}
        for number in range(8)
    ]  # fmt: skip
    with OperatorHarness(LateAircraft(), LEG, keys=["tailnum"], parallelism=parallelism) as harness:
        done = 0
        for size in sizes:
            harness.process(legs[done : done + size][::-1])
            done += size
            harness.end_epoch(legs[done - 1]["sched_dep"])
        harness.finish()
        rows = harness.rows()
    assert [row["inherited_delay"] for row in rows] == [0, 0, 5, 10, 15, 20, 25, 30]


@pytest.mark.slow
def test_an_epoch_on_spark_has_few_jobs_and_the_rows_of_sail(folder, spark, monkeypatch, tmp_path_factory):
    """The reads of lookup tables and the joins with state are no jobs of their own."""
    on_sail = build(folder)
    on_sail.run_until_caught_up()
    other = tmp_path_factory.mktemp("spark")
    for name in ("reference", "reports", "landing"):
        (other / name).symlink_to(folder / name)
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "local[2]")
    on_spark = build(other)
    jobs = []
    for _ in range(DAYS):
        before = last_job(on_spark.epochs.session)
        on_spark.run_epoch()
        jobs.append(last_job(on_spark.epochs.session) - before)
    assert max(jobs) <= JOBS
    tables = sorted(path.name for path in (folder / "flights/tables").iterdir())
    assert len(tables) >= 9
    for table in tables:
        ours, theirs = (told(DeltaTable(str(place / "flights/tables" / table))) for place in (other, folder))
        assert ours == theirs, table


def told(table):
    """A table's rows as text; of fractions twelve digits, since the last ones are those of the order of adding up."""
    rows = table.to_pyarrow_table().to_pylist()
    return sorted(
        str([f"{row[name]:.12g}" if isinstance(row[name], float) else repr(row[name]) for name in sorted(row)]) for row in rows
    )
