"""Aggregates taken apart: partial results of each epoch's new rows, merged with what the state holds.

An aggregate is any Spark SQL expression over aggregate calls, such as ``round(sum(a) / count(*), 2)``. Each call becomes partial
columns with an *update* (an aggregate over input rows) and a *merge* (an aggregate over partial rows, of the same type), and the
expression becomes a *final* (a scalar over the partial columns). The result is Spark's own for all rows at once, whatever
the cut; sums of floating-point numbers are so up to the rounding that their order gives.

``count(DISTINCT x)``, ``collect_set`` and ``collect_list`` keep their values, so that their state grows with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dagster_operators.errors import SchemaError, located
from dagster_operators.graph.expressions import columns_of, parse_alias, parsed
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.aggregates.aggregate_calls import Call, Template, find_calls
from dagster_operators.operators.aggregates.aggregate_functions import CALLABLE, AggregateFunction, PartialColumn, resolve
from dagster_operators.operators.aggregates.compared_texts import check_texts
from dagster_operators.operators.aggregates.partial_results import SUM, checked_sum
from dagster_operators.operators.aggregates.user_aggregates import user_aggregates
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dagster_operators.operators.aggregates.partial_results import PartialKind, Types


@dataclass(frozen=True)
class Partial:
    """One partial result.

    Attributes:
        column: Its column's name, which needs no backticks.
        update: The Spark SQL aggregate over input rows that gives it.
        merge: The Spark SQL aggregate over partial rows that gives it.
    """

    column: str
    update: str
    merge: str


@dataclass(frozen=True)
class Aggregate:
    """One named aggregate expression, taken apart.

    Attributes:
        name: The output column.
        expression: The expression as written.
        columns: The input columns it reads, for lineage and checks.
        template: The expression without its calls.
        calls: The function and the plain form of each call.
    """

    name: str
    expression: str
    columns: frozenset[str]
    template: Template
    calls: tuple[tuple[AggregateFunction, Call], ...]

    @property
    def partials(self) -> tuple[Partial, ...]:
        """The partial results of this aggregate alone."""
        return Decomposition((self,)).partials

    @property
    def final(self) -> str:
        """The Spark SQL scalar over :attr:`partials` that gives the aggregate's value."""
        return Decomposition((self,)).finals[self.name]


def parse_aggregate(name: str, expression: str, event_time: str | None = None) -> Aggregate:
    """Takes one aggregate expression apart.

    Args:
        name: The output column.
        expression: Spark SQL over aggregate calls, each with an optional FILTER.
        event_time: The column that orders the rows for ``first`` and ``last``; ties go to the smallest and the largest value.

    Raises:
        SchemaError: A function cannot be merged, or a column stands outside of the calls; names both.

    >>> mean = parse_aggregate("mean", "avg(delay) FILTER (WHERE NOT cancelled)")
    >>> sorted(mean.columns), [partial.column for partial in mean.partials], mean.final
    (['cancelled', 'delay'], ['mean__total', 'mean__count'], '(mean__total / nullif(mean__count, 0L))')
    """
    try:
        return _parse(name, expression, event_time)
    except SchemaError as error:
        raise error.at(aggregate=name, expression=expression) from None


def _parse(name: str, expression: str, event_time: str | None) -> Aggregate:
    columns_of(expression)  # Refuses what is no expression with its place in the whole text.
    body, alias = parse_alias(expression)
    if alias is not None:
        raise SchemaError(f"the aggregate has the alias {alias!r} and a name already", remedy="leave the alias out")
    own = user_aggregates()
    template = find_calls(body, CALLABLE | own.keys())
    if not template.calls:
        raise SchemaError("there is no aggregate call in it", remedy="write count(*), sum(x) or the like")
    outside = columns_of_row(template.filled(["NULL"] * len(template.calls)))
    if outside:
        raise SchemaError(
            f"{', '.join(map(repr, sorted(outside)))} stands outside of an aggregate call", column=min(outside),
            remedy="put it into one, such as any_value(...) or max(...)",
        )  # fmt: skip
    calls = tuple(resolve(call, event_time, own) for call in template.calls)
    texts = {text for _, call in calls for text in (*call.arguments, call.condition) if text not in ("*", None)}
    columns = frozenset(column for text in texts for column in columns_of_row(text))
    return Aggregate(name, expression, columns, template, calls)


