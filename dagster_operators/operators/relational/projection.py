"""Row-wise operators that make columns: select, with_columns, rename and drop, each with its lowering; for rows of every kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import DELETED, Changes
from dagster_operators.graph.expressions import columns_of, parse_alias, without_comments
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import ANY, InputPort
from dagster_operators.graph.row_expressions import columns_of_row, generator_of
from dagster_operators.operators.physical import Stateless
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PATH = re.compile(r"(?:(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*)\s*\.\s*)*(?:`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*))")
_COLUMN = re.compile(r"`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*)")


_AS_CHANGES: Final = "or make changes of the rows first, which need no key: to_changes() before it"


def named(text: str) -> tuple[str, str | None]:
    """An expression and the name of its column: its alias, or the last part of a plain column's name.

    >>> named("a + 1 AS b"), named("flight.`tail num`"), named("a + 1")
    (('a + 1', 'b'), ('flight.`tail num`', 'tail num'), ('a + 1', None))
    """
    expression, name = parse_alias(text)
    if name is None and (plain := _PATH.fullmatch(expression.strip())):
        name = plain[1].replace("``", "`") if plain[1] else plain[2]
    return expression, name


def nameless(text: str, operator: str) -> SchemaError:
    """What is said of an expression that makes a column without a name."""
    several = text.rstrip().endswith(".*")
    remedy = f"name the fields: {text.rstrip()[:-1]}field" if several else f"write {text + ' AS name'!r}"
    return SchemaError(f"the expression {text!r} has no name", operator=operator, remedy=remedy)


def from_columns(stream: StreamType, expression: str) -> frozenset[tuple[int, str]]:
    """The lineage of an expression over the first input."""
    used = columns_of(expression)
    if stream.columns is None:
        return frozenset((0, column) for column in used)
    return frozenset((0, found) for column in used if (found := stream.resolve(column)))


def check_one_row(stream: StreamType, expression: str) -> None:
    """Raise SchemaError if an expression would make several rows of the one that an updating stream has for a key."""
    generator = generator_of(expression) if stream.updating else None
    if generator is not None:
        raise SchemaError(
            f"{generator}() makes several rows of one, and the stream is {stream.changes}",
            expression=expression,
            remedy="unnest before the aggregate: unnest('xs AS x').key_by(...).aggregate(...); "
            "or keep the array, and explode it where the table is read",
        )


@dataclass(frozen=True, kw_only=True)
class Select(LogicalOperator):
    """Computes the columns of the output, each as ``expression`` or ``expression AS name``."""

    kind: ClassVar[str] = "select"
    row_wise: ClassVar[bool] = True
    expressions: tuple[str, ...]

    @property
    @override
    def gives_one_at_most(self) -> bool:
        return not any(map(generator_of, self.sql()))

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(named(text)[0] for text in self.expressions)

    @override
    def config(self) -> dict[str, Any]:
        return {"expressions": list(self.expressions)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", ANY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        if not self.expressions:
            raise SchemaError("there is no column to select", operator=self.name, remedy="name one; '*' is all of them")
        names, time, keys = [], None, []
        for text in self.expressions:
            expression, name = named(text)
            self.require(stream, columns_of_row(expression), f"{text!r}")
            check_one_row(stream, expression)
            if name is None:
                raise nameless(text, self.name)
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
                    remedy=f"add it to the selection; {_AS_CHANGES}",
                )  # fmt: skip
        new_keys = tuple(dict(keys)[position] for position in range(len(stream.keys))) if stream.keys is not None else None
        changes = stream.changes if new_keys is None else Changes.upsert(new_keys)
        return StreamType(tuple(names), time, changes, stream.complete_windows and time is not None)

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        parsed = {name: bare_column(inputs[0], expression) for expression, name in map(named, self.expressions)}
        return Forwarding(tuple((column, name) for name, column in parsed.items() if column is not None and name is not None))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        parsed = [named(text) for text in self.expressions]
        return {name: from_columns(inputs[0], expression) for expression, name in parsed if name is not None}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> SelectColumns:
        """Spark's select; the columns that say what a row means are handed on."""
        return SelectColumns(self, inputs[0].marks)


