"""The Nexmark queries, epoch by epoch, beside Structured Streaming and a batch job; and all at once by DuckDB.

Every epoch brings the next slice of the events in a Parquet file of each kind. Ours on embedded Spark shares the session with a
streaming query (availableNow, RocksDB, Delta sink) and with a batch job that answers the query over the epoch's own slice only;
they take turns. DuckDB's time is that of one full computation over all epochs' events, for orientation. At the end the tables
are compared row for row: ours with that of Structured Streaming, where it can express the query, else with DuckDB's answer.

``python -m benchmarks.nexmark --events 10000000 q5 q7``
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster_operators as do
from benchmarks.events import SHUFFLE_PARTITIONS, engine, profile
from benchmarks.harness import Claim, Spread, medians, timed, workplace
from benchmarks.nexmark_spark import BATCH_ONLY, Batch, Streaming
from jobs.nexmark import SIDE_INPUT
from jobs.nexmark.generator import SCHEMAS, Nexmark
from jobs.nexmark.queries import PARTITIONS, QUERIES, Events
from jobs.nexmark.reference import SQL, answer, connect, difference, rows_of_delta

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

EVENTS, EPOCHS, RATE = 2_000_000, 10, 10_000
WARM_UP = 2
"""Epochs of a pipeline, a streaming query and a batch job that are not measured; then all begin anew."""

NO_SLOWER, FASTER = 1.0, {2_000_000: 3.0, 10_000_000: 2.0}
"""How many times as fast as Structured Streaming: each query, and the geometric mean by the number of events."""

OVER_BATCH = 0.5
"""How many seconds longer than the batch job over its slice an epoch may take."""


class Run:
    """A query on all sides, over events that arrive slice by slice.

    Args:
        query: The query's name.
        place: Where its tables and its input lie.
        slices: For each epoch the file of each kind of event.
    """

    def __init__(self, query: str, place: Path, slices: Sequence[Mapping[str, Path]]) -> None:
        self._slices = slices
        self._input = place / "input"
        for kind in SCHEMAS:
            (self._input / kind).mkdir(parents=True)
        os.link(slices[0]["bid"].parents[1] / SIDE_INPUT, self._input / SIDE_INPUT)
        on = engine("spark")
        self.pipeline = do.Pipeline(query, root=str(place / "ours"), engine=on)
        answer_of = QUERIES[query](Events(self.pipeline, self._input, files_per_epoch=None))
        answer_of.to_table(query, partition_by=PARTITIONS.get(query, ()))
        self.streaming = None if query in BATCH_ONLY else Streaming(on.session(), query, place / "streaming", self._input)
        self._batch = Batch(on.session(), query, place / "batch")
        self.seconds: dict[str, list[float]] = {"ours": [], "streaming": [], "batch": []}
        self.profiles: list[dict[str, float]] = []

    def epochs(self) -> None:
        """Let all slices arrive, each once the one before is processed."""
        for number, files in enumerate(self._slices):
            for kind, file in files.items():
                os.link(file, self._input / kind / file.name)
            self._batch.prepare()
            runs = [("ours", self.pipeline.run_epoch), ("batch", lambda files=files: self._batch.run(files))]
            if self.streaming:
                runs.insert(1, ("streaming", self.streaming.run))
            for step in range(len(runs)):
                name, run = runs[(number + step) % len(runs)]
                self.seconds[name].append(timed(run))
            self.profiles.append(profile(self.pipeline))


def measure(events: int = EVENTS, epochs: int = EPOCHS, queries: Sequence[str] = ()) -> Iterator[Claim]:
    """The claims of the queries, then of their geometric mean."""
    ratios: list[float] = []
    with workplace() as place:
        data = Nexmark(events, rate=RATE).write(place / "events", epochs)
        slices = [{kind: data[kind][epoch] for kind in SCHEMAS} for epoch in range(epochs)]
        for query in queries or QUERIES:
            claim = _compared(query, place, slices)
            ratios += [claim.ratio] if query not in BATCH_ONLY else []
            yield claim
    if ratios:
        goal = FASTER.get(events, min(FASTER.values()))
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        yield Claim("nexmark_geometric_mean", mean, goal, True, Spread.of(ratios), {"events": events, "queries": len(ratios)})  # noqa: FBT003


def _compared(query: str, place: Path, slices: Sequence[Mapping[str, Path]]) -> Claim:
    Run(query, place / f"{query}-warm-up", slices[:WARM_UP]).epochs()
    run = Run(query, place / query, slices)
    run.epochs()
    ours, batch = run.seconds["ours"], run.seconds["batch"]
    over_batch = statistics.median(mine - plain for mine, plain in zip(ours, batch, strict=True))
    events = place / "events"
    details: dict[str, Any] = {
        "seconds": Spread.of(ours).__dict__,
        "batch_seconds": Spread.of(batch).__dict__,
        "over_batch": round(over_batch, 3),
        "over_batch_goal": f"<= {OVER_BATCH}",
        "over_batch_met": over_batch <= OVER_BATCH,
        "duckdb_all_seconds": round(timed(lambda: _all_at_once(query, events)), 3),
        "profile": medians(run.profiles),
    }
    table = rows_of_delta(run.pipeline.snapshot().uri(query))
    if run.streaming is None:
        details["same_results"] = not difference(table, answer(query, events))
        return _claim(query, batch, ours, details, at_least=0.0)
    streaming = run.seconds["streaming"]
    details["streaming_seconds"] = Spread.of(streaming).__dict__
    details["same_results"] = not difference(table, _closed(rows_of_delta(run.streaming.table), table))
    return _claim(query, streaming, ours, details, at_least=NO_SLOWER)


def _claim(query: str, other: Sequence[float], ours: Sequence[float], details: dict[str, Any], *, at_least: float) -> Claim:
    """By how much all epochs together are faster than the other's; beside a batch job nothing is promised of the ratio."""
    spread = Spread.of([theirs / mine for theirs, mine in zip(other, ours, strict=True)])
    return Claim(f"nexmark_{query}", sum(other) / sum(ours), at_least, True, spread, details)  # noqa: FBT003


def _closed(rows: pa.Table, ours: pa.Table) -> pa.Table:
    """The rows of windows that are closed: a join of Structured Streaming gives its rows before that."""
    import pyarrow.compute as pc

    return rows.filter(pc.field("window_end") <= pc.max(ours["window_end"])) if "window_end" in rows.column_names else rows


def _all_at_once(query: str, events: Path) -> None:
    """The whole answer into a file, on as many threads as the others have."""
    with connect(events, threads=SHUFFLE_PARTITIONS) as connection:
        connection.execute(f"COPY ({SQL[query]}) TO '{events / 'answer'}' (FORMAT parquet)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="*", metavar="query", help="which; all unless given")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many ({EVENTS})")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"in how many epochs ({EPOCHS})")
    options = parser.parse_args()
    for found in measure(options.events, options.epochs, options.queries):
        found.report()
