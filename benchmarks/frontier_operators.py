"""Frontier operators beside timely dataflow, beside an ``ArrowOperator``, with many open times, and in a loop.

Four claims:

- exchange by key and keyed count, 20 million rows of 100,000 keys at 20 times, in two subtasks, durable: at least 2 million
  rows a second. timely dataflow 0.29 does the same in memory, without any durability; its figure is told beside ours, where cargo
  is there to build it (``timely_count.rs``), in a folder that is gone afterwards;
- an epoch of 1,000 rows costs at most 1.3 times that of an ``ArrowOperator`` that does the same;
- an epoch of a million rows at 10,000 times, all open, costs at most three times that of the same rows at one time;
- a loop of 1,000 rounds without an exchange takes under two seconds of processor time, in the harness.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, Clock, Spread, alternately, at_most, processor_seconds, workplace
from dagster_operators.testing import OperatorHarness

ROWS, KEYS, TIMES, WORKERS = 20_000_000, 100_000, 20, 2
SMALL, OPEN, OPEN_ROWS, ROUNDS = 1_000, 10_000, 1_000_000, 1_000
REPEATS = 5
SCHEMA = "k long, v long"
TIMED = f"{SCHEMA}, t timestamp"
BY_K = do.frontier.Exchange("k")
STATE = {"stash": do.frontier.StashState(), "counts": do.KeyedState(SCHEMA, key="k")}
CARGO = '[package]\nname = "beside"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\ntimely = "=0.29.0"\n'


def counted(_capability: Any, info: Any) -> Callable[[Any, Any], None]:
    """Rows wait until their time is complete, and change the counts of their keys."""
    stash, counts = info.state["stash"], info.state["counts"]

    def logic(given: Any, output: Any) -> None:
        for time_, batches in given.by_time():
            stash.add(time_, batches)
        for time_, rows in stash.complete(given.frontier):
            output.session(time_).give_batch(added(rows, counts))

    return logic


def adding(_capability: Any, info: Any) -> Callable[[Any, Any], None]:
    """Rows change the counts of their keys at once."""
    counts = info.state["counts"]

    def logic(given: Any, output: Any) -> None:
        for time_, batch in given:
            output.session(time_).give_batch(added(batch, counts))

    return logic


def added(rows: Any, counts: Any) -> pa.Table:
    """The new counts of the keys of some rows."""
    sums = pa.table({"k": rows["k"], "v": rows["v"]}).group_by("k").aggregate([("v", "sum")])
    before = pc.fill_null(counts.get(sums.select(["k"]))["v"], 0)
    found = pa.table({"k": sums["k"], "v": pc.add(before, sums["v_sum"])})
    counts.put(found)
    return found


class Counts(do.ArrowOperator):
    """The same as ``adding``, as an operator over Arrow batches."""

    event_time = "t"
    state = {"counts": do.KeyedState(SCHEMA, key="k")}  # noqa: RUF012

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The input's."""
        return rows

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        """Add to the counts at once."""
        found = added(batch, ctx.state["counts"])
        out.collect(found.append_column("t", pa.repeat(pc.max(batch["t"]), found.num_rows)))


def _pipeline(place: Path, on: str, build: Callable[[do.Stream], do.Stream]) -> do.Pipeline:
    pipeline = do.Pipeline("counts", root=str(place / "root"), engine=engine(on), parallelism=WORKERS)
    source = do.FileSource(str(place / "input"), format="parquet", schema=TIMED)
    rows = pipeline.source("rows", source, event_time="t")
    build(rows).to_table("counts")
    return pipeline


def _frontier(rows: do.Stream) -> do.Stream:
    return rows.unary_frontier(BY_K, "counted", counted, state=STATE)


