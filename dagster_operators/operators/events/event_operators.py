"""A dataflow of event operators as a node of a pipeline: it reads sources, and each output of each operator is a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.events.stopped import EVENT_OPERATORS
from dagster_operators.operators.events.swapped import swapped
from dagster_operators.operators.events.wiring import COLUMNS, KEY, TIME, TIMER, EventOperator, EventSource, as_json, origins_of

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_batch import EventBatch

SUMMARY = ("epoch", "operator", "events", "messages", "dropped", "stopped")
"""The columns of the main output: what each operator did in an epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EventOperators(LogicalOperator):
    """Operators that react to events, as those of dora do, wired as its dataflow files say.

    Attributes:
        sources: The nodes that are sources of this package, in the order of the inputs.
        operators: The operators.
        files: Pairs of a Python file and its text: those of the operators, and what they import from beside them.
        descriptor: The dataflow's file as JSON, which operators find as ``dataflow_descriptor``.
        partition_by: A column of all sources: for each of its values there are operators of their own, with their own state.
            Empty if there is one of each operator.
    """

    kind: ClassVar[str] = EVENT_OPERATORS
    repeatable: ClassVar[bool] = False
    declares_state: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("files", "descriptor")
    derived: ClassVar[tuple[str, ...]] = ("sources", "operators")
    sources: tuple[EventSource, ...]
    operators: tuple[EventOperator, ...]
    files: tuple[tuple[str, str], ...] = ()
    descriptor: str = "{}"
    partition_by: str = ""

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all outputs of operators."""
        return tuple(operator.address(output) for operator in self.operators for output in operator.outputs)

    @cached_property
    def types(self) -> dict[str, str]:
        """The declared type of the values in an output's messages, by address."""
        return {operator.address(output): kind for operator in self.operators for output, kind in operator.types}

    @cached_property
    def timers(self) -> tuple[str, ...]:
        """The addresses of all timers."""
        read = [one.source for operator in self.operators for one in operator.inputs]
        return tuple(sorted({source for source in read if source.startswith(TIMER)}))

    @property
    def saved_columns(self) -> tuple[str, str, str]:
        """The columns of its state, beside the key: whose it is, how it is saved, and the bytes."""
        return ("_path", "_state", "_saved") if self.partition_by else ("path", "state", "saved")

    @override
    def config(self) -> dict[str, Any]:
        files = {path: sha256(text.encode()).hexdigest()[:16] for path, text in self.files}
        by = {"partition_by": self.partition_by} if self.partition_by else {}
        return {"sources": as_json(self.sources), "operators": as_json(self.operators), "files": files, **by}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        exchange = by_keys((self.partition_by,) if self.partition_by else ())
        return tuple(InputPort(source.node, exchange=exchange) for source in self.sources)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        for source, stream in zip(self.sources, inputs, strict=True):
            if stream.event_time is None:
                raise SchemaError(
                    f"the rows of the source {source.node!r} have no time", operator=self.name, source=source.node,
                    remedy="give it event_time, by which messages are put in order",
                )  # fmt: skip
            if self.partition_by and stream.columns is not None and self.partition_by not in stream.columns:
                raise SchemaError(
                    f"the source {source.node!r} has no column {self.partition_by!r}, by which operators are partitioned",
                    operator=self.name, column=self.partition_by, remedy=f"use one of: {', '.join(stream.columns)}",
                )  # fmt: skip
        return StreamType(self._with_key(SUMMARY))

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return dict.fromkeys(self.addresses, StreamType(self._with_key(COLUMNS), TIME))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())
        return {**dict.fromkeys(SUMMARY, everything), **self._origins_of_key()}

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        before, found = origins_of(self.operators, port), set[tuple[int, str]]()
        for index, (source, stream) in enumerate(zip(self.sources, inputs, strict=True)):
            for address, column in source.addresses():
                if address in before:
                    found |= {(index, name) for name in stream.columns or () if column in ("*", name)}
        times = frozenset((index, str(inputs[index].event_time)) for index in {index for index, _ in found})
        return {**dict.fromkeys(COLUMNS, frozenset(found)), TIME: times, **self._origins_of_key()}

    def _with_key(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return (*columns, KEY) if self.partition_by else columns

    def _origins_of_key(self) -> Lineage:
        by = frozenset((index, self.partition_by) for index in range(len(self.sources)))
        return {KEY: by} if self.partition_by else {}

    @override
    def mixed_up(self, before: LogicalOperator) -> str:
        found = swapped(before, self) if isinstance(before, EventOperators) else None
        return f"{found[0]!r} runs what {found[1]!r} ran, and state is kept by the ids of nodes and operators" if found else ""

    @override
    def renamed_within(self, before: LogicalOperator) -> str:
        gone = self._gone(before)
        known = {one.path for one in before.operators} if isinstance(before, EventOperators) else set()
        new = [one.path for one in self.operators if one.path not in known and one.state != "none"]
        if not gone or not new:
            return ""
        were, are = ", ".join(map(repr, gone)), ", ".join(map(repr, new))
        return f"{were} is not in the file any more, whose state would be dropped, and {are} is new and begins without state"

    def _gone(self, before: LogicalOperator) -> list[str]:
        """The operators of the file as it was that kept state and are not in it any more."""
        kept = {one.path for one in self.operators}
        earlier = before.operators if isinstance(before, EventOperators) else ()
        return [one.path for one in earlier if one.path not in kept and one.state != "none"]

    @override
    def forgets(self, before: LogicalOperator) -> str:
        gone = self._gone(before)
        return f"the state of {', '.join(map(repr, gone))} is dropped, as it is not in the file any more" if gone else ""

    @override
    def lower(self, inputs: Sequence[StreamType]) -> EventBatch:
        from dagster_operators.operators.events.event_batch import EventBatch

        return EventBatch(self, str(inputs[0].event_time))
