"""Partial results of rows that come and go: a row counts as often as it was added less how often it was taken back.

Counts, and sums of whole numbers and decimals, have an inverse: a removal counts negative, and nothing is lost however long that
goes on. All other functions (extremes, distinct values, floating-point sums, variances, lists) need to know what is left when a
value goes: the state holds each value once with its weight, and the groups that change are computed anew from theirs. (Weights
are those of Z-sets: Budiu et al., DBSP, 2023.)

State rows are therefore one for each group and combination of such values, or one for each group where there are none of these
functions. They merge by adding up: no order among runs is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.aggregates import partial_results as partial
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.aggregates import Decomposition
from dagster_operators.operators.aggregates.partial_results import (
    PartialKind,
    Types,
    decimals_in,
    one_zero_one_nan,
    sum_of_decimals,
)
from dagster_operators.operators.relational.weighted_rows import ADDED, WEIGHT, raised
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADDED: Final = "__added"
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_COUNTS: Final = (partial.COUNT, partial.COUNT_IF)
_SUMS: Final = (partial.SUM, partial.TOTAL)
_WEIGHTED: Final[Mapping[PartialKind, Callable[[str, Types], str]]] = {
    partial.SUM: lambda value, types: f"sum({_times_weight(value, types)})",
    partial.TOTAL: lambda value, _: f"sum({_times_weight(value, {value: 'string'})} * 1D)",  # see _double of partial_results
    partial.MOMENTS: lambda value, _: partial.MOMENTS.merge(
        f"CASE WHEN {WEIGHT} > 0 AND {value} IS NOT NULL THEN "
        f"named_struct('n', {WEIGHT}, 'mean', CAST({value} AS DOUBLE), 'm2', 0D) END",
        None,
    ),
    partial.VALUES: lambda value, _: (
        f"flatten(collect_list(CASE WHEN {WEIGHT} > 0 AND {value} IS NOT NULL "
        f"THEN array_repeat({value}, CAST({WEIGHT} AS INT)) END))"
    ),
    partial.BITS_XOR: lambda value, _: f"bit_xor(CASE WHEN {WEIGHT} > 0 AND {WEIGHT} % 2 = 1 THEN {value} END)",
}
"""The partial results in which a value counts as often as it is there, from values with their weights."""

_ONCE: Final = frozenset(
    {
        partial.MIN, partial.MAX, partial.ALL_TRUE, partial.ANY_TRUE, partial.BITS_AND, partial.BITS_OR, partial.DISTINCT,
        partial.SKETCH, partial.EARLIEST, partial.LATEST,
    }
)  # fmt: skip
"""Those in which it makes no difference how often a value is there."""

_KNOWN: Final = frozenset({*_COUNTS, *_SUMS, *_WEIGHTED, *_ONCE})
_COPY: Final = "__copy"


@dataclass(frozen=True)
class Sum:
    """A column of state rows that adds up.

    Attributes:
        column: Its name.
        value: SQL for what a row that is added counts.
        type: Its type.
        long: Whether what it adds up are long whole numbers: some of them may need a wider type until others are taken away.
    """

    column: str
    value: str
    type: str = "BIGINT"
    long: bool = False

    @property
    def difference(self) -> str:
        """The SQL aggregate over changes: what is added less what is taken back.

        Nothing is negated: the smallest whole number has no negative.
        """
        added, removed = (f"CASE WHEN {negated} {_ADDED} THEN {self.column} END" for negated in ("", "NOT"))
        return f"CAST({self._sum(added)} - {self._sum(removed)} AS {self.type})"

    @property
    def again(self) -> str:
        """The SQL aggregate over state rows."""
        return f"CAST({self.whole} AS {self.type})" if self.long else self.whole

    @property
    def once(self) -> str:
        """The same of a single state row, as SQL that aggregates nothing."""
        return f"CAST({self.column} AS {self.type})"

    @property
    def whole(self) -> str:
        """The same as far as it may go on the way to a sum that fits its type."""
        return self._sum(self.column)

    def _sum(self, value: str) -> str:
        """The sum, or zero, in a type that it fits in before it is cast: Spark would fail in between, and Sail go round."""
        if self.long:
            return f"coalesce(sum(CAST({value} AS DECIMAL(28,0))), CAST(0 AS DECIMAL(28,0)))"
        return f"coalesce(CAST({sum_of_decimals(value, self.type.lower())} AS {self.type}), CAST(0 AS {self.type}))"


@dataclass(frozen=True)
class WeightedPartials:
    """What the state of aggregates over changes holds, and how it is made, merged and read.

    Attributes:
        parts: The aggregates, made for the types of the changes.
    """

    parts: Decomposition

    @property
    def _types(self) -> Types:
        return self.parts.types.rows

    @cached_property
    def values(self) -> Mapping[str, str]:
        """The columns of values that are kept, each with its SQL over a change."""
        columns: dict[str, str] = {}
        for slot, (kind, call) in self.parts.slots.items():
            if not self._has_inverse(kind, call):
                for number, text in enumerate(self._kept(kind, call)):
                    if text not in columns.values():
                        columns[f"{slot}__v{number}"] = text
        return columns

    @cached_property
    def sums(self) -> Mapping[str, Sum]:
        """The columns that add up."""
        columns = {WEIGHT: Sum(WEIGHT, _one_each("1"))}
        for slot, (kind, call) in self.parts.slots.items():
            if not self._has_inverse(kind, call):
                continue
            if kind in _COUNTS:
                columns[slot] = Sum(slot, _one_each(_counted(kind, call)))
                continue
            type_text = self._types[call.arguments[0]]
            columns[slot] = _sum_of(slot, kind, call, type_text)
            if kind is partial.SUM:
                columns[f"{slot}__n"] = Sum(f"{slot}__n", _one_each(call.kept(call.arguments[0])))
        return columns

    @cached_property
    def restored(self) -> Mapping[str, str]:
        """The SQL aggregate over the state rows of a group that gives each partial result as it is without removals."""
        return {slot: self._restored(slot, kind, call) for slot, (kind, call) in self.parts.slots.items()}

    @property
    def results(self) -> list[str]:
        """Each aggregate's value under its name, to be selected from what :meth:`restore` gives.

        Null of a group of which nothing is left, and not computed: ``count_if(v > 1) / count(*)`` would divide by zero.
        """
        finals = self.parts.finals.items()
        return [
            f"{final if final.isidentifier() else f'CASE WHEN {WEIGHT} <> 0 THEN {final} END'} AS {quoted(name)}"
            for name, final in finals
        ]

    def update(self, changes: DataFrame, keys: Sequence[str]) -> DataFrame:
        """State rows of changes; what cancels out is left out.

        Args:
            changes: Rows with the column ``_change``.
            keys: What to group by, as SQL names.
        """
        from pyspark.sql import functions as F

        # Sail names an aggregate by its text without casts and takes two of one name for an error, so each sums up a column.
        columns = {**self.values, **{name: part.value for name, part in self.sums.items()}, _ADDED: ADDED}
        rows = changes.selectExpr(*keys, *(f"{text} AS {column}" for column, text in columns.items()))
        summed = rows.groupBy(*keys, *self.values).agg(*(F.expr(part.difference).alias(name) for name, part in self.sums.items()))
        return summed.filter(self.anything)

    def nothing(self, session: SparkSession, schema_json: str) -> DataFrame:
        """The state row of all rows where there are none; it changes nothing in what it is merged with.

        Args:
            session: The engine's.
            schema_json: The schema of state rows.
        """
        types = Schema.from_json(schema_json).types.items()
        columns = (f"CAST({0 if name in self.sums else 'NULL'} AS {kind}) AS {quoted(name)}" for name, kind in types)
        return session.range(1).selectExpr(*columns)

    def merge(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """State rows added up, those that cancel out still among them."""
        return self._merged(rows, keys, {name: part.again for name, part in self.sums.items()})

    def added_up(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """What :meth:`restore` can go on from: state rows added up, in wider types than the state has if need be."""
        return self._merged(rows, keys, {name: part.whole for name, part in self.sums.items()})

    def _merged(self, rows: DataFrame, keys: Sequence[str], sums: Mapping[str, str]) -> DataFrame:
        from pyspark.sql import functions as F

        return rows.groupBy(*keys, *self.values).agg(*(F.expr(text).alias(name) for name, text in sums.items()))

    def fold(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """State rows added up, without those that cancel out."""
        return self.merge(rows, keys).filter(self.anything)

    def restore(self, rows: DataFrame, keys: Sequence[str], *, is_merged: bool = False) -> DataFrame:
        """The partial results of each group, from all of its state rows; a group of which nothing is left has the weight 0.

        The query fails where more was taken back than there was, or something else, as far as sums and counts tell.

        Args:
            rows: The state rows.
            keys: What to group by, as SQL names.
            is_merged: Whether the rows of each group, and of each of its values, are one already.
        """
        told = raised(keys, "aggregate")
        checked = f"CASE WHEN {self._impossible} THEN {told} ELSE {WEIGHT} END AS {WEIGHT}"
        merged = rows if is_merged else self.added_up(rows, keys)
        found = merged.selectExpr(*(quoted(name) for name in merged.columns if name != WEIGHT), checked)
        return self._restored_groups(found, keys).filter(f"{WEIGHT} >= 0")  # so that no engine leaves the check out

    def _restored_groups(self, merged: DataFrame, keys: Sequence[str]) -> DataFrame:
        """The same, unchecked; state rows without values are one for each group, so that nothing is grouped again."""
        from pyspark.sql import functions as F

        if not self.values:
            sums = ((slot, self._from_sums(slot, kind, call, again=False)) for slot, (kind, call) in self.parts.slots.items())
            return merged.selectExpr(*keys, f"{self.sums[WEIGHT].once} AS {WEIGHT}", *(f"{sql} AS {slot}" for slot, sql in sums))
        rows = self._copied(merged) if self._needs_copies else merged
        restored = (F.expr(sql).alias(name) for name, sql in self.restored.items())
        return rows.groupBy(*keys).agg(F.expr(self.sums[WEIGHT].again).alias(WEIGHT), *restored)

    @property
    def _needs_copies(self) -> bool:
        """Whether a function takes rows one by one: the user's own know nothing of weights."""
        return any(kind not in _KNOWN for kind, _ in self.parts.slots.values())

    def _copied(self, rows: DataFrame) -> DataFrame:
        """State rows as often as they are there, each with the weight 1; what adds up is with the first of them."""
        copies = rows.selectExpr("*", f"explode(sequence(1L, greatest({WEIGHT}, 1L))) AS {_COPY}")
        others = (quoted(name) for name in rows.columns if name not in self.sums)
        summed = (
            f"CASE WHEN {_COPY} = 1 THEN {name} ELSE CAST(0 AS {part.type}) END AS {name}"
            for name, part in self.sums.items()
            if name != WEIGHT
        )
        return copies.selectExpr(*others, *summed, f"least({WEIGHT}, 1L) AS {WEIGHT}")

    @property
    def anything(self) -> str:
        """SQL for whether a state row says anything."""
        return " OR ".join(f"{name} <> 0" for name in self.sums)

    @property
    def _impossible(self) -> str:
        """SQL for whether no rows give what a merged state row says: as many values as no rows have, or a sum of none."""
        signs = [f"{WEIGHT} < 0"]
        for slot, (kind, _) in self.parts.slots.items():
            if slot in self.sums:
                count = slot if kind in _COUNTS else f"{slot}__n"
                signs += [f"{count} < 0 OR {count} > {WEIGHT}"] if count in self.sums else []
                signs += [] if kind in _COUNTS else [f"({count if count in self.sums else WEIGHT} = 0 AND {slot} <> 0)"]
        return " OR ".join(signs)

    def _has_inverse(self, kind: PartialKind, call: Call) -> bool:
        if kind in _COUNTS:
            return True
        found = self._types.get(call.arguments[0]) or ""
        return kind in _SUMS and (found in _WHOLE or found.startswith("decimal"))

    def _kept(self, kind: PartialKind, call: Call) -> list[str]:
        """The SQL of the values that a call needs to know again."""
        if kind not in _KNOWN:  # what a FILTER leaves out is none of its rows, whose arguments may well be null
            return [*(f"({text})" for text in call.arguments), call.kept("true")]
        kind.update(call, self._types)  # refuses types that nothing can be kept of
        known = call.arguments[:1] if kind is partial.SKETCH else call.arguments
        return [call.kept(one_zero_one_nan(f"({text})", self._types.get(text))) for text in known]

    def _restored(self, slot: str, kind: PartialKind, call: Call) -> str:
        if self._has_inverse(kind, call):
            return self._from_sums(slot, kind, call)
        names = {text: name for name, text in self.values.items()}
        columns = [names[text] for text in self._kept(kind, call)]
        if kind not in _KNOWN:
            counts = f"{WEIGHT} > 0 AND {columns[-1]}"
            return kind.update(replace(call, arguments=tuple(columns[:-1]), condition=counts), {})
        types = {column: self._types[text] for column, text in zip(columns, call.arguments, strict=False) if text in self._types}
        if kind in _WEIGHTED:
            return _WEIGHTED[kind](columns[0], types)
        arguments = (*columns, *call.arguments[len(columns) :])
        return kind.update(replace(call, arguments=arguments, condition=f"{WEIGHT} > 0"), types)

    def _from_sums(self, slot: str, kind: PartialKind, call: Call, *, again: bool = True) -> str:
        """A partial result from what adds up: from several state rows, or from the only one of a group."""
        total, count = (
            (part.again if again else part.once) if (part := self.sums.get(name)) else "" for name in (slot, f"{slot}__n")
        )
        if kind in _COUNTS:
            return total
        found = self._types[call.arguments[0]]
        if kind is partial.SUM:
            return f"CASE WHEN {count} > 0 THEN {total} END"
        if decimals_in(found):
            return f"named_struct('sum', {total}, 'like', CAST(NULL AS {found}))"
        return f"CAST({total} AS DOUBLE)"


