"""A small pipeline without Spark for the tests: one source of numbers, stages that write them to tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dagster_operators.errors import FencedError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.manifest import Change, CheckOutcome, FileEntry, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord, Slices, StageRecord

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]})
TABLES = ("tables/clean", "tables/sums", "state/sums.totals")


def plan_of(
    *,
    clean: str = "c1",
    sums: str = "s1",
    source: str = "numbers1",
    state: str = '{"tables": 1}',
    schema: str = SCHEMA,
) -> PlanRecord:
    """Two stages, ``clean`` (an append table and a stream) and ``sums`` (an updating table and a state table)."""
    return PlanRecord(
        fingerprint=f"{clean}{sums}",
        stages=(StageRecord("clean", clean), StageRecord("sums", sums, ("clean",))),
        sources={"numbers": source},
        datasets={
            "tables/clean": DatasetRecord(schema, "append", "The numbers"),
            "tables/sums": DatasetRecord(SCHEMA, "updating"),
            "state/sums.totals": DatasetRecord(SCHEMA, "state", "", state),
        },
    )


def write_file(run: Coordinator, dataset: str, folder: str, name: str, numbers: list[int]) -> FileEntry:
    path = f"{folder}/{name}.parquet"
    target = run.root.path(dataset, path)
    run.root.files.create_dir(target.rpartition("/")[0])
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), target, filesystem=run.root.files)
    return FileEntry(path, run.root.files.get_file_info(target).size, len(numbers))


def read_numbers(run: Coordinator, dataset: str, version: int) -> list[int]:
    return numbers_in(run, dataset, run.files(dataset, version))


def numbers_in(run: Coordinator, dataset: str, files: Iterable[FileEntry]) -> list[int]:
    numbers: list[int] = []
    for file in files:
        numbers += pq.read_table(run.root.path(dataset, file.path), filesystem=run.root.files)["n"].to_pylist()
    return sorted(numbers)


@dataclass
class Flow:
    """The pipeline's work on one coordinator: epoch e reads the numbers 10e to 10e+2."""

    run: Coordinator
    plan: PlanRecord = field(default_factory=plan_of)
    last: int = 1_000_000
    checks: tuple[CheckOutcome, ...] = ()
    worked: list[str] = field(default_factory=list)

    def choose(self, view):
        start = view.last_complete.offsets["numbers"] if view.last_complete else 0
        if start >= self.last:
            return None
        numbers = [10 * (start + 1) + step for step in range(3)]
        return Slices({"numbers": SourceSlice(start, start + 1, numbers)})

    def work(self, attempt: StageAttempt) -> Manifest:
        self.worked.append(attempt.stage)
        folder = attempt.directory("")
        numbers = attempt.begin.slices.offsets["numbers"].items
        reach("stage:half_files")
        if attempt.stage == "clean":
            changes = (
                Change("tables/clean", (write_file(self.run, "tables/clean", folder, "part-0", numbers),)),
                Change("streams/clean", (write_file(self.run, "streams/clean", folder, "part-0", numbers),)),
            )
        else:
            (staged,) = attempt.upstream["clean"].change("streams/clean").adds
            read = pq.read_table(self.run.root.path("streams/clean", staged.path), filesystem=self.run.root.files)[
                "n"
            ].to_pylist()
            before = self.run.files("tables/sums", attempt.begin.base_versions["tables/sums"])
            old = read_numbers(self.run, "tables/sums", attempt.begin.base_versions["tables/sums"])
            total = sum(old) + sum(read)
            changes = (
                Change(
                    "tables/sums",
                    (write_file(self.run, "tables/sums", folder, "part-0", [total]),),
                    tuple(file.path for file in before),
                ),
                Change("state/sums.totals", (write_file(self.run, "state/sums.totals", folder, "run-0", [sum(read)]),)),
            )
        reach("stage:files_written")
        return Manifest(
            self.run.pipeline, attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads, changes,
            rows={attempt.stage: len(numbers)}, watermarks={"numbers": max(numbers)}, checks=self.checks, seconds=0.5,
            commit_data={"sink": {"attempt": attempt.attempt}} if attempt.stage == "sums" and self.run._participants else {},
        )  # fmt: skip

    def epoch(self, owner: Owner | None = None):
        """One whole epoch; None when there is nothing new."""
        self.run.open(owner or Owner.of_process("test"))
        handle = self.run.begin(self.plan, self.choose)
        if handle is None:
            return None
        for stage in self.plan.stages:
            self.run.prepare(handle, stage.name, self.work)
        return self.run.commit(handle)


def check_result(run: Coordinator, epochs: int) -> None:
    """All tables hold exactly ``epochs`` epochs, at one version per epoch."""
    complete = run.versions()
    assert complete.epoch == epochs
    assert dict(complete.versions) == dict.fromkeys(TABLES, epochs)
    expected = [10 * epoch + step for epoch in range(1, epochs + 1) for step in range(3)]
    assert read_numbers(run, "tables/clean", epochs) == expected
    assert read_numbers(run, "tables/sums", epochs) == [sum(expected)]
    assert sum(read_numbers(run, "state/sums.totals", epochs)) == sum(expected)
    assert [complete.epoch for complete in run.history()] == list(range(1, epochs + 1))
    assert [part.start for _, part in run.slices("numbers")] == list(range(epochs))


class FileSink:
    """An external sink that keeps what it prepared and committed in files and heeds the fencing token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _generation(self) -> int:
        token = self.folder / "generation"
        return int(token.read_text()) if token.exists() else 0

    def _fence(self, generation: int) -> None:
        if generation < self._generation():
            raise FencedError("the sink has seen a newer run")
        (self.folder / "generation").write_text(str(generation))

    def prepare(self, epoch, commit_data, generation):
        self._fence(generation)
        (self.folder / f"prepared-{epoch}-{commit_data['attempt']}").write_text(json.dumps(commit_data))

    def commit(self, epoch, commit_data):
        prepared = self.folder / f"prepared-{epoch}-{commit_data['attempt']}"
        if prepared.exists():
            prepared.rename(self.folder / f"committed-{epoch}")
        assert json.loads((self.folder / f"committed-{epoch}").read_text()) == commit_data

    def abort(self, epoch, generation):
        self._fence(generation)
        for path in self.folder.glob(f"prepared-{epoch}-*"):
            path.unlink()

    def recover(self, decided_epoch, generation):
        if generation <= self._generation():
            return
        self._fence(generation)
        for path in self.folder.glob("prepared-*"):
            if int(path.name.split("-")[1]) > decided_epoch:
                path.unlink()

    def committed(self) -> list[int]:
        return sorted(int(path.name.removeprefix("committed-")) for path in self.folder.glob("committed-*"))


def coordinator(root: Path, **options) -> Coordinator:
    """The pipeline ``numbers`` in ``root/pipeline`` with a sink beside it."""
    return Coordinator("numbers", str(root / "pipeline"), participants={"sink": FileSink(root / "sink")}, **options)


def leftovers(run: Coordinator) -> list[str]:
    """Folders of attempts that no completed epoch chose, streams, and manifests of completed epochs."""
    chosen = {
        (entry.record.epoch, manifest.attempt) for entry in run._ledger.scan({"decision"}) for manifest in entry.record.manifests
    }
    found = [f"streams/clean/{name}" for name in run.root.children("streams/clean")]
    found += [f"manifests/{name}" for name in run.root.children("manifests")]
    for table in TABLES:
        for name in run.root.children(table):
            epoch, _, attempt = name.removeprefix("e").partition("-")
            if name.startswith("e") and (int(epoch), attempt) not in chosen:
                found.append(f"{table}/{name}")
    return found
