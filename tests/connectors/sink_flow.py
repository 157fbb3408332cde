"""A pipeline without Spark that writes numbers to a Delta table and to a PostgreSQL table in the same commit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dagster_operators.connectors.postgres_sink import PostgresSink
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.runtime.stages.sinks import SinkParticipant, StagedForSink, write_to_sink
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord, Slices, StageRecord
from tests.transactions.flow import SCHEMA, read_numbers, write_file

TABLE = "CREATE TABLE numbers (n bigint PRIMARY KEY)"
PLAN = PlanRecord(
    fingerprint="p",
    stages=(StageRecord("rows", "r1"), StageRecord("after", "a1", ("rows",))),
    sources={"numbers": "numbers1"},
    datasets={"tables/rows": DatasetRecord(SCHEMA, "append")},
)


def coordinator(root: Path, dsn: str, *, columns: tuple[str, ...] | None = None, **options) -> Coordinator:
    """The pipeline ``numbers`` below ``root`` with the sink ``warehouse``."""
    run = Coordinator("numbers", str(root / "pipeline"), **options)
    run.join({"warehouse": SinkParticipant(PostgresSink(dsn, "numbers", columns, lock_timeout=5), "warehouse", run)})
    return run


@dataclass
class SinkFlow:
    """Epoch e brings the numbers 10e to 10e+2."""

    run: Coordinator
    last: int = 1_000_000

    def choose(self, view):
        start = view.last_complete.offsets["numbers"] if view.last_complete else 0
        if start >= self.last:
            return None
        return Slices({"numbers": SourceSlice(start, start + 1, [10 * (start + 1) + step for step in range(3)])})

    def work(self, attempt):
        changes, data = (), {}
        if attempt.stage == "rows":
            numbers = attempt.begin.slices.offsets["numbers"].items
            files = (write_file(self.run, "tables/rows", attempt.directory(""), "part-0", numbers),)
            changes = (Change("tables/rows", files),)
            staged = StagedForSink(attempt.attempt, "tables/rows", (files[0].path,), len(numbers), SCHEMA)
            data = {"warehouse": write_to_sink(self.run, "warehouse", staged, attempt.epoch, attempt.handle.generation)}
        return Manifest(
            self.run.pipeline, attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, changes,
            commit_data=data,
        )  # fmt: skip

    def staged(self, owner: Owner | None = None):
        """An epoch up to its commit."""
        self.run.open(owner or Owner.of_process("test"))
        handle = self.run.begin(PLAN, self.choose)
        for stage in PLAN.stages if handle else ():
            self.run.prepare(handle, stage.name, self.work)
        return handle

    def epoch(self, owner: Owner | None = None):
        handle = self.staged(owner)
        return handle and self.run.commit(handle)


def numbers_of(epochs: int) -> list[int]:
    return [10 * epoch + step for epoch in range(1, epochs + 1) for step in range(3)]


def finish(root: Path, database, epochs: int) -> None:
    """A fresh run ends with exactly so many epochs in both places, and nothing prepared."""
    with coordinator(root, database.dsn) as run:
        while (run.last_complete().epoch if run.last_complete() else 0) < epochs:
            SinkFlow(run, last=epochs).epoch()
        assert SinkFlow(run, last=epochs).epoch() is None
        assert read_numbers(run, "tables/rows", run.versions().versions["tables/rows"]) == numbers_of(epochs)
        pipeline = run.view().pipeline
        newest = run.view().generation
    assert [n for (n,) in database.query("SELECT n FROM numbers ORDER BY n")] == numbers_of(epochs)
    book = database.query("SELECT pipeline, sink, epoch, generation FROM dagster_operators_epochs ORDER BY epoch")
    assert [row[:3] for row in book] == [(pipeline, "warehouse", 0), (pipeline, "warehouse", epochs)]
    assert book[0][3] == newest
    assert database.prepared() == []
    assert "password" not in json.dumps([str(path) for path in root.rglob("*")])
