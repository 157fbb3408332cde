"""What a plug-in operator puts out is what it said: its logical operator to the planner, its analysis to the stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.errors import SchemaError
from dagster_operators.plugins import Analysis, LogicalOperator, RelationalOperator, same_columns
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


@dataclass(frozen=True, kw_only=True, eq=False)
class Relabel(LogicalOperator):
    """Says that it hands rows on; what does its work makes what it is told to make."""

    kind: ClassVar[str] = "relabel"
    said: str
    made: str

    def config(self):
        return {"said": self.said, "made": self.made}

    def output(self, inputs):
        return inputs[0]

    def lineage(self, inputs):
        return same_columns(inputs[0])

    def lower(self, inputs):
        return Made(self.said, self.made)


@dataclass(frozen=True)
class Made(RelationalOperator):
    said: str
    made: str

    def analyse(self, inputs):
        return Analysis(inputs[0].selectExpr(*self.said.split(", ")), facts=None)

    def run(self, context, inputs, analysed):
        return None if inputs[0] is None else inputs[0].selectExpr(*self.made.split(", "))


@pytest.fixture
def relabelled(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])
    loading.catalog().of("their-package").add_operator(Relabel)

    def pipeline(said, made):
        found = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = found.source("rows", do.MemorySource([[{"k": "a", "v": 1}]], schema="k string, v long"))
        rows.through(Relabel, said=said, made=made, name="relabelled").to_table("out")
        return found

    return pipeline


def test_what_is_as_it_was_said(relabelled):
    pipeline = relabelled("k, v", "upper(k) AS k, v")
    pipeline.run_epoch()
    assert [tuple(row) for row in pipeline.read("out").collect()] == [("A", 1)]


@pytest.mark.parametrize("said", ["k", "v, k", "k, v AS w"])
def test_columns_other_than_the_logical_operator_says(relabelled, said):
    with pytest.raises(
        SchemaError, match="relabel says that it puts out the columns k, v, and what does its work puts out"
    ) as told:
        relabelled(said, said).run_epoch()
    assert told.value.operator == "relabelled"


@pytest.mark.parametrize("made", ["k", "k, CAST(v AS int) AS v"])
def test_rows_other_than_the_analysis_says(relabelled, made):
    with pytest.raises(SchemaError, match=r"Made said that it puts out k string, v bigint, and puts out k string") as told:
        relabelled("k, v", made).run_epoch()
    assert told.value.operator == "relabelled"
