"""The Nexmark queries as pipelines: each a function from the streams of events to the stream that answers it.

After the SQL of https://github.com/nexmark/nexmark (Apache-2.0, commit 6b3646c, ``nexmark-flink/src/main/resources/queries``),
with the columns of its sinks. What is other here, and in :mod:`jobs.nexmark.reference` alike:

- Time is event time, in UTC, and a stream is as late as there: four seconds. q12 counts in windows of processing time there, so
  that no two runs give the same.
- Where the SQL leaves open which of several equal rows comes first (``ROW_NUMBER`` of q18 and q19), all columns decide.
- A pause of exactly ten seconds ends a session of q11 (in Flink and Spark it takes a longer one).
- Windows have their ``window_start`` and ``window_end`` under these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import dagster_operators as do
from jobs.nexmark import SIDE_INPUT, SIDE_KEYS

LATENESS: Final = "4 seconds"
"""How late an event may come, as in the original's DDL."""

SCHEMAS: Final = {
    "person": "id LONG, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP, "
    "extra STRING",
    "auction": "id LONG, itemName STRING, description STRING, initialBid LONG, reserve LONG, dateTime TIMESTAMP, "
    "expires TIMESTAMP, seller LONG, category LONG, extra STRING",
    "bid": "auction LONG, bidder LONG, price LONG, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
}


@dataclass(frozen=True)
class Events:
    """The streams of people, auctions and bids; a source that no query asks for is not read.

    Attributes:
        pipeline: What the sources belong to.
        folder: Where :meth:`~jobs.nexmark.generator.Nexmark.write` has written the events.
        files_per_epoch: How many files of each kind an epoch takes; None for all there are.
        finished: Whether no more events will come than there are, so that at the end every window closes.
    """

    pipeline: do.Pipeline
    folder: Path
    files_per_epoch: int | None = 1
    finished: bool = False

    @cached_property
    def person(self) -> do.Stream:
        """New people."""
        return self._source("person")

    @cached_property
    def auction(self) -> do.Stream:
        """New auctions."""
        return self._source("auction")

    @cached_property
    def bid(self) -> do.Stream:
        """Bids."""
        return self._source("bid")

    @property
    def side_input(self) -> do.FileSource:
        """A bounded table: a value for each key."""
        return do.FileSource(str(self.folder / SIDE_INPUT), schema="key LONG, value STRING")

    def _source(self, kind: str) -> do.Stream:
        files = do.FileSource(str(self.folder / kind), format="parquet", schema=SCHEMAS[kind], max_files=self.files_per_epoch)
        return self.pipeline.source(kind, files, event_time="dateTime", lateness=LATENESS, finished=self.finished)


Query = Callable[[Events], do.Stream]

EUROS: Final = "CAST(0.908 * price AS DECIMAL(23,3))"
DAY: Final = "date_format(dateTime, 'yyyy-MM-dd')"
RANKS: Final = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
"""Three levels of price."""

AUCTION: Final = ("itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category", "extra")
"""The columns of an auction besides its number."""


def q0(events: Events) -> do.Stream:
    """Pass through: every bid as it is."""
    return events.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(events: Events) -> do.Stream:
    """Currency conversion: every bid's price in euros."""
    return events.bid.select("auction", "bidder", f"{EUROS} AS price", "dateTime", "extra")


def q2(events: Events) -> do.Stream:
    """Selection: the bids for every 123rd auction."""
    return events.bid.filter("auction % 123 = 0").select("auction", "price")


def q3(events: Events) -> do.Stream:
    """Local item suggestion: who sells in a category, of three states."""
    people = events.person.filter("state IN ('OR', 'ID', 'CA')").select("id AS seller", "name", "city", "state")
    auctions = events.auction.filter("category = 10").select("id", "seller")
    return auctions.join(people, on="seller").select("name", "city", "state", "id")


