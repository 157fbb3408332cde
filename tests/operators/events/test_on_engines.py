"""A dataflow through the whole stack: killed at every turn, and under Dagster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dagster_operators as do
from tests.crash.killed import run_and_kill
from tests.engines import SAIL

START = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = [[{"t": START + timedelta(seconds=3 * epoch + place), "v": place} for place in range(3)] for epoch in range(4)]

TOTAL = """
from dora import DoraStatus

class Operator:
    def __init__(self):
        self.count, self.seen = 0, {}

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.count += 1
            key = str(dora_event["value"].to_pylist())
            self.seen[key] = self.seen.get(key, 0) + 1
            send_output("count", [self.count, self.seen[key]], {"input": dora_event["id"]})
        return DoraStatus.CONTINUE
"""
LAST = """
class Operator:
    def on_event(self, dora_event, send_output):
        send_output("told", [f"{dora_event['type']} {dora_event['id']} {dora_event.get('value')}"])
        return DoraStatus.CONTINUE
"""
SCRIPT = """
from dora import Node

node, counts = Node(), []
for event in node:
    if event["type"] == "INPUT":
        counts.append(event["value"][0].as_py())
        node.send_output("told", [f"{len(counts)} {sum(counts)}"])
"""
DATAFLOW = """
nodes:
  - id: rows
    source: rows
    outputs: {n: v}
  - id: total
    operator: {python: total.py, inputs: {n: rows/n, tick: dora/timer/millis/700}, outputs: [count]}
  - id: last
    operator: {python: last.py, inputs: {count: total/count}, outputs: [told], output_types: {told: string}}
  - {id: script, path: script.py, inputs: {count: total/count}, outputs: [told], output_types: {told: string}}
"""


def build(folder, root=None):
    place = Path(folder)
    place.mkdir(exist_ok=True)
    for name, text in {"total.py": TOTAL, "last.py": LAST, "script.py": SCRIPT, "dataflow.yml": DATAFLOW}.items():
        (place / name).write_text(text)
    sources = do.Sources()
    sources.add("rows", do.MemorySource(BATCHES, schema="t timestamp, v long"), event_time="t", finished=True)
    return do.Pipeline.from_yaml(place / "dataflow.yml", root=str(root or place / "root"), sources=sources, engine=SAIL)


def messages(pipeline):
    return {
        address: [(row.time, row.seq, row.value, row.metadata) for row in pipeline.read(address).collect()]
        for address in ("total/count", "last/told", "script/told")
    }


@pytest.mark.slow
@pytest.mark.crash
def test_killed_and_run_again_it_sends_the_same_messages_in_the_same_order(sail, tmp_path):
    undisturbed = build(tmp_path / "a")
    undisturbed.run_until_caught_up()
    wanted = messages(undisturbed)
    assert [row[1] for row in wanted["total/count"]] == list(range(1, len(wanted["total/count"]) + 1))
    assert wanted["last/told"][-1][2] == ["STOP ALL_INPUTS_CLOSED None"]
    failpoints = ["before:append_prepared@events", "after:append_decision", "before:append_complete"]
    calls = [f"build({str(tmp_path / 'b')!r}).run_until_caught_up()"] * len(failpoints)
    run_and_kill("tests.operators.events.test_on_engines", calls, failpoints, tmp_path)
    again = build(tmp_path / "b")
    again.run_until_caught_up(wait_seconds=40)
    assert messages(again) == wanted


TICKING = """
nodes:
  - id: rows
    source: rows
    outputs: {n: v}
  - id: last
    operator: {python: last.py, inputs: {n: rows/n, tick: dora/timer/secs/2}, outputs: [told], output_types: {told: string},
      partition_by: v}
"""


def ticking(folder, batches):
    folder.mkdir()
    (folder / "last.py").write_text(LAST)
    (folder / "dataflow.yml").write_text(TICKING)
    sources = do.Sources()
    source = do.MemorySource(batches, schema="t timestamp, v long")
    sources.add("rows", source, event_time="t", lateness="4 s", finished=True)
    pipeline = do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), sources=sources, engine=SAIL)
    pipeline.run_until_caught_up()
    return pipeline


def test_a_finished_source_ends_all_keys_at_its_last_event_whatever_an_epoch_reads(sail, tmp_path):
    found = []
    for name, batches in (("each", BATCHES), ("all", [[row for batch in BATCHES for row in batch]]), ("empty", [*BATCHES, []])):
        pipeline = ticking(tmp_path / name, batches)
        found.append([(row.key, row.time, row.seq, row.value) for row in pipeline.read("last/told").collect()])
    assert found[0] == found[1] == found[2]
    times = {key: max(time for of, time, *_ in found[0] if of == key) for key in range(3)}
    assert len(set(times.values())) == 1, "all end with the last event, and not with their own"
    pipeline.rebuild()
    assert [(row.key, row.time, row.seq, row.value) for row in pipeline.read("last/told").collect()] == found[0]


def test_under_dagster_each_output_is_an_asset(tmp_path):
    definitions = do.build_definitions(build(tmp_path / "a"), schedule="* * * * *", sensor=True)
    graph = definitions.resolve_asset_graph()
    assert {"/".join(key.path) for key in graph.get_all_asset_keys()} >= {
        "dataflow/rows", "dataflow/events", "dataflow/total__count", "dataflow/last__told"
    }  # fmt: skip
    job = definitions.get_job_def("dataflow_epoch")
    assert job.name == "dataflow_epoch"


def test_the_job_of_a_dataflow_runs_an_epoch(sail, tmp_path):
    pipeline = build(tmp_path / "a")
    result = do.build_definitions(pipeline).get_job_def("dataflow_epoch").execute_in_process()
    assert result.success
    assert len(pipeline.read("total/count").collect()) > 2
