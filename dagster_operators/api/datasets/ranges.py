"""Parts of given bounds (Flink's ``partitionByRange`` with a distribution)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dagster_operators.api.datasets.keys import KeyFunction, Keys
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.key_values import key_value
from dagster_operators.operators.datasets.rows import value_of
from dagster_operators.optimizer.properties.fields import Field
from dagster_operators.optimizer.properties.ordering import Direction


class PartsOfRange:
    """A function from a key to its part. With more bounds than parts need, neighbouring ranges share a part.

    Args:
        bounds: The last key of each range but the last one, in order.
        ways: The order of each field of the key.
        operator: The operator, for errors.

    Raises:
        PipelineError: The bounds are not in order, or have another number of fields than the key.

    >>> part = PartsOfRange([10, 20, 30], [Direction.ASCENDING])
    >>> [part(key, 4) for key in (10, 11, 31)], [part(key, 2) for key in (10, 11, 31)]
    ([0, 1, 3], [0, 0, 1])
    """

    def __init__(self, bounds: Sequence[Any], ways: Sequence[Direction], operator: str | None = None) -> None:
        self._bounds = tuple(map(key_value, bounds))
        self._ways = tuple(ways)
        self._written = repr(self._bounds)  # whoever compares programs sees values of every type
        if len(ways) > 1 and any(not isinstance(bound, tuple) or len(bound) != len(ways) for bound in self._bounds):
            raise PipelineError(
                "a bound has another number of fields than the key", operator=operator,
                remedy="give tuples with a value for each field of the key",
            )  # fmt: skip
        if any(not self._is_before(first, second) for first, second in pairwise(self._bounds)):
            raise PipelineError(
                "the bounds are not in the order of the key", operator=operator,
                remedy="sort them as the parts follow one another, and name each once",
            )  # fmt: skip

    def __call__(self, key: Any, parts: int) -> int:
        """The part of a key.

        Args:
            key: The key.
            parts: The number of parts.
        """
        low, high = 0, len(self._bounds)
        while low < high:
            middle = (low + high) // 2
            if self._is_before(self._bounds[middle], key):
                low = middle + 1
            else:
                high = middle
        ranges = len(self._bounds) + 1
        return low if ranges <= parts else low * parts // ranges

    def _is_before(self, first: Any, second: Any) -> bool:
        pairs = zip(first, second, self._ways, strict=True) if len(self._ways) > 1 else ((first, second, self._ways[0]),)
        for one, other, way in pairs:
            if one != other:
                return bool(one < other) is (way is Direction.ASCENDING)
        return False


def range_key(keys: Keys) -> Field | KeyFunction:
    """The key as one value: a field, or a function that gives a tuple of several."""
    if keys.function is not None:
        return keys.function
    fields = keys.fields
    return fields[0] if len(fields) == 1 else lambda row: tuple(value_of(row, field) for field in fields)