def _bids_in_time(events: Events, columns: Sequence[str]) -> do.Stream:
    """Auctions with each bid that came while they ran."""
    bids = events.bid.rename(dateTime="bid_dateTime", extra="bid_extra")
    while_running = "bid_dateTime BETWEEN dateTime AND expires"
    return events.auction.join(bids, on={"id": "auction"}, condition=while_running, columns=columns)


def q4(events: Events) -> do.Stream:
    """Average price for a category: of the highest bids of its auctions; a whole number, as in the original's sink."""
    highest = _bids_in_time(events, ["category", "price"]).key_by("id", "category").aggregate(final="max(price)")
    return highest.key_by("category").aggregate(final="sum(final) div count(final)")


def q5(events: Events) -> do.Stream:
    """Hot items: the auctions with the most bids in ten seconds, every two seconds."""
    counts = events.bid.key_by("auction").window(do.Sliding("10 seconds", "2 seconds")).aggregate(num="count(*)")
    return counts.window().top(1, by="num DESC", ties=True).select("auction", "num", "window_start", "window_end")


def q6(events: Events) -> do.Stream:
    """Average selling price by seller: of an auction and the ten before it that the seller sold; a whole number, as in q4."""
    bids = _bids_in_time(events, ["seller", "price", "bid_dateTime"]).key_by("id", "seller")
    sold = bids.top(1, by=["price DESC", "bid_dateTime"]).to_changes().key_by("seller")
    last = sold.over("bid_dateTime, id", total="sum(price)", auctions="count(*)", frame="rows 10 preceding")
    return last.latest("id").select("id", "seller", "total div auctions AS avg_price")


def q7(events: Events) -> do.Stream:
    """Highest bid: the bids with the highest price of ten seconds."""
    highest = events.bid.window(do.Tumbling("10 seconds")).top(1, by="price DESC", ties=True)
    return highest.select("price", "window_start", "window_end", "auction", "bidder", "dateTime", "extra")


def q8(events: Events) -> do.Stream:
    """Monitor new users: the people of ten seconds who begin an auction in them."""
    window = do.Tumbling("10 seconds")
    sellers = events.auction.key_by("seller").window(window)
    return events.person.key_by("id").window(window).join(sellers, how="semi", columns=["name"])


def q9(events: Events) -> do.Stream:
    """Winning bids: of every auction the highest bid while it ran, of equal ones the first."""
    best = _bids_in_time(events, [*AUCTION, "bidder", "price", "bid_dateTime", "bid_extra"])
    return best.key_by("id").top(1, by=["price DESC", "bid_dateTime"], rank="rownum").with_columns(auction="id")


def q10(events: Events) -> do.Stream:
    """Log to the file system: every bid, in files by day and minute."""
    return events.bid.select(
        "auction", "bidder", "price", "dateTime", "extra", f"{DAY} AS dt", "date_format(dateTime, 'HH:mm') AS hm"
    )


def q11(events: Events) -> do.Stream:
    """User sessions: bids of each bidder without a pause of ten seconds."""
    return events.bid.key_by("bidder").window(do.Session("10 seconds")).aggregate(bid_count="count(*)")


def q12(events: Events) -> do.Stream:
    """Bids of each bidder in ten seconds (of event time here)."""
    windows = events.bid.key_by("bidder").window(do.Tumbling("10 seconds"))
    return windows.aggregate(bid_count="count(*)")


def q13(events: Events) -> do.Stream:
    """Bounded side input: each bid with the value that a table has for its auction."""
    bids = events.bid.with_columns(key=f"auction % {SIDE_KEYS}").lookup(events.side_input, on="key", how="inner")
    return bids.select("auction", "bidder", "price", "dateTime", "value")


def q14(events: Events) -> do.Stream:
    """Calculation: bids of a price range with their time of day and the number of c in their text."""
    return events.bid.filter("0.908 * price > 1000000 AND 0.908 * price < 50000000").select(
        "auction",
        "bidder",
        f"{EUROS} AS price",
        "CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' "
        "WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType",
        "dateTime",
        "extra",
        "CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts",
    )