def _file(place: Path, number: int, rows: int, keys: int, moments: Sequence[int], *, shuffled: bool = False) -> None:
    """A file of rows whose times are the moments, in equal parts, and in order unless they are shuffled."""
    (place / "input").mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(number)
    times = np.repeat(np.array(moments, np.int64), -(-rows // len(moments)))[:rows]
    if shuffled:
        random.shuffle(times)
    table = pa.table({
        "k": random.integers(0, keys, rows), "v": np.ones(rows, np.int64), "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pq.write_table(table, place / "input" / f"{number:05d}.parquet")


def _throughput(place: Path, rows: int, repeats: int, on: str) -> Claim:
    seconds, processor = [], []
    for repeat in range(repeats + 1):
        own = place / str(repeat)
        for number in range(TIMES):
            _file(own, number, rows // TIMES, KEYS, [1_000_000 * (number + 1)])
        _file(own, TIMES, 1, 1, [1_000_000 * (TIMES + 1)])  # completes the times before it
        pipeline = _pipeline(own, on, _frontier)
        began, worked = time.perf_counter(), processor_seconds()
        result = pipeline.run_epoch()
        seconds.append(time.perf_counter() - began)
        processor.append(processor_seconds() - worked)
        expected = sum(min(KEYS, rows // TIMES) for _ in range(TIMES))
        if not 0 < result.rows["counts"] <= expected:
            raise AssertionError(f"{result.rows['counts']} counts came out")
        shutil.rmtree(own)
    ours = [rows / each / 1e6 for each in seconds[1:]]  # the first one warms
    beside = _timely(place / "timely", rows, repeats)
    found = Spread.of(ours)
    details = {"rows": rows, "seconds": sorted(seconds[1:]), "processor_seconds": sorted(processor[1:])}
    details["timely_millions_per_second"] = beside and sorted(beside)
    if beside:
        details["timely_times_as_fast"] = round(float(np.median(beside)) / found.median, 1)
    return Claim("frontier_keyed_count_millions_per_second", found.median, 2.0, True, found, details)  # noqa: FBT003


def _timely(place: Path, rows: int, repeats: int) -> list[float]:
    """Million records a second of timely dataflow; none, with a line that says so, where cargo is not there."""
    cargo = shutil.which("cargo")
    if cargo is None:
        print("cargo is not there: timely dataflow is left out", flush=True)
        return []
    (place / "src").mkdir(parents=True)
    (place / "Cargo.toml").write_text(CARGO, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("timely_count.rs"), place / "src" / "main.rs")
    built = subprocess.run([cargo, "build", "--release", "--quiet", "-j1"], cwd=place, check=False)  # noqa: S603
    if built.returncode:
        print("timely dataflow could not be built, and is left out", flush=True)
        return []
    command = [str(place / "target" / "release" / "beside"), str(rows), str(KEYS), str(TIMES), "-w", str(WORKERS)]
    found = []
    for _ in range(repeats):
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
        found.append(round(rows / max(map(float, told)) / 1e6, 2))
    return found


def _small_epochs(place: Path, repeats: int, on: str, *, clock: Clock) -> Claim:
    ours, other = place / "frontier", place / "arrow"
    state = {"counts": STATE["counts"]}
    builds = {
        ours: lambda rows: rows.unary(BY_K, "counted", adding, state=state),
        other: lambda rows: rows.key_by("k").apply(Counts()),
    }
    pipelines = {own: _pipeline(own, on, build) for own, build in builds.items()}
    dropped = dict.fromkeys(builds, 0)

    def drop(own: Path) -> None:
        dropped[own] += 1
        _file(own, dropped[own], SMALL, KEYS, [1_000_000 * dropped[own]])

    before = [lambda own=own: drop(own) for own in builds]
    runs = [pipeline.run_epoch for pipeline in pipelines.values()]
    alternately(2, *runs, before=before)  # warm
    frontier, arrow = alternately(repeats, *runs, before=before, clock=clock)
    details = {"rows": SMALL, "frontier_s": sorted(frontier), "arrow_s": sorted(arrow)}
    return at_most("frontier_epoch_of_1000_rows_vs_arrow_operator", frontier, arrow, goal=1.3, details=details)


def _open_times(place: Path, rows: int, times: int, repeats: int, on: str, *, clock: Clock) -> Claim:
    """Epochs whose rows come in no order of time, wait, and go on when their time is complete."""
    several, one = place / "several", place / "one"
    pipelines = [_pipeline(own, on, lambda rows: do.frontier.barrier(rows, pact=BY_K)) for own in (several, one)]
    epochs = {several: 0, one: 0}

    def drop(own: Path, moments: int) -> None:
        epochs[own] += 1
        first = 2 * moments * epochs[own]
        _file(own, 2 * epochs[own], rows, KEYS, range(first, first + moments), shuffled=True)
        _file(own, 2 * epochs[own] + 1, 1, 1, [first + moments])  # completes the times before it

    before = [lambda: drop(several, times), lambda: drop(one, 1)]
    runs = [pipeline.run_epoch for pipeline in pipelines]
    alternately(1, *runs, before=before)  # warm
    many, single = alternately(repeats, *runs, before=before, clock=clock)
    details = {"rows": rows, "times": times, "many_s": sorted(many), "one_s": sorted(single)}
    return at_most("frontier_epoch_of_10000_open_times_vs_one", many, single, goal=3.0, details=details)


def _rounds(repeats: int) -> Claim:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema=TIMED), event_time="t")
    operator = do.frontier.definition_of(do.frontier.iterate(rows, _thousand_rounds))

    def run() -> None:
        harness = OperatorHarness(operator, TIMED, event_time="t")
        harness.process([{"k": 0, "v": 0, "t": "2026-01-01"}])
        harness.finish()
        if [row["v"] for row in harness.rows()] != [ROUNDS]:
            raise AssertionError("the loop did not go around as often as it should")

    (seconds,) = alternately(repeats, run, clock=time.process_time)
    found = Spread.of(seconds)
    return Claim("frontier_loop_of_1000_rounds_seconds", found.median, 2.0, False, found, {"rounds": ROUNDS})  # noqa: FBT003


def _thousand_rounds(rows: Any) -> Any:
    more = do.frontier.map(rows, lambda batch: batch.set_column(1, "v", pc.add(batch["v"], 1)))
    return do.frontier.branch(more, lambda _, batch: pc.equal(batch["v"], ROUNDS))


def measure(*, quick: bool = False, on: str = "spark", repeats: int = REPEATS, clock: Clock = time.perf_counter) -> list[Claim]:
    """The claims; quick: a hundredth of the rows, to see that it works. What is compared is compared by the clock."""
    part, repeats = (100, 1) if quick else (1, repeats)
    with workplace() as place:
        return [
            _rounds(repeats),
            _open_times(
                place / "times", OPEN_ROWS // (10 if quick else 1), OPEN // (10 if quick else 1), repeats, on, clock=clock
            ),
            _small_epochs(place / "small", 2 * repeats, on, clock=clock),
            _throughput(place / "throughput", ROWS // part, repeats, on),
        ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows, to see that it works")
    parser.add_argument("--engine", default="spark", choices=("spark", "sail"))
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"how often each is measured ({REPEATS})")
    parser.add_argument("--processor", action="store_true", help="compare processor time, as where others are at work")
    given = parser.parse_args()
    by = processor_seconds if given.processor else time.perf_counter
    for claim in measure(quick=given.quick, on=given.engine, repeats=given.repeats, clock=by):
        claim.report()
