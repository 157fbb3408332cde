"""A pipeline that is stopped: event operators are told, and go on when it is run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.errors import PipelineError
from tests.crash.killed import run_and_kill
from tests.engines import SAIL

START = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = [[{"t": START + timedelta(seconds=3 * epoch + place), "v": place} for place in range(3)] for epoch in range(4)]

BUFFER = """
class Operator:
    def __init__(self):
        self.values, self.count = [], 0

    def on_event(self, dora_event, send_output):
        self.count += 1
        if dora_event["type"] == "INPUT":
            self.values.append(dora_event["value"][0].as_py())
        elif dora_event["type"] == "STOP":
            send_output("all", [self.count, *self.values])
            self.values = []
        return DoraStatus.CONTINUE
"""
LOG = """
class Operator:
    def on_event(self, dora_event, send_output):
        value = dora_event["value"].to_pylist() if dora_event["type"] == "INPUT" else None
        send_output("told", [f"{dora_event['type']} {dora_event['id']} {value}"])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: rows
    source: rows
    outputs: {n: v}
  - id: log
    operator: {python: log.py, inputs: {all: buffer/all}, outputs: [told], output_types: {told: string}}
  - id: buffer
    operator: {python: buffer.py, inputs: {n: rows/n}, outputs: [all], output_types: {all: int64}}
"""


def build(folder, epochs):
    place = Path(folder)
    place.mkdir(exist_ok=True)
    for name, text in {"buffer.py": BUFFER, "log.py": LOG, "dataflow.yml": DATAFLOW}.items():
        (place / name).write_text(text)
    sources = do.Sources()
    sources.add("rows", do.MemorySource(BATCHES[:epochs], schema="t timestamp, v long"), event_time="t")
    return do.Pipeline.from_yaml(place / "dataflow.yml", root=str(place / "root"), sources=sources, engine=SAIL)


def stopped(folder, epochs, **settings):
    pipeline = build(folder, epochs)
    pipeline.run_until_caught_up(wait_seconds=40)
    return pipeline.stop(**settings)


def messages(folder):
    stored = StoredPipeline(str(Path(folder) / "root"))
    return {
        table: [tuple(row.values()) for row in stored.to_arrow(table).sort_by("seq").to_pylist()]
        for table in ("buffer__all", "log__told")
    }


def values(folder):
    return {table: [row[2] for row in rows] for table, rows in messages(folder).items()}


def test_what_is_sent_at_stop_is_there_once_and_the_next_run_goes_on(sail, tmp_path):
    result = stopped(tmp_path, 2)
    assert (result.epoch, result.empty, result.rows["buffer__all"]) == (3, False, 1)
    assert stopped(tmp_path, 2).empty, "nothing has run since they were told"
    assert stopped(tmp_path, 4, ended="rows").epoch == 6
    assert values(tmp_path) == {
        "buffer__all": [[7, 0, 1, 2, 0, 1, 2], [15, 0, 1, 2, 0, 1, 2]],  # counted: 6 events and STOP; 6, INPUT_CLOSED and STOP
        "log__told": [
            ["INPUT all [7, 0, 1, 2, 0, 1, 2]"], ["STOP MANUAL None"],
            ["INPUT all [15, 0, 1, 2, 0, 1, 2]"], ["INPUT_CLOSED all None"], ["STOP ALL_INPUTS_CLOSED None"],
        ],
    }  # fmt: skip
    wanted = messages(tmp_path)
    assert {row[0].second for row in wanted["log__told"]} == {5, 11}, "STOP has the time that there was"
    build(tmp_path, 4).rebuild()
    assert messages(tmp_path) == wanted
    build(tmp_path, 4).rollback(2)
    assert stopped(tmp_path, 4).epoch == 11
    assert values(tmp_path)["buffer__all"] == [[13, *[0, 1, 2] * 4]]


def test_they_are_not_told_again_where_nothing_ran_but_maintenance(sail, tmp_path):
    assert stopped(tmp_path, 1).epoch == 2
    assert stopped(tmp_path, 2).epoch == 4
    wanted = messages(tmp_path)
    assert build(tmp_path, 2).compact(target_size=10**8).epoch == 5
    assert stopped(tmp_path, 2).empty
    assert build(tmp_path, 2).rollback(2).epoch == 6
    assert stopped(tmp_path, 1).empty, "epoch 2 is the one with which it was stopped"
    assert build(tmp_path, 1).rollback(1).epoch == 7
    assert build(tmp_path, 1).stop().epoch == 8, "behind epoch 1 they were not told yet"
    assert len(messages(tmp_path)["buffer__all"]) == len(wanted["buffer__all"]) - 1


def test_a_rebuild_tells_them_at_the_time_that_was_set(sail, tmp_path):
    build(tmp_path, 1).run_until_caught_up()
    build(tmp_path, 1).set_watermark("rows", START + timedelta(seconds=30))
    assert build(tmp_path, 1).stop().epoch == 3
    wanted = messages(tmp_path)
    assert {row[0].second for row in wanted["buffer__all"]} == {30}
    build(tmp_path, 1).rebuild()
    assert messages(tmp_path) == wanted


def test_there_has_to_be_somebody_to_be_told_and_a_source_that_ended(tmp_path):
    pipeline = build(tmp_path, 1)
    assert pipeline.stop().empty, "no epoch has run"
    with pytest.raises(PipelineError, match="there is no such source") as caught:
        pipeline.stop(ended="lost")
    assert caught.value.where["source"] == "lost"


@pytest.mark.slow
@pytest.mark.crash
def test_killed_while_it_stops_what_is_sent_then_is_there_once(sail, tmp_path):
    stopped(tmp_path / "a", 2)
    failpoints = ["after:append_begin", "before:append_prepared@events", "after:append_decision", "before:append_complete"]
    build(tmp_path / "b", 2).run_until_caught_up()
    calls = [f"build({str(tmp_path / 'b')!r}, 2).stop(wait_seconds=40)"] * len(failpoints)
    run_and_kill("tests.api.test_stopping", calls, failpoints, tmp_path)
    result = stopped(tmp_path / "b", 2, wait_seconds=40)
    assert result.empty, "the run that took the epoch up has told them"
    assert messages(tmp_path / "b") == messages(tmp_path / "a")
