"""Flat map: any number of rows for each row, by a table function of the user's own or a generator of Spark's.

```
 id | text        flat_map("split_words(text)")        id | text  | word | position
 1  | "to be"     ---------------------------->        1  | to be | to   | 0
 2  | ""                                               1  | to be | be   | 1
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.functions.table import TableFunction, table_named
from dagster_operators.graph.changes import CHANGE, ChangeKind
from dagster_operators.graph.expressions import parse_alias
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.physical import Stateless
from dagster_operators.operators.relational.projection import from_columns
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEVERAL = re.compile(r"(?is)(?P<call>.*\))\s*AS\s*\((?P<names>[^()]*)\)\s*")
_FUNCTION = re.compile(r"\s*`?(\w+)`?\s*\(")
_OUTER = frozenset({"explode", "posexplode", "inline"})


@dataclass(frozen=True, kw_only=True)
class FlatMap(LogicalOperator):
    """Puts the rows that a generator makes of each row beside that row.

    Attributes:
        call: ``function(arguments)``, with ``AS name`` or ``AS (name, name)``; a table function of the user's own, or
            ``explode``, ``posexplode`` or ``inline``.
        outer: Keep a row of which nothing was made, with nulls.
    """

    kind: ClassVar[str] = "flat_map"
    call: str
    outer: bool = False

    @override
    def sql(self) -> tuple[str, ...]:
        return (self.parsed[0],)

    @property
    @override
    def reads_ahead(self) -> int | None:
        return 0

    @property
    @override
    def linear(self) -> bool:
        return True

    @override
    def config(self) -> dict[str, Any]:
        return {"call": self.call, **({"outer": True} if self.outer else {})}

    @cached_property
    def parsed(self) -> tuple[str, tuple[str, ...] | None]:
        """The call, and the names of its columns if they are given."""
        if several := _SEVERAL.fullmatch(self.call):
            names = tuple(name.strip().strip("`") for name in several["names"].split(","))
            return several["call"], names
        call, name = parse_alias(self.call)
        return call, None if name is None else (name,)

    @property
    def function(self) -> TableFunction | None:
        """The table function of the user's own that is called, if it is one."""
        called = _FUNCTION.match(self.parsed[0])
        return table_named(called[1]) if called else None

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the columns that are added."""
        names, function = self.parsed[1], self.function
        if function is not None and names is not None and len(names) != len(function.columns):
            raise SchemaError(
                f"{function.name}() has {len(function.columns)} columns and {len(names)} names are given", operator=self.name,
                remedy=f"its columns are {', '.join(function.columns)}; leave the names out, or give one for each",
            )  # fmt: skip
        if names is None and function is None:
            raise SchemaError(
                f"the columns of {self.call!r} have no names", operator=self.name,
                remedy="write explode(xs) AS x, posexplode(xs) AS (position, x), or use a function made with udtf",
            )  # fmt: skip
        return names or (function.columns if function else ())

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        """Of changes too, if the rows that are made of one are the same again when it is taken back."""
        remedy = "a table function of your own goes before the operator whose rows change; unnest and Spark's own take changes"
        kinds = {ChangeKind.APPEND} if self.function is not None else {ChangeKind.APPEND, ChangeKind.RETRACT}
        return (InputPort("input", frozenset(kinds), remedy=remedy if self.function is not None else ""),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, columns_of_row(self.parsed[0]), f"{self.call!r}")
        made = self.made
        for column in made:
            if stream.columns is not None and stream.resolve(column):
                raise SchemaError(
                    f"{self.call!r} would add a second column {column!r}", operator=self.name, column=column,
                    remedy="give its columns other names: ... AS (name, name)",
                )  # fmt: skip
        return stream.with_columns(None if stream.columns is None else (*stream.columns, *made))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**same_columns(inputs[0]), **dict.fromkeys(self.made, from_columns(inputs[0], self.parsed[0]))}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> GenerateRows:
        """Spark's generator in a select."""
        return GenerateRows(self)


@dataclass(frozen=True)
class GenerateRows(Stateless):
    """The lowering of :class:`FlatMap`."""

    logical: FlatMap

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        flat = self.logical
        call = flat.parsed[0] if flat.function is None else f"inline({flat.parsed[0]})"
        if flat.outer:
            generator, rest = call.split("(", 1)
            if generator.strip().lower() not in _OUTER:
                raise SchemaError(f"{generator.strip()}() has no outer form", operator=flat.name, remedy="leave outer out")
            call = f"{generator.strip()}_outer({rest}"
        names = ", ".join(map(quoted, flat.made))
        columns = [quoted(name) for name in frame.columns if name != CHANGE]
        marks = [CHANGE] if CHANGE in frame.columns else []
        return frame.selectExpr(*columns, f"{call} AS ({names})", *marks)
