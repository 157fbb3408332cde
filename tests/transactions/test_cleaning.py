"""Cleaning up: what is kept stays readable, what is not kept is gone, and a crash in between leaves nothing wrong.

Stands for the fault script a4.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from dagster_operators import MemorySource, Pipeline, Tumbling
from dagster_operators.errors import ForeignWriteError, UnknownEpochError
from dagster_operators.runtime.engine import Spark
from dagster_operators.transactions import failpoints

pytestmark = pytest.mark.sail

EPOCHS = 12


def run(root: Path, epochs: int = EPOCHS) -> Pipeline:
    batches = [
        [{"k": f"k{i % 3}", "v": i, "t": f"2024-01-01T00:{number:02d}:{i:02d}Z"} for i in range(6)] for number in range(epochs)
    ]
    pipeline = Pipeline("p", root=str(root), engine=Spark(remote="sail"))
    rows = pipeline.source("rows", MemorySource(batches, schema="k string, v long, t timestamp"), event_time="t")
    rows.to_table("raw")
    rows.key_by("k").window(Tumbling("3 minutes")).aggregate(n="count(*)").to_table("windows")
    rows.key_by("k").aggregate(n="count(*)", s="sum(v)").to_table("totals")
    pipeline.run_until_caught_up()
    return pipeline


def rows_of(pipeline: Pipeline, epoch: int | None = None) -> dict[str, list[tuple[object, ...]]]:
    snapshot = pipeline.snapshot(epoch)
    return {table: sorted(tuple(row) for row in snapshot.read(table).collect()) for table in snapshot.versions}


def data_files(root: Path) -> int:
    return sum("ledger" not in file.parts for file in root.rglob("*.parquet") if "_delta_log" not in file.parts)


def test_what_is_kept_stays_readable_and_the_rest_is_gone(tmp_path: Path) -> None:
    pipeline = run(tmp_path)
    before = {epoch: rows_of(pipeline, epoch) for epoch in (EPOCHS - 2, EPOCHS - 1, EPOCHS)}
    files = data_files(tmp_path)
    deleted = pipeline.clean("0 seconds", keep_epochs=3)
    assert deleted > 0
    assert data_files(tmp_path) == files - deleted
    assert {epoch: rows_of(pipeline, epoch) for epoch in before} == before
    with pytest.raises(UnknownEpochError, match="epochs 10 to 12 can be read"):
        pipeline.read("raw", epoch=EPOCHS - 3)
    for keep in (3, 5):  # also when more are to be kept than there are
        assert pipeline.clean("0 seconds", keep_epochs=keep) == 0
    with pytest.raises(UnknownEpochError, match="epochs 10 to 12 can be read"):
        pipeline.read("raw", epoch=EPOCHS - 3)


def test_epochs_go_on_after_cleaning_in_another_process(tmp_path: Path) -> None:
    run(tmp_path / "cleaned", epochs=8).clean("0 seconds", keep_epochs=1)
    assert rows_of(run(tmp_path / "cleaned")) == rows_of(run(tmp_path / "plain"))


@pytest.mark.parametrize("keep", ["theirs", "ours"])
def test_what_a_restore_brought_back_stays(tmp_path: Path, keep: str) -> None:
    """Files of early epochs are active again, though at the oldest epoch that is kept they were not."""
    pipeline = run(tmp_path, epochs=6)
    table = tmp_path / "tables" / "totals"
    DeltaTable(str(table)).restore(3)
    with pytest.raises(ForeignWriteError):
        run(tmp_path, epochs=7)
    assert pipeline.repair("totals", keep=keep) is not None  # type: ignore[arg-type]
    pipeline = run(tmp_path, epochs=9)
    before = {epoch: rows_of(pipeline, epoch) for epoch in (5, 6, 7, 8, 9)}
    assert pipeline.clean("0 seconds", keep_epochs=5) > 0
    assert {epoch: rows_of(run(tmp_path, epochs=9), epoch) for epoch in before} == before
    assert sum(row.n for row in run(tmp_path).read("totals").collect()) == 6 * EPOCHS, "all keys came again since"


def test_recent_epochs_are_kept_whatever_their_number(tmp_path: Path) -> None:
    pipeline = run(tmp_path, epochs=4)
    assert pipeline.clean("1 hour", keep_epochs=1) == 0
    assert len(rows_of(pipeline, 1)["raw"]) == 6


@pytest.mark.parametrize("place", ["after:append_clean", "before:delete_outdated"])
def test_a_crash_between_record_and_deletion_is_made_good_by_the_next_call(tmp_path: Path, place: str) -> None:
    class CrashError(Exception):
        pass

    def crash(name: str) -> None:
        if name == place:
            raise CrashError

    pipeline = run(tmp_path, epochs=8)
    now, files = rows_of(pipeline), data_files(tmp_path)
    with failpoints.watch(crash), pytest.raises(CrashError):
        pipeline.clean("0 seconds", keep_epochs=1)
    assert data_files(tmp_path) == files
    assert pipeline.clean("0 seconds", keep_epochs=1) > 0
    assert rows_of(pipeline) == now
