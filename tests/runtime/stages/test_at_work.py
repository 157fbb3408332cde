"""What a stage has done so far, on engines that tell nothing themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.runtime.stages import at_work
from dagster_operators.runtime.stages.at_work import so_far
from dagster_operators.runtime.workers import progress_note
from dagster_operators.runtime.workers.worker import run_partition
from dagster_operators.transactions.failpoints import watch
from tests.engines import CONNECT, SAIL

if TYPE_CHECKING:
    import pyarrow as pa


class HandingOn(do.ArrowOperator):
    """Hands rows on."""

    def output_schema(self, *inputs: pa.Schema) -> pa.Schema:
        return inputs[0]

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        out.collect(batch)


def test_staged_files_and_their_rows_are_told(sail: object, tmp_path: Path) -> None:
    assert sail is not None
    made = do.Pipeline("p", root=str(tmp_path / "p"), engine=SAIL)
    made.source("rows", do.MemorySource([[(1,), (2,), (3,)]], schema="v long")).to_table("t")
    told: list[str] = []
    with watch(lambda name: told.extend(so_far("p")) if name == "stage:files_written" else None):
        made.run_epoch()
    assert len(told) == 1
    assert re.fullmatch(r"stage t: (1 file|[2-9]\d* files) with 3 rows \(0\.0 MB\) (is|are) staged", told[0])
    assert so_far("p") == so_far("q") == []


def test_what_workers_have_been_through_is_told_and_nothing_of_it_stays(
    sail: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a note after every batch, and a look before it is deleted."""
    assert sail is not None
    root, told = tmp_path / "p", list[str]()
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[(n % 5, n) for n in range(1000)]], schema="k long, v long"))
    rows.apply(HandingOn(), name="handing_on").to_table("t")

    def noted(*arguments: Any) -> Iterator[pa.RecordBatch]:
        monkeypatch.setattr(progress_note, "EVERY", 0.0)
        monkeypatch.setattr(progress_note.ProgressNote, "over", lambda note: told.extend(so_far("p")) or over(note))
        return run_partition(*arguments)

    over = progress_note.ProgressNote.over
    monkeypatch.setattr("dagster_operators.runtime.workers.worker.run_partition", noted)
    made.run_epoch()
    assert any("its workers have been through 1,000 rows in" in line for line in told)
    assert not list(root.rglob("_progress*"))
    assert made.to_arrow("t").num_rows == 1000


def test_tasks_of_connect_are_told_while_a_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_work, "_stages", [SimpleNamespace(pipeline="p", told=lambda: "")])
    stages = [SimpleNamespace(num_tasks=8, num_completed_tasks=3), SimpleNamespace(num_tasks=2, num_completed_tasks=0)]
    at_work._hear(stages=stages, inflight_tasks=1, operation_id="a", done=False)
    assert so_far("p") == ["3 of 10 tasks of 1 query are done"]
    at_work._hear(stages=stages, inflight_tasks=0, operation_id="a", done=True)
    assert so_far("p") == []


@pytest.mark.slow
def test_a_server_of_spark_connect_tells_its_tasks(connect: object, tmp_path: Path) -> None:
    assert connect is not None
    heard: list[int] = []

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            time.sleep(3)
            yield batch

    made = do.Pipeline("p", root=str(tmp_path / "p"), engine=CONNECT)
    rows = made.source("rows", do.MemorySource([[(n,) for n in range(10)]], schema="v long"))
    rows.transform(lambda frame: frame.repartition(4).mapInArrow(slowly, "v long")).to_table("t")
    hear = at_work._hear

    def listening(**told: Any) -> None:
        hear(**told)
        heard.extend(int(line.split()[2]) for line in so_far("p") if "tasks" in line)

    at_work._listened.clear()
    at_work._hear = listening
    try:
        made.run_epoch()
    finally:
        at_work._hear = hear
        CONNECT.session().removeProgressHandler(listening)
        at_work._listened.clear()
    assert max(heard) >= 1
