"""What a harness drives: an operator of one of the families whose work is Python in workers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING

from dagster_operators.api.hooks import check_hooks
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.operators.arrow.apply import Apply, fresh
from dagster_operators.operators.arrow.arrow_batch import ArrowBatch
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.arrow.arrow_program import ArrowProgram
from dagster_operators.operators.batch_operator import BatchOperator, keys_of
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Broadcast
from dagster_operators.operators.physical import Parts
from dagster_operators.testing.parts import PartsTogether
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.kinds import Times

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.frontier_batch import FrontierBatch
    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass(frozen=True)
class Driven:
    """An operator, ready to be run.

    Attributes:
        name: Its name.
        keys: The key columns of each input.
        physical: What it lowers to.
        program: Gives a program that nobody else uses.
        is_strict: Whether it is an error to move its inputs back.
        everywhere: The inputs whose rows go to every subtask.
        passed: The frontier of an output, for those of the inputs, if nothing is held there.
    """

    name: str
    keys: tuple[tuple[str, ...], ...]
    physical: BatchOperator
    program: Callable[[], WorkerProgram]
    is_strict: bool = False
    everywhere: frozenset[int] = frozenset()
    passed: Callable[[str, Sequence[Frontier]], Frontier] = lambda _, inputs: meet(inputs)


def driven(
    operator: ArrowOperator | Definition | LogicalOperator,
    inputs: Sequence[pa.Schema],
    keys: Sequence[str] | Sequence[Sequence[str]],
    name: str | None,
    event_time: str | None,
    *,
    times: Times | None = None,
) -> Driven:
    """What is to be run of an operator.

    Args:
        operator: The operator.
        inputs: The schemas of its inputs.
        keys: The key columns of all inputs, or of each.
        name: The operator's name.
        event_time: The column with the time of a frontier operator's inputs.
        times: Their times, if they are no event times.

    Raises:
        SchemaError: The operator does not fit its inputs.
        PipelineError: An operator that says its keys itself is given some; the time of a frontier operator is not given; or a
            logical operator does not lower to batch operators.
    """
    if isinstance(operator, LogicalOperator):
        if keys or name:
            raise PipelineError("a logical operator has its keys and its name", remedy="say them in its settings")
        return _lowered(operator, inputs, event_time)
    if isinstance(operator, Definition):
        if keys:
            raise PipelineError("a frontier operator has its keys in its pacts", remedy='say there: Exchange("column")')
        return _frontier(operator, inputs, name, event_time, times)
    check_hooks(operator, operator=name or type(operator).__name__)
    each = tuple((tuple(keys),) * len(inputs) if not keys or isinstance(keys[0], str) else map(tuple, keys))
    apply = Apply(name=name or operator.name or "operator", arrow=operator, keys=each)  # type: ignore[arg-type]
    apply.output([StreamType(tuple(schema.names)) for schema in inputs])
    return Driven(apply.name, apply.keys, ArrowBatch(apply), lambda: ArrowProgram(fresh(operator)))


def _lowered(operator: LogicalOperator, inputs: Sequence[pa.Schema], event_time: str | None) -> Driven:
    types = [StreamType(tuple(schema.names), event_time if event_time in schema.names else None) for schema in inputs]
    operator.output(types)
    exchanges = [port.exchange for port in operator.inputs(types)]
    for lowered in catalog().lower(operator, types).values():
        if isinstance(lowered, BatchOperator):
            return Driven(operator.name, tuple(map(keys_of, exchanges)), lowered, lowered.program)
        if isinstance(lowered, Parts):
            together, keys = PartsTogether(operator, lowered), tuple(map(keys_of, exchanges))
            together.check(keys[0] if keys else ())
            return Driven(operator.name, keys, together, together.program)
    raise PipelineError(
        f"{operator.kind!r} does not lower to batch operators", operator=operator.name,
        remedy="the harness runs operators in workers: test relational ones in a pipeline",
    )  # fmt: skip


def _frontier(
    operator: Definition, inputs: Sequence[pa.Schema], name: str | None, event_time: str | None, times: Times | None
) -> Driven:
    logical = FrontierOperator(name=name or operator.name, definition=operator)
    types = [StreamType(tuple(schema.names), event_time if times is None else None, times=times) for schema in inputs]
    logical.output(types)
    physical = logical.lower(types)
    everywhere = frozenset(number for number, pact in enumerate(operator.pacts) if isinstance(pact, Broadcast))
    keys = tuple(pact.by for pact in operator.pacts)
    return Driven(
        logical.name, keys, physical, lambda: _fresh(physical).program(), is_strict=True, everywhere=everywhere,
        passed=logical.frontier,
    )  # fmt: skip


def _fresh(physical: FrontierBatch) -> FrontierBatch:
    """The same with a copy of an object that makes the logic, as each subtask gets one: what it keeps is gone with it."""
    definition = physical.logical.definition
    if definition.body is not None or isinstance(definition.constructor, FunctionType):
        return physical
    own = copy.copy(definition)
    own.constructor = copy.deepcopy(definition.constructor)
    return replace(physical, logical=replace(physical.logical, definition=own))
