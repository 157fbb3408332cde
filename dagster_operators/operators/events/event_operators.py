"""A dataflow of event operators as a node of a pipeline: it reads sources, and each output of each operator is a port."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.events.routes import is_of_logs
from dagster_operators.operators.events.stopped import EVENT_OPERATORS
from dagster_operators.operators.events.swapped import names_of_waiting, swapped
from dagster_operators.operators.events.wiring import (
    COLUMNS,
    KEY,
    TIME,
    TIMER,
    UNKEPT,
    EventOperator,
    EventSource,
    as_json,
    origins_of,
)

if TYPE_CHECKING:
    from dagster_operators.operators.events.event_batch import EventBatch

BY_TIME: Final = "time"
BY_ARRIVAL: Final = "arrival"
"""The orders of messages from epoch to epoch."""

SUMMARY = ("epoch", "operator", "events", "messages", "dropped", "stopped")
"""The columns of the main output: what each operator did in an epoch."""

_FINAL: Final = (
    "a message cannot be taken back: put final() before it, which gives the rows that stay once their time is over: "
    "changes.final().events('flow.yml', name='told')"
)


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
        order: ``time`` if messages wait until the watermark says that no earlier one comes; else they come in the order of
            time within an epoch, and of arrival from epoch to epoch, as dataflows of earlier versions did.
        closes: ``time`` if an input is closed behind the last row of its source, among the messages of others; else it is
            closed as the epoch ends that read the row, as dataflows of earlier versions did.
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
    order: str = ""
    closes: str = ""

    @property
    def is_ordered(self) -> bool:
        """Whether messages come in the order of time, whatever the epochs."""
        return self.order == BY_TIME

    @property
    def closes_in_order(self) -> bool:
        """Whether inputs are closed in the order of time, whatever the epochs."""
        return self.is_ordered and self.closes == BY_TIME

    @cached_property
    def says_order(self) -> bool:
        """Whether the dataflow's file says the order of messages."""
        return "order" in json.loads(self.descriptor)

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
        """The addresses of all timers, and of log entries: nothing else ends these."""
        read = [one.source for operator in self.operators for one in operator.inputs]
        return tuple(sorted({source for source in read if source.startswith(TIMER) or is_of_logs(source)}))

    @property
    def saved_columns(self) -> tuple[str, str, str]:
        """The columns of its state, beside the key: whose it is, how it is saved, and the bytes."""
        return ("_path", "_state", "_saved") if self.partition_by else ("path", "state", "saved")

    @override
    def config(self) -> dict[str, Any]:
        files = {path: sha256(text.encode()).hexdigest()[:16] for path, text in self.files}
        more = {name: value for name in ("partition_by", "order", "closes") if (value := getattr(self, name))}
        return {"sources": as_json(self.sources), "operators": as_json(self.operators), "files": files, **more}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        exchange = by_keys((self.partition_by,) if self.partition_by else ())
        return tuple(InputPort(source.node, exchange=exchange, remedy=_FINAL) for source in self.sources)

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
        late = {source.late: replace(kind, complete_windows=False) for source, kind in zip(self.sources, inputs, strict=True)}
        return {**dict.fromkeys(self.addresses, StreamType(self._with_key(COLUMNS), TIME)), **late}

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())
        return {**dict.fromkeys(SUMMARY, everything), **self._origins_of_key()}

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        late = [number for number, source in enumerate(self.sources) if source.late == port]
        if late:
            return {column: frozenset({(late[0], column)}) for column in inputs[late[0]].columns or ()}
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
        if not isinstance(before, EventOperators):
            return ""
        if before.is_ordered != self.is_ordered:
            orders = ["the order of their time", "the order of arrival"]
            were, are = orders if before.is_ordered else reversed(orders)
            return f"its messages came in {were}, and are to come in {are}, which may lead to other values from here on"
        if before.closes_in_order != self.closes_in_order:
            places = ["behind the last row of a source", "at the end of the epoch that read it"]
            were, are = places if before.closes_in_order else reversed(places)
            return f"an input was closed {were}, and is to be closed {are}, which may lead to other values from here on"
        found = swapped(before, self)
        if found:
            return f"{found[0]!r} runs what {found[1]!r} ran, and state is kept by the ids of nodes and operators"
        new = [] if self._gone(before) else [one.path for one in self._new_with_state(before) if not one.restart]
        return f"{', '.join(map(repr, new))} is new and keeps state: it would begin without what came before" if new else ""

    @override
    def mixed_inputs(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> str:
        if not isinstance(before, EventOperators) or not before.is_ordered:
            return ""  # no row waits
        kept = names_of_waiting(before.sources, were, self.sources, are)
        gone = next((one for one in before.sources if one.kept_as not in kept), None)
        if gone is None:
            return ""
        text = f"the source node {gone.node!r} and its stream are not in the file any more"
        return f"{text}: rows of it that wait come when a source node has the id {gone.kept_as!r}"

    @override
    def going_on(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> EventOperators:
        if not isinstance(before, EventOperators):
            return self
        kept = names_of_waiting(before.sources, were, self.sources, are)
        sources = tuple(
            replace(one, waits_as="" if name == one.node else name) for one, name in zip(self.sources, kept, strict=True)
        )
        said = self if self.says_order else before
        return replace(self, sources=sources, order=said.order, closes=said.closes)

    @override
    def renamed_within(self, before: LogicalOperator) -> str:
        gone, new = self._gone(before), [one.path for one in self._new_with_state(before)]
        if not gone or not new:
            return ""
        were, are = ", ".join(map(repr, gone)), ", ".join(map(repr, new))
        return f"{were} is not in the file any more, whose state would be dropped, and {are} is new and begins without state"

    def _new_with_state(self, before: LogicalOperator) -> list[EventOperator]:
        known = {one.path for one in before.operators} if isinstance(before, EventOperators) else set()
        return [one for one in self.operators if one.path not in known and one.state not in UNKEPT]

    def _gone(self, before: LogicalOperator) -> list[str]:
        """The operators of the file as it was that kept state and are not in it any more."""
        kept = {one.path for one in self.operators}
        earlier = before.operators if isinstance(before, EventOperators) else ()
        return [one.path for one in earlier if one.path not in kept and one.state not in UNKEPT]

    @override
    def forgets(self, before: LogicalOperator) -> str:
        gone = self._gone(before)
        return f"the state of {', '.join(map(repr, gone))} is dropped, as it is not in the file any more" if gone else ""

    @override
    def lower(self, inputs: Sequence[StreamType]) -> EventBatch:
        from dagster_operators.operators.events.event_batch import EventBatch

        return EventBatch(self, str(inputs[0].event_time))
