"""Apply: an operator of the user's own as a node of the dataflow."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.functions.content import digest_of
from dagster_operators.graph.exchange import Forward, Gather, HashBy
from dagster_operators.graph.operator import Lineage, StreamType
from dagster_operators.graph.ports import MAIN, InputPort
from dagster_operators.graph.values import Fields
from dagster_operators.operators.arrow.arrow_operator import LATE, REJECTS, ArrowOperator, overrides
from dagster_operators.operators.by_reference import ByReference
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.arrow.arrow_batch import ArrowBatch

TIMERS = "timers_"
"""The state table of an operator's timers; users' own cannot have the name, because theirs may not end with an underscore."""

TIME = "time_"
"""Its column with the time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Apply(ByReference):
    """An :class:`~dagster_operators.operators.arrow.arrow_operator.ArrowOperator` in a dataflow.

    Attributes:
        arrow: The operator; copies of it do the work. A plan that was read gives a reference, resolved when it is asked for.
        keys: For each input its key columns; empty tuples when the inputs are not keyed.
    """

    kind: ClassVar[str] = "apply"
    referred: ClassVar[str] = "arrow"
    repeatable: ClassVar[bool] = False
    declares_state: ClassVar[bool] = True
    arrow: ArrowOperator
    keys: tuple[tuple[str, ...], ...]

    @override
    def encode(self) -> Fields:
        return {"name": self.name, "chain": self.chain, "arrow": self.reference, "keys": self.keys}

    @override
    def check_given(self) -> None:
        for table in self.arrow.state:
            if table.endswith("_") or not table.isidentifier():
                raise PipelineError(
                    f"{table!r} is no name for a state table", operator=self.name, remedy="use letters, digits, _ between"
                )

    @override
    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:
        """Whether it has state or timers; of a plan that was read, whose code may be missing, it is taken to have some."""
        return not self.is_given or bool(self.arrow.state) or overrides(self.arrow, "handle_timer")

    @property
    def single(self) -> bool:
        """Whether all rows go to one subtask.

        Without keys, an operator with state, time, an order or several inputs can have only one.
        """
        hooks = ("handle_watermark", "handle_timer", "handle_tick", "handle_checkpoint", "on_close")
        acts = any(overrides(self.arrow, hook) for hook in hooks) or self.arrow.is_committing
        return not self.keys[0] and (acts or bool(self.arrow.state or self.ordered_by) or len(self.keys) > 1)

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The columns that its rows come in the order of."""
        wanted = self.arrow.ordered_by
        return (wanted,) if isinstance(wanted, str) else tuple(wanted)

    @property
    def holds_time(self) -> bool:
        """Whether it says itself what its output watermark is."""
        return overrides(self.arrow, "handle_watermark")

    @property
    @override
    def unfit_for_loops(self) -> str:
        plain = {
            name for name, table in self.arrow.state.items() if table.kind in ("keyed", "global") and table.retention is None
        }
        timed = next((name for name in self.arrow.state if name not in plain), None)
        if overrides(self.arrow, "handle_timer"):
            return "it has timers, and time stands still until the loop has come to rest"
        if self.arrow.is_committing:
            return "it commits, and a loop has several rounds in an epoch"
        if timed is not None:
            return f"its state {timed!r} goes by time or order; in a loop only KeyedState and GlobalState without retention do"
        return super().unfit_for_loops

    @cached_property
    def code(self) -> str:
        """A digest of the operator's class: its source and what that takes from outside."""
        return digest_of(type(self.arrow))

    @override
    def config(self) -> dict[str, Any]:
        kind = type(self.arrow)
        shown = {key: _plain(value) for key, value in self._display().items()}
        states = {name: table.config() for name, table in self.arrow.state.items()}
        found: dict[str, Any] = {"operator": f"{kind.__module__}.{kind.__qualname__}", "config": shown, "code": self.code}
        if any(self.keys):
            found["keys"] = list(self.keys[0])
        if states:
            found["state"] = states
        if self.ordered_by:
            found["ordered_by"] = list(self.ordered_by)
        return found

    def _display(self) -> Mapping[str, Any]:
        shown: Any = self.arrow.display()
        if isinstance(shown, str):
            return {"display": shown}
        if isinstance(shown, Mapping):
            return shown
        raise PipelineError(
            f"display() of an operator returned {type(shown).__name__}", operator=self.name, remedy="return a mapping, or text"
        )

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        remedy, several = "apply it before the aggregate, or to the aggregate of a window", len(self.keys) > 1
        unkeyed = Gather() if self.single else Forward()
        return tuple(
            InputPort(f"input_{number}" if several else "input", exchange=HashBy(keys) if keys else unkeyed, remedy=remedy)
            for number, keys in enumerate(self.keys)
        )

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        for stream, keys in zip(inputs, self.keys, strict=True):
            self.require(stream, keys, "key_by")
            self.require(stream, self.ordered_by, "ordered_by")
        if len({len(keys) for keys in self.keys}) > 1:
            raise SchemaError("the inputs have different numbers of keys", operator=self.name, remedy="key all by the same")
        return self._types(inputs)[MAIN]

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {port: kind for port, kind in self._types(inputs).items() if port != MAIN}

    def _types(self, inputs: Sequence[StreamType]) -> dict[str, StreamType]:
        """What is known of the outputs while types are not: the names of columns, if the operator can name them already."""
        import pyarrow as pa

        columns: dict[str, tuple[str, ...] | None] = {MAIN: None}
        try:
            guesses = [pa.schema([(name, pa.null()) for name in stream.columns or ()]) for stream in inputs]
            declared = self.arrow.output_schema(*guesses)
        except Exception:  # noqa: BLE001 - it needs the types: then its columns are known once the pipeline is planned
            declared = None
        if isinstance(declared, str | pa.Schema | Mapping):
            columns = {port: _names(schema) for port, schema in by_port(declared, self.name).items()}
        time = self.arrow.event_time or inputs[0].event_time
        types = {port: _with_time(names, time) for port, names in columns.items()}
        return {**types, LATE: replace(inputs[0], complete_windows=False), REJECTS: StreamType(("record", "reason"))}

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())
        same = {
            column: frozenset((index, column) for index, stream in enumerate(inputs) if column in (stream.columns or ()))
            for column in self._types(inputs)[MAIN].columns or ()
        }
        return {column: origins or everything for column, origins in same.items()}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ArrowBatch:
        """Itself, behind a shuffle by key group."""
        from dagster_operators.operators.arrow.arrow_batch import ArrowBatch

        return ArrowBatch(self)


def by_port(declared: Any, operator: str) -> Mapping[str, Any]:
    """What ``output_schema`` returned, as a schema for each port."""
    if not isinstance(declared, Mapping):
        return {MAIN: declared}
    reserved = {LATE, REJECTS} & declared.keys()
    if not declared or reserved:
        told = f"has a port {min(reserved)!r}, which every operator has" if reserved else "names no output"
        raise SchemaError(f"output_schema {told}", operator=operator, remedy="name the first output 'main', others as you like")
    first = next(iter(declared))
    return {MAIN: declared[first], **{port: schema for port, schema in declared.items() if port != first}}


def fresh(operator: ArrowOperator) -> ArrowOperator:
    """A copy for a subtask of its own."""
    return copy.deepcopy(operator)


def _with_time(columns: tuple[str, ...] | None, time: str | None) -> StreamType:
    return StreamType(columns, time if columns is None or time in columns else None)


def _names(schema: Any) -> tuple[str, ...]:
    return Schema.from_ddl(schema).names if isinstance(schema, str) else tuple(schema.names)


def _plain(value: Any) -> Any:
    """A setting as explain and the fingerprint have it: by value where it is plain, else by its digest."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return f"{type(value).__name__} {digest_of(value)}"
