"""An operator of a module from outside: strategy, driver, cost, descriptor, node and call, as the page of data sets shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from dagster_operators import DataSet, MemorySource, Pipeline
from dagster_operators.api.data_sets import (
    NO_COSTS,
    Bag,
    Driver,
    DriverStrategy,
    LocalProgram,
    Node,
    Operation,
    Translation,
    UnaryDescriptor,
    Work,
    cost_of,
    driver,
    driver_for,
    driver_named,
)
from dagster_operators.errors import PipelineError

pytestmark = pytest.mark.in_process

WHOLE_PARTS = driver(DriverStrategy("OUTSIDE_MAP_PARTITION", shown="Whole Parts"))
UNPRICED = driver(DriverStrategy("OUTSIDE_WITHOUT_COST"))


class WholePartDriver(Driver):
    """Calls a function once with all rows of a part."""

    def run(self) -> None:
        for result in self.context.function(list(self.rows())):
            self.context.collect(result)


driver_for(WHOLE_PARTS, WholePartDriver)
driver_for(UNPRICED, WholePartDriver)
cost_of(WHOLE_PARTS, lambda inputs, weight: NO_COSTS)


class WholeParts(UnaryDescriptor):
    def __init__(self, driver: DriverStrategy) -> None:
        self.driver = driver


@dataclass(frozen=True)
class PartsAtOnce(Operation):
    """Any number of rows of each part, whose rows the function gets as a list."""

    function: Callable[[list[Any]], list[Any]]
    strategy: str = "OUTSIDE_MAP_PARTITION"
    kind: ClassVar[str] = "PartsAtOnce"

    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set),
            descriptors=[WholeParts(driver_named(self.strategy))], broadcasts=translation.broadcasts(data_set),
            work=Work(data_set.function(self.function, several=True)),
        )  # fmt: skip


def parts_at_once(data_set: DataSet, function: Callable[[list[Any]], list[Any]], **settings: Any) -> DataSet:
    return data_set.derive(PartsAtOnce(function, **settings), schema="rows long")


@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_it_runs_in_the_workers_of_an_engine(tmp_path, engine):
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=engine, parallelism=2)
    rows = pipeline.source("rows", MemorySource([[(k,) for k in range(7)]], schema="k long")).data_set()
    parts_at_once(rows.rebalance(), lambda part: [(len(part),)]).to_table("sizes")
    pipeline.run_epoch()
    assert Counter(row["rows"] for row in pipeline.to_arrow("sizes").to_pylist()).total() == 2
    assert sum(row["rows"] for row in pipeline.to_arrow("sizes").to_pylist()) == 7


def test_without_a_cost_it_is_refused_by_name():
    rows = LocalProgram().rows([(1,)], "k")
    with pytest.raises(PipelineError, match=r"OUTSIDE_WITHOUT_COST.*cost"):
        LocalProgram().collect(parts_at_once(rows, list, strategy="OUTSIDE_WITHOUT_COST"))


def test_a_change_of_the_driver_is_a_change_of_the_program(monkeypatch):
    def digest():
        rows = Pipeline("p", root="unused").source("rows", MemorySource([[(1,)]], schema="k long")).data_set()
        operator = parts_at_once(rows, len).to_stream(name="sizes")
        return operator._dataflow.nodes["sizes"].operator.program.code

    def run(self) -> None:
        self.context.collect(0)

    before = digest()
    assert digest() == before
    monkeypatch.setattr(WholePartDriver, "run", run)
    assert digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(PartsAtOnce, "node", lambda self, data_set, inputs, translation: inputs[0])
    assert digest() != before
