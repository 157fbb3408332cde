"""Which columns of a stream anything behind it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.changes import CHANGE
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.relational.changelog import AsChanges
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns, named
from dagster_operators.plans.logical_plan import PlanNode
from dagster_operators.plans.shape import PlanShape


class _AllRead(Exception):  # noqa: N818 - nothing is wrong
    """All columns of a stream may be read."""


class ReadColumns:
    """What is read of the streams of a plan.

    Args:
        shape: The plan.
    """

    def __init__(self, shape: PlanShape) -> None:
        self._shape = shape
        self._kept = {*shape.streams_of_ends.values(), *(fed for loop in shape.plan.loops for _, fed in loop.feedback)}

    def of(self, stream: StreamRef) -> frozenset[str] | None:
        """The columns of a stream that are read, in small letters; None if it may be all."""
        try:
            return frozenset(self._of(stream))
        except (_AllRead, OperatorsError):
            return None

    def _of(self, stream: StreamRef) -> Iterator[str]:
        if stream in self._kept:
            raise _AllRead
        for port, _, reader in self._shape.consumers.get(stream.operator, ()):
            if port == stream.port:
                yield from self._by(self._shape.nodes[reader])

    def _by(self, node: PlanNode) -> Iterator[str]:
        """What an operator reads of its input, for itself and for those behind it."""
        operator, behind = node.operator, StreamRef(node.name)
        if isinstance(operator, KeyedAggregate):
            (read,) = operator.reads([], frozenset())
            if read is None:
                raise _AllRead
            yield from map(str.lower, read)
        elif isinstance(operator, Filter | AsChanges):
            yield from _columns(operator.sql()[0])
            if isinstance(operator, AsChanges):
                yield CHANGE  # of a table of changes, of which it reads the feed
            yield from self._of(behind)
        elif isinstance(operator, Select) and all(named(text)[1] for text in operator.expressions):
            yield from _made_of({(name or "").lower(): text for text, name in map(named, operator.expressions)}, self._of(behind))
        elif isinstance(operator, WithColumns):
            yield from _made_of({name.lower(): text for name, text in operator.expressions}, self._of(behind))
        elif isinstance(operator, Rename):
            former = {new.lower(): old.lower() for old, new in operator.names}
            yield from (former.get(name, name) for name in self._of(behind))
        elif isinstance(operator, Drop):
            yield from self._of(behind)
        else:
            raise _AllRead


def _made_of(expressions: Mapping[str, str], wanted: Iterator[str]) -> Iterator[str]:
    """The columns that some columns are made of, of which those without an expression are handed on."""
    for name in wanted:
        yield from _columns(expressions[name]) if name in expressions else [name]


def _columns(expression: str) -> Iterator[str]:
    return (name.lower() for name in columns_of(expression))
