"""Functions of the user's as drivers call them: rows that have names get them, and a computed key is taken off before."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from numbers import Number
from typing import Any, Final, TypeAlias

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import require_use
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.operators.datasets.key_values import largest, smallest
from dagster_operators.operators.datasets.rows import Row

_EXACT: Final = Context(prec=100)
_NUMBERS: Final = frozenset({int, float, Decimal})
"""Those whose types need no second look."""

MakeRow: TypeAlias = Callable[[Any], Row]
"""Makes a row of what a function gives."""


class Wrapped(RichFunction):
    """A function of the user's, called in another way; it is opened and closed where it has to be.

    Args:
        function: The user's.
        call: The function that calls it.
    """

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        self._function = function
        self._call = call

    @override
    def open(self, context: RuntimeContext) -> None:
        if isinstance(self._function, RichFunction):
            self._function.open(context)

    @override
    def close(self) -> None:
        if isinstance(self._function, RichFunction):
            self._function.close()

    @override
    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)


class Adapted(Wrapped):
    """A function of the user's as an operator calls it, with the operator's parameters.

    Args:
        function: The user's.
        call: From it to the function that a driver calls.
        parameters: What the user gave the operator.
    """

    def __init__(
        self, function: Callable[..., Any], call: Callable[[Callable[..., Any]], Callable[..., Any]], parameters: dict[str, Any]
    ) -> None:
        super().__init__(function, call(function))
        self._parameters = parameters

    @override
    def open(self, context: RuntimeContext) -> None:
        context.parameters = {**context.parameters, **self._parameters}
        super().open(context)


def require_function(given: Any, operator: str | None = None) -> None:
    """Refuse what is no function where it is written, and not when the first row comes.

    Raises:
        PipelineError: It cannot be called.

    >>> require_function("v > 1", "Filter")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: 'v > 1' is no function [operator 'Filter']. To do: give a function of rows, as ...
    """
    if not callable(given):
        raise PipelineError(
            f"{given!r} is no function", operator=operator,
            remedy="give a function of rows, as lambda row: row.v > 1; filter and select take Spark SQL",
        )  # fmt: skip


def around(function: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls the user's in another way; it is opened and closed where the user's has to be.

    >>> around(max, lambda first, second: max(first[0], second[0]))((1,), (2,))
    2
    """
    require_function(function)
    require_use(function, None, None)
    return Wrapped(function, call) if isinstance(function, RichFunction) else call


def giving_one(make: MakeRow) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Calls of a function that gives a row each time."""
    return lambda function: lambda *arguments: make(function(*arguments))


def giving_several(make: MakeRow) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Calls of a function that gives any number of rows each time, or None for none."""

    def call(function: Callable[..., Any]) -> Callable[..., Iterator[Row]]:
        def several(*arguments: Any) -> Iterator[Row]:
            return map(make, _several(function(*arguments)))

        return several

    return call


def _several(result: Any) -> Iterable[Any]:
    """Several rows; a text, a mapping or a record is one, whose letters or fields would be rows in silence."""
    if result is None:
        return ()
    if isinstance(result, str | bytes | Mapping) or hasattr(result, "_fields"):
        raise SchemaError(
            f"a function that gives any number of rows gave {result!r:.100}, which is one", remedy="give a list of rows, as [row]"
        )
    rows: Iterable[Any] = result
    return rows


def unkeyed(rows: Iterable[tuple[Any, Row]]) -> Iterator[Row]:
    """Rows without the key that was computed of them.

    >>> list(unkeyed([("k", 1)]))
    [1]
    """
    return (row for _, row in rows)


def exact_sum(values: Sequence[Any]) -> Any:
    """The sum of some values; decimals are not rounded to the digits of Python's context.

    >>> from decimal import Decimal
    >>> exact_sum([Decimal("1e30"), Decimal("0.01")])
    Decimal('1000000000000000000000000000000.01')
    >>> exact_sum([1, 2.5])
    3.5
    """
    add = _EXACT.add if isinstance(values[0], Decimal) else operator.add
    return reduce(add, values)


def _require_numbers(values: Sequence[Any], field: object) -> None:
    """Texts and lists would be joined in the order in which rows come, and truth values counted: Flink sums neither."""
    if (kinds := set(map(type, values))) <= _NUMBERS:
        return
    for kind in kinds:
        if issubclass(kind, bool) or not issubclass(kind, Number):
            raise PipelineError(
                f"a value of type {kind.__name__} has no sum",
                column=field,
                remedy="sum a field of numbers, or write reduce(function)",
            )


def aggregated(kind: str, values: Sequence[Any], field: object) -> Any:
    """The aggregate of some values of a field, none of which may be null.

    Raises:
        PipelineError: One is null, or no number and summed.

    >>> aggregated("sum", [1, 2], "v"), aggregated("max", [1, 2], "v")
    (3, 2)
    >>> aggregated("sum", ["a", "b"], "v")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: a value of type str has no sum [column 'v']. To do: sum a field of ...
    """
    if None in values:
        raise PipelineError(f"a value of {field!r} is null, and aggregated", remedy="filter such rows out before")
    if kind == "sum":
        _require_numbers(values, field)
        return exact_sum(values)
    return smallest(values) if kind == "min" else largest(values)
