"""Summaries of a data set's fields, and checksums (Flink's DataSetUtils)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal as Number
from typing import Any, Final, TypeVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.functions import exact_sum
from dagster_operators.api.datasets.numbering import InPart
from dagster_operators.api.datasets.operations.row_wise import PartsMapped
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.api.datasets.typed_by import TypedBy
from dagster_operators.operators.datasets.rows import named_rows
from dagster_operators.operators.datasets.running.part_numbers import stable_hash
from dagster_operators.types.data_type import DataType, Decimal, Field, Plain, Struct

B = TypeVar("B", bound=Bag)

COLUMNS: Final = (
    "total", "nulls", "nans", "infinities", "minimum", "maximum", "sum", "mean", "variance", "standard_deviation", "trues",
    "empties", "shortest", "longest", "mean_length",
)  # fmt: skip
"""The parts of a field's summary."""

_ORDERED: Final = (int, float, Number, str, bytes, date)


class Partial:
    """The summary of a field's values so far.

    Numbers that are none and infinite ones are counted, and left out of the rest.

    >>> partial = Partial()
    >>> for value in (1, 3, None):
    ...     partial.add(value)
    >>> summary = partial.result()
    >>> summary.total, summary.nulls, summary.minimum, summary.maximum, summary.sum, summary.mean, summary.variance
    (3, 1, 1, 3, 4, 2.0, 2.0)
    """

    def __init__(self, given: tuple[Any, ...] = (0, 0, 0, 0, None, None, (), 0, 0.0, 0.0, 0, 0, None, None, 0, 0)) -> None:
        (self.total, self.nulls, self.nans, self.infinities, self.minimum, self.maximum, self.sums, self.count, self.mean,
         self.squares, self.trues, self.empties, self.shortest, self.longest, self.length, self.texts) = given  # fmt: skip

    @property
    def state(self) -> tuple[Any, ...]:
        """All that is known, as plain values."""
        return (
            self.total, self.nulls, self.nans, self.infinities, self.minimum, self.maximum, self.sums, self.count, self.mean,
            self.squares, self.trues, self.empties, self.shortest, self.longest, self.length, self.texts,
        )  # fmt: skip

    def add(self, value: Any) -> None:
        """Add a value."""
        self.total += 1
        if value is None:
            self.nulls += 1
        elif isinstance(value, bool):
            self.trues += value
        elif isinstance(value, float | Number) and math.isnan(value):
            self.nans += 1
        elif isinstance(value, float | Number) and math.isinf(value):
            self.infinities += 1
        elif isinstance(value, _ORDERED):
            self._order(value, value)
            if isinstance(value, int | float | Number):
                self._join(1, float(value), 0.0, (value,))
            elif isinstance(value, str):
                self._measure(len(value), len(value), len(value), 1, not value)

    def merge(self, other: Partial) -> None:
        """Add all values of another one."""
        self.total += other.total
        self.nulls += other.nulls
        self.nans += other.nans
        self.infinities += other.infinities
        self.trues += other.trues
        self._order(other.minimum, other.maximum)
        self._join(other.count, other.mean, other.squares, other.sums)
        self._measure(other.shortest, other.longest, other.length, other.texts, other.empties)

    def _order(self, least: Any, most: Any) -> None:
        if least is not None and (self.minimum is None or least < self.minimum):
            self.minimum = least
        if most is not None and (self.maximum is None or most > self.maximum):
            self.maximum = most

    def _join(self, count: int, mean: float, squares: float, sums: tuple[Any, ...]) -> None:
        if not count:
            return
        both, apart = self.count + count, mean - self.mean
        self.squares += squares + apart * apart * self.count * count / both
        self.mean += apart * count / both
        self.count = both
        self.sums = exact_parts((*self.sums, *sums))

    def _measure(self, shortest: int | None, longest: int | None, length: int, texts: int, empties: int) -> None:
        if shortest is not None:
            self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        if longest is not None:
            self.longest = longest if self.longest is None else max(self.longest, longest)
        self.length += length
        self.texts += texts
        self.empties += empties

    def result(self) -> Any:
        """The summary, with a name for each part."""
        is_floating = any(isinstance(part, float) for part in self.sums)
        total = None if not self.sums else math.fsum(self.sums) if is_floating else exact_sum(self.sums)
        variance = self.squares / (self.count - 1) if self.count > 1 else (0.0 if self.count else None)
        return named_rows(COLUMNS)._make((
            self.total, self.nulls, self.nans, self.infinities, self.minimum, self.maximum, total,
            self.mean if self.count else None, variance, None if variance is None else math.sqrt(variance), self.trues,
            self.empties, self.shortest, self.longest, self.length / self.texts if self.texts else None,
        ))  # fmt: skip


