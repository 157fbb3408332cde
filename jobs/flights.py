"""The main job: every flight that left New York in 2013, turned into seven tables, one daily file an epoch.

The feed (``jobs.feed``) drops a file a day into the landing folder. ``clean_flights`` is what flew, with airline and plane; from it come
departures per airport and hour and per sliding day, statistics per route (one current row per route), each flight with the
weather of its hour, and a league of the worst delays of every day.
"""

from __future__ import annotations

from pathlib import Path

import dagster_operators as do
from jobs.feed import AIRLINES_SCHEMA, FLIGHTS_SCHEMA, PLANES_SCHEMA, WEATHER_SCHEMA

PLACES = 10
"""How many places the league of a day has."""


def build(folder: Path, *, files_per_epoch: int | None = 1) -> do.Pipeline:
    """The flights pipeline below a folder: input in ``landing`` and ``reference``, tables in ``flights``.

    Args:
        folder: Where everything lies.
        files_per_epoch: How many daily files an epoch takes; None for all there are.
    """
    pipeline = do.Pipeline("flights", root=str(folder / "flights"))
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
    clean = (
        landed.filter("dep_delay IS NOT NULL", name="departed")
        .lookup(airlines, on="carrier", columns=["name AS airline"], name="airlines")
        .lookup(planes, on="tailnum", columns=["manufacturer", "model", "year AS built", "seats"], name="planes")
        .select(
            "sched_dep", "time_hour", "origin", "dest", "carrier", "airline", "flight", "tailnum", "manufacturer", "model", "built",
            "seats", "dep_delay", "arr_delay", "air_time", "distance", name="enriched",
        )
    )  # fmt: skip
    clean.to_table(
        "clean_flights",
        description="Flights that left, with their airline and plane",
        checks={"has_origin": "origin IN ('EWR', 'JFK', 'LGA')", "airline_known": do.Check("airline IS NOT NULL", blocking=False)},
    )
    _delays(clean)
    _weather(clean, weather)
    _league(clean)
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
    clean.lookup(
        weather,
        on=["origin", "time_hour"],
        columns=["temp", "wind_speed", "wind_gust", "precip", "visib"],
        name="weather",
    ).select(
        "sched_dep", "origin", "dest", "carrier", "flight", "dep_delay", "temp", "wind_speed", "wind_gust", "precip", "visib",
        name="with_weather",
    ).to_table("flights_weather", description="Every flight with the weather at its airport in the hour of its departure")  # fmt: skip


def _league(clean: do.Stream) -> None:
    """The ten worst delays of each New York day (which begins at 05:00 UTC)."""
    worst = "named_struct('delay', dep_delay, 'carrier', carrier, 'flight', flight, 'origin', origin, 'dest', dest)"
    ranked = f"slice(sort_array(flown, false), 1, {PLACES})"
    (
        clean.filter("dep_delay >= 60", name="very_late")
        .window(do.Tumbling("1 day", offset="5 hours"))
        .aggregate(flown=f"collect_list({worst})", name="per_day")
        .select("window_start AS day", f"{ranked} AS worst", name="ten_worst")
        .select("day", "explode(transform(worst, (row, place) -> named_struct('place', place + 1, 'row', row))) AS ranked", name="places")
        .select("day", "ranked.place AS place", "ranked.row.delay AS dep_delay", "ranked.row.carrier AS carrier",
                "ranked.row.flight AS flight", "ranked.row.origin AS origin", "ranked.row.dest AS dest", name="league")
        .to_table("worst_delays", description=f"The {PLACES} longest departure delays of every day")
    )  # fmt: skip