def decompose(aggregates: Mapping[str, str], event_time: str | None = None) -> Decomposition:
    """Takes all aggregates of an operator apart; equal calls share their partial results.

    >>> parts = decompose({"total": "sum(x)", "share": "sum(x) / count(*)"})
    >>> [partial.column for partial in parts.partials], dict(parts.finals)
    (['total__sum', 'share__count'], {'total': 'total__sum', 'share': 'total__sum / share__count'})
    """
    return Decomposition(tuple(parse_aggregate(name, expression, event_time) for name, expression in aggregates.items()))


@dataclass(frozen=True)
class AggregateTypes:
    """The Spark types that aggregates depend on, as far as they are known.

    Attributes:
        rows: Those of arguments, by their text.
        partials: Those of the partial columns.
        goes_round: Whether the engine adds up whole numbers without a look at whether the sum fits.
    """

    rows: Types = field(default_factory=dict)
    partials: Types = field(default_factory=dict)
    goes_round: bool = False


@dataclass(frozen=True)
class Decomposition:
    """The partial results of an operator's aggregates.

    Before running an update take :meth:`for_rows`, before a merge or final :meth:`for_partials`: types decide how decimals add up
    and how Sail must be told about NaN. The columns are the same with and without.

    Attributes:
        aggregates: What was taken apart.
        types: What it was made for.
    """

    aggregates: tuple[Aggregate, ...]
    types: AggregateTypes = field(default_factory=AggregateTypes)

    @property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """The input columns that each aggregate reads."""
        return {aggregate.name: aggregate.columns for aggregate in self.aggregates}

    @cached_property
    def partials(self) -> tuple[Partial, ...]:
        """The partial columns with their updates and merges."""
        return tuple(
            Partial(column, self._update_of(kind, call, self.types.rows), self._merge_of(kind, column))
            for column, (kind, call) in self.slots.items()
        )

    def _update_of(self, kind: PartialKind, call: Call, types: Types) -> str:
        if self.types.goes_round and kind is SUM and types.get(call.arguments[0]) == "bigint":
            return checked_sum(call.kept(call.arguments[0]))
        return kind.update(call, types)

    def _merge_of(self, kind: PartialKind, column: str) -> str:
        found = self.types.partials.get(column)
        return checked_sum(column) if self.types.goes_round and kind is SUM and found == "bigint" else kind.merge(column, found)

    @cached_property
    def finals(self) -> Mapping[str, str]:
        """The Spark SQL scalar over the partial columns that gives each aggregate's value."""
        columns = {_key(kind, call): column for column, (kind, call) in self.slots.items()}
        finals = {}
        for aggregate in self.aggregates:
            values = []
            for function, call in aggregate.calls:
                names = [columns[_key(kind, call)] for kind in function.kinds]
                with located(aggregate=aggregate.name):
                    value = function.final(call, [PartialColumn(name, self.types.partials.get(name)) for name in names])
                values.append(value if value.isidentifier() else f"({value})")
            finals[aggregate.name] = aggregate.template.filled(values)
        return finals

    @property
    def results(self) -> list[str]:
        """Each aggregate's value under its name, to be selected from partial rows of which each group has one."""
        return [f"{final} AS {quoted(name)}" for name, final in self.finals.items()]

    def update(self, rows: DataFrame, groups: Sequence[str], *extent: Column) -> DataFrame:
        """The partial results of rows by group.

        Args:
            rows: The input rows.
            groups: What to group by, as SQL names.
            extent: Further values of each group, before the partial columns.
        """
        from pyspark.sql import functions as F

        apart = self._cast_arguments() if self.types.goes_round else {}
        if not apart:
            return rows.groupBy(*groups).agg(*extent, *(F.expr(part.update).alias(part.column) for part in self.partials))
        types = {**self.types.rows, **{name: self.types.rows[text] for text, name in apart.items() if text in self.types.rows}}
        updates = {
            column: self._update_of(kind, replace(call, arguments=tuple(apart.get(text, text) for text in call.arguments)), types)
            for column, (kind, call) in self.slots.items()
        }
        frame = rows.withColumns({name: F.expr(text) for text, name in apart.items()})
        return frame.groupBy(*groups).agg(*extent, *(F.expr(text).alias(column) for column, text in updates.items()))

    def _cast_arguments(self) -> dict[str, str]:
        """Columns for arguments with a cast: Sail names an aggregate without casts, and takes two of one name for an error."""
        from sqlglot import exp

        texts = dict.fromkeys(text for _, call in self.slots.values() for text in call.arguments if text != "*")
        cast = [text for text in texts if parsed(text).find(exp.Cast)]
        return {text: f"__argument_{number}" for number, text in enumerate(cast)}

    def merge(self, partials: DataFrame, groups: Sequence[str]) -> DataFrame:
        """Partial results merged by group."""
        return partials.groupBy(*groups).agg(*self.merges())

    def merges(self) -> list[Column]:
        """The aggregates that merge each partial column."""
        from pyspark.sql import functions as F

        return [F.expr(part.merge).alias(part.column) for part in self.partials]

    def typed(self, types: AggregateTypes) -> Decomposition:
        """The same made for these types."""
        return replace(self, types=types)

    def for_rows(self, rows: DataFrame) -> Decomposition:
        """The same with updates made for the types of these input rows. Analyses, but runs nothing.

        Raises:
            SchemaError: A call's condition compares a column with a text that is no value of its type.
        """
        for aggregate in self.aggregates:
            with located(aggregate=aggregate.name):
                check_texts((call.condition for _, call in aggregate.calls if call.condition is not None), rows)
        wanted = {text: None for kind, call in self.slots.values() if kind.typed for text in call.arguments}
        arguments = list(wanted)
        goes_round = not reads_like_spark(rows.sparkSession)
        if not arguments:
            return self.typed(replace(self.types, goes_round=goes_round))
        analysed = rows.selectExpr(*(f"{text} AS argument_{number}" for number, text in enumerate(arguments)))
        types = [str(column.type) for column in schema_of(analysed)]
        return self.typed(replace(self.types, rows=dict(zip(arguments, types, strict=True)), goes_round=goes_round))

    def for_partials(self, partials: DataFrame) -> Decomposition:
        """The same with merges and finals made for the types of these partial rows."""
        return self.typed(replace(self.types, partials={column.name: str(column.type) for column in schema_of(partials)}))

    @cached_property
    def slots(self) -> dict[str, tuple[PartialKind, Call]]:
        """Each partial column's kind and a call that needs it."""
        slots: dict[str, tuple[PartialKind, Call]] = {}
        known = set()
        for aggregate, kind, call in self._needed():
            if _key(kind, call) not in known:
                known.add(_key(kind, call))
                slots[_free(f"{aggregate.name}__{kind.name}", slots)] = (kind, call)
        return slots

    def _needed(self) -> Iterator[tuple[Aggregate, PartialKind, Call]]:
        for aggregate in self.aggregates:
            for function, call in aggregate.calls:
                for kind in function.kinds:
                    yield aggregate, kind, call


def _key(kind: PartialKind, call: Call) -> tuple[str, Call]:
    """Equal for what can share one partial column, whichever function needs it."""
    return kind.name, replace(call, function="")


def _free(wanted: str, taken: Mapping[str, object]) -> str:
    """A column name that Delta takes as it is and no other column has, whatever the case."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
    plain = plain if not plain[0].isdigit() else f"_{plain}"
    names = {name.lower() for name in taken}
    number, free = 1, plain
    while free.lower() in names:
        number += 1
        free = f"{plain}_{number}"
    return free
