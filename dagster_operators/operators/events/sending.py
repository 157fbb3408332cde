"""What an operator hands to ``send_output``: data as an Arrow array, and metadata as dora passes them on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from dagster_operators.errors import SendOutputError


def own_copy(array: pa.Array) -> pa.Array:
    """The array in memory of its own: it may be a view of what its sender writes to next."""
    return pa.concat_arrays([array, array.slice(0, 0)])


def as_array(data: Any, copy: Callable[[pa.Array], pa.Array] = own_copy) -> pa.Array:
    """The value of a message: an array of its own memory, whatever its sender does with the data afterwards.

    Bytes are an array of ``uint8``, a record batch or table one of structs; arrays, lists and NumPy arrays stay what they are.

    Args:
        data: What was handed to ``send_output``.
        copy: Copies an array or a NumPy array's values; by default to memory of its own.

    Raises:
        SendOutputError: The data are none of these.

    >>> as_array(b"ab").to_pylist(), as_array([1, 2]).type, as_array(pa.scalar(1.5)).to_pylist()
    ([97, 98], DataType(int64), [1.5])
    """
    if isinstance(data, pa.Array):
        return copy(data.storage if isinstance(data, pa.ExtensionArray) else data)
    for kinds, made in _MADE:
        if isinstance(data, kinds):
            return made(data)
    if isinstance(data, np.ndarray) and data.ndim == 1 and not data.dtype.hasobject:
        return copy(pa.array(data))
    what = f"a NumPy array of {data.ndim} dimensions" if isinstance(data, np.ndarray) else f"{type(data).__name__} {data!r:.60}"
    raise SendOutputError(
        f"send_output cannot send {what}",
        remedy="send an Arrow array: pa.array([...]); bytes, a list, a one-dimensional NumPy array (array.ravel()) and a record "
        "batch are taken too",
    )


def _of_list(data: list[Any] | tuple[Any, ...]) -> pa.Array:
    try:
        return pa.array(data)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise SendOutputError(
            f"send_output cannot make an array of a list: {error}",
            remedy="let all its values be of one type, or send pa.array(...)",
        ) from None


def _one(chunks: pa.ChunkedArray) -> pa.Array:
    return chunks.combine_chunks() if chunks.num_chunks != 1 else chunks.chunk(0)


def _of_bytes(data: bytes | bytearray | memoryview) -> pa.Array:
    own = bytes(data)
    return pa.Array.from_buffers(pa.uint8(), len(own), [None, pa.py_buffer(own)])


_MADE: Final[tuple[tuple[Any, Callable[[Any], pa.Array]], ...]] = (
    ((bytes, bytearray, memoryview), _of_bytes),
    (pa.RecordBatch, lambda data: own_copy(data.to_struct_array())),
    (pa.Table, lambda data: own_copy(_one(data.to_struct_array()))),
    (pa.ChunkedArray, lambda data: own_copy(_one(data))),
    (pa.Scalar, lambda data: pa.array([data.as_py()], data.type)),
    ((list, tuple), _of_list),
)


def as_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata of a message as its receiver gets them: what dora cannot carry arrives as text, with a warning.

    Raises:
        SendOutputError: A whole number has more than 64 bits, a number is NaN or infinite, a list has values of
            several types, a value has another text in every process, or this is no dictionary.

    >>> as_metadata({"width": 640, "box": (1.5, 2), "by": "me"})
    {'width': 640, 'box': [1.5, 2.0], 'by': 'me'}
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SendOutputError(f"the metadata of a message are {given!r:.60}", remedy="give a dictionary, or leave them out")
    return {str(key): _parameter(str(key), value) for key, value in given.items()}


def _parameter(key: str, value: Any) -> Any:
    kind = type(value)
    if kind is bool or kind is str:
        return value
    if isinstance(value, bool | int) and kind is not np.bool_:
        return _whole(key, value)
    if isinstance(value, float):
        return _finite(key, value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, list | tuple) and _type_of(value) is not None:
        return _list(key, value)
    if not _has_stable_text(value):
        raise SendOutputError(
            f"the parameter {key!r} of a message is or holds a {kind.__name__}, whose text is another in every process",
            remedy="send a text of it: str(...) of an object's own values, sorted(...) of a set",
        )
    warnings.warn(f"the parameter {key!r} of a message is a {kind.__name__}, and arrives as text", stacklevel=2)
    return str(value)


def _has_stable_text(value: Any) -> bool:
    """Whether the text of a value is the same in every process, so that a message that is sent again is the same."""
    if isinstance(value, Mapping):
        return all(_has_stable_text(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return all(map(_has_stable_text, value))
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    return value is None or isinstance(value, _STABLE)


_STABLE: Final = (
    bool, int, float, complex, str, bytes, bytearray, date, time, timedelta, tzinfo, Decimal, Fraction, UUID, range, Enum,
    PurePath, pa.Scalar, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table, pa.DataType, pa.Schema,
)  # fmt: skip


def _whole(key: str, value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise SendOutputError(f"the parameter {key!r} of a message has more than 64 bits", remedy="send it as text")
    return int(value)


def _finite(key: str, value: float) -> float:
    if not math.isfinite(value):
        raise SendOutputError(
            f"the parameter {key!r} of a message is {float(value)}, for which the JSON of an output's table has no number",
            remedy=f"send it as text, or leave it out: a receiver finds no {key!r} then",
        )
    return float(value)


def _type_of(values: list[Any] | tuple[Any, ...]) -> type | None:
    """What the first value says that all are; None for lists that dora carries as text."""
    if not values:
        return str
    first = values[0]
    if isinstance(first, bool):
        return None
    return next((kind for kind in (int, float, str) if isinstance(first, kind)), None)


def _list(key: str, values: list[Any] | tuple[Any, ...]) -> list[Any]:
    kind = _type_of(values)
    fits = (int, float) if kind is float else kind or ()
    if any(not isinstance(value, fits) or isinstance(value, bool) for value in values):
        raise SendOutputError(
            f"the parameter {key!r} of a message is a list of values of several types", remedy="let them be of one type"
        )
    if kind is int:
        return [_whole(key, value) for value in values]
    return [_finite(key, value) for value in values] if kind is float else list(values)