def _times_weight(value: str, types: Types) -> str:
    number = f"CAST({value} AS DOUBLE)" if types.get(value) == "string" else value
    return f"CASE WHEN {WEIGHT} > 0 THEN {number} * {WEIGHT} END"


def _one_each(counted: str) -> str:
    """One for each row in which something is not null."""
    return f"CASE WHEN ({counted}) IS NULL THEN 0L ELSE 1L END"


def _counted(kind: PartialKind, call: Call) -> str:
    """What is not null in the rows that a call counts."""
    if kind is partial.COUNT_IF:
        return call.kept("1", call.arguments[0])
    return call.kept("1", *(f"({argument}) IS NOT NULL" for argument in call.arguments if argument != "*"))


def _sum_of(column: str, kind: PartialKind, call: Call, type_text: str) -> Sum:
    """A column that adds up values, each in a type that many of them fit in: Sail goes round where a sum does not fit."""
    value = call.kept(f"({call.arguments[0]})")
    if decimals := decimals_in(type_text):
        return Sum(column, value, f"DECIMAL({min(decimals[0][0] + 10, 38)},{decimals[0][1]})")
    if kind is partial.TOTAL:
        return Sum(column, f"CAST({value} AS DECIMAL(20,0))", "DECIMAL(38,0)")
    return Sum(column, f"CAST({value} AS BIGINT)", long=type_text == "bigint")
