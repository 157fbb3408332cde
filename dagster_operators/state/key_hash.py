"""Spark's ``xxhash64`` over Arrow columns, vectorised, and the subtask that a hash belongs to.

The hash is XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md) with seed 42 as Spark applies
it: numbers by their 4 or 8 bytes, each further column with the hash so far as its seed, nulls skipped. Workers thus know which
of their keys Spark sends to which subtask, and state that one wrote is found by another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dagster_operators.graph.key_group import KEY_GROUPS, SHIFT

LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The range of the hash."""

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_STRIPE = 32


def normal_key(array: Any) -> Any:
    """A key column with one spelling for equal values, as Spark groups them: -0.0 becomes 0.0, and every NaN the same one."""
    if not kinds.is_floating(array.type):
        return array
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return pa.array(values, array.type, mask=_nulls(array))


def hash_columns(columns: Sequence[Any]) -> np.ndarray:
    """``xxhash64`` of rows of Arrow arrays (of types that keys may have), as signed 64-bit numbers.

    >>> hash_columns([pa.array([1, None]), pa.array(["a", "b"])]).tolist()  # xxhash64(1L, 'a'), xxhash64(CAST(NULL AS long), 'b')
    [-8527884376001292090, -6391946315847899181]
    """
    running = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        hashed = _hash(column, running)
        nulls = _nulls(column)
        running = hashed if nulls is None else np.where(nulls, running, hashed)
    return running.view(np.int64)


def key_groups(hashes: np.ndarray) -> np.ndarray:
    """The key group of each hash, 0 to 127.

    >>> key_groups(np.array([LOWEST, -1, 0, HIGHEST])).tolist()
    [0, 63, 64, 127]
    """
    return (hashes >> SHIFT) + KEY_GROUPS // 2


def subtasks(hashes: np.ndarray, parallelism: int) -> np.ndarray:
    """The subtask of each hash.

    >>> subtasks(np.array([LOWEST, -1, 0, HIGHEST]), 3).tolist()
    [0, 1, 1, 2]
    """
    return key_groups(hashes) * parallelism // KEY_GROUPS


