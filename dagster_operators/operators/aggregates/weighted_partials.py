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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        goes_round: Whether the engine adds up whole numbers without a look at whether the sum fits.
    """

    column: str
    value: str
    type: str = "BIGINT"
    goes_round: bool = False

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
        return f"CAST({self._sum(self.column)} AS {self.type})" if self._is_wide else self._sum(self.column)

    @property
    def _is_wide(self) -> bool:
        return self.goes_round and self.type == "BIGINT"

    def _sum(self, value: str) -> str:
        """The sum, or zero; where the engine would go round, in a type that it fits in before it is cast."""
        if self._is_wide:
            return f"coalesce(sum(CAST({value} AS DECIMAL(20,0))), CAST(0 AS DECIMAL(20,0)))"
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
            columns[slot] = Sum(slot, _whole(call, type_text), _sum_type(kind, type_text), self.parts.types.goes_round)
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
        return summed.filter(self._anything)

    def merge(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """State rows added up, those that cancel out still among them."""
        from pyspark.sql import functions as F

        again = (F.expr(part.again).alias(name) for name, part in self.sums.items())
        return rows.groupBy(*keys, *self.values).agg(*again)

    def fold(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """State rows added up, without those that cancel out."""
        return self.merge(rows, keys).filter(self._anything)

    def restore(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """The partial results of each group, from all of its state rows; a group of which nothing is left has the weight 0.

        The query fails where more was taken back than there was.
        """
        from pyspark.sql import functions as F

        told = raised(keys, "aggregate")
        checked = f"CASE WHEN {WEIGHT} < 0 THEN {told} ELSE {WEIGHT} END AS {WEIGHT}"
        merged = self.merge(rows, keys)
        found = merged.selectExpr(*(f"`{name}`" for name in merged.columns if name != WEIGHT), checked)
        found = self._copied(found) if self._needs_copies else found
        restored = (F.expr(sql).alias(name) for name, sql in self.restored.items())
        grouped = found.groupBy(*keys).agg(F.expr(self.sums[WEIGHT].again).alias(WEIGHT), *restored)
        return grouped.filter(f"{WEIGHT} >= 0")  # so that no engine leaves the check out

    @property
    def _needs_copies(self) -> bool:
        """Whether a function takes rows one by one: the user's own know nothing of weights."""
        return any(kind not in _KNOWN for kind, _ in self.parts.slots.values())

    def _copied(self, rows: DataFrame) -> DataFrame:
        """State rows as often as they are there, each with the weight 1; what adds up is with the first of them."""
        copies = rows.selectExpr("*", f"explode(sequence(1L, greatest({WEIGHT}, 1L))) AS {_COPY}")
        others = (f"`{name}`" for name in rows.columns if name not in self.sums)
        summed = (
            f"CASE WHEN {_COPY} = 1 THEN {name} ELSE CAST(0 AS {part.type}) END AS {name}"
            for name, part in self.sums.items()
            if name != WEIGHT
        )
        return copies.selectExpr(*others, *summed, f"least({WEIGHT}, 1L) AS {WEIGHT}")

    @property
    def _anything(self) -> str:
        return " OR ".join(f"{name} <> 0" for name in self.sums)

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

    def _from_sums(self, slot: str, kind: PartialKind, call: Call) -> str:
        total = self.sums[slot].again
        if kind in _COUNTS:
            return total
        found = self._types[call.arguments[0]]
        if kind is partial.SUM:
            return f"CASE WHEN {self.sums[f'{slot}__n'].again} > 0 THEN {total} END"
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


def _sum_type(kind: PartialKind, type_text: str) -> str:
    decimals = decimals_in(type_text)
    if decimals:
        return f"DECIMAL({min(decimals[0][0] + 10, 38)},{decimals[0][1]})"
    return "BIGINT" if kind is partial.SUM else "DECIMAL(38,0)"


def _whole(call: Call, type_text: str) -> str:
    """The value of a row that is summed up, in a type that many fit in."""
    value = call.kept(f"({call.arguments[0]})")
    return f"CAST({value} AS BIGINT)" if type_text in _WHOLE else value
