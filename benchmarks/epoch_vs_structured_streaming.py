"""One epoch beside Spark Structured Streaming: filter -> Delta table -> ten-second sums over 1,000 keys -> Delta table.

Every epoch brings 100,000 new rows in one Parquet file, the same for all. Ours on embedded Spark shares the session with
Structured Streaming; ours on Sail runs in a process of its own; the three take turns. At the end all tables are compared row for
row.

What profiling taught:

- On Spark nine tenths of an epoch are the three writes, and a Java profile shows planning, analysis and the serialised Hadoop
  configuration before any row. A watermark written as a number made Spark compile six classes an epoch (85 ms), which then ran
  cold (``StageContext.varying``). A shuffle of a small file costs more than it brings (``StagedFiles.read``). Adaptive execution
  and the number of shuffle partitions play no part.
- On Sail the eight Delta commits (five records of the ledger, three tables) took more than any query while deltalake made them:
  95 % of their time was reading the log again and listing its folder. Entries of our own (``storage/delta_commit.py``) took
  the epoch from 0.154 to 0.087 s, and the one on Spark from 0.63 to 0.53 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from benchmarks.events import Feed, engine, profile, tumbling_sums
from benchmarks.harness import Claim, Spread, at_least, medians, timed, workplace
from benchmarks.other_process import OtherProcess
from benchmarks.structured_streaming import StructuredStreaming

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

WARM_UP, REPEATS = 12, 15
ON_SPARK, ON_SAIL = 5.0, 30.0


def measure() -> list[Claim]:
    """The claims for both engines."""
    with workplace() as place:
        feed = Feed(place / "input")
        streaming = StructuredStreaming(engine("spark").session(), place / "streaming", feed.folder)
        ours = tumbling_sums(place / "spark", feed.folder, "spark")
        with OtherProcess(tumbling_sums, place / "sail", feed.folder, "sail") as sail:
            seconds: dict[str, list[float]] = {name: [] for name in ("filter", "sum", "spark", "sail")}
            profiles = []
            runs: dict[str, Callable[[], object]] = {
                "filter": streaming.filter,
                "sum": streaming.sum,
                "spark": ours.run_epoch,
                "sail": sail.run_epoch,
            }
            for repeat in range(WARM_UP + REPEATS):
                feed.drop()
                for name, run in runs.items():
                    taken = timed(run)
                    if repeat >= WARM_UP:
                        seconds[name].append(taken)
                profiles.append(profile(ours))
            same = _same(place, ("streaming", "spark/tables", "sail/tables"))
    peer = [first + second for first, second in zip(seconds["filter"], seconds["sum"], strict=True)]
    shared = {
        "same_results": same,
        "structured_streaming_seconds": Spread.of(peer).__dict__,
        "structured_streaming_queries": {name: Spread.of(seconds[name]).median for name in ("filter", "sum")},
    }
    return [
        at_least(
            f"epoch_vs_structured_streaming_on_{name}", peer, seconds[name], goal=goal,
            details={**shared, "seconds": Spread.of(seconds[name]).__dict__, "profile": medians(steps[WARM_UP:])},
        )
        for name, goal, steps in (("spark", ON_SPARK, profiles), ("sail", ON_SAIL, sail.profiles))
    ]  # fmt: skip


def _same(place: Path, roots: tuple[str, ...]) -> bool:
    """Whether the tables below all roots hold the same rows."""
    for table, order in (("clean", ["t", "k", "v"]), ("sums", ["window_start", "k"])):
        first, *others = (_rows(place / root / table, order) for root in roots)
        if not first.num_rows or not all(other.equals(first) for other in others):
            return False
    return True


def _rows(table: Path, order: list[str]) -> pa.Table:
    rows = DeltaTable(str(table)).to_pyarrow_table()
    ordered = rows.select(sorted(rows.column_names)).sort_by([(name, "ascending") for name in order])
    return ordered.replace_schema_metadata().combine_chunks()


if __name__ == "__main__":
    for claim in measure():
        claim.report()
