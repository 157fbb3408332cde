from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.nexmark.generator import CHANNELS, HOT_CHANNELS, SCHEMAS, Nexmark

if TYPE_CHECKING:
    from pathlib import Path

MANY = Nexmark(events=100_000)


@pytest.fixture(scope="module")
def many() -> dict[str, pa.Table]:
    return MANY.tables()


def share(condition: pa.ChunkedArray) -> float:
    return pc.mean(condition.cast(pa.int8())).as_py()


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    return column.to_numpy()


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(many):
    assert {kind: rows.num_rows for kind, rows in many.items()} == {"person": 2_000, "auction": 6_000, "bid": 92_000}
    assert {kind: rows.schema for kind, rows in many.items()} == SCHEMAS
    assert many["person"]["id"].to_pylist() == list(range(1_000, 3_000))
    assert many["auction"]["id"].to_pylist() == list(range(1_000, 7_000))
    assert all(column.null_count == 0 for rows in many.values() for column in rows.columns)


def test_events_happen_at_the_rate_in_whole_milliseconds(many):
    start = MANY.start
    assert many["person"]["dateTime"][0].as_py() == start
    assert many["bid"]["dateTime"][-1].as_py() == start + timedelta(seconds=9.999)
    for rows in many.values():
        times = numbers(rows["dateTime"].cast(pa.int64()))
        assert (np.diff(times) >= 0).all()
        assert (times % 1_000 == 0).all()


def test_the_same_events_however_they_are_cut(many):
    parts = [MANY.tables(first, first + 33_333) for first in range(0, MANY.events, 33_333)]
    for kind, rows in many.items():
        assert pa.concat_tables(part[kind] for part in parts).equals(rows)


def test_another_seed_gives_other_events(many):
    other = Nexmark(events=1_000, seed=2).tables()
    for kind, rows in other.items():
        assert rows["extra"].to_pylist() != many[kind]["extra"][: rows.num_rows].to_pylist()


def test_a_prefix_does_not_depend_on_how_many_events_follow(many):
    for kind, rows in Nexmark(events=1_000).tables().items():
        assert rows.equals(many[kind][: rows.num_rows])


def test_bids_prefer_hot_auctions_and_bidders_and_auctions_hot_sellers(many):
    bids, auctions = many["bid"], many["auction"]
    hot = numbers(bids["auction"]) % 100 == 0
    assert hot.mean() == pytest.approx(0.5 + 0.5 / 100, abs=0.01)
    assert (numbers(bids["bidder"]) % 100 == 1).mean() == pytest.approx(0.75 + 0.25 / 100, abs=0.01)
    assert (numbers(auctions["seller"]) % 100 == 0).mean() == pytest.approx(0.75 + 0.25 / 100, abs=0.02)


def test_the_ratios_can_be_chosen():
    bids = Nexmark(events=50_000, hot_auctions=1, hot_bidders=10, persons=2, auctions=5, bids=43).tables()["bid"]
    assert bids.num_rows == 43_000
    assert (numbers(bids["auction"]) % 100 == 0).mean() < 0.03
    assert (numbers(bids["bidder"]) % 100 == 1).mean() == pytest.approx(0.9, abs=0.01)


def test_references_are_to_recent_people_and_auctions(many):
    rounds = np.arange(2_000)
    newest_auction = np.repeat(1_000 + rounds * 3 + 2, 46)
    newest_person = np.repeat(rounds, 46)
    auction, bidder = numbers(many["bid"]["auction"]), numbers(many["bid"]["bidder"]) - 2_000
    assert (auction >= np.maximum(newest_auction - 100, 1_000)).all()
    assert (auction <= newest_auction + 10).all()
    assert (auction > newest_auction).any()
    assert (bidder > newest_person - 1_000).all()
    assert (bidder <= newest_person + 10).all()
    seller = numbers(many["auction"]["seller"]) - 1_000
    assert (seller <= np.repeat(rounds, 3) + 10).all()


