"""Messages of one time come in the order of their sources, files, and rows in these: which no engine keeps by itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from tests.engines import ENGINES

AT = datetime(2026, 1, 1, tzinfo=UTC)
FORWARD = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            send_output("out", dora_event["value"])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: late
    source: {files: {path: %(folder)s/late, format: csv, schema: "t timestamp, v long, k string"}, event_time: t, finished: true}
    outputs: {v: v}
  - id: early
    source:
      files: {path: %(folder)s/early, format: %(kind)s, schema: "t timestamp, v long, k string"}
      event_time: t
      finished: true
    outputs: {v: v}
  - id: forward
    operator:
      python: forward.py
      inputs: {a: late/v, b: early/v}
      outputs: [out]
      output_types: {out: int64}
      %(more)s
"""


def build(folder, kind, engine, *, files, rows, more=""):
    """A dataflow over files of rows of one time; of two sources, the one that comes first by its name has the first values."""
    for name in ("early", "late"):
        (folder / name).mkdir()
    (folder / "forward.py").write_text(FORWARD)
    (folder / "dataflow.yml").write_text(DATAFLOW % {"folder": folder, "kind": kind, "more": more})
    for number in range(files):
        values = list(range(number * rows, (number + 1) * rows))
        path = folder / "early" / f"{files - number:03} x.{kind}"  # by their names they would be the other way round
        keys = [f"k{value % 3}" for value in values]
        if kind == "parquet":
            times = pa.array([AT] * rows, pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"t": times, "v": values, "k": keys}), path, row_group_size=5)
        else:
            path.write_text("t,v,k\n" + "".join(f"2026-01-01T00:00:00,{value},k{value % 3}\n" for value in values))
        os.utime(path, (1_700_000_000 + number,) * 2)
    (folder / "late" / "a.csv").write_text(f"t,v,k\n2026-01-01T00:00:00,{files * rows},k0\n")
    return do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), engine=engine)


def told(pipeline):
    return [row.value[0] for row in pipeline.read("forward/out").collect()]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("engine", ["spark", "sail"])
def test_by_source_file_and_place(request, tmp_path, kind, engine):
    request.getfixturevalue(engine)
    pipeline = build(tmp_path, kind, ENGINES[engine], files=4, rows=40)
    pipeline.run_until_caught_up()
    assert told(pipeline) == list(range(161))


def test_in_a_file_of_many_rows(sail, tmp_path):
    pipeline = build(tmp_path, "csv", ENGINES["sail"], files=1, rows=60_000)
    pipeline.run_until_caught_up()
    assert told(pipeline) == list(range(60_001))


def test_of_each_key_where_operators_are_partitioned(sail, tmp_path):
    pipeline = build(tmp_path, "parquet", ENGINES["sail"], files=4, rows=40, more="partition_by: k")
    pipeline.run_until_caught_up()
    rows = pipeline.read("forward/out").collect()
    for key in range(3):
        own = [row.value[0] for row in sorted(rows, key=lambda row: row.seq) if row.key == f"k{key}"]
        assert own == sorted(own)
        assert len(own) == len(set(own)) == sum(value % 3 == key for value in range(160)) + (key == 0)


def test_a_rebuild_sends_the_same(sail, tmp_path):
    pipeline = build(tmp_path, "parquet", ENGINES["sail"], files=3, rows=20)
    pipeline.run_until_caught_up()
    before = [(row.time, row.seq, row.value) for row in pipeline.read("forward/out").collect()]
    pipeline.rebuild("forward__out")
    assert [(row.time, row.seq, row.value) for row in pipeline.read("forward/out").collect()] == before
