"""Row-wise operators: filter, select, with_columns, rename, drop and transform, each with its lowering.

On an updating stream a row that no longer passes a filter must leave the table, so there a filter marks rows as deleted
(the column :data:`DELETED`) instead of leaving them out; the table's writer does the rest.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.expressions import columns_of, parse_alias
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.operators.physical import RelationalOperator, Stateless, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED = "__deleted"
"""On an updating stream: whether the row of this key is to leave the table."""


_PATH = re.compile(r"(?:(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)\s*\.\s*)*(?:`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*))")


def named(text: str) -> tuple[str, str | None]:
    """An expression and the name of its column: its alias, or the last part of a plain column's name.

    >>> named("a + 1 AS b"), named("flight.`tail num`"), named("a + 1")
    (('a + 1', 'b'), ('flight.`tail num`', 'tail num'), ('a + 1', None))
    """
    expression, name = parse_alias(text)
    if name is None and (plain := _PATH.fullmatch(expression.strip())):
        name = plain[1].replace("``", "`") if plain[1] else plain[2]
    return expression, name


def from_columns(stream: StreamType, expression: str) -> frozenset[tuple[int, str]]:
    """The lineage of an expression over the first input."""
    used = columns_of(expression)
    if stream.columns is None:
        return frozenset((0, column) for column in used)
    return frozenset((0, found) for column in used if (found := stream.resolve(column)))


@dataclass(frozen=True, kw_only=True)
class Filter(LogicalOperator):
    """Keeps the rows for which a condition is true."""

    kind: ClassVar[str] = "filter"
    condition: str

    @override
    def config(self) -> dict[str, Any]:
        return {"condition": self.condition}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.require(inputs[0], columns_of(self.condition), "the condition")
        return inputs[0]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """Spark's filter; on an updating stream a mark."""
        if inputs[0].updating:
            return Stateless(self._mark)
        return Stateless(lambda frame: frame.filter(self.condition))

    def _mark(self, frame: DataFrame) -> DataFrame:
        before = f"{DELETED} OR " if DELETED in frame.columns else ""
        return frame.selectExpr(
            *(quoted(name) for name in frame.columns if name != DELETED),
            f"{before}NOT coalesce(({self.condition}), false) AS {DELETED}",
        )


@dataclass(frozen=True, kw_only=True)
class Select(LogicalOperator):
    """Computes the columns of the output, each as ``expression`` or ``expression AS name``."""

    kind: ClassVar[str] = "select"
    expressions: tuple[str, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"expressions": list(self.expressions)}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        names, time, keys = [], None, []
        for text in self.expressions:
            expression, name = named(text)
            self.require(stream, columns_of(expression), f"{text!r}")
            if name is None:
                raise SchemaError(f"the expression {text!r} has no name", operator=self.name, remedy=f"write {text!r} AS name")
            names.append(name)
            same = bare_column(stream, expression)
            if same is not None and same == stream.event_time:
                time = name
            if same is not None and stream.keys and same in stream.keys:
                keys.append((stream.keys.index(same), name))
        if stream.keys is not None:
            lost = [key for position, key in enumerate(stream.keys) if position not in dict(keys)]
            if lost:
                raise SchemaError(
                    f"the key column {lost[0]!r} of an updating stream must be kept", operator=self.name, column=lost[0],
                    remedy="add it to the selection",
                )  # fmt: skip
        new_keys = tuple(dict(keys)[position] for position in range(len(stream.keys))) if stream.keys is not None else None
        return StreamType(tuple(names), time, new_keys)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        parsed = [named(text) for text in self.expressions]
        return {name: from_columns(inputs[0], expression) for expression, name in parsed if name is not None}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """Spark's select; the mark of deleted rows is handed on."""
        return Stateless(self._select)

    def _select(self, frame: DataFrame) -> DataFrame:
        expressions = []
        for text in self.expressions:
            expression, name = named(text)
            expressions.append(f"{expression} AS {quoted(name or expression)}")
        return frame.selectExpr(*expressions, *([DELETED] if DELETED in frame.columns else []))


def bare_column(stream: StreamType, expression: str) -> str | None:
    """The input column that an expression hands on unchanged, or None if it computes something."""
    name = expression.strip().strip("`")
    if columns_of(expression) == frozenset({name}) and "(" not in name and " " not in expression.strip():
        return stream.resolve(name)
    return None