def group_bounds(subtask: int, parallelism: int) -> tuple[int, int]:
    """The first key group of a subtask, and the first one after it.

    >>> [group_bounds(subtask, 3) for subtask in range(3)]
    [(0, 43), (43, 86), (86, 128)]
    """
    return -(-subtask * KEY_GROUPS // parallelism), -(-(subtask + 1) * KEY_GROUPS // parallelism)


def hash_bounds(subtask: int, parallelism: int) -> tuple[int, int]:
    """The smallest and the largest hash of a subtask.

    >>> hash_bounds(0, 1) == (LOWEST, HIGHEST), hash_bounds(1, 2) == (0, HIGHEST)
    (True, True)
    """
    low, high = group_bounds(subtask, parallelism)
    return lowest_hash(low), lowest_hash(high) - 1


def lowest_hash(group: int) -> int:
    """The smallest hash of a key group."""
    return (group - KEY_GROUPS // 2) << SHIFT


def with_group_of(hashes: np.ndarray, placing: np.ndarray) -> np.ndarray:
    """Hashes in the key group of other hashes: for a key that says more than what the rows were distributed by.

    >>> key_groups(with_group_of(np.array([1, 2]), np.array([LOWEST, HIGHEST]))).tolist()
    [0, 127]
    """
    low = np.int64((1 << SHIFT) - 1)
    placed: np.ndarray = (placing & ~low) | (hashes & low)
    return placed


def _nulls(array: Any) -> np.ndarray | None:
    if not array.null_count:
        return None
    nulls: np.ndarray = pc.is_null(array).to_numpy(zero_copy_only=False)
    return nulls


def _hash(array: Any, seed: np.ndarray) -> np.ndarray:
    kind = array.type
    if kinds.is_string(kind) or kinds.is_binary(kind):
        return _hash_bytes(array, seed)
    if kinds.is_boolean(kind):
        return _hash_int(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64), seed)  # noqa: FBT003
    if kinds.is_decimal(kind):
        return _hash_long(fixed_values(array, np.dtype("<u8"), 2)[::2], seed)
    if kinds.is_floating(kind):
        array = normal_key(array)
    width = kind.bit_width // 8
    values = fixed_values(array, np.dtype(f"<i{width}"))
    if width < 8:  # noqa: PLR2004
        return _hash_int(values.astype(np.int32).view(np.uint32).astype(np.uint64), seed)
    return _hash_long(values.view(np.uint64), seed)


def fixed_values(array: Any, dtype: np.dtype[Any], per_row: int = 1) -> np.ndarray:
    """The values of a column of fixed width without a copy, ``per_row`` numbers a row; what stands at nulls is not defined."""
    data = array.buffers()[1]
    count = len(array) * per_row
    if data is None or not count:
        return np.zeros(count, dtype)
    return np.frombuffer(data, dtype, count, array.offset * per_row * dtype.itemsize)


def _rotate(values: np.ndarray, bits: int) -> np.ndarray:
    rotated: np.ndarray = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated


def _round(lane: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotate(lane + word * _P2, 31) * _P1


def _avalanche(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    mixed: np.ndarray = values ^ (values >> np.uint64(32))
    return mixed


def _add_word(values: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotate(values ^ (_rotate(word * _P2, 31) * _P1), 27) * _P1 + _P4


def _add_half_word(values: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotate(values ^ (word * _P1), 23) * _P2 + _P3


def _add_byte(values: np.ndarray, byte: np.ndarray) -> np.ndarray:
    return _rotate(values ^ (byte * _P5), 11) * _P1


def _hash_long(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    return _avalanche(_add_word(seed + _P5 + np.uint64(8), values))


def _hash_int(values: np.ndarray, seed: np.ndarray) -> np.ndarray:
    return _avalanche(_add_half_word(seed + _P5 + np.uint64(4), values))


def _hash_bytes(array: Any, seed: np.ndarray) -> np.ndarray:
    """XXH64 of strings; all rows take each step together, the longest rows the most steps."""
    if not len(array):
        return seed
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    first, last = int(starts[0]), int(starts[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if data is not None:
        padded[:-8] = np.frombuffer(data, np.uint8, last - first, first)
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    lengths = np.diff(starts)
    at = starts[:-1] - first
    left = lengths.copy()
    result = seed + _P5
    long = np.flatnonzero(lengths >= _STRIPE)
    if long.size:
        result[long] = _hash_stripes(words, at[long], lengths[long], seed[long])
        at[long] += lengths[long] // _STRIPE * _STRIPE
        left[long] %= _STRIPE
    result += lengths.astype(np.uint64)
    for size, add, mask in ((8, _add_word, 2**64 - 1), (4, _add_half_word, 2**32 - 1), (1, _add_byte, 2**8 - 1)):
        while (rows := np.flatnonzero(left >= size)).size:
            everyone = rows.size == left.size
            where = slice(None) if everyone else rows
            result[where] = add(result[where], words[at[where]] & np.uint64(mask))
            at[where] += size
            left[where] -= size
    return _avalanche(result)


def _hash_stripes(words: np.ndarray, at: np.ndarray, lengths: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """The part of XXH64 that takes 32 bytes at a time in four lanes."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    left = lengths.copy()
    place = at.copy()
    while (rows := np.flatnonzero(left >= _STRIPE)).size:
        for lane, accumulator in enumerate(lanes):
            accumulator[rows] = _round(accumulator[rows], words[place[rows] + 8 * lane])
        place[rows] += _STRIPE
        left[rows] -= _STRIPE
    result: np.ndarray = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    for accumulator in lanes:
        result = (result ^ _round(np.zeros_like(seed), accumulator)) * _P1 + _P4
    return result
