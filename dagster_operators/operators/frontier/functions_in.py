"""The user's functions in an operator: itself, or those that a constructor of the library and a scope hold on to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from dagster_operators.graph.user_functions import UserFunction


def functions_in(value: Any) -> Iterator[FunctionType]:
    """All functions in a value, in a fixed order; those of this package last, because they need not be sent anywhere.

    >>> [function.__name__ for function in functions_in(({"a": functions_in}, 5))]
    ['functions_in']
    """
    found = list(_walk(value))
    yield from sorted(found, key=lambda function: function.__module__.startswith("dagster_operators."))


def _walk(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, UserFunction):
        yield from _walk(tuple(value.content()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _walk(part)
    elif isinstance(value, Mapping):
        yield from _walk(tuple(value.values()))
    elif type(value).__module__.startswith("dagster_operators.operators.frontier") and hasattr(value, "__dict__"):
        yield from _walk(vars(value))