@dataclass(frozen=True, kw_only=True)
class WithColumns(LogicalOperator):
    """Adds columns, or replaces those of the same name; all expressions see the input's columns."""

    kind: ClassVar[str] = "with_columns"
    expressions: tuple[tuple[str, str], ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"expressions": dict(self.expressions)}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        columns = list(stream.columns) if stream.columns is not None else None
        for name, expression in self.expressions:
            self.require(stream, columns_of(expression), f"column {name!r}")
            if stream.keys and stream.resolve(name) in stream.keys:
                raise SchemaError(
                    f"{name!r} is a key of an updating stream and cannot be replaced", operator=self.name, column=name,
                    remedy="give the new column another name",
                )  # fmt: skip
            if columns is not None and stream.resolve(name) is None:
                columns.append(name)
        return stream.with_columns(columns)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        stream = inputs[0]
        new = {stream.resolve(name) or name: from_columns(stream, expression) for name, expression in self.expressions}
        return {**same_columns(stream), **new}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """One select, so that no expression sees another's result."""
        return Stateless(self._replace)

    def _replace(self, frame: DataFrame) -> DataFrame:
        new = {name.lower(): (name, expression) for name, expression in self.expressions}
        chosen = []
        for column in frame.columns:
            _, expression = new.pop(column.lower(), (column, quoted(column)))
            chosen.append(f"{expression} AS {quoted(column)}")
        return frame.selectExpr(*chosen, *(f"{expression} AS {quoted(name)}" for name, expression in new.values()))


@dataclass(frozen=True, kw_only=True)
class Rename(LogicalOperator):
    """Gives columns other names."""

    kind: ClassVar[str] = "rename"
    names: tuple[tuple[str, str], ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"names": dict(self.names)}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, [old for old, _ in self.names], "rename")
        change = self._change(stream)
        columns = None if stream.columns is None else tuple(map(change, stream.columns))
        keys = None if stream.keys is None else tuple(map(change, stream.keys))
        return StreamType(columns, change(stream.event_time) if stream.event_time else None, keys)

    def _change(self, stream: StreamType) -> Callable[[str], str]:
        new = {stream.resolve(old): name for old, name in self.names}
        return lambda column: new.get(column, column)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0], self._change(inputs[0]))

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """Spark's withColumnsRenamed."""
        return Stateless(lambda frame: frame.withColumnsRenamed(dict(self.names)))


@dataclass(frozen=True, kw_only=True)
class Drop(LogicalOperator):
    """Leaves columns out."""

    kind: ClassVar[str] = "drop"
    columns: tuple[str, ...]

    @override
    def config(self) -> dict[str, Any]:
        return {"columns": list(self.columns)}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, self.columns, "drop")
        gone = {stream.resolve(column) for column in self.columns}
        for key in stream.keys or ():
            if key in gone:
                raise SchemaError(f"the key column {key!r} of an updating stream must be kept", operator=self.name, column=key)
        return stream.with_columns(None if stream.columns is None else [c for c in stream.columns if c not in gone])

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        kept = self.output(inputs).columns or ()
        return {column: frozenset({(0, column)}) for column in kept}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """Spark's drop."""
        return Stateless(lambda frame: frame.drop(*self.columns))


@dataclass(frozen=True, kw_only=True)
class Transform(LogicalOperator):
    """Any function from DataFrame to DataFrame that treats every row on its own; called only while an epoch runs.

    A function that looks at several rows at once (a sort, a window, a group) sees one epoch's rows, so its result would
    depend on how the input is cut.
    """

    kind: ClassVar[str] = "transform"
    function: Callable[[DataFrame], DataFrame]
    columns: tuple[str, ...] | None = None

    @override
    def config(self) -> dict[str, Any]:
        name = f"{self.function.__module__}.{getattr(self.function, '__qualname__', repr(type(self.function)))}"
        try:
            source = inspect.getsource(self.function)
        except (OSError, TypeError):
            source = name
        return {"function": name, "source": hashlib.sha256(source.encode()).hexdigest()[:16]}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if inputs[0].updating:
            raise PipelineError(
                "transform needs an append stream, and this one is updating", operator=self.name,
                remedy="use filter, select or with_columns after an aggregate without a window",
            )  # fmt: skip
        return StreamType(self.columns, inputs[0].event_time)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        everything = frozenset((0, column) for column in inputs[0].columns or ())
        return dict.fromkeys(self.columns or (), everything)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """The function itself."""
        return Stateless(self.function)


def as_pairs(mapping: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A mapping as hashable data, in its own order."""
    return tuple(mapping.items())
