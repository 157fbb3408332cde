"""The Nexmark queries as a user of Spark writes them: for Structured Streaming, and for a batch job over the same rows.

Each is a function from the DataFrames of events to the DataFrame of the answer; the same code serves both where streaming can
express the query. It cannot for q4, q6 and q9, which go on behind a join with rows that change, for q15 and q16 ("Distinct
aggregations are not supported on streaming DataFrames/Datasets") and q19 ("Non-time-based windows are not supported on streaming
DataFrames/Datasets"). q17 and q18 have a current row per key, which a Delta sink cannot keep: their changes are merged into the
table batch by batch, as Delta's documentation has it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.structured_streaming import STATE_STORE
from jobs.nexmark import SIDE_KEYS
from jobs.nexmark.queries import DAY, EUROS, LATENESS, PARTITIONS, SCHEMAS, STATISTICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Events = Mapping[str, "DataFrame"]
Query = Callable[[Events], "DataFrame"]

KEYS = {"q17": ("auction", "day"), "q18": ("bidder", "auction")}
"""The queries whose rows change, and by what a row is known."""

BATCH_ONLY = ("q4", "q6", "q9", "q15", "q16", "q19")
"""The queries that Structured Streaming refuses."""

_CHANNELS = "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'"
_CHANNEL_ID = rf"{_CHANNELS} ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id"
_TIME_OF_DAY = (
    "CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' "
    "ELSE 'otherTime' END AS bidTimeType"
)
_WINDOW = ("window.start AS window_start", "window.end AS window_end")


def _grouped(rows: DataFrame, *keys: Any, **aggregates: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy(*keys).agg(*(F.expr(expression).alias(name) for name, expression in aggregates.items()))


def _window(size: str, slide: str | None = None) -> Any:
    from pyspark.sql import functions as F

    return F.window("dateTime", size, slide)


def _hot_items(events: Events) -> DataFrame:
    """Counts for each auction and window, then for each window those that equal the largest."""
    counts = _grouped(events["bid"], "auction", _window("10 seconds", "2 seconds"), num="count(*)")
    windows = _grouped(counts, "window", most="max(num)", counts="collect_list(struct(auction, num))")
    hottest = windows.selectExpr("window", "inline(filter(counts, x -> x.num = most))")
    return hottest.selectExpr("auction", "num", *_WINDOW)


def _highest_bids(events: Events) -> DataFrame:
    """The bids of a window whose price is its highest: the query's join. A stream may have one event time only: the window."""
    from pyspark.sql import functions as F

    bids = events["bid"].withColumn("window", _window("10 seconds")).withColumn("micros", F.expr("unix_micros(dateTime)"))
    highest = _grouped(events["bid"], _window("10 seconds"), price="max(price)")
    joined = bids.drop("dateTime").join(highest, ["window", "price"])
    return joined.selectExpr("auction", "price", "bidder", "timestamp_micros(micros) AS dateTime", "extra", *_WINDOW)


def _new_users(events: Events) -> DataFrame:
    """The people of a window who sell something in it."""
    people = events["person"].withColumn("window", _window("10 seconds")).select("id", "name", "window")
    sellers = events["auction"].withColumn("window", _window("10 seconds")).selectExpr("seller AS id", "window").dropDuplicates()
    return people.join(sellers, ["id", "window"]).selectExpr("id", "name", *_WINDOW)


def _sessions(events: Events) -> DataFrame:
    from pyspark.sql import functions as F

    sessions = _grouped(events["bid"], "bidder", F.session_window("dateTime", "10 seconds"), bid_count="count(*)")
    return sessions.selectExpr("bidder", "bid_count", "session_window.start AS window_start", "session_window.end AS window_end")


def _last_bids(events: Events) -> DataFrame:
    """Of bids of one moment the one whose other columns are smallest, as with ours."""
    newest = _grouped(
        events["bid"], "bidder", "auction", newest="min(struct(-unix_micros(dateTime), price, channel, url, dateTime, extra))"
    )
    return newest.selectExpr(
        "auction", "bidder", *(f"newest.{name}" for name in ("price", "channel", "url", "dateTime", "extra"))
    )


