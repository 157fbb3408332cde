"""Several parts of one logical operator as a harness drives them: in one subtask, each reading what the one before puts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.exchange import Forward, HashBy
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas
from dagster_operators.runtime.workers.program_graph import Edge, ProgramGraph

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.graph.operator import LogicalOperator
    from dagster_operators.graph.state_tables import StateTable
    from dagster_operators.operators.physical import Part, Parts
    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass(frozen=True)
class PartsTogether(BatchOperator):
    """The parts of an operator, whose state tables are ``<part>.<table>``.

    Attributes:
        logical: The operator that they were lowered from.
        parts: The parts.
    """

    logical: LogicalOperator
    parts: Parts

    @cached_property
    def graph(self) -> ProgramGraph:
        """The parts as programs that read each other."""
        edges = [
            Edge(read, MAIN, part.name, index)
            for part in self.parts.parts
            for index, read in enumerate(part.inputs)
            if isinstance(read, str)
        ]
        return ProgramGraph({part.name: len(part.inputs) for part in self.parts.parts}, edges, self.entries)

    @property
    def entries(self) -> dict[tuple[str, int], int]:
        """The inputs of parts that read the operator's own inputs, by the number of that."""
        found: dict[tuple[str, int], int] = {}
        for part in self.parts.parts:
            found.update({(part.name, index): read for index, read in enumerate(part.inputs) if isinstance(read, int)})
        return found

    def check(self, keys: Sequence[str]) -> None:
        """Check that a subtask can run all of them without the others.

        Args:
            keys: The columns that the operator's inputs are distributed by.

        Raises:
            PipelineError: A part is relational or wants its rows in an order, or rows would move to another subtask between two.
        """
        for part in self.parts.parts:
            physical = part.operator
            if not isinstance(physical, BatchOperator):
                reason = "is relational"
            elif physical.wants_order:
                reason = "wants its rows in an order, or numbered"
            elif keys and any(_moves(exchange, keys) for exchange in part.exchanges.values()):
                reason = "gets its rows from other subtasks"
            else:
                reason = ""
            if reason:
                raise PipelineError(
                    f"the part {part.name!r} of {self.logical.kind!r} {reason}", operator=self.logical.name,
                    remedy="test it in a pipeline: the harness runs parts that stay in one subtask",
                )  # fmt: skip

    def ports(self, inputs: Sequence[pa.Schema]) -> dict[str, PortSchemas]:
        """The schemas of each part, for those of the operator's inputs."""
        found: dict[str, PortSchemas] = {}
        for part in self.parts.parts:
            schemas = tuple(inputs[read] if isinstance(read, int) else found[read].outputs[MAIN] for read in part.inputs)
            found[part.name] = PortSchemas(schemas, physical_of(part).outputs(schemas))
        return found

    @override
    def program(self) -> WorkerProgram:
        raise NotImplementedError("each part has its own")

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> Mapping[str, pa.Schema]:
        return self.ports(inputs)[self.parts.parts[-1].name].outputs

    @override
    def tables(self, ports: PortSchemas) -> dict[str, StateTable]:
        each = self.ports(ports.inputs)
        return {
            f"{part.name}.{table}": declared
            for part in self.parts.parts
            for table, declared in physical_of(part).tables(each[part.name]).items()
        }


def physical_of(part: Part) -> BatchOperator:
    """The physical operator of a part, which runs in workers."""
    assert isinstance(part.operator, BatchOperator), part.name  # noqa: S101 - as was checked
    return part.operator


def tables_of(part: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The state tables of one part, by the names that it has for them."""
    return {name.removeprefix(f"{part}."): state[name] for name in state if name.startswith(f"{part}.")}


def _moves(exchange: object, keys: Sequence[str]) -> bool:
    return not (isinstance(exchange, Forward) or (isinstance(exchange, HashBy) and tuple(exchange.keys) == tuple(keys)))