@dataclass(frozen=True)
class SelectColumns(Stateless):
    """The lowering of :class:`Select`.

    Attributes:
        logical: The operator.
        marks: The columns that say what a row means.
    """

    logical: Select
    marks: tuple[str, ...]

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        marks = [mark for mark in self.marks if mark in frame.columns]
        expressions = []
        for text in self.logical.expressions:
            expression, name = named(text)
            expressions.append(f"{_of_rows_there(marks, expression)} AS {quoted(name or expression)}")
        return frame.selectExpr(*expressions, *marks)


def _of_rows_there(columns: Sequence[str], expression: str) -> str:
    """SQL for a column: null of a row that is marked as deleted, for which what computes it may well fail."""
    expression = without_comments(expression)
    if DELETED not in columns or _COLUMN.fullmatch(expression.strip()):
        return expression
    return f"CASE WHEN NOT {DELETED} THEN {expression} END"


def bare_column(stream: StreamType, expression: str) -> str | None:
    """The input column that an expression hands on unchanged, or None if it computes something."""
    match = _COLUMN.fullmatch(expression.strip())
    if match is None:
        return None
    return stream.resolve(match[1].replace("``", "`") if match[1] else match[2])


@dataclass(frozen=True, kw_only=True)
class WithColumns(LogicalOperator):
    """Adds columns, or replaces those of the same name; all expressions see the input's columns.

    An event time that is replaced is none any more: the source's watermark promises nothing about the new values.

    Attributes:
        expressions: Pairs of (column, Spark SQL).
        only_new: Refuse to replace a column.
    """

    kind: ClassVar[str] = "with_columns"
    row_wise: ClassVar[bool] = True
    expressions: tuple[tuple[str, str], ...]
    only_new: bool = False

    @property
    @override
    def gives_one_at_most(self) -> bool:
        return not any(map(generator_of, self.sql()))

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(expression for _, expression in self.expressions)

    @override
    def config(self) -> dict[str, Any]:
        return {"expressions": dict(self.expressions)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", ANY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        columns = list(stream.columns) if stream.columns is not None else None
        for name, expression in self.expressions:
            self.require(stream, columns_of_row(expression), f"column {name!r}")
            check_one_row(stream, expression)
            if stream.keys and stream.resolve(name) in stream.keys:
                raise SchemaError(
                    f"{name!r} is a key of an updating stream and cannot be replaced", operator=self.name, column=name,
                    remedy="give the new column another name",
                )  # fmt: skip
            if columns is not None and stream.resolve(name) is None:
                columns.append(name)
        self.check_names(stream)
        replaced = {name.lower() for name, _ in self.expressions}
        time = stream.event_time
        return replace(stream.with_columns(columns), event_time=None if time is None or time.lower() in replaced else time)

    def check_names(self, stream: StreamType) -> None:
        """Raise SchemaError where a column is given twice, or takes a name that it may not take."""
        counts = Counter(name.lower() for name, _ in self.expressions)
        for name, expression in self.expressions:
            if counts[name.lower()] > 1:
                raise SchemaError(
                    f"the column {name!r} is given twice (case does not matter)",
                    operator=self.name,
                    column=name,
                    remedy="give one of them another name",
                )
            if self.only_new and stream.columns is not None and stream.resolve(name):
                raise SchemaError(
                    f"{expression!r} would take the name of the column {name!r}",
                    operator=self.name,
                    column=name,
                    remedy=f"give it a name of its own: {expression} AS other",
                )

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        replaced = {name.lower() for name, _ in self.expressions}
        return Forwarding.of(column for column in inputs[0].columns or () if column.lower() not in replaced)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        stream = inputs[0]
        new = {stream.resolve(name) or name: from_columns(stream, expression) for name, expression in self.expressions}
        return {**same_columns(stream), **new}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReplaceColumns:
        """One select, so that no expression sees another's result."""
        return ReplaceColumns(self)


@dataclass(frozen=True)
class ReplaceColumns(Stateless):
    """The lowering of :class:`WithColumns`."""

    logical: WithColumns

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        self.logical.check_names(StreamType(tuple(frame.columns)))
        columns = frame.columns
        new = {name.lower(): (name, _of_rows_there(columns, expression)) for name, expression in self.logical.expressions}
        chosen = []
        for column in columns:
            _, expression = new.pop(column.lower(), (column, quoted(column)))
            chosen.append(f"{expression} AS {quoted(column)}")
        return frame.selectExpr(*chosen, *(f"{expression} AS {quoted(name)}" for name, expression in new.values()))


@dataclass(frozen=True, kw_only=True)
class Rename(LogicalOperator):
    """Gives columns other names."""

    kind: ClassVar[str] = "rename"
    row_wise: ClassVar[bool] = True
    names: tuple[tuple[str, str], ...]

    @property
    @override
    def gives_one_at_most(self) -> bool:
        return True

    @override
    def config(self) -> dict[str, Any]:
        return {"names": dict(self.names)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", ANY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, [old for old, _ in self.names], "rename")
        twice = [old for old, count in Counter(old.lower() for old, _ in self.names).items() if count > 1]
        if twice:
            raise SchemaError(
                f"the column {twice[0]!r} is renamed twice (case does not matter)", operator=self.name, column=twice[0],
                remedy="give it one name; with_columns makes a second column of it",
            )  # fmt: skip
        change = self._change()
        columns = None if stream.columns is None else tuple(map(change, stream.columns))
        changes = Changes.upsert(tuple(map(change, stream.keys))) if stream.keys is not None else stream.changes
        return StreamType(columns, change(stream.event_time) if stream.event_time else None, changes, stream.complete_windows)

    def _change(self) -> Callable[[str], str]:
        new = {old.lower(): name for old, name in self.names}
        return lambda column: new.get(column.lower(), column)

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        change = self._change()
        renamed = {change(column): column for column in inputs[0].columns or ()}
        return Forwarding(tuple((column, name) for name, column in renamed.items()))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0], self._change())

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RenameColumns:
        """One select."""
        return RenameColumns(self)


