"""Epochs of a whole pipeline: taken up when their input was corrected, their stages side by side."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dagster_operators import FileSource, MemorySource, Pipeline, Tumbling
from dagster_operators.errors import BadInputError, PipelineError, StageFailedError
from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.stages.stage_run import StageRun
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.manifest import Manifest
from tests.engines import ENGINES


def write(file: Path, text: str, modified: int) -> None:
    file.write_text(text)
    os.utime(file, (modified, modified))


@pytest.mark.sail
def test_an_epoch_that_failed_on_a_bad_file_goes_on_once_the_file_is_corrected(tmp_path: Path) -> None:
    landing = tmp_path / "in"
    landing.mkdir()
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=Spark(remote="sail"))
    pipeline.source("rows", FileSource(str(landing), format="csv", schema="k string, v int")).to_table("t")
    write(landing / "a.csv", "k,v\na,1\n", 1_000)
    pipeline.run_epoch()
    write(landing / "b.csv", "k,v\nb,two\n", 2_000)
    with pytest.raises(BadInputError, match=r"b\.csv"):
        pipeline.run_epoch()
    assert pipeline.snapshot().epoch == 1
    write(landing / "b.csv", "k,v\nb,2\n", 3_000)
    write(landing / "c.csv", "k,v\nc,3\n", 4_000)
    assert pipeline.run_epoch().epoch == 2
    assert pipeline.run_epoch().empty
    assert sorted(tuple(row) for row in pipeline.read("t").collect()) == [("a", 1), ("b", 2), ("c", 3)]


TABLES = ("clean", "totals", "per_hour", "large", "best")


def many_tables(root: Path, engine: str, at_once: int | None, source: MemorySource) -> Pipeline:
    """A table of which four others are made, independently of each other: by every way a stage writes."""
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine], concurrent_stages=at_once)
    rows = pipeline.source("rows", source, event_time="t")
    clean = rows.filter("v >= 0")
    clean.to_table("clean", checks={"known": "k IS NOT NULL"})
    clean.key_by("k").aggregate(total="sum(v)").to_table("totals")
    clean.key_by("k").window(Tumbling("1 hour")).aggregate(n="count(*)").to_table("per_hour")
    clean.filter("v > 5").to_table("large")
    clean.key_by("k").top(2, by="v DESC").to_table("best")
    return pipeline


def feed(epoch: int) -> list[dict[str, object]]:
    return [
        {"k": f"k{number % 5}", "v": (number * 7 + epoch) % 11 - 1, "t": f"2024-01-01 {epoch:02}:{number % 60:02}:00"}
        for number in range(40)
    ]


@pytest.mark.parametrize("engine", ["spark", "sail"])
def test_stages_side_by_side_make_the_same_tables(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    found = []
    for at_once in (1, 3):
        source = MemorySource(schema="k string, v long, t timestamp")
        pipeline = many_tables(tmp_path / str(at_once), engine, at_once, source)
        for epoch in range(4 if engine == "sail" else 2):  # the second one finds state and tables; on Spark each takes seconds
            source.append(feed(epoch))
            result = pipeline.run_epoch()
            assert set(result.seconds) == {"begin", *TABLES, "commit"}
        found.append({table: sorted(map(repr, pipeline.read(table).collect())) for table in TABLES})
    assert found[0] == found[1]
    assert all(found[0].values())


def test_two_stages_are_at_work_at_the_same_time_and_more_are_not(tmp_path: Path, sail: object) -> None:
    assert sail is not None
    running: set[int] = set()
    most: list[int] = []
    meeting = threading.Barrier(2)

    def look(place: str) -> None:
        if place == "before:write_manifest":
            running.add(threading.get_ident())
            meeting.wait(30)
            most.append(len(running))
        elif place == "after:write_manifest":
            running.discard(threading.get_ident())

    source = MemorySource(schema="k string, v long, t timestamp")
    pipeline = many_tables(tmp_path / "root", "sail", 2, source)
    source.append(feed(0))
    handle = pipeline.epochs.begin(pipeline._owner)
    assert handle is not None
    pipeline.epochs.run_stage(handle, "clean")
    with watch(look):  # the four others: two and two
        pipeline.epochs.run_stages(handle)
    assert len(most) == 4
    assert max(most) == 2
    assert pipeline.epochs.commit(handle).epoch == 1


def test_when_a_stage_fails_those_beside_it_are_done_and_not_done_again(tmp_path: Path, sail: object) -> None:
    assert sail is not None
    source = MemorySource(schema="k string, v long")
    source.append([{"k": "a", "v": 0}, {"k": "b", "v": 1}])

    def pipeline(expression: str) -> Pipeline:
        made = Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"], concurrent_stages=2)
        rows = made.source("rows", source).with_columns(w="v")
        rows.to_table("clean")
        for number in range(3):
            rows.key_by("k").aggregate(total=f"sum(v + {number})").to_table(f"totals_{number}")
        rows.select("k", expression).to_table("wrong")
        return made

    broken = pipeline("if(v = 1, CAST(raise_error('no') AS BIGINT), v) AS x")
    with pytest.raises(StageFailedError, match="no") as raised:
        broken.run_epoch()
    assert raised.value.stage == "wrong"
    done = {name: record.attempt for name, record in broken.epochs.coordinator.view().prepared.items()}
    assert "clean" in done
    assert "wrong" not in done
    assert threading.active_count() < 30
    mended = pipeline("v AS x")
    assert mended.run_epoch().epoch == 1
    decision = mended.epochs.coordinator.view().last_decision
    assert decision is not None
    assert done.items() <= {manifest.stage: manifest.attempt for manifest in decision.manifests}.items()


def test_a_stage_at_work_while_the_run_is_interrupted_is_not_prepared(
    tmp_path: Path, sail: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sail reports queries that were made to end early as done, with fewer rows."""
    assert sail is not None
    source = MemorySource(schema="k string, v long, t timestamp")
    pipeline = many_tables(tmp_path / "root", "sail", 2, source)
    source.append(feed(0))
    run = StageRun.run

    def interrupted(stage: StageRun) -> Manifest:
        manifest = run(stage)
        pipeline.epochs._threads.interrupt()
        return manifest

    monkeypatch.setattr(StageRun, "run", interrupted)
    with pytest.raises(StageFailedError, match="interrupted while the stage was at work"):
        pipeline.run_epoch()
    monkeypatch.undo()
    assert pipeline.epochs.coordinator.view().prepared == {}
    assert pipeline.run_epoch().epoch == 1


def test_no_stage_at_once_is_refused() -> None:
    with pytest.raises(PipelineError, match="concurrent_stages is 0"):
        Pipeline("p", root="unused", concurrent_stages=0)
