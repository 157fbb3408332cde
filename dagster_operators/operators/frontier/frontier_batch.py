"""What a frontier operator lowers to: its schemas and state tables, and the program that calls its logic."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.state_tables import KeyedState, StateTable
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas, key_types
from dagster_operators.operators.frontier.declared import StashState, ValueState
from dagster_operators.operators.frontier.frontier_operator import LATE
from dagster_operators.operators.frontier.functions_in import functions_in
from dagster_operators.operators.frontier.kept import CAPABILITIES, KEPT_TABLE
from dagster_operators.operators.frontier.scope_rounds import ScopeRounds, without_route
from dagster_operators.operators.frontier.spread_stash import SPREAD, SPREAD_TABLE
from dagster_operators.operators.frontier.stash import stash_table
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.frontier.definition import Columns, Definition
    from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
    from dagster_operators.operators.frontier.time_columns import TimeColumns
    from dagster_operators.operators.worker_program import WorkerProgram


VALUE: Final = "value_"
"""The column with the value of a ``ValueState``."""


@dataclass(frozen=True)
class FrontierBatch(BatchOperator):
    """A frontier operator in the engine's workers.

    Attributes:
        logical: What it was lowered from.
        times: The columns with the time, of each input.
        output_times: Those of the outputs.
    """

    logical: FrontierOperator
    times: tuple[TimeColumns, ...]
    output_times: TimeColumns

    @property
    def _definition(self) -> Definition:
        return self.logical.definition

    @property
    @override
    def exclusive(self) -> bool:
        return bool(self._definition.pacts[0].by) or self._definition.single

    @property
    def states(self) -> tuple[PhysicalState, ...]:  # type: ignore[override]
        """State tables, stashes, and that of capabilities."""
        return states_of(self._definition)

    @property
    @override
    def holds_time(self) -> bool:
        return self.logical.holds_time

    @property
    @override
    def module(self) -> str | None:
        """The module of the user's function, which a constructor of the library may have as an attribute."""
        constructor = self._definition.constructor
        return next((function.__module__ for function in functions_in(constructor)), type(constructor).__module__)

    @override
    def program(self) -> WorkerProgram:
        from dagster_operators.operators.frontier.frontier_program import FrontierProgram
        from dagster_operators.operators.frontier.scope_program import ScopeProgram

        if self._definition.part is not None:
            return self._definition.part.program()
        if (body := self._definition.body) is not None:
            spread = [number for number in range(len(self.times)) if self._definition.is_spread(number)]
            return ScopeProgram(body, self.times, spread)
        return FrontierProgram(self._definition, self.times, self.output_times)

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> dict[str, pa.Schema]:
        """The declared columns and the time, or those of the first input; and the rows that come too late."""
        own = self._definition
        if own.part is not None:
            return dict(own.part.schemas(inputs))
        found = {port: self._output(schema, inputs[0]) for port, schema in zip(own.ports, own.schemas, strict=True)}
        return {**found, LATE: inputs[0]}

    def _output(self, schema: Columns, first: pa.Schema) -> pa.Schema:
        """The columns of an output."""
        import pyarrow as pa

        given, own = self.times[0], self.output_times
        if schema is None and own == given:
            return first
        found = pa.schema([field for field in first if field.name not in given.names])
        found = found if schema is None else Schema.of(schema).to_arrow()
        for time in own.fields(first, given):
            if time.name not in found.names:
                found = found.append(time)
            elif schema is None or not found.field(time.name).type.equals(time.type):
                raise SchemaError(
                    f"the time {time.name!r} is a {time.type}, and the output has a {found.field(time.name).type} of that name",
                    operator=self.logical.name, column=time.name,
                    remedy="leave it out of the schema: it is put there; a column of another meaning needs another name",
                )  # fmt: skip
        return found

    @override
    def tables(self, ports: PortSchemas) -> dict[str, StateTable]:
        own = self._definition
        found: dict[str, StateTable] = {CAPABILITIES: KEPT_TABLE} if own.holds_time else {}
        if own.body is None:
            found |= _tables(own, ports.inputs, self.logical.name)
        else:
            rounds = own.body if isinstance(own.body, ScopeRounds) else None
            inputs = ports.inputs if rounds is None else list(map(without_route, ports.inputs[: rounds.entries]))
            entries = [without(schema, time.names) for schema, time in zip(inputs, self.times, strict=True)]
            for (prefix, definition), schemas in zip(own.body.prefixed(), own.body.input_schemas(entries), strict=True):
                tables = _tables(definition, schemas, self.logical.name)
                for name, table in tables.items():
                    found[prefix + name] = table if rounds is None else placed(table, rounds.placed_by(prefix))
        for table in found.values():
            table.check_types()
        return found


