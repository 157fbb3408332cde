"""Event operators between operators of all other families, in one pipeline: the same for every cut into epochs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.relational.projection import Drop
from tests.engines import SAIL


class Twice(do.ArrowOperator):
    def output_schema(self, schema):
        return schema

    def process_batch(self, batch, ctx, out):
        twice = pc.multiply(batch.column("v"), 2)
        out.collect(batch.set_column(batch.schema.get_field_index("v"), "v", twice))


START = datetime(2026, 1, 1, tzinfo=UTC)
SUM = """
class Operator:
    def __init__(self):
        self.told = ""

    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            value = event["value"][0].as_py()
            self.told = f"{self.told} {event['id']}{value}"[-40:]
            send_output("sum", [self.told])
            send_output("value", [value])
        return DoraStatus.CONTINUE
"""
FIRST = """
nodes:
  - {id: rows, source: scaled, outputs: {v: v}}
  - {id: windows, source: minutes, outputs: {n: n}}
  - id: sum
    operator:
      python: sum.py
      inputs: {v: rows/v, n: windows/n}
      outputs: [sum, value]
      output_types: {sum: string, value: bigint}
"""
SECOND = """
nodes:
  - {id: rows, source: any, outputs: {v: v}}
  - {id: again, operator: {python: sum.py, inputs: {v: rows/v}, outputs: [sum], output_types: {sum: string}}}
"""
SECONDS = (10, 5, 70, 65, 65, 64, 130, 128, 200, 190, 330)
ROWS = [(START + timedelta(seconds=second), number) for number, second in enumerate(SECONDS, 1)]


def build(folder, batches):
    for name, text in {"sum.py": SUM, "first.yml": FIRST, "second.yml": SECOND}.items():
        (folder / name).write_text(text)
    pipeline = do.Pipeline("p", root=str(folder / f"root{len(batches)}"), engine=SAIL)
    source = do.MemorySource(batches, schema="t timestamp, v long")
    rows = pipeline.source("rows", source, event_time="t", lateness="15 seconds", finished=True)
    more = pipeline.source("more", do.MemorySource([[ROWS[0]]], schema="t timestamp, v long"), event_time="t", finished=True)
    scaled = rows.union(more).filter("v <> 3").with_columns(w="v").through(Drop, columns=("w",)).apply(Twice(), name="scaled")
    minutes = rows.window(do.Tumbling("1 minute")).aggregate(n="count(*)", name="minutes")
    made = scaled.events(str(folder / "first.yml"), minutes, name="first")
    made.side_output("sum/sum").to_table("sums")
    values = made.side_output("sum/value").select("time", "value[0] AS v", name="values")
    values.window(do.Tumbling("1 minute")).aggregate(s="sum(v)", name="summed").to_table("windows")
    values.key_by("v").aggregate(n="count(*)", name="counted").to_table("changes")
    delayed = do.frontier.delay(values, lambda time, _: time + 10_000_000, name="delayed")
    delayed.apply(Twice(), name="again").events(str(folder / "second.yml"), name="second").side_output("again/sum").to_table(
        "last"
    )
    return pipeline


def tables(pipeline):
    results = pipeline.run_until_caught_up()
    assert not any(sum(one.late_rows.values()) for one in results)
    return {name: sorted(map(str, pipeline.to_arrow(name).to_pylist())) for name in ("sums", "windows", "changes", "last")}


def test_every_cut_gives_the_same_between_operators_of_other_families(sail, tmp_path):
    whole = tables(build(tmp_path, [ROWS]))
    assert [len(whole[name]) for name in ("sums", "last")] == [16, 16]
    assert tables(build(tmp_path, [ROWS[:3], ROWS[3:6], ROWS[6:]])) == whole


def test_a_file_with_a_source_of_its_own_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "sum.py").write_text(SUM)
    own = 'source: {files: {path: in, schema: "t timestamp, n long"}, event_time: t}'
    (tmp_path / "first.yml").write_text(FIRST.replace("source: minutes", own))
    rows = do.Pipeline("p", root=str(tmp_path)).source("rows", do.MemorySource([], schema="t timestamp, v long"), event_time="t")
    with pytest.raises(PipelineError, match="'windows' is a source of the file's own") as caught:
        rows.events(str(tmp_path / "first.yml"))
    assert "give its stream, too" in caught.value.remedy


def test_changes_are_read_behind_final(tmp_path):
    (tmp_path / "sum.py").write_text(SUM)
    (tmp_path / "second.yml").write_text(SECOND)
    (tmp_path / "in").mkdir()
    events = [("c", None, 1, 1), ("u", 1, 2, 1), ("c", None, 3, 9)]
    images = [
        {
            name: None if v is None else {"id": second, "t": f"2026-01-01T00:00:0{second}Z", "v": v}
            for name, v in zip(("before", "after"), pair, strict=True)
        }
        for _, *pair, second in events
    ]
    lines = [json.dumps({"op": event[0], **image}) for event, image in zip(events, images, strict=True)]
    (tmp_path / "in/a.json").write_text("\n".join(lines))
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    source = do.FileSource(str(tmp_path / "in"), format="debezium-json", schema="id long, t timestamp, v long", key="id")
    rows = pipeline.source("rows", source, event_time="t", finished=True)
    with pytest.raises(SchemaError, match="takes append streams") as refused:
        rows.events(str(tmp_path / "second.yml"), name="refused")
    assert "changes.final().events(" in str(refused.value)
    rows.final().events(str(tmp_path / "second.yml"), name="told").side_output("again/sum").to_table("sums")
    pipeline.run_until_caught_up()
    assert [row["value"] for row in pipeline.to_arrow("sums").to_pylist()] == [[" v2"], [" v2 v3"]]


def test_rows_that_wait_come_behind_another_id_of_their_source_node(sail, tmp_path):
    (tmp_path / "sum.py").write_text(SUM)
    batches = [[(START, 1), (START + timedelta(seconds=20), 2)], [], [(START + timedelta(minutes=1), 3)]]
    for node in ("rows", "other", "third"):
        (tmp_path / "second.yml").write_text(SECOND.replace("rows", node))
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        source = do.MemorySource(batches, schema="t timestamp, v long")
        rows = pipeline.source("source", source, event_time="t", lateness="10 seconds")
        rows.events(str(tmp_path / "second.yml"), name="told").side_output("again/sum").to_table("sums")
        assert not [one for one in pipeline.changes() if one.choices]
        pipeline.run_epoch()
    assert [row["value"] for row in pipeline.to_arrow("sums").to_pylist()] == [[" v1"], [" v1 v2"]]
    in_yaml = 'source: {files: {path: in/*.csv, schema: "t timestamp, v long"}, event_time: t, renamed_from: rows}'
    (tmp_path / "third.yml").write_text(SECOND.replace("source: any", in_yaml))
    assert do.Pipeline.from_yaml(tmp_path / "third.yml", root=str(tmp_path / "other")).dataflow.renamed == {"rows": "rows"}
