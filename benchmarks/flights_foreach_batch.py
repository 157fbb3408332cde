"""The peer of the flights job: its nine tables by hand, as one ``foreachBatch`` with a cache and nine writes and MERGEs.

This is what one writes who has Spark, Delta and no more: a file a micro-batch, appends that name the batch so that a repeated one
is left out, MERGEs by key, and the tables themselves as what is remembered. A MERGE is a commit of its own, so whoever reads
while a batch is at work, or after one that died, sees some tables of it and not others; the job's tables move together.

The tables are the job's, with two differences that its reader has to bear: windows that are still open are there already, and
a delay is told from the previous flight of files before or of the same file, which is right only because no file is late.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from delta.tables import DeltaTable

from jobs.feed import AIRLINES_SCHEMA, FLIGHTS_SCHEMA, PLANES_SCHEMA, REPORTS_SCHEMA, WEATHER_SCHEMA
from jobs.flights import FLIGHT, MEASURED, PLACES, PLANE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FIGURES: Final = (
    "count(*) AS departures",
    "avg(dep_delay) AS mean_delay",
    "count_if(dep_delay > 15) AS late_departures",
    "max(dep_delay) AS worst_delay",
)
_ADDED: Final = {
    "departures": "t.departures + s.departures",
    "mean_delay": "(t.mean_delay * t.departures + s.mean_delay * s.departures) / (t.departures + s.departures)",
    "late_departures": "t.late_departures + s.late_departures",
    "worst_delay": "greatest(t.worst_delay, s.worst_delay)",
}
_ROUTE: Final = (
    "count(*) AS flights",
    "avg(arr_delay) AS mean_delay",
    "stddev(arr_delay) AS stddev_delay",
    "count(DISTINCT carrier) AS airlines",
    "approx_count_distinct(tailnum) AS aircraft",
    "min(sched_dep) AS first_flight",
    "max(sched_dep) AS last_flight",
)
_REPORT_FILES: Final = 4
"""So many days of reports may meet the flights of three."""
_HEADER: Final = {"header": "true", "mode": "FAILFAST"}


@dataclass
class Result:
    """What a batch wrote.

    Attributes:
        seconds: Of the whole query; its steps are not told apart.
        rows: None: nothing counts them.
    """

    seconds: dict[str, float]
    rows: dict[str, int]


class FlightsForeachBatch:
    """The flights job by hand.

    Args:
        session: A classic Spark session with Delta.
        folder: Input in ``landing``, ``reports`` and ``reference``, as for the job; tables in ``flights/tables``.
    """

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self._folder = folder
        self._id = 0
        read = session.read.options(**_HEADER)
        reference = folder / "reference"
        self._airlines = (
            read.schema(AIRLINES_SCHEMA).csv(str(reference / "airlines.csv")).selectExpr("carrier", "name AS airline")
        )
        planes = read.schema(PLANES_SCHEMA).csv(str(reference / "planes.csv"))
        self._planes = planes.selectExpr("tailnum", "manufacturer", "model", "year AS built", "seats")
        weather = session.read.schema(WEATHER_SCHEMA).parquet(str(reference / "weather.parquet"))
        self._weather = weather.select("origin", "time_hour", *MEASURED)
        self._report_reader = read.schema(REPORTS_SCHEMA)

    def run_epoch(self) -> Result:
        """Process what has landed since, as a scheduled run would."""
        rows = self.session.readStream.schema(FLIGHTS_SCHEMA).options(**_HEADER).csv(str(self._folder / "landing"))
        writer = rows.writeStream.foreachBatch(self.process).trigger(availableNow=True)
        started = time.perf_counter()
        query = writer.option("checkpointLocation", str(self._folder / "flights/checkpoint")).start()
        query.awaitTermination()
        return Result({"query": time.perf_counter() - started}, {})

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """All nine tables' share of one micro-batch."""
        from pyspark.sql import functions as F

        self._id = batch_id
        landed = batch.filter("dep_delay IS NOT NULL")
        looked_up = landed.join(F.broadcast(self._airlines), "carrier", "left").join(F.broadcast(self._planes), "tailnum", "left")
        clean = looked_up.select(*FLIGHT, "airline", *PLANE, "dep_delay", "arr_delay", "air_time", "distance").persist()
        first = clean.agg(F.min("sched_dep")).head()
        if first is not None and first[0] is not None:
            since = F.lit(first[0])
            self._late_aircraft(clean, since)
            self._append("clean_flights", clean)
            self._delays(clean)
            self._routes(clean)
            self._append(
                "flights_weather",
                clean.join(F.broadcast(self._weather), ["origin", "time_hour"], "left").select(*FLIGHT, "dep_delay", *MEASURED),
            )
            self._late_weather(since)
            self._league(clean)
            self._stretches(clean, since)
        clean.unpersist()

    def table(self, name: str) -> str:
        """Where a table lies."""
        return str(self._folder / "flights/tables" / name)

    def _read(self, name: str) -> DataFrame | None:
        path = self.table(name)
        return self.session.read.format("delta").load(path) if Path(path).exists() else None

    def _append(self, name: str, rows: DataFrame) -> None:
        writer = rows.write.format("delta").mode("append").option("txnAppId", "flights").option("txnVersion", self._id)
        writer.save(self.table(name))

    def _merge(self, name: str, rows: DataFrame, key: tuple[str, ...], update: dict[str, str] | None) -> None:
        """Insert the rows whose key is new; the others update by the expressions, by none are left alone."""
        if not Path(self.table(name)).exists():
            self._append(name, rows)
            return
        target = DeltaTable.forPath(self.session, self.table(name)).alias("t")
        found: Any = target.merge(rows.alias("s"), " AND ".join(f"t.{column} = s.{column}" for column in key))
        if update is not None:
            found = found.whenMatchedUpdate(set=update)
        found.whenNotMatchedInsertAll().execute()

    def _late_aircraft(self, clean: DataFrame, since: Column) -> None:
        """Each flight with the one before it, which may be of any earlier day: the last of each aircraft is looked for."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        order = ("sched_dep", "carrier", "flight")
        needed = ("tailnum", *order, "origin", "dest", "dep_delay", "arr_delay")
        known = clean.filter("tailnum IS NOT NULL").select(*needed)
        before = self._read("clean_flights")
        if before is not None:
            last = F.max_by(F.struct(*needed[1:]), F.struct(*order)).alias("last")
            known = known.unionByName(
                before.filter(F.col("tailnum").isNotNull() & (F.col("sched_dep") < since)).groupBy("tailnum").agg(last)
                .select("tailnum", "last.*")
            )  # fmt: skip
        flown = Window.partitionBy("tailnum").orderBy(*order)
        previous = {
            "previous_dep": F.lag("sched_dep").over(flown),
            "previous_dest": F.lag("dest").over(flown),
            "previous_arr_delay": F.lag("arr_delay").over(flown),
        }
        inherited = F.expr(
            "CAST(CASE WHEN unix_micros(sched_dep) - unix_micros(previous_dep) <= 43200000000 AND previous_arr_delay IS NOT NULL "
            "THEN greatest(least(previous_arr_delay, dep_delay), 0) ELSE 0 END AS int)"
        )
        rows = known.withColumns(previous).filter(F.col("sched_dep") >= since).withColumn("inherited_delay", inherited)
        self._append("late_aircraft", rows.drop("arr_delay"))

    def _delays(self, clean: DataFrame) -> None:
        from pyspark.sql import functions as F

        figures = [F.expr(figure) for figure in _FIGURES]
        for name, window in (
            ("hourly_delays", F.window("sched_dep", "1 hour")),
            ("daily_delays_sliding", F.window("sched_dep", "24 hours", "1 hour")),
        ):
            rows = clean.groupBy("origin", window).agg(*figures)
            columns = [figure.rsplit(" ", 1)[1] for figure in _FIGURES]
            named = rows.selectExpr("origin", "window.start AS window_start", "window.end AS window_end", *columns)
            self._merge(name, named, ("origin", "window_start"), _ADDED)

    def _routes(self, clean: DataFrame) -> None:
        """Distinct counts and deviations cannot be added to: the batch's routes are computed anew from all their flights."""
        from pyspark.sql import functions as F

        everything, key = self._read("clean_flights"), ("origin", "dest")
        if everything is None:
            return
        touched = F.broadcast(clean.select(*key).distinct())
        rows = everything.join(touched, list(key), "left_semi").groupBy(*key).agg(*(F.expr(figure) for figure in _ROUTE))
        names = (figure.rsplit(" ", 1)[1] for figure in _ROUTE)
        self._merge("routes", rows, key, {name: f"s.{name}" for name in names})

    def _late_weather(self, since: Column) -> None:
        """A late report meets flights of two days back, and a flight reports that were made up to an hour before it."""
        from pyspark.sql import functions as F

        flights = self._read("clean_flights")
        if flights is None:
            return
        recent = flights.filter(F.col("sched_dep") >= since - F.expr("INTERVAL 3 DAYS")).select(*FLIGHT, "dep_delay")
        reports = sorted(str(file) for file in (self._folder / "reports").glob("*.csv"))[-_REPORT_FILES:]
        met = recent.join(F.broadcast(self._report_reader.csv(reports)), ["origin", "time_hour"]).filter(
            "reported > sched_dep AND reported <= sched_dep + INTERVAL 2 DAYS"
        )
        hours_late = F.expr("(unix_seconds(reported) - unix_seconds(sched_dep)) / 3600").alias("hours_late")
        rows = met.select(*FLIGHT, "dep_delay", *MEASURED, "reported", hours_late)
        self._merge("late_weather", rows, ("sched_dep", "carrier", "flight", "reported"), None)

    def _league(self, clean: DataFrame) -> None:
        """The worst ten of a day: a file is a day, so a day's rows are written once."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        columns = ("dep_delay", "carrier", "flight", "origin", "dest")
        day = F.window("sched_dep", "1 day", startTime="5 hours")["start"]
        worst = Window.partitionBy("day").orderBy(*(F.desc(column) for column in columns))
        rows = clean.filter("dep_delay >= 60").withColumn("day", day).withColumn("place", F.row_number().over(worst))
        self._append("worst_delays", rows.filter(F.col("place") <= PLACES).select("day", "place", *columns))

    def _stretches(self, clean: DataFrame, since: Column) -> None:
        """Stretches that may go on are read back, as if each were one flight, and put together with the new ones."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rows = clean.filter("tailnum IS NOT NULL").selectExpr(
            "tailnum", "sched_dep AS window_start", "sched_dep + INTERVAL 8 HOURS AS window_end", "1L AS legs",
            "CAST(air_time AS long) AS minutes_in_air", "dep_delay AS worst_delay",
        )  # fmt: skip
        before = self._read("aircraft_stretches")
        if before is not None:
            rows = rows.unionByName(before.filter(F.col("window_end") > since))
        in_order = Window.partitionBy("tailnum").orderBy("window_start", "window_end")
        ended = F.max("window_end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
        begins = (ended.isNull() | (F.col("window_start") >= ended)).cast("int")
        numbered = rows.withColumn("begins", begins).withColumn("number", F.sum("begins").over(in_order))
        names = ("window_end", "legs", "minutes_in_air", "worst_delay")
        stretches = numbered.groupBy("tailnum", "number").agg(
            F.min("window_start").alias("window_start"), F.max("window_end").alias("window_end"), F.sum("legs").alias("legs"),
            F.sum("minutes_in_air").alias("minutes_in_air"), F.max("worst_delay").alias("worst_delay"),
        )  # fmt: skip
        self._merge(
            "aircraft_stretches", stretches.drop("number"), ("tailnum", "window_start"), {name: f"s.{name}" for name in names}
        )
