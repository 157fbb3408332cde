"""The parts of rows by the hash of their keys, column by column: those that :mod:`.part_numbers` gives for one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.operators.datasets.arrow_columns import Place
from dagster_operators.operators.datasets.arrow_values import values_of
from dagster_operators.operators.datasets.running.part_numbers import BITS, PRIME, stable_hash
from dagster_operators.types.arrow_schema import spark_type

_MODULUS: Final = 2**61 - 1
"""Python's hash of a number is the number without multiples of it."""
_EPOCH: Final = 719163
"""The number that Python gives the first day of 1970."""


def parts_of(keys: Sequence[Any], parts: int) -> npt.NDArray[np.int64]:
    """The part of each key.

    Args:
        keys: The arrays of the key's fields, which have no nulls and nothing that is no number.
        parts: The number of parts.

    >>> from dagster_operators.operators.datasets.running.part_numbers import part_of
    >>> parts_of([pa.array([1, 7]), pa.array(["a", "b"])], 97).tolist() == [part_of((1, "a"), 97), part_of((7, "b"), 97)]
    True
    """
    bits = np.uint64(BITS)
    mixed = np.full(len(keys[0]), len(keys), np.uint64)
    for column in keys:
        mixed = (mixed * np.uint64(31) + _hashes(column)) & bits
    return (mixed % np.uint64(parts)).astype(np.int64)


def _hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    kind, tests = column.type, pa.types
    if tests.is_integer(kind):
        return _mixed(_of_numbers(column.cast(pa.int64()).to_numpy()))
    if tests.is_date32(kind):
        return _mixed(column.cast(pa.int32()).to_numpy().astype(np.int64) + _EPOCH)
    if tests.is_timestamp(kind) and kind.tz:
        return _mixed(column.cast(pa.int64()).to_numpy())
    encoded: Any = pc.dictionary_encode(column)
    values = values_of(encoded.dictionary, spark_type(kind), Place())
    hashes = np.fromiter(map(stable_hash, values), np.uint64, len(values))
    found: npt.NDArray[np.uint64] = hashes[encoded.indices.to_numpy()]
    return found


def _of_numbers(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Python's own hash of whole numbers."""
    if len(numbers) and (numbers.min() <= -_MODULUS or numbers.max() >= _MODULUS):
        sizes = np.where(numbers < 0, np.uint64(0) - numbers.astype(np.uint64), numbers.astype(np.uint64)) % np.uint64(_MODULUS)
        numbers = np.where(numbers < 0, -sizes.astype(np.int64), sizes.astype(np.int64))
    return np.where(numbers == -1, -2, numbers)


def _mixed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """As :func:`.part_numbers.mixed` does it."""
    bits = np.uint64(BITS)
    low = (numbers ^ (numbers >> 32)).astype(np.uint64) & bits
    return (low * np.uint64(PRIME) & bits) >> np.uint64(7) ^ low
