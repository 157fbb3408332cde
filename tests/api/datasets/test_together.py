"""Several data sets in one program: their tables have what each alone would have, and what they share is computed once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dagster_operators import MemorySource, Pipeline, compute_together
from dagster_operators.errors import PipelineError
from dagster_operators.plans.verdict import Level

pytestmark = [
    pytest.mark.in_process,
    pytest.mark.parametrize(
        "engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)]
    ),
]
EPOCHS = [[("a", 1), ("a", 2), ("b", 5)], [("c", 1), ("a", 7)]]
SCHEMA = "k string, v long"


def piped(root, engine, epochs=EPOCHS):
    pipeline = Pipeline("p", root=str(root), engine=engine, parallelism=2)
    return pipeline, pipeline.source("rows", MemorySource(epochs, schema=SCHEMA))


def rows_in(pipeline, table):
    return Counter(tuple(row.values()) for row in pipeline.to_arrow(table).to_pylist())


def numbered(row):
    return (row.k, random.getrandbits(60))


def test_what_is_random_is_the_same_in_all_tables(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    shared = rows.data_set().map(numbered, schema="k string, number long")
    streams = compute_together("drawn", everything=shared, largest=shared.group_by("k").max("number"))
    streams["everything"].to_table("everything")
    streams["largest"].filter("number >= 0").to_table("largest")
    assert pipeline.run_until_caught_up()
    found, largest = rows_in(pipeline, "everything"), Counter()
    for epoch in EPOCHS:
        keys = {key for key, _ in epoch}
        largest.update(keys)
    assert sum(found.values()) == 5
    assert Counter(key for key, _ in rows_in(pipeline, "largest").elements()) == largest
    assert set(rows_in(pipeline, "largest")) <= set(found)


def test_tables_sinks_and_operators_read_its_outputs(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine)
    data = rows.data_set()
    streams = compute_together(
        "made", sums=data.group_by("k").sum("v"), none=data.filter(lambda row: row.v > 100), unread=data.distinct("k")
    )
    streams["none"].to_table("none")
    streams["sums"].key_by("k").aggregate(total="sum(v)").to_table("totals")
    pipeline.run_until_caught_up()
    assert rows_in(pipeline, "totals") == Counter([("a", 10), ("b", 5), ("c", 1)])
    assert not rows_in(pipeline, "none")


def test_a_further_output_changes_only_what_is_told(tmp_path, engine):
    pipeline, rows = piped(tmp_path, engine, EPOCHS[:1])
    data = rows.data_set()
    compute_together("made", sums=data.group_by("k").sum("v"))["sums"].to_table("sums")
    pipeline.run_until_caught_up()
    pipeline, rows = piped(tmp_path, engine)
    data = rows.data_set()
    streams = compute_together("made", sums=data.group_by("k").sum("v"), keys=data.distinct("k").project("k"))
    streams["sums"].to_table("sums")
    streams["keys"].to_table("keys")
    changes = {verdict.subject: verdict.level for verdict in pipeline.changes()}
    assert Level.DECISION not in changes.values()
    assert changes["table keys"] is Level.FROM_HERE_ON
    pipeline.run_until_caught_up()
    assert rows_in(pipeline, "sums") == Counter([("a", 3), ("b", 5), ("c", 1), ("a", 7)])
    assert rows_in(pipeline, "keys") == Counter([("a",), ("c",)])


@pytest.mark.parametrize("name", ["out", "main", "a.b"])
def test_a_name_that_no_output_can_have(tmp_path, engine, name):
    _, rows = piped(tmp_path, engine)
    with pytest.raises(PipelineError, match="cannot be called"):
        compute_together("made", **{name: rows.data_set()})


def test_what_is_no_data_set_of_the_pipeline(tmp_path, engine):
    _, rows = piped(tmp_path / "a", engine)
    _, others = piped(tmp_path / "b", engine)
    with pytest.raises(PipelineError, match="belongs to pipeline"):
        compute_together("made", one=rows.data_set(), other=others.data_set())
    with pytest.raises(PipelineError, match="no data set"):
        compute_together("made", one=rows)
    with pytest.raises(PipelineError, match="there is no data set"):
        compute_together("made")
