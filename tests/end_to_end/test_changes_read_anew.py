"""Sources of changes that are read from their beginning: not before what they gave is gone from all that had it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import BadInputError, EndedInputError, MissingInputError, PipelineError, UndecidedChangeError
from tests.engines import ENGINES, SAIL

FEED = {"delta.enableChangeDataFeed": "true"}
ON = [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)]


def table(path: Path, *rows: tuple[int, str, int], mode: Any = "error") -> str:
    ids, keys, values = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "k": list(keys), "v": pa.array(values, pa.int64())}
    write_deltalake(str(path), pa.table(columns), mode=mode, configuration=FEED)
    return str(path)


def counted(root: Path, source: Any, name: str = "items", engine: Any = SAIL, sink: str = "") -> do.Pipeline:
    made = do.Pipeline("counted", root=str(root / "root"), engine=engine)
    changes = made.source(name, source).as_changes()
    per_key = changes.key_by("k").aggregate(n="count(*)", s="sum(v)", name="per_key")
    per_key.to_table("sums")
    if sink:
        events = do.FileSink(str(root / sink), format="debezium-json", key="k")
        per_key.to_changes().to_sink(events, name=sink)
    return made


def sums(made: do.Pipeline) -> dict[str, tuple[int, int]]:
    return {row["k"]: (row["n"], row["s"]) for row in made.to_arrow("sums").to_pylist()}


@pytest.mark.parametrize("engine", ON)
def test_a_table_that_was_replaced_is_not_added_to_what_there_was(tmp_path: Path, engine: str) -> None:
    path = table(tmp_path / "items", (1, "a", 5), (2, "a", 6), (3, "b", 7))
    source = do.DeltaSource(path, changes=True)
    counted(tmp_path, source, engine=ENGINES[engine]).run_epoch()
    shutil.rmtree(path)
    table(tmp_path / "items", (1, "a", 5), (3, "b", 8))
    with pytest.raises(BadInputError, match="it was replaced") as replaced:
        counted(tmp_path, source, engine=ENGINES[engine]).run_epoch()
    assert "another source name" not in replaced.value.remedy
    other = counted(tmp_path, source, "items_v2", ENGINES[engine])
    with pytest.raises(UndecidedChangeError, match="would give again what per_key had of it") as asked:
        other.run_epoch()
    assert "pipeline.reset('items', 0, tables='restart')" in str(asked.value)
    assert "decide" not in asked.value.remedy
    with pytest.raises(PipelineError, match=r"no way out here.*pipeline\.reset\('items', 0"):
        other.decide("source items_v2", "restart")
    other.reset("items", 0, tables="restart")
    other.run_until_caught_up()
    assert sums(other) == {"a": (1, 5), "b": (1, 8)}


@pytest.mark.sail
def test_changes_whose_files_are_vacuumed(tmp_path: Path) -> None:
    path = table(tmp_path / "items", (1, "a", 5), (2, "a", 6))
    source = do.DeltaSource(path, changes=True)
    counted(tmp_path, source).run_epoch()
    for _ in range(2):
        DeltaTable(path).update(predicate="id = 1", updates={"v": "v + 1"})
    shutil.rmtree(tmp_path / "items/_change_data")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(MissingInputError, match="by VACUUM") as gone:
        counted(tmp_path, source).run_epoch()
    assert "pipeline.reset('items', 0, tables=\"restart\")" in gone.value.remedy
    made = counted(tmp_path, source)
    made.reset("items", 0, tables="restart")
    made.run_until_caught_up()
    assert sums(made) == {"a": (2, 13)}


@pytest.mark.sail
def test_a_table_of_another_pipeline_under_its_new_name_is_not_added_to_what_there_was(tmp_path: Path) -> None:
    def shop(name: str, path: str, **renamed: str) -> do.Pipeline:
        made = do.Pipeline("shop", root=str(tmp_path / "shop"), engine=SAIL)
        changes = made.source("items", do.DeltaSource(path, changes=True)).as_changes()
        changes.key_by("k").aggregate(total="sum(v)", name="per_key").to_table(name, **renamed)
        return made

    def report(name: str) -> do.Pipeline:
        made = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
        totals = made.source("totals", do.PipelineSource(str(tmp_path / "shop"), name, changes=True))
        changes = totals.as_changes("_change_type")
        changes.latest("k").to_table("copy")
        changes.aggregate(all="sum(total)", name="everything").to_table("everything")
        return made

    path = table(tmp_path / "items", (1, "a", 5), (3, "b", 7))
    shop("old", path).run_epoch()
    report("old").run_epoch()
    DeltaTable(path).delete("k = 'b'")
    shop("new", path, renamed_from="old").run_until_caught_up()
    with pytest.raises(
        EndedInputError, match=r"\('new'\), and read it into tables that begin anew: pipeline\.reset\('totals', 0"
    ):
        report("old").run_epoch()
    later = report("new")
    with pytest.raises(UndecidedChangeError, match=r"everything, table copy had of it(.|\n)*pipeline\.reset\('totals', 0"):
        later.run_epoch()
    shown = CliRunner().invoke(main, ["diff", later.root]).output
    assert "reset" in shown
    assert "decide" not in shown
    later.reset("totals", 0, tables="restart")
    later.decide("source totals", "restart")
    later.run_until_caught_up()
    assert later.to_arrow("copy").to_pylist() == [{"k": "a", "total": 5}]
    assert later.to_arrow("everything").to_pylist() == [{"all": 5}]


@pytest.mark.sail
def test_a_folder_that_was_moved_is_read_anew_or_goes_on(tmp_path: Path) -> None:
    path = table(tmp_path / "items", (1, "a", 5), (2, "a", 6), (3, "b", 7))
    counted(tmp_path, do.DeltaSource(path, changes=True)).run_epoch()
    DeltaTable(path).delete("id = 3")
    moved = counted(tmp_path, do.DeltaSource(shutil.move(path, tmp_path / "moved"), changes=True))
    with pytest.raises(UndecidedChangeError) as asked:
        moved.run_epoch()
    assert "'keep'" in str(asked.value)
    assert "'restart'):" not in str(asked.value).replace("tables='restart'", "")
    assert "pipeline.reset('items', 0, tables='restart')" in str(asked.value)
    with pytest.raises(PipelineError, match=r"decide 'keep'; or pipeline\.reset\('items', 0"):
        moved.decide("source items", "restart")
    moved.reset("items", 0, tables="restart")
    moved.decide("source items", "restart")
    moved.run_until_caught_up()
    assert sums(moved) == {"a": (2, 11)}


@pytest.mark.sail
def test_a_sink_behind_is_told_of(tmp_path: Path) -> None:
    path = table(tmp_path / "items", (1, "a", 5))
    counted(tmp_path, do.DeltaSource(path, changes=True), sink="sent").run_epoch()
    shutil.rmtree(path)
    table(tmp_path / "items", (2, "b", 8))
    source = do.DeltaSource(path, changes=True)
    with pytest.raises(UndecidedChangeError, match=r"keep_sinks=True\): .* a sink of another name and place where sent is"):
        counted(tmp_path, source, "items_v2", sink="sent").run_epoch()
    other = counted(tmp_path, source, "items_v2", sink="sent_anew")
    other.reset("items", 0, tables="restart", keep_sinks=True)
    other.decide("sink sent_anew", "keep")
    other.run_until_caught_up()
    assert sums(other) == {"b": (1, 8)}
    (sent,) = (tmp_path / "sent_anew").glob("*.json")
    assert sent.read_text().count('"op": "c"') == 1