def placed(table: StateTable, by: tuple[str, ...]) -> StateTable:
    """A state table whose rows are distributed by other columns than what the operator reads."""
    made = copy(table)
    made.placed_by = by
    return made


def without(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """A schema without some columns."""
    for column in columns:
        schema = schema.remove(schema.get_field_index(column))
    return schema


def _tables(own: Definition, inputs: Sequence[pa.Schema], operator: str) -> dict[str, StateTable]:
    """The state tables of what an operator declared, for inputs of these schemas."""
    found: dict[str, StateTable] = {}
    for name, kept in own.state.items():
        if isinstance(kept, StashState) and _is_spread(own, kept):
            found[f"{name}{SPREAD}"] = SPREAD_TABLE
        elif isinstance(kept, StashState):
            found[name] = stash_table(_stashed(own, name, kept, inputs, operator), own.pacts[0].by)
        elif isinstance(kept, ValueState):
            found[name] = _values(own, kept, inputs, operator)
        elif isinstance(kept, StateTable):
            found[name] = kept
    return found | _kept_by_key(own, inputs, operator)


def _kept_by_key(own: Definition, inputs: Sequence[pa.Schema], operator: str) -> dict[str, StateTable]:
    """The tables in which earlier versions kept stashes of broadcast rows. They say, too, which columns these have."""
    stashes = {name: kept for name, kept in own.state.items() if isinstance(kept, StashState) and _is_spread(own, kept)}
    schemas = {name: _stashed(own, name, kept, inputs, operator) for name, kept in stashes.items()}
    return {
        name: stash_table(schema, [key for key in own.pacts[0].by if key in schema.names]) for name, schema in schemas.items()
    }


def _is_spread(own: Definition, kept: Any) -> bool:
    """Whether it is a stash of rows that every subtask has."""
    return isinstance(kept, StashState) and 0 <= kept.input < len(own.pacts) and own.is_spread(kept.input)


def _values(own: Definition, kept: ValueState, inputs: Sequence[pa.Schema], operator: str) -> StateTable:
    """The table of a value for each key."""
    keys = own.pacts[0].by
    if not keys:
        raise SchemaError(
            "rows that are not exchanged have no keys to keep values for", operator=operator,
            remedy='exchange them: Exchange("column"); or declare a KeyedState of your own',
        )  # fmt: skip
    columns = [f"{quoted(key)} {kind}" for key, kind in zip(keys, key_types(keys, inputs[0], {}), strict=True)]
    return KeyedState(", ".join([*columns, f"{VALUE} {kept.type}"]), keys)


def _stashed(own: Definition, name: str, kept: StashState, inputs: Sequence[pa.Schema], operator: str) -> pa.Schema:
    """The columns of a stash."""
    if kept.schema is None and not 0 <= kept.input < len(inputs):
        raise SchemaError(
            f"the stash {name!r} is for the input {kept.input}",
            operator=operator,
            remedy=f"the inputs are 0 to {len(inputs) - 1}",
        )
    schema = inputs[kept.input] if kept.schema is None else Schema.from_ddl(kept.schema).to_arrow()
    missing = [] if _is_spread(own, kept) else sorted(set(own.pacts[0].by) - set(schema.names))
    if missing:
        raise SchemaError(
            f"the stash {name!r} has no column {missing[0]!r}, by which the rows are exchanged", operator=operator,
            column=missing[0], remedy="give the key columns of all inputs the same names, or add them to the stash's schema",
        )  # fmt: skip
    return schema


def states_of(own: Definition) -> tuple[PhysicalState, ...]:
    """The states of a frontier operator: state tables, stashes, and that of capabilities."""
    nodes = own.body.prefixed() if own.body else [("", own)]
    stored = [
        prefix + table
        for prefix, definition in nodes
        for name, kept in definition.state.items()
        if isinstance(kept, StateTable | StashState | ValueState)
        for table in (name, *([f"{name}{SPREAD}"] if _is_spread(definition, kept) else []))
    ]
    return tuple(map(PhysicalState, [*stored, *([CAPABILITIES] if own.holds_time else [])]))
