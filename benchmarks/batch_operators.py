"""Operators over Arrow batches beside a bare ``mapInArrow``, and keyed state beside none.

Four claims, on embedded Spark with two shuffle partitions:

- a pass-through ``ArrowOperator`` after ``key_by`` reaches 0.9 of the throughput of a bare shuffle + ``mapInArrow`` that
  writes Parquet itself, over 10 million rows;
- a keyed running sum over 10 million rows and 100,000 keys takes at most 1.5 times the bare pass-through;
- an epoch that touches 10,000 of 10 million keys costs at most 1.5 times the same epoch over 100,000 keys;
- a worker's memory stays flat when an epoch's input grows tenfold: its highest resident size while it sums 10 million rows is
  at most 1.2 times that over a million.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, Spread, alternately, at_most, workplace

ROWS, FILES, KEYS = 10_000_000, 10, 100_000
TOUCHED, MANY, FEW = 10_000, 10_000_000, 100_000
REPEATS = 5
SCHEMA = "k long, v long"


class PassThrough(do.ArrowOperator):
    """Puts out what comes in."""

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The input's."""
        return rows

    def process_batch(self, batch: pa.RecordBatch, _ctx: do.OperatorContext, out: do.Collector) -> None:
        """Hand it on."""
        out.collect(batch)


class RunningSum(do.ArrowOperator):
    """Each key's sum so far, beside each row."""

    state = {"sums": do.KeyedState("k long, total long", key="k")}  # noqa: RUF012

    def output_schema(self, _rows: pa.Schema) -> str:
        """The input's, and the sum."""
        return "k long, v long, total long"

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        """Sum up within the batch by key, from where the key stands."""
        keys, values = batch["k"].to_numpy(), batch["v"].to_numpy()
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        counts = np.diff(np.append(starts, len(keys)))
        unique = pa.table({"k": keys[starts]})
        before = pc.fill_null(ctx.state["sums"].get(unique)["total"], 0).to_numpy()
        running = np.cumsum(values)
        base = before - (running[starts] - values[starts])
        totals = running + np.repeat(base, counts)
        ctx.state["sums"].put(pa.table({"k": keys[starts], "total": totals[starts + counts - 1]}))
        out.collect(pa.table({"k": keys, "v": values, "total": totals}))


