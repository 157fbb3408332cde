"""Pictures of the plans that ran: the rows that there were, by Python and by the command, and no epoch that fails for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.cli.main import main
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets import plan_that_ran
from tests.engines import SAIL
from tests.svg import lines_of

pytestmark = pytest.mark.sail


def build(root: Path) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL, parallelism=2)
    epochs = [[("a", 1), ("a", 2), ("b", 4)], [("c", 5), ("d", 6)]]
    rows = pipeline.source("rows", do.MemorySource(epochs, schema="k string, v long")).data_set()
    rows.group_by("k").sum("v").name("sum by k").filter(lambda row: row.v > 3).name("v > 3 & more").to_table("sums")
    loop = rows.iterate(3)
    loop.close_with(loop.rows_of_round.map(lambda row: row, schema="k string, v long").name("step")).name("loop").to_table("same")
    return pipeline


def named(svg: str) -> dict[str, list[str]]:
    """The lines of each operator's box, by the first of them."""
    return {name: lines for name, *lines in lines_of(svg).values()}


def test_the_rows_of_the_last_epoch_are_beside_the_estimates(tmp_path: Path) -> None:
    pipeline = build(tmp_path)
    with pytest.raises(PipelineError, match="no plan of any operator"):
        pipeline.picture()
    pipeline.run_epoch()
    lines = named(pipeline.picture("sums"))
    assert lines["v > 3 & more (Filter)"][-2].endswith("actual 1")
    assert lines["sum by k (GroupReduce)"][0].endswith("by columns")
    assert lines["v > 3 & more (Filter)"][0].endswith("by rows")
    assert lines["out (Data Sink)"][-2].endswith("actual 1")
    lines = named(pipeline.picture("same"))
    assert lines["rows 0 (Data Source)"][-2].endswith("estimated 3, actual 3")
    assert lines["step (Map)"][-2].endswith("actual 9"), "of three rounds"
    assert "3 rounds" in lines["loop (Bulk Iteration)"][0]
    first = pipeline.picture()
    pipeline.run_epoch()
    assert named(pipeline.picture("same"))["step (Map)"][-2].endswith("actual 6")
    assert pipeline.picture() != first
    assert pipeline.picture() == StoredPipeline(str(tmp_path)).picture() == build(tmp_path).picture()
    with pytest.raises(PipelineError, match=r"no plan of the operator 'other'.*name one of: sums, same"):
        pipeline.picture("other")


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    pipeline = build(tmp_path / "root")
    pipeline.run_epoch()
    file, root = tmp_path / "plan.svg", str(tmp_path / "root")
    shown = CliRunner().invoke(main, ["explain", root, "--svg", str(file)])
    assert shown.exit_code == 0, shown.output
    assert file.read_text() == pipeline.picture()
    CliRunner().invoke(main, ["explain", root, "--svg", str(file), "--operator", "same"])
    assert file.read_text() == pipeline.picture("same")
    for wrong, code, told in (
        (["--svg", str(file), "--operator", "other"], 1, "no plan of the operator 'other'"),
        (["--svg", str(tmp_path / "none" / "plan.svg")], 1, "cannot be written"),
        (["--svg", str(file), "--epoch", "1"], 2, "leave --epoch out"),
        (["--operator", "same"], 2, "--svg"),
    ):
        refused = CliRunner().invoke(main, ["explain", root, *wrong])
        assert refused.exit_code == code
        assert told in refused.output


def test_no_epoch_fails_for_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("no picture")

    pipeline = build(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(plan_that_ran, "drawn_plan", fails)
        assert pipeline.run_epoch().rows["sums"] == 1
    assert "the plan of the epoch is not kept for a picture: ZeroDivisionError: no picture" in caplog.text
    monkeypatch.setattr(plan_that_ran, "LARGEST", 10)
    assert pipeline.run_epoch().rows["sums"] == 2
    with pytest.raises(PipelineError, match="no plan of any operator"):
        pipeline.picture()
