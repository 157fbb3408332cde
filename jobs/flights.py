"""The main job: every flight that left New York in 2013, turned into nine tables, one daily file an epoch.

The feed (``jobs.feed``) drops a file a day into the landing folder. ``clean_flights`` is what flew, with airline and plane; from
it come departures per airport and hour and per sliding day, statistics per route (one current row per route), each flight with
the weather of its hour, a league of the worst delays of every day, each flight with the delay that its aircraft brought along,
the stretches of work of every aircraft, and the flights that left before the weather of their hour was reported.
"""

from __future__ import annotations

from pathlib import Path

import dagster_operators as do
from jobs.feed import AIRLINES_SCHEMA, FLIGHTS_SCHEMA, PLANES_SCHEMA, REPORTS_SCHEMA, WEATHER_SCHEMA
from jobs.late_aircraft import LateAircraft

PLACES = 10
"""How many places the league of a day has."""

FLIGHT = ("sched_dep", "time_hour", "origin", "dest", "carrier", "flight", "tailnum")
MEASURED = ("temp", "wind_speed", "wind_gust", "precip", "visib")
PLANE = ("manufacturer", "model", "built", "seats")


def build(folder: Path, *, files_per_epoch: int | None = 1, concurrent_stages: int | None = None) -> do.Pipeline:
    """The flights pipeline below a folder: input in ``landing``, ``reports`` and ``reference``, tables in ``flights``.

    Args:
        folder: Where everything lies.
        files_per_epoch: How many daily files an epoch takes; None for all there are.
        concurrent_stages: How many stages run at the same time; None for as many as there are cores.
    """
    pipeline = do.Pipeline("flights", root=str(folder / "flights"), concurrent_stages=concurrent_stages)
    reference = folder / "reference"
    airlines = do.FileSource(str(reference / "airlines.csv"), schema=AIRLINES_SCHEMA)
    planes = do.FileSource(str(reference / "planes.csv"), schema=PLANES_SCHEMA)
    weather = do.FileSource(str(reference / "weather.parquet"), schema=WEATHER_SCHEMA)

    landed = pipeline.source(
        "landed_flights",
        do.FileSource(str(folder / "landing"), format="csv", schema=FLIGHTS_SCHEMA, max_files=files_per_epoch),
        event_time="sched_dep",
        lateness="1 hour",
    )
    reports = pipeline.source(
        "weather_reports",
        do.FileSource(str(folder / "reports"), format="csv", schema=REPORTS_SCHEMA, max_files=files_per_epoch),
        event_time="reported",
        lateness="1 hour",
    )
    clean = (
        landed.filter("dep_delay IS NOT NULL", name="departed")
        .lookup(airlines, on="carrier", columns=["name AS airline"], name="airlines")
        .lookup(planes, on="tailnum", columns=["manufacturer", "model", "year AS built", "seats"], name="planes")
        .select(*FLIGHT, "airline", *PLANE, "dep_delay", "arr_delay", "air_time", "distance", name="enriched")
    )
    clean.to_table(
        "clean_flights",
        description="Flights that left, with their airline and plane",
        checks={
            "has_origin": "origin IN ('EWR', 'JFK', 'LGA')",
            "airline_known": do.Check("airline IS NOT NULL", blocking=False),
        },
    )
    _delays(clean)
    _weather(clean, weather)
    _late_weather(clean, reports)
    _league(clean)
    _aircraft(clean)
    return pipeline


def _delays(clean: do.Stream) -> None:
    figures = {
        "departures": "count(*)",
        "mean_delay": "avg(dep_delay)",
        "late_departures": "count_if(dep_delay > 15)",
        "worst_delay": "max(dep_delay)",
    }
    by_airport = clean.key_by("origin")
    by_airport.window(do.Tumbling("1 hour")).aggregate(figures, name="per_hour").to_table(
        "hourly_delays", description="Departures and delays per airport and hour"
    )
    by_airport.window(do.Sliding("24 hours", "1 hour")).aggregate(figures, name="per_day_sliding").to_table(
        "daily_delays_sliding", description="Departures and delays per airport in the 24 hours up to every hour"
    )
    clean.key_by("origin", "dest").aggregate(
        flights="count(*)",
        mean_delay="avg(arr_delay)",
        stddev_delay="stddev(arr_delay)",
        airlines="count(DISTINCT carrier)",
        aircraft="approx_count_distinct(tailnum)",
        first_flight="min(sched_dep)",
        last_flight="max(sched_dep)",
        name="per_route",
    ).to_table("routes", description="Delays of every route, over all flights so far")


def _weather(clean: do.Stream, weather: do.FileSource) -> None:
    (
        clean.lookup(weather, on=["origin", "time_hour"], columns=MEASURED, name="weather")
        .select(*FLIGHT, "dep_delay", *MEASURED, name="with_weather")
        .to_table("flights_weather", description="Every flight with the weather at its airport in the hour of its departure")
    )


def _late_weather(clean: do.Stream, reports: do.Stream) -> None:
    """A flight meets the report of its hour up to two days after it was to leave; most reports were there before."""
    place = ("origin", "time_hour")
    (
        clean.select(*FLIGHT, "dep_delay", name="departures")
        .key_by(*place)
        .interval_join(reports.key_by(*place), lower="-1 hour", upper="2 days", name="weather_of_hour")
        .filter("reported > sched_dep", name="too_late")
        .select(*FLIGHT, "dep_delay", *MEASURED, "reported",
                "(unix_seconds(reported) - unix_seconds(sched_dep)) / 3600 AS hours_late", name="late_report")
        .to_table("late_weather", description="Flights that were to leave before the weather of their hour was reported")
    )  # fmt: skip


def _league(clean: do.Stream) -> None:
    """The ten worst delays of each New York day (which begins at 05:00 UTC)."""
    columns = ("dep_delay", "carrier", "flight", "origin", "dest")
    (
        clean.filter("dep_delay >= 60", name="very_late")
        .window(do.Tumbling("1 day", offset="5 hours"))
        .top(PLACES, by=[f"{column} DESC" for column in columns], rank="place", name="ten_worst")
        .select("window_start AS day", "CAST(place AS int) AS place", *columns, name="league")
        .to_table("worst_delays", description=f"The {PLACES} longest departure delays of every day")
    )


def _aircraft(clean: do.Stream) -> None:
    needed = ("tailnum", "sched_dep", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay")
    by_aircraft = clean.filter("tailnum IS NOT NULL", name="known_aircraft")
    by_aircraft.select(*needed, name="legs").key_by("tailnum").apply(LateAircraft()).to_table(
        "late_aircraft", description="Every flight with the delay that its aircraft brought along from its flight before"
    )
    by_aircraft.key_by("tailnum").window(do.Session("8 hours")).aggregate(
        legs="count(*)", minutes_in_air="sum(air_time)", worst_delay="max(dep_delay)", name="per_stretch"
    ).to_table("aircraft_stretches", description="An aircraft's departures from New York with less than eight hours between them")
