"""An epoch of 10,000 changes of orders that are joined with their customers and added up, over 1 million orders beside 100,000.

Rows are looked up in the state by key, and bounds of files leave out what cannot hold them; keys here are random, so that files
hold some of most. The claim is what is wanted of an epoch whose cost follows what changed.

With ``--peers`` the epoch over the more orders takes turns with a batch job that computes the table anew, and with what one
writes by hand in ``foreachBatch`` (``join_changes_by_hand.py``), on Spark.

``python -m benchmarks.join_changes --rows 100000 10000000 --peers``
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, alternately, at_least, at_most, processor_seconds, timed, workplace
from benchmarks.join_changes_by_hand import CUSTOMERS, ORDERS, Merged, Recomputed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOUCHED = 5_000
"""So many orders change in an epoch, each once taken back and once added."""

EPOCHS = 7
GOAL = 2.0
FASTER = 5.0
"""How many times as fast as the better of the peers."""


class Shop:
    """A pipeline over so many orders, a tenth as many customers, and what each region buys.

    Args:
        folder: Where it is.
        rows: How many orders it has.
        on: The engine.
    """

    def __init__(self, folder: Path, rows: int, on: str) -> None:
        self.folder, self._epoch = folder, 0
        self._chooser = np.random.default_rng(rows)
        self._prices = self._chooser.integers(1, 1000, rows)
        self._customers = self._chooser.integers(0, rows // 10, rows)
        self.pipeline = do.Pipeline("shop", root=str(folder / "root"), engine=engine(on))
        orders = self._source("orders", ORDERS).as_changes("op")
        customers = self._source("customers", CUSTOMERS).as_changes("op")
        sold = orders.join(customers, on="customer", columns=["price", "region"])
        sold.key_by("region").aggregate(orders="count(*)", turnover="sum(price)").to_table("turnover")
        everybody = np.arange(rows // 10)
        self._write("customers", {"customer": everybody, "region": everybody % 50, "op": ["insert"] * len(everybody)})
        self._write("orders", self._orders(np.arange(rows), "insert"))
        self.pipeline.run_until_caught_up()

    def _source(self, name: str, schema: str) -> do.Stream:
        (self.folder / name).mkdir(parents=True)
        return self.pipeline.source(name, do.FileSource(str(self.folder / name), format="parquet", schema=schema))

    def _orders(self, ids: np.ndarray, op: str) -> dict[str, Any]:
        return {"id": ids, "customer": self._customers[ids], "price": self._prices[ids], "op": [op] * len(ids)}

    def _write(self, name: str, columns: dict[str, Any]) -> None:
        self._epoch += 1
        pq.write_table(pa.table(columns), self.folder / name / f"{self._epoch:04d}.parquet")

    def change(self) -> None:
        """Have orders get other prices."""
        ids = self._chooser.choice(len(self._prices), TOUCHED, replace=False)
        before = self._orders(ids, "update_before")
        self._prices[ids] += 1
        after = self._orders(ids, "update_after")
        self._write("orders", {name: np.concatenate([before[name], after[name]]) for name in before})

    def run_epoch(self) -> None:
        """Bring the table up to date."""
        self.pipeline.run_epoch()

    def check(self, table: DataFrame | None = None) -> None:
        """Raise unless the table, or another one, is what the orders come to."""
        found = sum(row.turnover for row in (table or self.pipeline.read("turnover")).collect())
        if found != int(self._prices.sum()):
            raise AssertionError(f"a turnover of {found} instead of {self._prices.sum()}")


def beside_peers(shop: Shop) -> Iterator[Claim]:
    """Epochs of a shop and what its users write instead, in turns; a claim for each."""
    session = engine("spark").session()
    merged = Merged(session, shop.folder, shop.folder / "merged", keep_orders=False)
    keeping = Merged(session, shop.folder, shop.folder / "keeping", keep_orders=True)
    peers = {
        "recomputed": Recomputed(session, shop.folder, shop.folder / "recomputed"),
        "merged": merged,
        "merged_with_orders": keeping,
    }
    runs = (shop.run_epoch, *(peer.run for peer in peers.values()))
    for run in runs:  # what there is, and what is compiled once
        run()
    times: list[list[tuple[float, float]]] = [[] for _ in runs]
    for repeat in range(EPOCHS):
        shop.change()
        for step in range(len(runs)):
            turn = (repeat + step) % len(runs)
            used = processor_seconds()
            times[turn].append((timed(runs[turn]), processor_seconds() - used))
    ours, *others = ([one[0] for one in run] for run in times)
    processor = [statistics.median(one[1] for one in run) for run in times]
    for place, (name, peer) in enumerate(peers.items()):
        shop.check(session.read.format("delta").load(peer.table))
        details = {
            "seconds": [round(statistics.median(one), 2) for one in (ours, others[place])],
            "processor_seconds": [round(processor[0], 2), round(processor[place + 1], 2)],
            "processor_ratio": round(processor[place + 1] / processor[0], 2),
        }
        yield at_least(f"join_changes_beside_{name}", others[place], ours, goal=FASTER, details=details)


def main() -> None:
    """Build both shops, run epochs on them in turn, and print the claim."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs=2, default=(100_000, 1_000_000), help="how many orders on either side")
    parser.add_argument("--engine", choices=("spark", "sail"), default="spark")
    parser.add_argument("--peers", action="store_true", help="beside what users of Spark write, too")
    options = parser.parse_args()
    with workplace() as folder:
        few, many = (Shop(folder / str(rows), rows, options.engine) for rows in options.rows)
        alternately(1, few.run_epoch, many.run_epoch, before=(few.change, many.change))
        seconds = alternately(EPOCHS, few.run_epoch, many.run_epoch, before=(few.change, many.change))
        few.check()
        many.check()
        told = {f"{rows} orders": round(statistics.median(one), 2) for rows, one in zip(options.rows, seconds, strict=True)}
        details = {"engine": options.engine, "seconds": told}
        at_most("join_changes_many_vs_few", seconds[1], seconds[0], goal=GOAL, details=details).report()
        if options.peers:
            for claim in beside_peers(many):
                claim.report()
            many.check()


if __name__ == "__main__":
    main()
