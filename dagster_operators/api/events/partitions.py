"""Operators with ``partition_by``: which they are, and that each of them can have an instance for every key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.written import WrittenOperator
from dagster_operators.api.queries.located import Located
from dagster_operators.catalog.catalog import near
from dagster_operators.operators.events.event_batch import KEY_REMEDY, can_be_key
from dagster_operators.operators.events.routes import is_of_logs
from dagster_operators.operators.events.wiring import TIMER, EventInput, EventOperator, EventSource

if TYPE_CHECKING:
    import pyarrow as pa

Partitions = Mapping[str, str]
"""The column that each operator is partitioned by, by the operator's path; empty text where it is not."""


def partitions(
    written: Sequence[WrittenOperator],
    operators: Sequence[EventOperator],
    sources: Sequence[EventSource],
    columns: Callable[[str], Sequence[str] | None],
    *,
    types: Mapping[str, pa.Schema],
    noted: Noted,
) -> Partitions:
    """By what the operators are partitioned; what is wrong with that is noted.

    Args:
        written: The operators as they are written.
        operators: The same with the addresses of what their inputs read.
        sources: The nodes that are sources.
        columns: The columns of a source, by its node; None if they are not known.
        types: Their types, by the node of a source that declares them.
        noted: Collects what is wrong.
    """
    found = {one.path: one.partition_by.text if one.partition_by else "" for one in written}
    if any(found.values()):
        check = _Check(found, operators, sources, columns, types=types, noted=noted)
        for one, operator in zip(written, operators, strict=True):
            check.one(one, operator)
    return found


class _Check:
    """Sees that partitioned operators read what is partitioned alike, and that nothing else reads them."""

    def __init__(
        self,
        found: Partitions,
        operators: Sequence[EventOperator],
        sources: Sequence[EventSource],
        columns: Callable[[str], Sequence[str] | None],
        *,
        types: Mapping[str, pa.Schema],
        noted: Noted,
    ) -> None:
        self._found = found
        self._senders = {one.address(output): one.path for one in operators for output in one.outputs}
        self._sources = {address: source for source in sources for address, _ in source.addresses()}
        self._columns = columns
        self._types = types
        self._kinds: dict[str, tuple[pa.DataType, str]] = {}
        self._noted = noted

    def one(self, written: WrittenOperator, operator: EventOperator) -> None:
        """Look at an operator."""
        by = written.partition_by
        read = {one.id: one.source for one in written.inputs}
        for one in operator.inputs:
            self._check_input(operator, one, read[one.id])
        if by is None:
            return
        read_sources = {source.node: source for one in operator.inputs if (source := self._sources.get(one.source))}
        for source in read_sources.values():
            self._check_source(operator, source, by)
        what = f"the operator '{operator.path}'"
        if operator.language != "python" and operator.state != "none":
            problem = f"{what} is partitioned by {by.text!r}, and has no state that could be kept for each key"
            self._noted.wrong(
                by, problem, "write state: none, if it keeps nothing from epoch to epoch; or make it class Operator"
            )
        typed = {output for output, _ in operator.types}
        for output in operator.outputs:
            if output not in typed:
                problem = f"{what} is partitioned, and its output {output!r} has no type, which no first message could give"
                self._noted.wrong(by, problem, f"declare it: output_types: {{{output}: float64}}")
        if all(one.source.data.startswith(TIMER) for one in written.inputs):
            self._noted.wrong(by, f"{what} is partitioned by {by.text!r}, and reads no source", "let it read one")

    def _check_input(self, operator: EventOperator, one: EventInput, at: Located) -> None:
        by = self._found[operator.path]
        if is_of_logs(one.source) and any(self._found.values()):
            problem = f"the operator '{operator.path}' reads {one.source!r}, and others are partitioned, or it is"
            self._noted.wrong(at, problem, "read an output that send_logs_as names")
            return
        sender = self._senders.get(one.source)
        other = by if sender is None else self._found[sender]
        if other != by:
            told, own = (f"is partitioned by {one!r}" if one else "is not partitioned" for one in (other, by))
            problem = f"the operator '{operator.path}' {own}, and reads {one.source!r}, which {told}"
            same = f"give it partition_by: {other}, too" if other else f"give '{sender}' partition_by: {by}, too"
            self._noted.wrong(at, problem, same)

    def _check_source(self, operator: EventOperator, source: EventSource, given: Located) -> None:
        columns, by = self._columns(source.node), given.text
        if by and by == source.time:
            problem = f"the operator '{operator.path}' is partitioned by {by!r}, which is the time of the source {source.node!r}"
            self._noted.wrong(given, problem, "use another column")
        elif by and columns is not None and by not in columns:
            problem = f"the operator '{operator.path}' is partitioned by {by!r}, which the source {source.node!r} does not have"
            self._noted.wrong(given, problem, near(by, columns) or f"there are: {', '.join(columns)}")
        elif by and source.node in self._types and by in self._types[source.node].names:
            self._check_type(operator, source, given)

    def _check_type(self, operator: EventOperator, source: EventSource, given: Located) -> None:
        """See that the column can be a key, and is of the same type in all sources."""
        by = given.text
        kind = self._types[source.node].field(by).type
        other, first = self._kinds.setdefault(by, (kind, source.node))
        what = f"the operator '{operator.path}' is partitioned by {by!r}, which"
        if not can_be_key(kind):
            self._noted.wrong(given, f"{what} is of the type {kind} in the source {source.node!r}", KEY_REMEDY)
        elif kind != other:
            problem = f"{what} is of the type {kind} in the source {source.node!r}, and {other} in {first!r}"
            self._noted.wrong(given, problem, "give it one type in the schemas of all sources")