def _local_sellers(events: Events) -> DataFrame:
    people = events["person"].filter("state IN ('OR', 'ID', 'CA')").selectExpr("id AS seller", "name", "city", "state")
    auctions = events["auction"].filter("category = 10").select("id", "seller")
    return auctions.join(people, "seller").select("name", "city", "state", "id")


def _bids_in_time(events: Events) -> DataFrame:
    from pyspark.sql import functions as F

    bids = events["bid"].withColumnsRenamed({"dateTime": "bid_dateTime", "extra": "bid_extra"}).drop("channel", "url")
    return events["auction"].join(bids, F.expr("id = auction AND bid_dateTime BETWEEN dateTime AND expires"))


def _category_prices(events: Events) -> DataFrame:
    highest = _grouped(_bids_in_time(events), "id", "category", final="max(price)")
    return _grouped(highest, "category", final="sum(final) div count(final)")


def _winning_bids(events: Events) -> DataFrame:
    order = "price DESC, bid_dateTime, bidder, bid_extra"
    ranked = _bids_in_time(events).selectExpr("*", f"row_number() OVER (PARTITION BY id ORDER BY {order}) AS rownum")
    return ranked.filter("rownum = 1")


def _selling_prices(events: Events) -> DataFrame:
    winning = _winning_bids(events)
    last = "OVER (PARTITION BY seller ORDER BY bid_dateTime, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)"
    return winning.selectExpr("id", "seller", f"sum(price) {last} div count(*) {last} AS avg_price")


def _with_side_input(events: Events) -> DataFrame:
    from pyspark.sql import functions as F

    side = events["bid"].sparkSession.range(SIDE_KEYS).selectExpr("id AS key", "CAST(id AS STRING) AS value")
    joined = events["bid"].join(F.broadcast(side), F.expr(f"auction % {SIDE_KEYS} = key"))
    return joined.select("auction", "bidder", "price", "dateTime", "value")


def _bids_of_sellers(events: Events) -> DataFrame:
    people = events["person"].withColumnsRenamed({"id": "bidder", "extra": "person_extra"}).drop("dateTime")
    auctions = events["auction"].drop("id")
    auctions = auctions.withColumnsRenamed({"seller": "bidder", "dateTime": "auction_dateTime", "extra": "auction_extra"})
    bids = events["bid"].selectExpr("bidder", "price", "channel", "url", "extra AS bid_extra")
    return bids.join(people, "bidder").join(auctions, "bidder")


def _expanded_bids(events: Events) -> DataFrame:
    from pyspark.sql import functions as F

    auctions = events["auction"].filter("category = 10")
    auctions = auctions.withColumnsRenamed({"dateTime": "auction_dateTime", "extra": "auction_extra"})
    bids = events["bid"].withColumnsRenamed({"dateTime": "bid_dateTime", "extra": "bid_extra"})
    return bids.join(auctions, F.expr("auction = id")).drop("id")


def _best_bids(events: Events) -> DataFrame:
    order = "price DESC, dateTime, bidder, channel, url, extra"
    ranked = events["bid"].selectExpr(
        "*", f"CAST(row_number() OVER (PARTITION BY auction ORDER BY {order}) AS LONG) AS rank_number"
    )
    return ranked.filter("rank_number <= 10")


def _prices(events: Events) -> DataFrame:
    bids = {name: aggregate for name, aggregate in STATISTICS.items() if name.endswith("_bids")}
    prices = {
        "min_price": "min(price)",
        "max_price": "max(price)",
        "avg_price": "sum(price) div count(price)",
        "sum_price": "sum(price)",
    }
    return _grouped(events["bid"].selectExpr("*", f"{DAY} AS day"), "auction", "day", **bids, **prices)


