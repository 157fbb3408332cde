"""A pipeline put back, decided about and rid of what left it, by runs of Dagster with a configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineBusyError, PipelineError, StorageError
from tests.orchestration import demo

if TYPE_CHECKING:
    import dagster as dg

pytestmark = pytest.mark.usefixtures("on_sail")


def change(pipeline: do.Pipeline, **config: Any) -> dg.ExecuteInProcessResult:
    job = do.build_definitions(pipeline, retry_policy=demo.FAST).resolve_job_def(f"{pipeline.name}_change")
    return job.execute_in_process(run_config={"ops": {"change": {"config": config}}}, raise_on_error=False)


def failure(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    return "\n".join(str(event.event_specific_data) for event in result.all_events if event.is_step_failure)


def reported(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.materialization.asset_key.path[-1] for event in result.all_events if event.is_step_materialization}


def totals(folder: Path) -> dict[str, int]:
    return {row.k: row.total for row in demo.pipeline(folder).read("totals").collect()}


def test_a_pipeline_is_put_back_reset_and_told_the_time(folder: Path) -> None:
    demo.pipeline(folder).run_until_caught_up()
    result = change(demo.pipeline(folder), rollback=1)
    assert result.success
    assert reported(result) >= {"clean", "totals"}
    assert totals(folder) == {"a": 1, "b": 2}
    demo.pipeline(folder).run_until_caught_up()
    assert change(demo.pipeline(folder), reset=["rows"], to="0", tables="RESTART").success
    assert totals(folder) == {}
    demo.pipeline(folder).run_until_caught_up()
    assert totals(folder) == {"a": 11, "b": 2}
    before = demo.pipeline(folder).read("hourly").count()
    result = change(demo.pipeline(folder), set_watermark={"rows": "2024-01-01 04:00"})
    assert result.success
    assert "hourly" in reported(result)
    assert demo.pipeline(folder).read("hourly").count() == before + 1


def test_what_changed_is_decided_taken_back_and_dropped(tmp_path: Path) -> None:
    def made(total: str, *, copied: bool = False) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path))
        rows = pipeline.source("rows", do.MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long"))
        rows.key_by("k").aggregate(total=total, name="sums").to_table("totals")
        if copied:
            rows.filter("v > 0", name="of_copy").to_table("copy")
        return pipeline

    made("sum(v)", copied=True).run_epoch()
    now = "max(v)"
    assert change(made(now), decide={"operator sums": "restart"}).success
    assert change(made(now), withdraw=["operator sums"]).success
    assert [one.decided for one in made(now).changes() if one.subject == "operator sums"] == [""]
    assert change(made(now), decide={"operator sums": "restart"}).success
    assert made(now).run_epoch().rows["totals"] == 1
    assert change(made(now), drop=["copy"]).success
    made(now).run_until_caught_up()
    assert not (tmp_path / "tables" / "copy").exists()


def left_behind(folder: Path) -> do.Pipeline:
    """A pipeline that has left two tables behind."""

    def made(*names: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(folder))
        rows = pipeline.source("rows", do.MemorySource([[(1,)], [(2,)]], schema="v long"))
        for name in names:
            rows.filter("v > 0", name=f"of_{name}").to_table(name)
        return pipeline

    made("kept", "a", "b").run_epoch()
    return made("kept")


def failing_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[str]:
    """Has the second table that is dropped fail once; what is dropped."""
    dropped: list[str] = []
    drop = do.Pipeline.drop

    def dropping(pipeline: do.Pipeline, name: str) -> list[str]:
        dropped.append(name)
        if dropped == ["a", "b"]:
            raise error
        return drop(pipeline, name)

    monkeypatch.setattr(do.Pipeline, "drop", dropping)
    return dropped


@pytest.mark.parametrize("error", [PipelineBusyError("another run is at work"), StorageError("the connection broke")], ids=type)
def test_what_is_done_of_several_things_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OperatorsError
) -> None:
    pipeline = left_behind(tmp_path)
    dropped = failing_once(monkeypatch, error)
    monkeypatch.setattr("dagster_operators.orchestration.change_job.MAINTENANCE_RETRIES", demo.FAST)
    assert change(pipeline, drop=["a", "b"]).success
    assert dropped == ["a", "b", "b"]
    pipeline.run_until_caught_up()
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"kept"}


def test_a_new_run_without_what_is_done_does_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = left_behind(tmp_path)
    failing_once(monkeypatch, PipelineError("it cannot be", remedy="wait"))
    told = failure(change(pipeline, drop=["a", "b"]))
    assert "[done 'a']. To do: wait; a new run has to leave out what is done" in told
    assert change(pipeline, drop=["b"]).success


def test_files_are_said_to_be_the_same(folder: Path) -> None:
    demo.pipeline(folder).run_until_caught_up()
    for path in (folder / "in").iterdir():
        os.utime(path)
    result = change(demo.pipeline(folder), restore_times=["rows"])
    assert result.success
    assert demo.pipeline(folder).run_epoch().empty


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "it is not said what is to be done"),
        ({"rollback": 1, "drop": ["x"]}, "rollback and drop are several things"),
        ({"rollback": 1, "to": "0"}, "to beside rollback means nothing"),
        ({"reset": ["rows"]}, "reset without to"),
        ({"reset": ["rows"], "to": "{"}, "{ is no position"),
        ({"decide": {"table totals": "burn"}}, "'burn' cannot be decided"),
        ({"rollback": 9}, "epoch 9"),
    ],
)
def test_what_is_not_clear_is_refused(tmp_path: Path, config: dict[str, Any], told: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path))
    pipeline.source("rows", do.MemorySource([[(1,)]], schema="v long")).to_table("kept")
    pipeline.run_epoch()
    assert told in failure(change(pipeline, **config))
    assert len(pipeline.history()) == 1