def test_prices_are_uniform_in_their_logarithm(many):
    logarithms = np.log10(numbers(many["bid"]["price"]))
    assert logarithms.min() >= 2
    assert logarithms.max() <= 8
    assert np.quantile(logarithms, [0.25, 0.5, 0.75]) == pytest.approx([3.5, 5, 6.5], abs=0.05)


def test_half_of_the_bids_come_over_a_hot_channel_and_most_other_urls_say_which(many):
    bids = many["bid"]
    hot = pc.is_in(bids["channel"], pa.array(HOT_CHANNELS))
    assert share(hot) == pytest.approx(0.5, abs=0.01)
    cold = bids.filter(pc.invert(hot))
    assert share(pc.match_substring(cold["url"], "&channel_id=")) == pytest.approx(0.9, abs=0.01)
    assert len(cold["channel"].unique()) > 0.98 * CHANNELS
    assert len(pc.split_pattern(bids["url"], "/")[0]) == 7
    assert not share(pc.match_substring(bids.filter(hot)["url"], "channel_id"))


def test_sizes_are_about_as_wished(many):
    sizes = {"bid": (32, (), 100), "auction": (48, ("itemName", "description"), 500)}
    for kind, (fixed, texts, wanted) in sizes.items():
        rows = many[kind]
        size = fixed + sum(pc.mean(pc.utf8_length(rows[text])).as_py() for text in (*texts, "extra"))
        assert size == pytest.approx(wanted, rel=0.02)


def test_auctions_expire_after_they_begin(many):
    lengths = numbers(pc.subtract(many["auction"]["expires"], many["auction"]["dateTime"]).cast(pa.int64()))
    horizon = 100 * 50 // 3 * 100
    assert lengths.min() >= 1_000
    assert lengths.max() <= 2 * horizon + 2_000
    assert lengths.mean() == pytest.approx(horizon, rel=0.05)


def test_out_of_order_events_are_the_same_events_in_another_order(many):
    shuffled = Nexmark(events=MANY.events, out_of_order=600).tables()
    for kind, rows in many.items():
        assert not shuffled[kind].equals(rows)
        order = [("dateTime", "ascending"), ("extra", "ascending")]
        assert shuffled[kind].sort_by(order).equals(rows.sort_by(order))
    times = numbers(shuffled["bid"]["dateTime"].cast(pa.int64()))
    behind = np.maximum.accumulate(times) - times
    assert 50_000 < behind.max() < 60_000


def test_a_start_before_midnight_gives_two_days():
    bids = Nexmark(events=1_000, start=datetime(2015, 7, 15, 23, 59, 59, 950_000, tzinfo=UTC)).tables()["bid"]
    assert pc.strftime(bids["dateTime"], "%Y-%m-%d").unique().to_pylist() == ["2015-07-15", "2015-07-16"]


def test_files_hold_the_events_in_order_and_stay_as_they_are(tmp_path: Path):
    events = Nexmark(events=5_000, out_of_order=7)
    files = events.write(tmp_path, files=3)
    for kind, rows in events.tables().items():
        assert files[kind] == sorted((tmp_path / kind).iterdir())
        assert [file.name for file in files[kind]] == ["000000.parquet", "000001.parquet", "000002.parquet"]
        assert pa.concat_tables(pq.read_table(file) for file in files[kind]).equals(rows)
        changed = [file.stat().st_mtime for file in files[kind]]
        assert changed == sorted(set(changed))
    before = files["bid"][1].stat()
    assert events.write(tmp_path, files=3) == files
    assert files["bid"][1].stat() == before


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"start": datetime(2015, 7, 15)}, "time zone"),  # noqa: DTZ001
        ({"auctions": 0}, "must be people, auctions and bids"),
        ({"out_of_order": 0}, "groups of 1 or more"),
        ({"out_of_order": 1_906}, "no multiple of 953"),
    ],
)
def test_what_cannot_be_is_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        Nexmark(events=10, **settings)
