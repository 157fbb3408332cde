"""Nexmark's queries over rows that change, with events that come up to 30 seconds out of order beside the same events in order.

Both pipelines have the same events in every epoch but for the last of a group; a Parquet file of each kind arrives, one pipeline
processes its file, then the other. What counts is processor time, as it depends less on what else the machine does. In the end
both tables are compared with DuckDB's answer.

``python -m benchmarks.nexmark_out_of_order --engine sail q3 q9``
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, alternately, at_most, processor_seconds, workplace
from jobs.nexmark import SIDE_INPUT
from jobs.nexmark.generator import SCHEMAS, Nexmark
from jobs.nexmark.queries import QUERIES as ALL
from jobs.nexmark.queries import Events
from jobs.nexmark.reference import answer, difference, rows_of_delta

QUERIES: Final = ("q3", "q4", "q9", "q20")
RATE: Final = 10_000
SECONDS: Final = 30
"""How far events are out of order."""

GOAL: Final = 1.3
WARM_UP: Final = 2


class Side:
    """A query over events that arrive slice by slice.

    Args:
        query: The query's name.
        place: Where its tables and its input lie.
        data: For each kind of event the file of each epoch.
        on: The engine's name.
    """

    def __init__(self, query: str, place: Path, data: dict[str, list[Path]], on: str) -> None:
        self._data, self._input, self._epoch = data, place / "input", 0
        for kind in SCHEMAS:
            (self._input / kind).mkdir(parents=True)
        os.link(data["bid"][0].parents[1] / SIDE_INPUT, self._input / SIDE_INPUT)
        self.pipeline = do.Pipeline(query, root=str(place / "ours"), engine=engine(on))
        ALL[query](Events(self.pipeline, self._input, files_per_epoch=None)).to_table(query)

    def arrive(self) -> None:
        """Let the next slice arrive."""
        for kind in SCHEMAS:
            file = self._data[kind][self._epoch]
            os.link(file, self._input / kind / file.name)
        self._epoch += 1


def measure(queries: Sequence[str], events: int, epochs: int, on: str) -> Iterator[Claim]:
    """A claim for each query."""
    with workplace() as place:
        groups = {"in_order": 1, "out_of_order": RATE * SECONDS}
        made = {name: Nexmark(events, rate=RATE, out_of_order=group) for name, group in groups.items()}
        data = {name: dict(one.write(place / name, epochs)) for name, one in made.items()}
        for query in queries:
            sides = {name: Side(query, place / f"{query}-{name}", data[name], on) for name in made}
            runs, before = [side.pipeline.run_epoch for side in sides.values()], [side.arrive for side in sides.values()]
            alternately(WARM_UP, *runs, before=before)
            in_order, shuffled = alternately(epochs - WARM_UP, *runs, before=before, clock=processor_seconds)
            tables = {name: rows_of_delta(side.pipeline.snapshot().uri(query)) for name, side in sides.items()}
            right = {name: not difference(rows, answer(query, place / name)) for name, rows in tables.items()}
            times = {"in_order": in_order, "out_of_order": shuffled}
            details = {
                "engine": on, "events": events, "epochs": epochs, "same_as_duckdb": right,
                "processor_seconds": {name: round(statistics.median(one), 3) for name, one in times.items()},
            }  # fmt: skip
            yield at_most(f"nexmark_{query}_out_of_order", shuffled, in_order, goal=GOAL, details=details)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark_out_of_order", description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="*", default=QUERIES, metavar="query", help=f"which ({', '.join(QUERIES)})")
    parser.add_argument("--events", type=int, default=2_000_000, help="how many (2000000)")
    parser.add_argument("--epochs", type=int, default=10, help="in how many epochs (10)")
    parser.add_argument("--engine", choices=("spark", "sail"), default="spark")
    options = parser.parse_args()
    for found in measure(options.queries, options.events, options.epochs, options.engine):
        found.report()
