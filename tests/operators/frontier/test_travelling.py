"""What subtasks tell each other between rounds."""

from __future__ import annotations

import pyarrow as pa

from dagster_operators.operators.frontier.travelling import Parcel, Told, packed, unpacked
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.product import Product
from dagster_operators.time.reachability import InputOf, OutputOf

HERE, THERE = InputOf("a", 0), OutputOf("a", 0)


def told(number, **more):
    return Told(number, {HERE: Frontier([Product(number, 0)])}, **more).to_json()


def test_only_the_newest_round_counts_whatever_the_order_and_all_subtasks_of_it():
    old = told(2, held={THERE: [Product(1, 0)]}, sent={HERE: [Product(1, 1)]}, holders={"a.stash": [1]})
    one = told(3, held={THERE: [Product(5, 0)]}, sent={HERE: [Product(5, 1)]}, holders={"a.stash": [5]})
    other = told(3, held={THERE: [Product(4, 0)]}, sent={InputOf("a", 1): [Product(6, 1)]}, holders={"a.stash": [4], "b": [6]})
    for texts in ([old, one, other], [one, other, old], [one, old, other]):
        found = Told.together(texts)
        assert found.number == 3
        assert found.frontiers == {HERE: Frontier([Product(3, 0)])}
        assert found.held == {THERE: [Product(5, 0), Product(4, 0)]}
        assert found.sent == {HERE: [Product(5, 1)], InputOf("a", 1): [Product(6, 1)]}
        assert found.holders == {"a.stash": [5, 4], "b": [6]}
    assert Told.together([]) is None


def test_parcels_come_back_as_they_were_sent():
    rows = pa.table({"v": range(120_000)})
    (batch,) = packed([Parcel(7, ("a", 1), Product(5, (1, 2)), 3, rows)]).combine_chunks().to_batches()
    found = list(unpacked(batch))
    assert len(found) == 3, "not more rows in one than a worker can hold"
    assert {(one.route, one.reader, one.time, one.hops) for one in found} == {(7, ("a", 1), Product(5, (1, 2)), 3)}
    assert pa.concat_tables([one.rows for one in found]).equals(rows)
