"""An epoch of a pipeline that has 100,000 epochs behind it begins in at most 1.5 times what one takes that has 100.

Both have read one file in every epoch, and the last hundred files are still there. The process knows nothing of either: each
begin is a new pipeline's, as in a run of its own; only the engine is warm, which would hide the rest. The ledger of the old
one is made up: the records of real epochs, with the numbers, names of files and positions of so many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from benchmarks.events import Feed, source
from benchmarks.harness import Claim, Spread, alternately, at_most, workplace
from dagster_operators.connectors.slicing import position_behind
from dagster_operators.runtime.engine import engine_named
from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.location import SourceFile
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.transactions.ledger_files import active_files, read_rows, write_rows
from dagster_operators.transactions.owner import Owner

YOUNG, OLD, REAL, REPEATS = 100, 100_000, 100, 7
GOAL = 1.5
_PER_FILE = 4096
"""Records in one file of the ledger, as folding leaves them."""


class Aged:
    """A pipeline with so many epochs behind it, of which the last hundred are real."""

    def __init__(self, place: Path, epochs: int) -> None:
        self.root, self.feed = place / "root", Feed(place / "in", rows=10)
        for _ in range(REAL):
            self.feed.drop()
            self.pipeline().run_epoch()
        if epochs > REAL:
            lengthen(self.root, epochs - REAL)
        self.arrive()

    def pipeline(self) -> do.Pipeline:
        """It, as a process has it that knows nothing of its past."""
        pipeline, rows = source("aged", self.root, self.feed.folder, "sail")
        rows.filter("v >= 10").to_table("clean")
        return pipeline

    def arrive(self) -> None:
        """Let an epoch that was begun end, and the next file come."""
        self.pipeline().run_until_caught_up()
        self.feed.drop()

    def begin(self) -> None:
        """Begin an epoch."""
        epochs = self.pipeline().epochs
        if epochs.begin(Owner.of_process()) is None:
            raise RuntimeError("there was nothing new")
        epochs.coordinator.close()


def lengthen(root: Path, epochs: int) -> None:
    """Put so many more epochs between the real ones and now; each has read a file that is gone."""
    pipeline = do.StoredPipeline(str(root))
    coordinator = pipeline._coordinator  # noqa: SLF001 - a ledger that no epoch wrote
    log = TableLog(coordinator.root, "ledger")
    table = log.load()
    files = active_files(table)
    rows = pa.concat_tables(read_rows(coordinator.root, file) for file in files)
    last = pc.max(rows["epoch"]).as_py()
    model = [
        row for row in rows.to_pylist() if row["epoch"] == last and row["kind"] in ("begin", "prepared", "decision", "complete")
    ]
    seq, made = pc.max(rows["seq"]).as_py(), list[dict[str, Any]]()
    written = []
    for record in _records(model, epochs):
        seq += 1
        made.append({**record, "seq": seq})
        if len(made) == _PER_FILE:
            written.append(write_rows(coordinator.root, pa.Table.from_pylist(made, rows.schema)))
            made.clear()
    if made:
        written.append(write_rows(coordinator.root, pa.Table.from_pylist(made, rows.schema)))
    version = table.version()
    if log.append(version, log.stamp(version), LogEntry(tuple(file.logged for file in written))) is None:
        raise RuntimeError("somebody else wrote the ledger")


def _records(model: list[dict[str, Any]], epochs: int) -> Iterator[dict[str, Any]]:
    """The records of one epoch again and again, each reading a file of its own."""
    bodies = [json.loads(record["body"]) for record in model]
    (name,) = bodies[0]["slices"]["offsets"]
    position, ending = bodies[-1]["offsets"][name], model[-1]["epoch"]
    for epoch in range(ending + 1, ending + 1 + epochs):
        file = SourceFile(1_600_000_000_000_000 + epoch, f"gone-{epoch:08d}.parquet", 4096)
        behind = position_behind(position, [file])
        for record, body in zip(model, bodies, strict=True):
            body["epoch"] = epoch
            if "begin_id" in body:
                body["begin_id"] = f"made-up-{epoch:08d}"
            if record["kind"] == "begin":
                body["slices"]["offsets"][name] = {**body["slices"]["offsets"][name], "start": position, "end": behind}
                body["slices"]["offsets"][name]["items"] = [file.to_json()]
            if record["kind"] == "complete":
                body["offsets"] = {**body["offsets"], name: behind}
            yield {**record, "epoch": epoch, "body": json.dumps(body)}
        position = behind


def measure() -> Claim:
    """The claim."""
    with workplace() as place:
        engine_named("sail").session()
        old, young = Aged(place / "old", OLD), Aged(place / "young", YOUNG)
        olds, youngs = alternately(REPEATS, old.begin, young.begin, before=(old.arrive, young.arrive))
    details = {name: {"seconds": Spread.of(seconds).__dict__} for name, seconds in (("old", olds), ("young", youngs))}
    return at_most("begin_100000_vs_100", olds, youngs, goal=GOAL, details=details)


if __name__ == "__main__":
    measure().report()