QUERIES: Mapping[str, Query] = {
    "q0": lambda events: events["bid"].select("auction", "bidder", "price", "dateTime", "extra"),
    "q1": lambda events: events["bid"].selectExpr("auction", "bidder", f"{EUROS} AS price", "dateTime", "extra"),
    "q2": lambda events: events["bid"].filter("auction % 123 = 0").select("auction", "price"),
    "q3": _local_sellers,
    "q4": _category_prices,
    "q5": _hot_items,
    "q6": _selling_prices,
    "q7": _highest_bids,
    "q8": _new_users,
    "q9": _winning_bids,
    "q10": lambda events: events["bid"].selectExpr(
        "auction", "bidder", "price", "dateTime", "extra", f"{DAY} AS dt", "date_format(dateTime, 'HH:mm') AS hm"
    ),
    "q11": _sessions,
    "q12": lambda events: _grouped(events["bid"], "bidder", _window("10 seconds"), bid_count="count(*)").selectExpr(
        "bidder", "bid_count", *_WINDOW
    ),
    "q13": _with_side_input,
    "q14": lambda events: (
        events["bid"]
        .filter("0.908 * price > 1000000 AND 0.908 * price < 50000000")
        .selectExpr(
            "auction", "bidder", f"{EUROS} AS price", _TIME_OF_DAY, "dateTime", "extra",
            "CAST(length(extra) - length(replace(extra, 'c', '')) AS LONG) AS c_counts",
        )
    ),
    "q15": lambda events: _grouped(events["bid"].selectExpr("*", f"{DAY} AS day"), "day", **STATISTICS),
    "q16": lambda events: _grouped(
        events["bid"].selectExpr("*", f"{DAY} AS day"), "channel", "day",
        minute="max(date_format(dateTime, 'HH:mm'))", **STATISTICS,
    ),
    "q17": _prices,
    "q18": _last_bids,
    "q19": _best_bids,
    "q20": _expanded_bids,
    "q21": lambda events: (
        events["bid"].selectExpr("auction", "bidder", "price", "channel", _CHANNEL_ID).filter("channel_id <> ''")
    ),
    "q22": lambda events: events["bid"].selectExpr(
        "auction", "bidder", "price", "channel", *(f"split_part(url, '/', {number + 3}) AS dir{number}" for number in (1, 2, 3))
    ),
    "q23": _bids_of_sellers,
}  # fmt: skip
"""All queries, by name."""


class Batch:
    """A batch job over some files, to a new Delta table.

    Args:
        session: A classic Spark session.
        query: The query's name.
        table: Where the answer goes.
    """

    def __init__(self, session: SparkSession, query: str, table: Path) -> None:
        self._session = session
        self._query = query
        self._table = table

    def prepare(self) -> None:
        """Room for the next answer."""
        shutil.rmtree(self._table, ignore_errors=True)

    def run(self, files: Mapping[str, Path]) -> None:
        """Answer the query over a file of each kind of event."""
        events = {kind: self._session.read.schema(SCHEMAS[kind]).parquet(str(file)) for kind, file in files.items()}
        writer = QUERIES[self._query](events).write.format("delta").partitionBy(*PARTITIONS.get(self._query, ()))
        writer.save(str(self._table))


class Streaming:
    """A streaming query over folders in which files arrive, run whenever there is something new; its state is in RocksDB.

    Args:
        session: A classic Spark session.
        query: The query's name.
        root: Where table and checkpoint lie.
        folder: Where the kinds of events have their folders.
    """

    def __init__(self, session: SparkSession, query: str, root: Path, folder: Path) -> None:
        self._session = session
        self._query = query
        self._folder = folder
        self._checkpoint = root / "checkpoint"
        self.table = root / "table"
        session.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)

    def run(self) -> None:
        """Process what has arrived."""
        events = {kind: self._arriving(kind) for kind in SCHEMAS}
        writer = QUERIES[self._query](events).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if self._query in KEYS:
            writer.outputMode("update").foreachBatch(self._merge).start().awaitTermination()
        else:
            writer = writer.partitionBy(*PARTITIONS.get(self._query, ()))
            writer.outputMode("append").format("delta").start(str(self.table)).awaitTermination()

    def _arriving(self, kind: str) -> DataFrame:
        rows = self._session.readStream.schema(SCHEMAS[kind]).parquet(str(self._folder / kind))
        return rows.withWatermark("dateTime", LATENESS)

    def _merge(self, rows: DataFrame, _: int) -> None:
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._session, str(self.table)):
            rows.write.format("delta").save(str(self.table))
            return
        table = DeltaTable.forPath(self._session, str(self.table)).alias("old")
        same = " AND ".join(f"old.{key} = new.{key}" for key in KEYS[self._query])
        table.merge(rows.alias("new"), same).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
