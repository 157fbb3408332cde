"""Lookup: rows joined with a static or slowly changing table, which is read as it was when the epoch began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.alternatives import Alternative
from dagster_operators.graph.exchange import Broadcast, HashBy
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.operator import Lineage, StreamType, same_columns
from dagster_operators.graph.row_expressions import aggregate_of
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.joins.join_columns import types_differ_on_sail
from dagster_operators.operators.one_task import is_in_one_task, joined, made_of, part_of
from dagster_operators.operators.physical import Analysed, Analysis, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.projection import named, nameless
from dagster_operators.operators.relational.source import ConnectorOperator
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Lookup(ConnectorOperator):
    """Adds columns of the lookup table's row with the same key.

    Attributes:
        connector: The table to look up in; pinned when the epoch begins, so a retry sees the same.
        on: Pairs of (stream column, lookup column) that must be equal; null equals nothing.
        columns: What to add, as ``expression`` or ``expression AS name`` over the lookup's columns; None: all but the keys.
        how: ``left`` keeps rows without a match (with nulls), ``inner`` leaves them out.
    """

    kind: ClassVar[str] = "lookup"
    chooses_by_size: ClassVar[bool] = True
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] | None = None
    how: Literal["left", "inner"] = "left"

    @property
    @override
    def reads_ahead(self) -> int | None:
        return 0

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(named(text)[0] for text in self.columns or ())

    @override
    def config(self) -> dict[str, Any]:
        return {
            "connector": self.connector.config(),
            "on": [list(pair) for pair in self.on],
            "columns": None if self.columns is None else list(self.columns),
            "how": self.how,
        }

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        if self.how not in ("left", "inner"):
            raise PipelineError(f"a lookup cannot be {self.how!r}", operator=self.name, remedy="use 'left' or 'inner'")
        if not self.on:
            raise PipelineError("a lookup needs a key", operator=self.name, remedy="name the columns to be equal: on='carrier'")
        self.require(stream, [left for left, _ in self.on], "lookup")
        added = self._added()
        if added is None or stream.columns is None:
            return StreamType(None, stream.event_time)
        return StreamType((*stream.columns, *added), stream.event_time)

    def _added(self) -> list[str] | None:
        declared = self.connector.declared_schema
        known = None if declared is None else StreamType(Schema.from_ddl(declared).names)
        if known is not None:
            self.require(known, [right for _, right in self.on], "the lookup table")
        if self.columns is not None:
            return [self._name(known, text) for text in self.columns]
        if known is None or known.columns is None:
            return None
        keys = {right.lower() for _, right in self.on}
        return [column for column in known.columns if column.lower() not in keys]

    def _name(self, known: StreamType | None, text: str) -> str:
        expression, name = named(text)
        aggregate = aggregate_of(expression)
        if aggregate is not None:
            raise SchemaError(
                f"the aggregate {aggregate}() makes one row of the lookup table's, and each of them is looked up",
                operator=self.name, expression=expression, remedy="aggregate it into a table of its own, and look that up",
            )  # fmt: skip
        if known is not None:
            self.require(known, columns_of(expression), f"{text!r} of the lookup table")
        if name is None:
            raise nameless(text, self.name)
        return name

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**same_columns(inputs[0]), **dict.fromkeys(self._added() or (), frozenset())}

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.of(inputs[0].columns or ())

    def looked_up(self) -> dict[str, frozenset[str]]:
        """The columns that it adds, as far as they are known, with those of the lookup table that each is computed from."""
        declared = self.connector.declared_schema
        known = {name.lower(): name for name in Schema.from_ddl(declared).names} if declared is not None else {}
        texts = self._added() or () if self.columns is None else self.columns
        read = [columns_of(named(text)[0]) if self.columns is not None else {text} for text in texts]
        return {
            added: frozenset(known.get(name.lower(), name) for name in names)
            for added, names in zip(self._added() or (), read, strict=True)
        }

    @override
    def lower(self, inputs: Sequence[StreamType]) -> tuple[Alternative, ...]:
        """Spark's join, as Spark brings rows together; where the sizes of the last epoch speak for one way, in that one.

        Spark broadcasts a small table by itself, unless the rows are few, too (``one_task.py``).
        """
        by_key = HashBy(tuple(left for left, _ in self.on))
        return (
            Alternative("as the engine likes", JoinPinned(self)),
            Alternative("table copied", JoinPinned(self, "broadcast"), beside=Broadcast()),
            Alternative("brought together", JoinPinned(self, "merge"), exchanges=(by_key,), beside=by_key),
        )


@dataclass(frozen=True)
class JoinPinned(RelationalOperator[tuple[str, ...]]):
    """The lowering of :class:`Lookup`: its second input at analysis is the lookup table, its facts are how keys are compared.

    Attributes:
        logical: The lookup.
        hint: How Spark is told to join; adaptive execution keeps to it. Empty for as it likes.
    """

    logical: Lookup
    hint: str = ""

    @property
    @override
    def keeps_places(self) -> bool:  # type: ignore[override]
        return bool(self.hint)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[tuple[str, ...]]:
        rows, table = inputs
        equal = self._equal_keys(rows, table)
        return Analysis(self._join(rows, table, equal), facts=equal)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        return None if inputs[0] is None else self._join(inputs[0], context.pinned(self.logical.name), analysed.facts)

    def _equal_keys(self, rows: DataFrame, table: DataFrame) -> tuple[str, ...]:
        """The conditions that the keys are equal: on Sail as doubles where Spark compares these and Sail does not.

        Raises:
            SchemaError: A key is of another kind: it would be cast, and fail or match nothing while the epoch runs.
        """
        conditions = []
        self.logical.require(StreamType(tuple(table.columns)), [right for _, right in self.logical.on], "the lookup table")
        for position, (left, right) in enumerate(self.logical.on):
            found = [schema_of(frame).find(column) for frame, column in ((rows, left), (table, right))]
            types = [field.type for field in found if field is not None]
            kinds = [kind.kind for kind in types]
            if len(set(kinds)) > 1:
                raise SchemaError(
                    f"the key {left!r} is a {kinds[0]}, and {right!r} of the lookup table is a {kinds[1]}",
                    column=left,
                    remedy="cast it before the lookup: with_columns(key='CAST(... AS ...)')",
                )
            compared = [quoted(left), f"`__key_{position}`"]
            if types_differ_on_sail(types) and not reads_like_spark(rows.sparkSession):
                compared = [f"CAST({key} AS DOUBLE)" for key in compared]
            conditions.append(" = ".join(compared))
        return tuple(conditions)

    def _join(self, rows: DataFrame, table: DataFrame, equal: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        lookup = self.logical
        keys = [f"{quoted(right)} AS `__key_{position}`" for position, (_, right) in enumerate(lookup.on)]
        if lookup.columns is None:
            names = {right.lower() for _, right in lookup.on}
            chosen = [quoted(column) for column in table.columns if column.lower() not in names]
        else:
            parsed = [named(text) for text in lookup.columns]
            chosen = [f"{expression} AS {quoted(name or expression)}" for expression, name in parsed]
        right = table.selectExpr(*keys, *chosen)
        near = part_of(right, table) if is_in_one_task(rows) or not self.hint else right.hint(self.hint)
        found = joined(rows, near, F.expr(" AND ".join(equal)), lookup.how)
        return made_of(found.drop(*(f"__key_{position}" for position in range(len(lookup.on)))), found)