@dataclass(frozen=True)
class RenameColumns(Stateless):
    """The lowering of :class:`Rename`."""

    logical: Rename

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        self.logical.require(StreamType(tuple(frame.columns)), [old for old, _ in self.logical.names], "rename")
        new = {old.lower(): name for old, name in self.logical.names}
        return frame.selectExpr(*(f"{quoted(column)} AS {quoted(new.get(column.lower(), column))}" for column in frame.columns))


@dataclass(frozen=True, kw_only=True)
class Drop(LogicalOperator):
    """Leaves columns out."""

    kind: ClassVar[str] = "drop"
    row_wise: ClassVar[bool] = True
    columns: tuple[str, ...]

    @property
    @override
    def gives_one_at_most(self) -> bool:
        return True

    @override
    def config(self) -> dict[str, Any]:
        return {"columns": list(self.columns)}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", ANY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, self.columns, "drop")
        gone = {stream.resolve(column) for column in self.columns}
        for key in stream.keys or ():
            if key in gone:
                raise SchemaError(
                    f"the key column {key!r} of an updating stream must be kept", operator=self.name, column=key,
                    remedy=f"leave it in; {_AS_CHANGES}",
                )  # fmt: skip
        left = None if stream.columns is None else [column for column in stream.columns if column not in gone]
        if left == []:
            raise SchemaError("no column would be left", operator=self.name, remedy="keep one")
        time = stream.event_time
        lost = time is not None and time.lower() in {column.lower() for column in self.columns}
        return replace(stream.with_columns(left), event_time=None if lost else time)

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        dropped = {column.lower() for column in self.columns}
        return Forwarding.of(column for column in inputs[0].columns or () if column.lower() not in dropped)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        kept = self.output(inputs).columns or ()
        return {column: frozenset({(0, column)}) for column in kept}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> DropColumns:
        """One select of what is left."""
        return DropColumns(self)


@dataclass(frozen=True)
class DropColumns(Stateless):
    """The lowering of :class:`Drop`."""

    logical: Drop

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        self.logical.require(StreamType(tuple(frame.columns)), self.logical.columns, "drop")
        gone = {column.lower() for column in self.logical.columns}
        return frame.select(*(quoted(column) for column in frame.columns if column.lower() not in gone))


def as_pairs(mapping: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A mapping as hashable data, in its own order."""
    return tuple(mapping.items())
