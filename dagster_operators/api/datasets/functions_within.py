"""The user's own functions within operations: which there are, and what kind of function an operator calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import FunctionType, MethodType
from typing import Any, Final

from dagster_operators.api.datasets.calls.annotated import Annotated
from dagster_operators.functions.content import closed_over
from dagster_operators.operators.datasets.arrow_call import CallShape
from dagster_operators.operators.datasets.arrow_function import ArrowFunction

_OVER_ARROW: Final = {CallShape.PART: "Arrow parts", CallShape.GROUPS: "Arrow groups"}
_OWN: Final = "dagster_operators"


def is_own(value: Any) -> bool:
    """Whether a value is one of this package's."""
    return is_own_place(getattr(value, "__module__", "") if isinstance(value, FunctionType) else type(value).__module__)


def is_own_place(module: str | None) -> bool:
    """Whether a module is one of this package's."""
    return (module or "").partition(".")[0] == _OWN


def user_functions(value: Any, seen: set[int]) -> Iterator[Any]:
    """The user's own functions and callable objects in a value of this package's, which may hold them in closures.

    Args:
        value: The value.
        seen: The identities of the values that were looked into.
    """
    if id(value) in seen or isinstance(value, Annotated | type | str | bytes | int | float) or value is None:
        return
    seen.add(id(value))
    if isinstance(value, tuple | list):
        for part in value:
            yield from user_functions(part, seen)
    elif isinstance(value, Mapping):
        yield from user_functions(list(value.values()), seen)
    elif isinstance(value, MethodType) and is_own(value.__self__):
        yield from user_functions(value.__self__, seen)
    elif is_own(value):
        yield from user_functions(held_by(value), seen)
    elif callable(value):
        yield value


def held_by(value: Any) -> list[Any]:
    """What a value of this package's holds: in its closure, its fields, or its attributes."""
    if isinstance(value, FunctionType):
        cells = [held for _, held in closed_over(value)]
        return [*cells, *(value.__defaults__ or ())]
    if hasattr(value, "__dataclass_fields__"):
        return [getattr(value, field.name) for field in fields(value)]
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def function_kind(operation: Any) -> str:
    """The kind of function that an operation calls, as plans show it; empty of what needs none of the user's.

    Args:
        operation: The operation.

    >>> from dagster_operators.api.datasets.operations.row_wise import Mapped
    >>> from dagster_operators.operators.datasets.arrow_function import ArrowFunction
    >>> function_kind(Mapped(str)), function_kind(Mapped(ArrowFunction(len)))
    ('rows', 'Arrow batches')
    """
    function, shape = getattr(operation, "function", None), getattr(operation, "shape", None)
    if operation.reads_columns:
        return "Spark SQL"
    if isinstance(function, ArrowFunction):
        return "Arrow batches" if shape is None else _OVER_ARROW.get(shape, "Arrow batches")
    return "rows" if isinstance(function, type) or next(user_functions(function, set()), None) is not None else ""
