"""Rows without an event time are set aside where records that cannot be parsed are."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.connectors.rejects import UNTIMED
from dagster_operators.errors import BadInputError
from tests.engines import EMBEDDED, SAIL

SCHEMA = "v long, t timestamp"
LINES = '{"v": 1, "t": "2024-01-01T12:00:00Z"}\n{"v": 2}\n{"v": 3, "t": null}\n'


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def flow(folder, engine, form="json", corrupt="reject", **more):
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    source = do.FileSource(str(folder / f"in/*.{form}"), format=form, schema=SCHEMA, corrupt=corrupt)
    pipeline.source("rows", source, event_time="t", **more).to_table("all_rows")
    return pipeline


def values(pipeline):
    return sorted(row.v for row in pipeline.read("all_rows").collect())


def rejects(pipeline):
    found = pipeline.read("rows_rejects").collect()
    return sorted((json.loads(row.record).get("v"), row.reason) for row in found if row.file is None)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(LINES)
    return tmp_path


def test_a_stopped_pipeline_goes_on_once_such_rows_are_set_aside(folder, engine):
    stopped = flow(folder, engine, corrupt="fail")
    with pytest.raises(BadInputError, match="2 rows have no event time") as refused:
        stopped.run_epoch()
    assert 'corrupt="reject"' in refused.value.remedy
    pipeline = flow(folder, engine)
    assert pipeline.run_epoch().rejected_rows == {"rows": 2}
    (folder / "in/1.json").write_text('no JSON\n{"v": 5}\n{"v": 6, "t": "2024-01-01T13:00:00Z"}\n')
    assert pipeline.run_epoch().rejected_rows == {"rows": 2}
    assert values(pipeline) == [1, 6]
    assert rejects(pipeline) == [(2, UNTIMED), (3, UNTIMED), (5, UNTIMED)]


@pytest.mark.sail
def test_they_are_set_aside_beside_rows_that_are_ahead_of_the_clock(folder):
    (folder / "in/1.json").write_text('{"v": 4, "t": "2999-01-01T00:00:00Z"}\n')
    pipeline = flow(folder, SAIL, event_time_ahead="1 day")
    assert pipeline.run_epoch().rejected_rows == {"rows": 3}
    assert values(pipeline) == [1]
    assert [v for v, _ in rejects(pipeline)] == [2, 3, 4]


@pytest.mark.sail
def test_an_epoch_of_such_rows_alone_leaves_the_watermark_where_it_was(folder):
    (folder / "in/0.json").write_text('{"v": 2}\n')
    pipeline = flow(folder, SAIL)
    assert pipeline.run_epoch().rejected_rows == {"rows": 1}
    (folder / "in/1.json").write_text('{"v": 7, "t": "1999-01-01T00:00:00Z"}\n')
    pipeline.run_epoch()
    assert values(pipeline) == [7]


FLOW = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/in/*.json, format: json, schema: "v long, t timestamp", corrupt: reject}, event_time: t}
    outputs: {v: v}
  - id: total
    operator: {python: total.py, inputs: {v: rows/v}, outputs: [sum]}
"""
TOTAL = """
class Operator:
    def __init__(self):
        self.sum = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.sum += dora_event["value"][0].as_py()
            send_output("sum", [self.sum])
        return DoraStatus.CONTINUE
"""


@pytest.mark.sail
def test_a_dataflow_goes_on_where_a_line_has_no_time(folder, monkeypatch):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    (folder / "total.py").write_text(TOTAL)
    (folder / "dataflow.yml").write_text(FLOW.replace("FOLDER", str(folder)))
    (folder / "in/1.json").write_text('{"v": 4, "t": "2024-01-01T12:00:01Z"}\n')
    found = CliRunner().invoke(main, ["run", str(folder / "dataflow.yml"), "--root", str(folder / "root")])
    assert found.exit_code == 0, found.output
    pipeline = do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), engine=SAIL)
    assert [row.value for row in pipeline.read("total/sum").collect()] == [[1], [5]]
    assert len(rejects(pipeline)) == 2
