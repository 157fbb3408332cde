"""Columns that changed in several tables and states, before a sink of changes: the printed way on is followed word for word."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import ChangedColumnsError
from tests.engines import SAIL

pytestmark = pytest.mark.sail


def made(folder: Path, price: str, sink: str = "") -> do.Pipeline:
    pipeline = do.Pipeline("shop", root=str(folder / "root"), engine=SAIL)
    events = do.FileSource(f"{folder}/in/*.json", format="debezium-json", schema=f"id long, k string, price {price}", key="id")
    orders = pipeline.source("orders", events)
    orders.latest("id").to_table("now")
    orders.key_by("k").aggregate(spent="sum(price)").to_table("spent")
    if sink:
        orders.to_sink(do.FileSink(str(folder / sink), format="debezium-json", key="id"), name=sink)
    return pipeline


def arrive(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    event = {"op": "c", "before": None, "after": {"id": number, "k": "a", "price": str(number)}}
    (folder / f"in/{number}.json").write_text(json.dumps(event) + "\n")


def command_in(error: ChangedColumnsError) -> list[str]:
    (command,) = re.findall(r"in a shell: `dagster-operators ([^`]*)`\)", error.remedy)
    return shlex.split(command)


def test_one_command_settles_all_once_the_sink_is_out_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    arrive(tmp_path, 1)
    made(tmp_path, "decimal(10,2)", "feed").run_until_caught_up()
    arrive(tmp_path, 2)
    with pytest.raises(ChangedColumnsError) as refused:
        made(tmp_path, "double", "feed").run_epoch()
    assert "all at once: pipeline.rebuild(['now', 'spent'])" in refused.value.remedy
    assert "feed cannot take rows back: take the sink out of the program and run that" in refused.value.remedy
    early = CliRunner().invoke(main, command_in(refused.value))
    assert (early.exit_code, "refused once more" in early.output) == (1, True), "that program still has the sink"
    with pytest.raises(ChangedColumnsError, match="all at once") as again:
        made(tmp_path, "double").run_epoch()
    assert "cannot take rows back" not in again.value.remedy
    done = CliRunner().invoke(main, command_in(again.value))
    assert done.exit_code == 0, done.output
    now = made(tmp_path, "double", "feed_2")
    now.decide("sink feed_2", "keep")
    now.run_until_caught_up()
    assert now.to_arrow("spent").to_pylist() == [{"k": "a", "spent": 3.0}]
    assert len(list((tmp_path / "feed_2").glob("*.json"))) == 1


def test_a_single_table_is_computed_anew_by_its_own_command(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("v\n1\n")

    def one(kind: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        pipeline.source("rows", do.FileSource(f"{tmp_path}/in/*.csv", schema=f"v {kind}")).to_table("t")
        return pipeline

    one("double").run_epoch()
    with pytest.raises(ChangedColumnsError) as refused:
        one("string").run_epoch()
    assert "all at once" not in refused.value.remedy
    assert command_in(refused.value) == ["rebuild", str(tmp_path / "root"), "t"]
