"""The examples in one pipeline: what they come to over all flights and weather reports so far, after every epoch.

The routes that an epoch brings are upserted into ``routes``, and its weather reports appended to ``observations``. From all rows
of these tables each result is computed anew, and takes the place of the one before, in the epoch's commit.
"""

from __future__ import annotations

from pathlib import Path

import dagster_operators as do
from jobs.data_sets.kinds_of_weather import CENTRE, FIRST, centres_of, kinds_of, observed
from jobs.data_sets.routes import components, page_ranks, triangles
from jobs.data_sets.words import count_words
from jobs.feed import AIRPORTS_SCHEMA, FLIGHTS_SCHEMA, REPORTS_SCHEMA

OBSERVED = "origin string, time_hour timestamp, temp double, wind_speed double, visib double"


def build(folder: Path, *, files_per_epoch: int | None = 1, parallelism: int | None = None) -> do.Pipeline:
    """The pipeline below a folder: input in ``landing``, ``reports`` and ``reference``, tables in ``data_sets``.

    Args:
        folder: Where everything lies.
        files_per_epoch: How many daily files an epoch takes; None for all there are.
        parallelism: In how many parts data sets are computed; by default as the engine has it.

    >>> [name for name, table in build(Path("data")).tables.items() if table.replaced]
    ['page_ranks', 'components', 'triangles', 'kinds_of_weather', 'weather', 'airport_words']
    """
    pipeline = do.Pipeline("data_sets", root=str(folder / "data_sets"), parallelism=parallelism)
    _routes(pipeline, folder / "landing", files_per_epoch)
    _weather(pipeline, folder / "reports", files_per_epoch)
    airports = do.FileSource(str(folder / "reference" / "airports.csv"), schema=AIRPORTS_SCHEMA)
    pipeline.source("listed_airports", airports).select("faa", "name AS line").to_table(
        "airports", description="Airports by name"
    )
    count_words(pipeline.table("airports").data_set()).to_table(
        "airport_words", mode="replace", description="How often each word comes in the names of airports"
    )
    return pipeline


def _routes(pipeline: do.Pipeline, landing: Path, files_per_epoch: int | None) -> None:
    source = do.FileSource(str(landing), format="csv", schema=FLIGHTS_SCHEMA, max_files=files_per_epoch)
    flights = pipeline.source("landed_flights", source).select("carrier AS network", "origin", "dest")
    route = ["network", "origin", "dest"]
    flights.data_set().distinct(*route).to_table(
        "routes", mode="upsert", key=route, description="Every airline's routes from New York"
    )
    routes = pipeline.table("routes").data_set()
    page_ranks(routes).to_table(
        "page_ranks", mode="replace", description="The page rank of every airport, over all routes; on average 1"
    )
    components(routes).to_table(
        "components",
        mode="replace",
        description="The component of every airport in each airline's network, by the first of its airports",
    )
    triangles(routes).to_table(
        "triangles", mode="replace", description="Three airports of which any two have a route between them"
    )


def _weather(pipeline: do.Pipeline, reports: Path, files_per_epoch: int | None) -> None:
    source = do.FileSource(str(reports), format="csv", schema=REPORTS_SCHEMA, max_files=files_per_epoch)
    measures = pipeline.source("weather_reports", source).select("origin", "time_hour", "temp", "wind_speed", "visib")
    measures.to_table("observations", description="The weather at the airports of New York, hour by hour")
    points = pipeline.table("observations").data_set().flat_map(observed, schema=OBSERVED).name("whole observations")
    centres = centres_of(points, do.data_sets.from_collection(FIRST, schema=CENTRE).name("first centres"))
    centres.to_table("kinds_of_weather", mode="replace", description="Kinds of weather: the means of what is near them (k-means)")
    known = pipeline.table("kinds_of_weather").data_set()  # centres would be computed again: each table has a program of its own
    kinds_of(points, known, OBSERVED).to_table(
        "weather", mode="replace", description="Every observation with its kind of weather"
    )
