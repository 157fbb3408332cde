"""A program of data sets over rows at hand, run in this process: for tests, and to look at plans.

>>> program = LocalProgram(parallelism=2)
>>> words = program.rows([("a", 1), ("b", 1), ("a", 1)], "word", "n")
>>> program.collect(words.group_by("word").sum("n"))
[Row(word='a', n=2), Row(word='b', n=1)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dagster_operators.api.datasets.base import Bag, Translation, explicit_parallelism
from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.rows_at_hand import from_collection
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.local import LocalExecution
from dagster_operators.optimizer.drawing.drawn import drawn_plan
from dagster_operators.optimizer.drawing.picture import picture
from dagster_operators.optimizer.planning import OptimizedPlan, optimized
from dagster_operators.optimizer.program import Sink, named_sources
from dagster_operators.optimizer.strategies import ExecutionMode


class LocalProgram:
    """A program.

    Args:
        parallelism: The number of parts of operators that say nothing else.
        mode: How exchanges are carried out.

    Attributes:
        accumulators: What the functions' accumulators came to in the last run, by name.
        supersteps: In how many rounds each iteration ended in the last run, by its name.
    """

    def __init__(self, parallelism: int = 1, mode: ExecutionMode = ExecutionMode.PIPELINED) -> None:
        if parallelism < 1:
            raise PipelineError(f"{parallelism} is no number of parts", remedy="give the program one at least")
        self._parallelism = parallelism
        self._mode = mode
        self.accumulators: Mapping[str, Any] = {}
        self.supersteps: Mapping[str, int] = {}

    def rows(
        self, rows: Iterable[Any], *fields: str, schema: str | None = None, size: int | None = None, count: int | None = None
    ) -> DataSet:
        """A data set of rows at hand.

        Args:
            rows: The rows: tuples, or single values.
            fields: The names of their fields.
            schema: Their fields with their types, as DDL, in place of the names.
            size: How many bytes the optimizer is to think they are.
            count: How many rows it is to think there are.

        Raises:
            SchemaError: A row has other fields, or a value of another type.

        >>> program = LocalProgram()
        >>> program.rows([("a", 1)], schema="k string, v long").group_by("k").sum("v").types
        (Plain(name='string'), Plain(name='bigint'))
        """
        return from_collection(rows, *fields, schema=schema, size=size, count=count)

    def plan(self, *data_sets: Bag) -> OptimizedPlan:
        """How some data sets would be computed.

        >>> program = LocalProgram(parallelism=2)
        >>> rows = program.rows([(1,), (2,)])
        >>> [step.driver.name for step in program.plan(rows.map(lambda row: row))]
        ['NONE', 'MAP', 'NONE']
        """
        translation = Translation(self._parallelism)
        sinks = []
        for number, data_set in enumerate(data_sets):
            node = translation.node(data_set)
            sinks.append(Sink(str(number), node, parallelism=explicit_parallelism(data_set) or self._parallelism))
        return optimized(sinks, self._mode)

    def picture(self, *data_sets: Bag) -> str:
        """The plan by which some data sets would be computed, as SVG.

        >>> program = LocalProgram(parallelism=2)
        >>> rows = program.rows([("a", 1)], "k", "v", count=1000)
        >>> svg = program.picture(rows.group_by("k").sum("v").name("sum of v"))
        >>> "estimated 1,000" in svg, "sum of v (GroupReduce)" in svg
        (True, True)
        """
        return picture({"the program": drawn_plan(self.plan(*data_sets))})

    def collect(self, data_set: Bag) -> list[Any]:
        """The rows of a data set, in any order.

        Raises:
            OperatorFailedError: A function failed.
            PipelineError: A field that is said to be forwarded is not.

        >>> program = LocalProgram()
        >>> program.collect(program.rows([1, 2]).map(lambda value: value * 10))
        [10, 20]
        """
        (rows,) = self.collect_all(data_set)
        return rows

    def collect_all(self, *data_sets: Bag) -> list[list[Any]]:
        """The rows of several data sets; what several of them read is computed once.

        >>> program = LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect_all(rows.filter(lambda value: value > 1), rows.reduce(max))
        [[2, 3], [3]]
        """
        plan = self.plan(*data_sets)
        sources = named_sources([sink.node for sink in plan.sinks])
        given: dict[str, Any] = {source.name: source.work for source in sources}
        execution = LocalExecution(plan, given, claims=True)
        results = execution.run()
        self.accumulators = {name: accumulator.value for name, accumulator in execution.accumulators.items()}
        self.supersteps = dict(execution.supersteps)
        return [results[str(number)] for number in range(len(data_sets))]
