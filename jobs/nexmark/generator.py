"""The events of the Nexmark benchmark: people, their auctions, and bids, as Arrow tables or Parquet files.

Written after the Java generator of https://github.com/nexmark/nexmark (Apache-2.0, commit 6b3646c, package
``com.github.nexmark.flink.generator``), which goes back to Apache Beam's and to Tucker et al.: "NEXMark, a benchmark for queries
over data streams". Proportions, identifiers, skews, prices, texts and times are distributed as there:

- Of 50 events in a row the first is a person, three are auctions and 46 are bids. The n-th event happens ``n / rate`` seconds
  after the start, in whole milliseconds.
- Identifiers start at 1000 and are given out in order. Auctions and bids refer to recent ones: half of the bids (1 in
  ``hot_auctions`` does not) go to the first of the last hundred auctions, three quarters of the bids and auctions are of the
  hundred's second and first person. The rest picks among the ``active_people`` last people or ``in_flight_auctions`` last
  auctions, up to ten of which do not exist yet. The original adds 1000 to a bidder twice; so bidders here start at 2000, too.
- Prices are ``100 * 10 ** (6 u)`` for a uniform u: their logarithm is uniform.
- Half of the bids come over one of four hot channels, the others over one of 10,000, whose URLs nearly all (9 in 10) say which.

Other than there, an event is a function of the seed and its number alone: the same whoever makes it, and into however many files.
``start`` can be chosen (the original starts now), so that queries per day meet midnight; and ``out_of_order`` shuffles events
within groups by the original's own rule, which none of its options reaches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.nexmark import SIDE_INPUT, SIDE_KEYS
from jobs.nexmark.chance import Chance, Ints

TIME = pa.timestamp("us", tz="UTC")
PERSON = pa.schema({
    "id": pa.int64(), "name": pa.string(), "emailAddress": pa.string(), "creditCard": pa.string(), "city": pa.string(),
    "state": pa.string(), "dateTime": TIME, "extra": pa.string(),
})  # fmt: skip
AUCTION = pa.schema({
    "id": pa.int64(), "itemName": pa.string(), "description": pa.string(), "initialBid": pa.int64(), "reserve": pa.int64(),
    "dateTime": TIME, "expires": TIME, "seller": pa.int64(), "category": pa.int64(), "extra": pa.string(),
})  # fmt: skip
BID = pa.schema({
    "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "channel": pa.string(), "url": pa.string(),
    "dateTime": TIME, "extra": pa.string(),
})  # fmt: skip
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}
"""The columns of each kind of event, named as in the original."""

FIRST_ID, FIRST_BIDDER, FIRST_CATEGORY = 1000, 2000, 10
CATEGORIES = 5
HOT_GROUP = 100
"""Of how many people or auctions in a row one is hot."""

LEAD = 10
"""How many people or auctions may be referred to before they exist."""

HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000

_STEP = 953
"""The prime by which the original shuffles the events of a group."""

_BLOCK = 1 << 18
_CITIES = pa.array([
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
])  # fmt: skip
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_FIRST_NAMES = pa.array(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"])
_LAST_NAMES = pa.array(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"])


@dataclass(frozen=True)
class Nexmark:
    """A stream of events.

    Attributes:
        events: How many there are.
        seed: Another seed gives other events.
        start: The time of the first event; close before midnight, queries by day get two days.
        rate: Events per second of event time.
        out_of_order: In groups of so many, events come in another order; 1: all in order of time. No multiple of 953.
        persons: How many of ``persons + auctions + bids`` events in a row are people.
        auctions: How many are auctions.
        bids: How many are bids.
        hot_auctions: One in so many bids does not go to a hot auction.
        hot_sellers: One in so many auctions is not of a hot seller.
        hot_bidders: One in so many bids is not of a hot bidder.
        in_flight_auctions: How many auctions are open at a time.
        active_people: How many people sell and bid at a time.
        person_bytes: The size of a person on the average.
        auction_bytes: Of an auction.
        bid_bytes: Of a bid.

    >>> events = Nexmark(events=1_000)
    >>> {kind: rows.num_rows for kind, rows in events.tables().items()}
    {'person': 20, 'auction': 60, 'bid': 920}
    >>> events.tables(0, 50)["auction"]["id"].to_pylist()
    [1000, 1001, 1002]
    """

    events: int
    seed: int = 1
    start: datetime = datetime(2015, 7, 15, tzinfo=UTC)
    rate: float = 10_000
    out_of_order: int = 1
    persons: int = 1
    auctions: int = 3
    bids: int = 46
    hot_auctions: int = 2
    hot_sellers: int = 4
    hot_bidders: int = 4
    in_flight_auctions: int = 100
    active_people: int = 1_000
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100

    def __post_init__(self) -> None:
        if self.start.tzinfo is None:
            raise ValueError(f"the start needs a time zone: {self.start}")
        if min(self.persons, self.auctions, self.bids) < 1:
            raise ValueError("there must be people, auctions and bids: none can refer to what there never is")
        if self.out_of_order < 1 or (self.out_of_order > 1 and self.out_of_order % _STEP == 0):
            raise ValueError(f"events are shuffled in groups of 1 or more that are no multiple of {_STEP}: {self.out_of_order}")

    # --- all of one stretch of the stream ----------------------------------------------------------------------------

    def tables(self, first: int = 0, end: int | None = None) -> dict[str, pa.Table]:
        """The events that come as the ``first``-th up to but without the ``end``-th, by kind, each in the order they come in."""
        numbers = self._numbers(np.arange(first, self.events if end is None else min(end, self.events)))
        place = numbers % self._round
        is_person, is_bid = place < self.persons, place >= self.persons + self.auctions
        return {
            "person": self._people(numbers[is_person]),
            "auction": self._auctions(numbers[~is_person & ~is_bid]),
            "bid": self._bids(numbers[is_bid]),
        }

    def write(self, folder: Path, files: int = 1) -> dict[str, list[Path]]:
        """Writes the events into ``folder/person``, ``folder/auction`` and ``folder/bid``, cut evenly into files.

        The side input lies beside them. A file appears whole. Its time of change is the time of its last event, so that the order
        of time is that of the names.

        Args:
            folder: Made if it is not there.
            files: How many files of each kind; one that is there already is left alone.

        Returns:
            All files of each kind, in order.
        """
        written: dict[str, list[Path]] = {kind: [] for kind in SCHEMAS}
        for number in range(files):
            first, end = self.events * number // files, self.events * (number + 1) // files
            paths = {kind: folder / kind / f"{number:06d}.parquet" for kind in SCHEMAS}
            if not all(path.exists() for path in paths.values()):
                self._write(paths, first, end)
            for kind, path in paths.items():
                written[kind].append(path)
        self._write_side_input(folder / SIDE_INPUT)
        return written

    def _write_side_input(self, path: Path) -> None:
        """A value for each key, as in the original: the key's own digits."""
        if not path.exists():
            hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            hidden.write_text("key,value\n" + "".join(f"{key},{key}\n" for key in range(SIDE_KEYS)), encoding="utf-8")
            hidden.replace(path)

    def _write(self, paths: Mapping[str, Path], first: int, end: int) -> None:
        hidden = {kind: path.with_name(f".{path.name}.{os.getpid()}.tmp") for kind, path in paths.items()}
        try:
            for path in hidden.values():
                path.parent.mkdir(parents=True, exist_ok=True)
            writers = {kind: pq.ParquetWriter(hidden[kind], schema) for kind, schema in SCHEMAS.items()}
            for tables in self._blocks(first, end):
                for kind, rows in tables.items():
                    writers[kind].write_table(rows)
            changed = int(self._times(np.array([max(end - 1, 0)]))[0]) * 1_000
            for kind, writer in writers.items():
                writer.close()
                os.utime(hidden[kind], ns=(changed, changed))
            for kind, path in paths.items():
                hidden[kind].replace(path)
        finally:
            for path in hidden.values():
                path.unlink(missing_ok=True)

    def _blocks(self, first: int, end: int) -> Iterator[dict[str, pa.Table]]:
        """So many events at a time as fit easily into memory."""
        for start in range(first, end, _BLOCK):
            yield self.tables(start, min(start + _BLOCK, end))

    # --- order and time ----------------------------------------------------------------------------------------------

    @property
    def _round(self) -> int:
        return self.persons + self.auctions + self.bids

    def _numbers(self, positions: Ints) -> Ints:
        """The numbers of the events that come at these positions: within a whole group the original's permutation."""
        group = self.out_of_order
        base = positions // group * group
        shuffled = base + positions * _STEP % group
        numbers: Ints = np.where(base + group <= self.events, shuffled, positions)
        return numbers

    def _times(self, numbers: Ints) -> Ints:
        """When events happen, microseconds since 1970, in whole milliseconds."""
        start = int(self.start.timestamp() * 1_000)
        times: Ints = (start + (numbers * (1_000_000 / self.rate)).astype(np.int64) // 1_000) * 1_000
        return times

    def _newest_person(self, numbers: Ints) -> Ints:
        """How many people came before the newest one as of an event (the event itself if it is one)."""
        return numbers // self._round * self.persons + np.minimum(numbers % self._round, self.persons - 1)

    def _newest_auction(self, numbers: Ints) -> Ints:
        """Likewise for auctions; never asked of a person."""
        return numbers // self._round * self.auctions + np.minimum(numbers % self._round - self.persons, self.auctions - 1)

    def _some_person(self, chance: Chance, draw: int) -> Ints:
        people = self._newest_person(chance.numbers) + 1
        active = np.minimum(people, self.active_people)
        return people - active + chance.below(active + LEAD, draw)

    def _some_auction(self, chance: Chance, draw: int) -> Ints:
        newest = self._newest_auction(chance.numbers)
        oldest = np.maximum(newest - self.in_flight_auctions, 0)
        return oldest + chance.below(newest - oldest + 1 + LEAD, draw)

    # --- the three kinds ---------------------------------------------------------------------------------------------

    def _people(self, numbers: Ints) -> pa.Table:
        chance = Chance(self.seed, numbers)
        name = pc.binary_join_element_wise(chance.one_of(_FIRST_NAMES, 0), chance.one_of(_LAST_NAMES, 1), " ")
        email = pc.binary_join_element_wise(chance.words(7, 2), "@", chance.words(5, 4), ".com", "")
        digits = pc.utf8_lpad(pa.array(np.arange(10_000).astype(str)), 4, "0")
        card = pc.binary_join_element_wise(*(chance.one_of(digits, draw) for draw in range(6, 10)), " ")
        city, state = chance.one_of(_CITIES, 10), chance.one_of(_STATES, 11)
        size = 8 + _lengths(name, email, card, city, state)
        columns = [
            self._newest_person(numbers) + FIRST_ID, name, email, card, city, state,
            pa.array(self._times(numbers), TIME), self._extra(chance, size, self.person_bytes, 12),
        ]  # fmt: skip
        return pa.table(columns, schema=PERSON)

    def _auctions(self, numbers: Ints) -> pa.Table:
        chance = Chance(self.seed, numbers)
        hot = self._newest_person(numbers) // HOT_GROUP * HOT_GROUP
        seller = FIRST_ID + np.where(chance.below(self.hot_sellers, 0) > 0, hot, self._some_person(chance, 1))
        price, times = _prices(chance, 2), self._times(numbers)
        until_enough = self.in_flight_auctions * self._round // self.auctions
        horizon = (self._times(numbers + until_enough) - times) // 1_000
        expires = times + (1 + chance.below(np.maximum(horizon * 2, 1), 3)) * 1_000
        item, description = chance.words(20, 4), chance.words(100, 6)
        columns = [
            self._newest_auction(numbers) + FIRST_ID, item, description, price, price + _prices(chance, 8),
            pa.array(times, TIME), pa.array(expires, TIME), seller, FIRST_CATEGORY + chance.below(CATEGORIES, 9),
            self._extra(chance, 48 + _lengths(item, description), self.auction_bytes, 10),
        ]  # fmt: skip
        return pa.table(columns, schema=AUCTION)

    def _bids(self, numbers: Ints) -> pa.Table:
        chance = Chance(self.seed, numbers)
        hot_auction = self._newest_auction(numbers) // HOT_GROUP * HOT_GROUP
        auction = np.where(chance.below(self.hot_auctions, 0) > 0, hot_auction, self._some_auction(chance, 1))
        hot_bidder = self._newest_person(numbers) // HOT_GROUP * HOT_GROUP + 1
        bidder = np.where(chance.below(self.hot_bidders, 2) > 0, hot_bidder, self._some_person(chance, 3))
        hot = chance.below(2, 5) > 0
        which = pa.array(np.where(hot, CHANNELS + chance.below(len(HOT_CHANNELS), 6), chance.below(CHANNELS, 6)))
        channels, urls = _channels()
        columns = [
            FIRST_ID + auction, FIRST_BIDDER + bidder, _prices(chance, 4), channels.take(which), urls.take(which),
            pa.array(self._times(numbers), TIME), self._extra(chance, np.full(len(numbers), 32), self.bid_bytes, 7),
        ]  # fmt: skip
        return pa.table(columns, schema=BID)

    def _extra(self, chance: Chance, size: Ints, wanted: int, draw: int) -> pa.Array:
        """A text that brings an event to the wanted size, give or take a fifth."""
        missing = np.maximum(wanted - size, 0)
        give = np.rint(missing * 0.2).astype(np.int64)
        return chance.letters(missing - give + chance.below(2 * give, draw), draw + 1)


def _prices(chance: Chance, draw: int) -> Ints:
    prices: Ints = np.floor(10.0 ** (chance.fraction(draw) * 6) * 100 + 0.5).astype(np.int64)
    return prices


def _lengths(*texts: pa.Array) -> Ints:
    lengths: Ints = np.sum([pc.utf8_length(text).to_numpy().astype(np.int64) for text in texts], axis=0)
    return lengths


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """The names and URLs of all channels, the hot ones last; they are the same for every seed."""
    numbers = np.arange(CHANNELS + len(HOT_CHANNELS))
    chance = Chance(seed=0, numbers=numbers)
    folders = [chance.words(5, draw, special="_") for draw in (0, 2, 4)]
    urls = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/").to_pylist()
    for number in np.flatnonzero(chance.below(10, 6)[:CHANNELS]):
        urls[number] += f"&channel_id={_channel_id(int(number))}"
    return pa.array([*(f"channel-{number}" for number in range(CHANNELS)), *HOT_CHANNELS]), pa.array(urls)


def _channel_id(number: int) -> int:
    """As Java computes ``Math.abs(Integer.reverse(number))``, which is negative for 1.

    >>> _channel_id(1), _channel_id(2)
    (-2147483648, 1073741824)
    """
    reverse = int(f"{number:032b}"[::-1], 2)
    signed = reverse - 2**32 if reverse >= 2**31 else reverse
    return signed if signed == -(2**31) else abs(signed)