def _by_rank(name: str, aggregate: str) -> dict[str, str]:
    """An aggregate over all bids, and over those of each level of price."""
    ranks = {f"{rank}_{name}": f"{aggregate} FILTER (WHERE {condition})" for rank, condition in RANKS.items()}
    return {f"total_{name}": aggregate, **ranks}


STATISTICS: Final = {
    **_by_rank("bids", "count(*)"),
    **_by_rank("bidders", "count(DISTINCT bidder)"),
    **_by_rank("auctions", "count(DISTINCT auction)"),
}


def q15(events: Events) -> do.Stream:
    """Bidding statistics: bids, bidders and auctions of every day, by level of price."""
    return events.bid.key_by(f"{DAY} AS day").aggregate(STATISTICS)


def q16(events: Events) -> do.Stream:
    """Channel statistics: the same for every channel and day, and the last minute with a bid."""
    minute = {"minute": "max(date_format(dateTime, 'HH:mm'))"}
    return events.bid.key_by("channel", f"{DAY} AS day").aggregate({**minute, **STATISTICS})


def q17(events: Events) -> do.Stream:
    """Auction statistics: bids and prices of every auction and day; the average is a whole number, as in the original's sink."""
    prices = {"min_price": "min(price)", "max_price": "max(price)", "avg_price": "sum(price) div count(price)"}
    return events.bid.key_by("auction", f"{DAY} AS day").aggregate({
        **_by_rank("bids", "count(*)"), **prices, "sum_price": "sum(price)",
    })  # fmt: skip


def q18(events: Events) -> do.Stream:
    """Last bid: of every bidder for every auction."""
    return events.bid.key_by("bidder", "auction").deduplicate(keep="last")


def q19(events: Events) -> do.Stream:
    """Auction top ten: the ten highest bids of every auction."""
    return events.bid.key_by("auction").top(10, by="price DESC", rank="rank_number")


def q20(events: Events) -> do.Stream:
    """Expand bids with their auctions, of one category."""
    auctions = events.auction.filter("category = 10").rename(dateTime="auction_dateTime", extra="auction_extra")
    bids = events.bid.rename(dateTime="bid_dateTime", extra="bid_extra")
    return bids.join(auctions, on={"auction": "id"})


def q21(events: Events) -> do.Stream:
    """Channel identifiers: of the bids over a hot channel, or whose URL says which."""
    hot = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    cases = " ".join(f"WHEN lower(channel) = '{channel}' THEN '{number}'" for channel, number in hot.items())
    in_url = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"  # empty where Flink's is null
    identified = events.bid.select("auction", "bidder", "price", "channel", f"CASE {cases} ELSE {in_url} END AS channel_id")
    return identified.filter("channel_id <> ''")


def q22(events: Events) -> do.Stream:
    """URL directories: the first three folders of every bid's URL."""
    folders = (f"split_part(url, '/', {number + 3}) AS dir{number}" for number in (1, 2, 3))
    return events.bid.select("auction", "bidder", "price", "channel", *folders)


def q23(events: Events) -> do.Stream:
    """Expand bids with their bidders, and with the auctions that these hold."""
    people = events.person.rename(dateTime="person_dateTime", extra="person_extra")
    auctions = events.auction.rename(dateTime="auction_dateTime", extra="auction_extra")
    bids = events.bid.select("bidder", "price", "channel", "url", "extra AS bid_extra")
    columns = ("price", "channel", "url", "bid_extra", "name", "emailAddress", "creditCard", "city", "state", "person_extra")
    bidders = bids.join(people, on={"bidder": "id"}, columns=columns)
    return bidders.join(auctions.drop("id"), on={"bidder": "seller"})


QUERIES: Final[Mapping[str, Query]] = {
    query.__name__: query
    for query in (
        q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22, q23,
    )
}  # fmt: skip
"""All queries by their names."""

PARTITIONS: Final[Mapping[str, Sequence[str]]] = {"q10": ("dt", "hm")}
"""Queries whose tables have partition columns."""
