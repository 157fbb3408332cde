"""Planning lowers each operator once, and asks about each choice once, whatever rules and checks make of the dataflow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.catalog.catalog import Catalog
from dagster_operators.graph.ports import StreamRef
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.rules.rule_set import optimised
from tests.compatibility.pipelines import joins, keyed, mixed, user, windows
from tests.engines import ENGINES
from tests.planner.test_alternatives import EPOCHS, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dagster_operators.graph.alternatives import Alternative
    from dagster_operators.graph.operator import LogicalOperator


@dataclass
class Asked:
    """A cost model that notes whom it is asked about."""

    about: list[str] = field(default_factory=list)

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        self.about.append(operator.name)
        return alternatives[1], "the second"


def changed_by_rules(root: Path) -> do.Pipeline:
    """A pipeline of which rules change the source and the filters, and leave the rest as it is."""
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES["sail"])
    rows = pipeline.source("rows", do.MemorySource([*EPOCHS], schema="v long, unused string"))
    kept = rows.select("v", name="selected").filter("v > 0", name="positive").filter("v < 9", name="small")
    pipeline.dataflow.add(Running(name="total"), [StreamRef(kept.name)])
    do.Stream(pipeline.dataflow, StreamRef("total")).to_table("out")
    return pipeline


@pytest.mark.usefixtures("sail")
def test_each_operator_is_lowered_once_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: Counter[str] = Counter()
    real = Catalog.lower

    def counted(catalog: Catalog, operator: LogicalOperator, inputs: Any) -> Any:
        lowered[repr(operator)] += 1
        return real(catalog, operator, inputs)

    pipeline = changed_by_rules(tmp_path)
    pipeline.dataflow.cost_model = asked = Asked()
    made = optimised(pipeline.dataflow).plan
    assert any(node is not pipeline.dataflow.nodes.get(node.name) for node in made), "no rule changes anything"
    monkeypatch.setattr(Catalog, "lower", counted)
    plan = pipeline.epochs.plan()
    assert plan.choices == {"total": "sums"}
    assert max(lowered.values()) == 1
    assert asked.about == ["total"]


@pytest.mark.parametrize("make", [windows, keyed, joins, user, mixed])
def test_what_is_taken_over_is_what_would_be_made(make: Callable[[str, Any], do.Pipeline]) -> None:
    dataflow = make("unused", None).dataflow
    made = optimised(dataflow).plan
    before = SimpleNamespace(dataflow=dataflow, physical=lower(dataflow))
    assert lower(made, before) == lower(made)


def test_another_place_is_lowered_anew() -> None:
    """A table that is added behind an operator may be its state: the operator is the same, and goes another way."""
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long"))
    best = rows.key_by("k").top(2, by="v", name="best")
    best.filter("v > 1", name="some").to_table("some")
    before = SimpleNamespace(dataflow=pipeline.dataflow, physical=lower(pipeline.dataflow))
    assert before.physical.own_table("best") is None
    behind = do.Pipeline("p", root="unused").dataflow
    behind.choices = pipeline.dataflow.choices
    behind.nodes |= pipeline.dataflow.nodes
    do.Stream(behind, StreamRef("best")).to_table("best")
    assert lower(behind, before).own_table("best") == "tables/best"