def _files(folder: Path, rows: int, keys: int, files: int, *, distinct: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        random = np.random.default_rng(number)
        size = rows // files
        chosen = np.arange(number * size, (number + 1) * size) % keys if distinct else random.integers(0, keys, size)
        pq.write_table(pa.table({"k": chosen, "v": random.integers(0, 100, size)}), folder / f"{number:03d}.parquet")


def _bare(folder: Path, target: Path) -> None:
    """What a user would write by hand: shuffle, and a function that writes Parquet and returns the file's name."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    place = str(target)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import uuid

        import pyarrow as pa
        import pyarrow.parquet as pq

        path, rows, writer, waiting, held = f"{place}/{uuid.uuid4().hex}.parquet", 0, None, [], 0
        for batch in batches:
            waiting.append(batch)
            held += batch.num_rows
            if held >= 128 * 1024:
                writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd")
                writer.write_table(pa.Table.from_batches(waiting))
                rows, waiting, held = rows + held, [], 0
        if waiting:
            writer = writer or pq.ParquetWriter(path, waiting[0].schema, compression="zstd")
            writer.write_table(pa.Table.from_batches(waiting))
        if writer:
            writer.close()
        yield pa.RecordBatch.from_pydict({"path": [path], "rows": [rows + held]})

    session = engine("spark").session()
    frame = session.read.schema(SCHEMA).parquet(str(folder)).repartition(2, "k")
    frame.mapInArrow(write, "path string, rows long").collect()


class Watched(RunningSum):
    """The running sum, which tells how much memory its worker held at most."""

    def on_start(self, _ctx: do.OperatorContext) -> None:
        """Forget what the worker held before."""
        Path("/proc/self/clear_refs").write_text("5")

    def handle_checkpoint(self, _epoch: int, ctx: do.OperatorContext, _out: do.Collector) -> None:
        """Report it, in MB; a figure of all subtasks is their sum."""
        held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        ctx.metrics.add("peak_mb", int(held.split()[1]) / 1024)


class _Ours:
    """A pipeline with one operator that gets the same rows in every epoch."""

    def __init__(self, place: Path, data: Path, operator: do.ArrowOperator) -> None:
        self.data = data
        self._input = place / "input"
        self._input.mkdir(parents=True)
        self._number = 0
        self.pipeline = do.Pipeline("batch", root=str(place / "root"), engine=engine("spark"), parallelism=2)
        rows = self.pipeline.source("rows", do.FileSource(str(self._input), format="parquet", schema=SCHEMA))
        rows.key_by("k").apply(operator).to_table("out")

    def drop(self) -> None:
        """The next epoch's rows."""
        for file in sorted(self.data.iterdir()):
            (self._input / f"{self._number:04d}-{file.name}").hardlink_to(file)
        self._number += 1

    def run(self) -> None:
        self.pipeline.run_epoch()


def _throughput(place: Path, rows: int, repeats: int) -> list[Claim]:
    data = place / "data"
    _files(data, rows, KEYS, FILES)
    through, sums = _Ours(place / "through", data, PassThrough()), _Ours(place / "sums", data, RunningSum())
    runs: tuple[Callable[[], None], ...] = (lambda: _bare(data, place / "bare"), through.run, sums.run)
    before = (lambda: None, through.drop, sums.drop)
    alternately(1, *runs, before=before)  # warm
    bare, ours, state = alternately(repeats, *runs, before=before)
    details = {"rows": rows, "bare_s": sorted(bare), "pass_through_s": sorted(ours), "running_sum_s": sorted(state)}
    ratios = [a / b for a, b in zip(bare, ours, strict=True)]
    found = Spread.of(ratios)
    return [
        Claim("pass_through_vs_bare_throughput", found.median, 0.9, True, found, details),  # noqa: FBT003
        at_most("running_sum_vs_bare", state, bare, goal=1.5, details={}),
    ]


def _touching(place: Path, few: int, many: int, repeats: int) -> list[Claim]:
    pipelines = []
    for keys in (few, many):
        folder = place / str(keys)
        _files(folder / "all", keys, keys, max(1, keys // 1_000_000), distinct=True)
        ours = _Ours(folder, folder / "all", RunningSum())
        ours.drop()
        ours.run()
        ours.data = folder / "some"
        _files(ours.data, TOUCHED, keys, 1)
        pipelines.append(ours)
    small, large = pipelines
    before = (small.drop, large.drop)
    alternately(2, small.run, large.run, before=before)  # warm: local copies of the state are made
    slow, fast = alternately(repeats, large.run, small.run, before=(large.drop, small.drop))
    details = {"keys": [few, many], "touched": TOUCHED, "small_s": sorted(fast), "large_s": sorted(slow)}
    return [at_most("epoch_on_10m_keys_vs_100k", slow, fast, goal=1.5, details=details)]


def _memory(place: Path, rows: int, repeats: int) -> list[Claim]:
    peaks: list[list[float]] = []
    for size in (rows // 10, rows):
        folder = place / str(size)
        _files(folder / "data", size, KEYS, FILES)
        ours = _Ours(folder, folder / "data", Watched())
        found = []
        for _ in range(repeats + 1):
            ours.drop()
            result = ours.pipeline.run_epoch()
            found.append(sum(value for name, value in result.metrics.items() if name.endswith("peak_mb")))
        peaks.append(found[1:])
    small, large = peaks
    details = {"rows": [rows // 10, rows], "small_mb": sorted(small), "large_mb": sorted(large)}
    return [at_most("worker_memory_at_tenfold_input", large, small, goal=1.2, details=details)]


def measure(*, quick: bool = False) -> list[Claim]:
    """The claims; quick: a hundredth of the rows, to see that it works."""
    part = 100 if quick else 1
    with workplace() as place:
        return [
            *_throughput(place / "throughput", ROWS // part, 2 if quick else REPEATS),
            *_touching(place / "touching", FEW // (10 if quick else 1), MANY // part, 2 if quick else 2 * REPEATS),
            *_memory(place / "memory", ROWS // part, 1 if quick else REPEATS),
        ]


if __name__ == "__main__":
    for claim in measure(quick="--quick" in sys.argv):
        claim.report()