def exact_parts(values: Iterable[Any]) -> tuple[Any, ...]:
    """Numbers with the same sum: few, and none of them rounded (Shewchuk's partial sums of floating-point numbers).

    >>> exact_parts([1, 2]), exact_parts([1e16, 1.0, -1e16]), exact_parts([])
    ((3,), (1.0, 0.0), ())
    """
    given = list(values)
    if not any(isinstance(value, float) for value in given):
        return (exact_sum(given),) if given else ()
    parts: list[float] = []
    for value in given:
        rest = float(value)
        kept = []
        for part in parts:
            high, low = (rest, part) if abs(rest) >= abs(part) else (part, rest)
            total = high + low
            if error := low - (total - high):
                kept.append(error)
            rest = total
        parts = [*kept, rest]
    return tuple(parts)


class _Summarized(InPart):
    def __init__(self, width: int | None) -> None:
        self._width = width

    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        partials = [Partial() for _ in range(self._width or 0)]
        for row in rows:
            values = row if isinstance(row, tuple) else (row,)
            partials = partials or [Partial() for _ in values]
            for partial, value in zip(partials, values, strict=True):
                partial.add(value)
        if partials:
            yield self.context.subtask, tuple(partial.state for partial in partials)


def _merged(rows: Iterable[Any]) -> Iterator[Any]:
    partials: list[Partial] = []
    for _, states in sorted(rows, key=lambda row: int(row[0])):  # so that no sum depends on who was quicker
        others = [Partial(tuple(state)) for state in states]
        for partial, other in zip(partials, others, strict=False):
            partial.merge(other)
        partials = partials or others
    yield tuple(partial.result() for partial in partials)


def summarize(data_set: B) -> B:
    """A row with a summary of each field."""
    width = len(data_set.fields) if data_set.fields else None
    parts = data_set.derive(PartsMapped(_Summarized(width))).name("Summarize Parts")
    merged = parts.reduce_group(_merged)  # type: ignore[attr-defined]
    result: B = merged.declaring_as(data_set.fields, TypedBy((data_set,), _types_of_summaries)).name("Summarize")
    return result


def _types_of_summaries(row: RowType) -> Types:
    return None if row.types is None else tuple(None if kind is None else _summary_of(kind) for kind in row.types)


def _summary_of(kind: DataType) -> DataType:
    whole, floating = Plain("bigint"), Plain("double")
    total: DataType = floating
    if isinstance(kind, Decimal):
        total = Decimal(38, kind.scale)
    elif kind.is_whole_number:
        total = whole
    extreme = Plain("string") if kind.is_nested or kind == Plain("boolean") else kind
    types = (whole, whole, whole, whole, extreme, extreme, total, floating, floating, floating, *[whole] * 4, floating)
    return Struct(tuple(Field(name, one) for name, one in zip(COLUMNS, types, strict=True)))


class _Checked(InPart):
    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        count = total = 0
        for row in rows:
            count += 1
            total += stable_hash(_hashable(row))
        yield count, total


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(_hashable(part) for part in value)
    if isinstance(value, dict):
        return frozenset((_hashable(key), _hashable(part)) for key, part in value.items())
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def checksum(data_set: B) -> B:
    """A row with the number of rows, and a sum of hashes that does not depend on their order."""
    parts = data_set.derive(PartsMapped(_Checked()), schema="rows long, checksum long").name("Checksum Parts")
    added: B = parts.reduce(lambda first, second: (first.rows + second.rows, first.checksum + second.checksum))  # type: ignore[attr-defined]
    return added.name("Checksum")
