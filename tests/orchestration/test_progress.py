"""What long steps tell meanwhile, and what every event says of versions, pools and engines."""

from __future__ import annotations

import itertools
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.orchestration import progress
from dagster_operators.orchestration.progress import told_meanwhile
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.runtime.stages.job_description import DESCRIPTION
from tests.engines import EMBEDDED
from tests.orchestration import demo

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from dagster_operators.transactions.manifest import Manifest
    from dagster_operators.transactions.plan import EpochHandle


def test_lines_come_while_the_work_goes_on_and_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=itertools.count(100, 7).__next__))
    told: list[str] = []
    threads: list[threading.Thread] = []
    come = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        threads.append(threading.current_thread())
        come.set()

    with told_meanwhile(tell, "sail", every=0.01):
        assert come.wait(60)
    assert told[0] == "Still at work after 7 s."
    threads[0].join(60)
    assert not threads[0].is_alive()


def test_a_line_that_cannot_be_told_is_not_the_last_one() -> None:
    lines, come = itertools.count(1), threading.Event()

    def tell(_: str) -> None:
        if next(lines) == 1:
            raise OSError("the database is locked")
        come.set()

    with told_meanwhile(tell, "sail", every=0.001):
        assert come.wait(10)


@pytest.mark.usefixtures("on_sail")
def test_a_long_stage_tells_in_the_runs_log(folder: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    run_stage, looks, told = Epochs.run_stage, itertools.count(1), threading.Event()

    def monotonic() -> float:
        if threading.current_thread().name == "progress" and next(looks) == 2:  # so the first line is in the log
            told.set()
        return 0.0

    def slowly(epochs: Epochs, handle: EpochHandle, stage: str) -> Manifest:
        assert told.wait(60)
        return run_stage(epochs, handle, stage)

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=monotonic))

    monkeypatch.setattr(Epochs, "run_stage", slowly)
    done = demo.definitions(folder).resolve_job_def("demo_epoch").execute_in_process(instance=instance)
    lines = [entry.user_message for entry in instance.all_logs(done.run_id)]
    assert [line for line in lines if line.startswith("Still at work after")]


def test_sparks_tasks_are_told_where_its_rows_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimpleNamespace(numTasks=8, numCompletedTasks=3)
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [1], getJobInfo=lambda _: SimpleNamespace(stageIds=[2]), getStageInfo=lambda _: stage
    )
    context = SimpleNamespace(statusTracker=lambda: tracker)  # without what rows are asked of
    pyspark = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", cast("Any", pyspark))
    assert progress._tasks() == "3 of 8 tasks of 1 Spark job are done"


@pytest.mark.slow
def test_sparks_rows_are_told_beside_its_tasks(spark: SparkSession) -> None:
    told: list[str] = []
    counted = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        if "rows" in line:
            counted.set()

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.4)  # of a stage with several tasks, the rows of the first are known while the others run
            yield batch

    with told_meanwhile(tell, "spark", every=0.05):
        spark.range(0, 800, 1, 8).mapInArrow(slowly, "id long").count()
    assert counted.is_set(), told
    (line, *_) = [line for line in told if "rows" in line]
    assert re.fullmatch(
        r"Still at work after \d+ s: \d+ of \d+ tasks of 1 Spark job are done, "
        r"and the stages at work have read \d+ rows and written \d+\.",
        line,
    )


@pytest.mark.usefixtures("on_sail")
def test_events_of_both_jobs_have_the_same_versions_and_the_lag(folder: Path, instance: dg.DagsterInstance) -> None:
    defs = demo.definitions(folder)
    tags = []
    for job in ("demo_epoch", "demo_catch_up"):
        assert defs.resolve_job_def(job).execute_in_process(instance=instance).success
        event = instance.get_latest_materialization_event(demo.KEYS["hourly"])
        assert event is not None
        assert event.asset_materialization is not None
        tags.append(event.asset_materialization.tags or {})
        lag = event.asset_materialization.metadata["watermark_lag_seconds"].value
        assert isinstance(lag, float)
        assert lag > 365 * 86_400, "the rows are of January 2024"
    assert [tag["dagster/data_version"] for tag in tags] == ["epoch-1", "epoch-2"]
    assert tags[0]["dagster/code_version"] == tags[1]["dagster/code_version"]
    assert {
        op.pool for op in defs.resolve_job_def("demo_epoch").nodes_in_topological_order if isinstance(op, dg.OpDefinition)
    } <= {"demo"}


@pytest.mark.parametrize(("engine", "kind"), [("sail", "sail"), ("spark", "spark")])
def test_the_kind_of_a_table_is_the_engines(engine: str, kind: str, folder: Path) -> None:
    defs = do.build_definitions(demo.pipeline(folder), engine=engine)
    assert defs.resolve_asset_graph().get(demo.KEYS["clean"]).kinds == {kind, "deltalake"}
    node = defs.resolve_job_def("demo_epoch").graph.node_defs[0]
    pools = {inner.pool for inner in node.node_defs} if isinstance(node, dg.GraphDefinition) else set()  # type: ignore[attr-defined]
    assert pools == {"demo"}


def test_sparks_pages_name_pipeline_epoch_and_stage(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[str | None] = []

    def look(rows: object) -> object:
        seen.append(spark.sparkContext.getLocalProperty(DESCRIPTION))
        return rows

    made = do.Pipeline("named", root=str(tmp_path / "root"), engine=EMBEDDED, concurrent_stages=1)
    made.source("rows", do.MemorySource([[(1,)]], schema="v long")).transform(look).to_table("out")
    made.run_epoch()
    assert seen[-1] == "named, epoch 1: out"
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) is None
