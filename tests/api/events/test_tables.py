"""Nodes of a dataflow's file that are tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import QueryError
from tests.engines import ENGINES

START = datetime(2026, 1, 1, tzinfo=UTC)
MEAN = """
class Operator:
    def __init__(self):
        self.values = []

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.values.append(dora_event["value"][0].as_py())
            send_output("mean", [sum(self.values) / len(self.values), max(self.values)])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: rows
    source: {memory: {batches: [], schema: "t timestamp, sensor string, celsius double"}, event_time: t}
    outputs: {celsius: celsius}
  - id: mean
    operator:
      {python: mean.py, inputs: {value: rows/celsius}, outputs: [mean], output_types: {mean: float64}, partition_by: sensor}
  - id: means
    table: {input: mean/mean, columns: {time: time, sensor: key, celsius: "value[0]"}, where: "value[1] < 50", key: sensor}
  - id: all-of-it
    table: {input: mean/mean}
"""


def write(folder, text=DATAFLOW):
    (folder / "mean.py").write_text(MEAN)
    (folder / "dataflow.yml").write_text(text)
    return folder / "dataflow.yml"


def pipeline(folder, engine="sail", text=DATAFLOW):
    rows = [{"t": START + timedelta(seconds=n), "sensor": "ab"[n % 2], "celsius": float(n * n)} for n in range(10)]
    sources = do.Sources()
    sources.add(
        "rows", do.MemorySource([rows[:5], rows[5:]], schema="t timestamp, sensor string, celsius double"), event_time="t"
    )
    given = text.replace(text[text.index("source: {") : text.index("\n    outputs")], "source: rows")
    return do.Pipeline.from_yaml(write(folder, given), root=str(folder / "root"), sources=sources, engine=ENGINES[engine])


@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_a_table_has_the_columns_that_the_file_says_and_a_row_for_each_key(engine, tmp_path):
    made = pipeline(tmp_path, engine)
    made.run_until_caught_up()
    rows = {(row.sensor, row.celsius) for row in made.read("means").collect()}
    assert rows == {("a", (0 + 4 + 16 + 36) / 4), ("b", (1 + 9 + 25 + 49) / 4)}
    assert {*made.read("means").columns} == {"time", "sensor", "celsius"}
    assert counts_of(tmp_path, engine) == {"a": 5, "b": 5}


def counts_of(folder, engine):
    """What a relational pipeline makes of a table."""
    other = do.Pipeline("other", root=str(folder / "other"), engine=ENGINES[engine])
    messages = other.source("messages", do.PipelineSource(str(folder / "root"), ["all_of_it"])["all_of_it"])
    messages.key_by("key").aggregate(count="count(*)").to_table("counts")
    other.run_until_caught_up()
    return {row.key: row["count"] for row in other.read("counts").collect()}


def test_check_and_graph_know_tables(tmp_path):
    path = str(write(tmp_path))
    shown = CliRunner().invoke(main, ["graph", path])
    assert CliRunner().invoke(main, ["check", path]).output == f"{path} is right: 4 tables\n"
    assert '  means[("means")]' in shown.output.splitlines(), shown.output
    assert "  mean -- mean --> means" in shown.output.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "place", "problem"),
    [
        ("input: mean/mean, col", "input: mean/men, col", (10, 20), "there is no output 'mean/men' of an operator"),
        ("input: mean/mean, col", "input: rows/celsius, col", (10, 20), "is the output of a source or of a node without inputs"),
        ("value[1] < 50", "worth[1] < 50", (10, 95), "worth"),
        ("value[1] < 50", "(value[1])", (10, 95), "is no condition, but a double"),
        ("value[1] < 50", "value", (10, 95), "is no condition, but a list"),
        ("value[1] < 50", "1 + 1", (10, 95), "the result of arithmetic"),
        ('"value[1] < 50"', "[value]", (10, 95), "its condition is ['value']"),
        ("key: sensor}", "key: sensr}", (10, 117), "sensr"),
        ("columns: {time: time, sensor", "columns: {sensor", (10, 105), "time"),
        ("where:", "were:", (10, 88), "'were'"),
        ('columns: {time: time, sensor: key, celsius: "value[0]"}', 'columns: [time, "value[0]"]', (10, 47), "is no name"),
        ("all-of-it", "means", (11, 9), "there is another node with the id 'means'"),
        ("all-of-it", "mean--mean", (12, 12), "would be the table 'mean__mean'"),
    ],
    ids=["input", "source", "where", "type", "list type", "sum", "no text", "key", "time", "unknown", "list", "id", "name"],
)
def test_what_is_wrong_with_a_table_is_told_with_its_place(tmp_path, old, new, place, problem):
    with pytest.raises(QueryError) as caught:
        pipeline(tmp_path, text=DATAFLOW.replace(old, new))
    (error,) = caught.value.errors
    assert problem in error.problem
    assert (error.where["line"], error.where["character"]) == place
    assert error.remedy


@pytest.mark.parametrize("reads", ["means/celsius", "means", "means/nope", "{source: means/mean, queue_size: 1}"])
def test_an_input_that_reads_a_table_is_told_what_the_table_reads(tmp_path, reads):
    behind = f"  - {{id: behind, operator: {{python: mean.py, inputs: {{value: {reads}}}}}}}\n"
    with pytest.raises(QueryError) as caught:
        pipeline(tmp_path, text=DATAFLOW + behind)
    (error,) = caught.value.errors
    assert "the input `behind/value` reads 'means" in error.problem
    assert "`means` is a table" in error.problem
    assert (error.where["line"], error.where["character"]) == (13, 71 if "source" in reads else 62)
    assert error.remedy == "read what the table reads: mean/mean"


def test_a_key_without_the_time_and_a_list_of_expressions_are_told_what_to_write(tmp_path):
    columns = 'columns: {time: time, sensor: key, celsius: "value[0]"}'
    with pytest.raises(QueryError, match="To do: add time: time to columns"):
        pipeline(tmp_path, text=DATAFLOW.replace("{time: time, sensor", "{sensor"))
    with pytest.raises(QueryError, match="write pairs name: expression"):
        pipeline(tmp_path, text=DATAFLOW.replace(columns, 'columns: [time, key, "value[0] AS celsius"]'))
    pipeline(tmp_path, text=DATAFLOW.replace(columns, "columns: [time, key, value]").replace("key: sensor}", "key: key}"))


def test_an_output_without_a_type_is_no_table(tmp_path):
    text = DATAFLOW.replace(", output_types: {mean: float64}, partition_by: sensor", "")
    with pytest.raises(QueryError, match="has no type, so its values are no column") as caught:
        pipeline(tmp_path, text=text)
    assert len(caught.value.errors) == 2
