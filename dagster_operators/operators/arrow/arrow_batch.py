"""What an operator of the user's own lowers to: its schemas and state tables, and the program that calls its hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.state_tables import StateTable, TimeState
from dagster_operators.operators.arrow.apply import TIME, TIMERS, by_port
from dagster_operators.operators.arrow.arrow_operator import LATE, REJECTS, REJECTS_COLUMNS, overrides
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas, key_types
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.operators.worker_program import Isolation
from dagster_operators.time.watermark import parse_duration
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.arrow.apply import Apply
    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass(frozen=True)
class ArrowBatch(BatchOperator):
    """An :class:`~dagster_operators.operators.arrow.arrow_operator.ArrowOperator` in the engine's workers.

    Attributes:
        logical: What it was lowered from.
    """

    logical: Apply

    @property
    @override
    def exclusive(self) -> bool:
        """Whether its rows are brought together by key, or in one place."""
        return bool(self.logical.keys[0]) or self.logical.single

    @property
    def states(self) -> tuple[PhysicalState, ...]:  # type: ignore[override]
        """Those that the operator declares, and that of its timers."""
        timers = (TIMERS,) if overrides(self.logical.arrow, "handle_timer") else ()
        return tuple(PhysicalState(name) for name in (*self.logical.arrow.state, *timers))

    @property
    @override
    def holds_time(self) -> bool:
        return self.logical.holds_time

    @property
    @override
    def ordered_by(self) -> tuple[str, ...]:
        return self.logical.ordered_by

    @property
    @override
    def is_numbered(self) -> bool:
        return self.logical.arrow.needs_sequence

    @property
    @override
    def isolation(self) -> Isolation | None:
        operator = self.logical.arrow
        if not operator.isolated:
            return None
        try:
            limit = parse_duration(operator.time_limit) / 1e6
        except ValueError as error:
            raise PipelineError(f"time_limit: {error}", operator=self.logical.name, remedy="write '10 minutes', say") from None
        return Isolation(limit, retry=operator.on_error == "retry")

    @property
    @override
    def module(self) -> str:
        return type(self.logical.arrow).__module__

    @override
    def program(self) -> WorkerProgram:
        from dagster_operators.operators.arrow.arrow_program import ArrowProgram

        return ArrowProgram(self.logical.arrow)

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> dict[str, pa.Schema]:
        """What ``output_schema`` says, and the ports that every operator has."""
        name = self.logical.name
        try:
            declared = self.logical.arrow.output_schema(*inputs)
        except OperatorsError:
            raise
        except Exception as error:
            raise SchemaError(
                f"output_schema raised {type(error).__name__}: {error}", operator=name, remedy="correct it"
            ) from error
        found = {port: Schema.of(schema).to_arrow() for port, schema in by_port(declared, name).items()}
        return {**found, LATE: inputs[0], REJECTS: Schema.of(REJECTS_COLUMNS).to_arrow()}

    @override
    def tables(self, ports: PortSchemas) -> dict[str, StateTable]:
        """Its state tables, that of its timers included."""
        operator, keys = self.logical.arrow, self.logical.keys[0]
        found = dict(operator.state)
        if overrides(operator, "handle_timer"):
            kinds = zip(keys, key_types(keys, ports.inputs[0], operator.state), strict=True)
            columns = [f"{quoted(key)} {kind}" for key, kind in kinds]
            found[TIMERS] = TimeState(", ".join([*columns, f"{TIME} timestamp"]), TIME, key=keys)
        for table in found.values():
            table.check_types()
        return found
