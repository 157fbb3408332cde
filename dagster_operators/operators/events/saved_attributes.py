"""An operator's attributes as bytes and back: plain values, Arrow and NumPy data, and never code.

The bytes are a JSON text, behind its length, and then the parts that are bytes themselves. What several attributes share they
share again when it is read.
"""

from __future__ import annotations

import io
import json
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from dagster_operators.errors import OperatorFailedError, StorageError

_FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    "list": list, "dict": dict, "set": set, "int": int, "float": float, "str": str, "bool": bool, "deque": deque,
}  # fmt: skip
_TEXTS: Final[dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]]] = {
    date: ("date", date.isoformat, date.fromisoformat),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    complex: ("complex", str, complex),
}
"""Types whose values are written as a text."""

VERSION: Final = 2
"""The version of what is saved: 1, which says none, has times of the day without zone and fold."""

_BY_NAME: Final = {name: read for name, _, read in _TEXTS.values()}
_REMEDY: Final = (
    "keep plain values, Arrow or NumPy data in it; or give the operator get_state() and set_state(value), which take out and put "
    "back what is to be kept; or write state: pickle in its YAML"
)


class _NotPlainError(Exception):
    """A value is none that can be saved."""


def save(attributes: Mapping[str, Any], **where: Any) -> bytes:
    """Attributes as bytes: the same for equal attributes.

    Raises:
        OperatorFailedError: One cannot be saved, with its name.

    >>> load(save({"count": 3, "seen": {"a", "b"}})) == {"count": 3, "seen": {"a", "b"}}
    True
    >>> save({"lock": object()})
    Traceback (most recent call last):
    dagster_operators.errors.OperatorFailedError: the attribute 'lock' cannot be saved: it holds a value of the type object ...
    """
    writer, tree = _Writer(), {}
    for name, value in sorted(attributes.items()):
        try:
            tree[name] = writer.tree(value)
        except _NotPlainError as error:
            raise OperatorFailedError(
                f"the attribute {name!r} cannot be saved: it holds {error}", **where, attribute=name, remedy=_REMEDY
            ) from None
        except RecursionError:
            raise OperatorFailedError(
                f"the attribute {name!r} cannot be saved: it is nested too deeply", **where, attribute=name, remedy=_REMEDY
            ) from None
    return _joined(tree, writer.parts)


def load(data: bytes) -> dict[str, Any]:
    """The attributes that were saved.

    Raises:
        StorageError: The bytes are none that ``save`` made.
    """
    try:
        (size,) = struct.unpack_from("<Q", data)
        head, parts, at = checked(json.loads(data[8 : 8 + size])), [], 8 + size
        for length in head["sizes"]:
            parts.append(data[at : at + length])
            at += length
        reader = _Reader(parts)
        return {name: reader.value(part) for name, part in head["tree"].items()}
    except (struct.error, ValueError, KeyError, IndexError, TypeError, AttributeError, pa.ArrowException) as error:
        raise StorageError(
            "the saved attributes of an operator cannot be read", reason=str(error), remedy="roll the pipeline back"
        ) from error


def checked(head: dict[str, Any]) -> dict[str, Any]:
    """What was saved with a version, if this version of the package can read it.

    Raises:
        StorageError: It cannot.
    """
    if head.get("version", 1) > VERSION:
        raise StorageError(
            "a newer version of dagster_operators saved the state of the event operators", remedy="upgrade dagster_operators"
        )
    return head


def _joined(tree: Any, parts: list[bytes]) -> bytes:
    head = json.dumps({"version": VERSION, "tree": tree, "sizes": [len(part) for part in parts]}).encode()
    return b"".join([struct.pack("<Q", len(head)), head, *parts])


def _alone(value: Any) -> bytes:
    """A member of a set as bytes, by which members are put in order."""
    writer = _Writer()
    return _joined(writer.tree(value), writer.parts)


class _Writer:
    """Makes JSON of values, and collects the parts that are bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []
        self._immutable: dict[type, Callable[[Any], Any]] = {
            bytes: lambda value: ["bytes", self._part(value)],
            tuple: lambda value: ["tuple", self._list(value)],
            datetime: lambda value: ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)],
            time: lambda value: ["time", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)],
            timedelta: lambda value: ["timedelta", value.days, value.seconds, value.microseconds],
            range: lambda value: ["range", value.start, value.stop, value.step],
        }
        self._mutable: dict[type, Callable[[Any], Any]] = {
            list: lambda value: ["list", self._list(value)],
            dict: lambda value: ["dict", self._pairs(value)],
            OrderedDict: lambda value: ["OrderedDict", self._pairs(value)],
            Counter: lambda value: ["Counter", self._pairs(value)],
            defaultdict: lambda value: ["defaultdict", _factory(value), self._pairs(value)],
            set: lambda value: ["set", self._list(sorted(value, key=_alone))],
            frozenset: lambda value: ["frozenset", self._list(sorted(value, key=_alone))],
            deque: lambda value: ["deque", value.maxlen, self._list(value)],
            bytearray: lambda value: ["bytearray", self._part(bytes(value))],
            np.ndarray: lambda value: ["ndarray", self._numpy(value)],
        }

    def tree(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in self._immutable:
            return self._immutable[kind](value)
        if kind in _TEXTS:
            return [_TEXTS[kind][0], _TEXTS[kind][1](value)]
        if kind in self._mutable:
            return self._shared(value, self._mutable[kind])
        return ["scalar", self._numpy(np.array(value))] if isinstance(value, np.generic) else self._arrow(value)

    def _shared(self, value: Any, write: Callable[[Any], Any]) -> Any:
        """What can be changed, and so must be one thing again where it was one."""
        if id(value) in self._known:
            return ["again", self._known[id(value)]]
        self._known[id(value)] = len(self._kept)
        self._kept.append(value)
        return write(value)

    def _list(self, values: Iterable[Any]) -> list[Any]:
        return [self.tree(value) for value in values]

    def _pairs(self, value: Mapping[Any, Any]) -> list[Any]:
        return [[self.tree(key), self.tree(part)] for key, part in value.items()]

    def _part(self, data: bytes) -> int:
        self.parts.append(data)
        return len(self.parts) - 1

    def _numpy(self, value: Any) -> int:
        if value.dtype.hasobject:
            raise _NotPlainError("a NumPy array of objects")
        target = io.BytesIO()
        np.save(target, value, allow_pickle=False)
        return self._part(target.getvalue())

    def _arrow(self, value: Any) -> Any:
        for kind, name, batches in _ARROW:
            if isinstance(value, kind):
                return [name, self._stream(*batches(value))]
        if isinstance(value, pa.Schema):
            return ["schema", self._part(value.serialize().to_pybytes())]
        if isinstance(value, pa.DataType):
            return ["type", self._part(pa.schema([("", value)]).serialize().to_pybytes())]
        raise _NotPlainError(f"a value of the type {type(value).__qualname__}")

    def _stream(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return self._part(sink.getvalue().to_pybytes())


def _chunks(chunks: list[pa.Array], kind: pa.DataType) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    schema = pa.schema([("", kind)])
    return schema, [pa.record_batch([chunk], schema=schema) for chunk in chunks]


_ARROW: Final[list[tuple[Any, str, Callable[[Any], tuple[pa.Schema, list[pa.RecordBatch]]]]]] = [
    (pa.Table, "table", lambda value: (value.schema, value.to_batches())),
    (pa.RecordBatch, "batch", lambda value: (value.schema, [value])),
    (pa.ChunkedArray, "chunks", lambda value: _chunks(value.chunks, value.type)),
    (pa.Array, "array", lambda value: _chunks([value], value.type)),
    (pa.Scalar, "arrow", lambda value: _chunks([pa.array([value.as_py()], value.type)], value.type)),
]


def _zone(zone: Any) -> Any:
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    if isinstance(zone, timezone):
        name, seconds = zone.tzname(None), zone.utcoffset(None).total_seconds()
        return seconds if name == timezone(zone.utcoffset(None)).tzname(None) else [seconds, name]
    if zone is not None:
        raise _NotPlainError(f"a time in a time zone of the type {type(zone).__qualname__}")
    return None


def _zone_of(saved: Any) -> ZoneInfo | timezone | None:
    """The zone that ``_zone`` made a name, an offset, or an offset and its name of."""
    if saved is None or isinstance(saved, str):
        return None if saved is None else ZoneInfo(saved)
    seconds, *name = saved if isinstance(saved, list) else [saved]
    return timezone(timedelta(seconds=seconds), *name)


def _factory(value: defaultdict[Any, Any]) -> str | None:
    name = next((name for name, made in _FACTORIES.items() if value.default_factory is made), None)
    if name is None and value.default_factory is not None:
        raise _NotPlainError("a defaultdict whose values a function makes")
    return name


class _Reader:
    """Makes values of JSON."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self._kept: list[Any] = []

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        kind, *given = tree
        if kind in _BY_NAME:
            return _BY_NAME[kind](given[0])
        if kind == "again":
            return self._kept[given[0]]
        made = getattr(self, f"_{kind}", None)
        if made is None:
            raise ValueError(f"there is a value of the kind {kind!r}")
        return made(*given)

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _bytes(self, part: int) -> bytes:
        return self._parts[part]

    def _tuple(self, values: list[Any]) -> tuple[Any, ...]:
        return tuple(map(self.value, values))

    def _datetime(self, text: str, fold: int, zone: Any) -> datetime:
        return datetime.fromisoformat(text).replace(tzinfo=_zone_of(zone), fold=fold)

    def _time(self, text: str, *more: Any) -> time:
        fold, zone = more or (0, None)
        found = time.fromisoformat(text)  # of version 1 with its offset, and nothing more
        return found.replace(tzinfo=_zone_of(zone), fold=fold) if more else found

    def _timedelta(self, days: int, seconds: int, micros: int) -> timedelta:
        return timedelta(days, seconds, micros)

    def _range(self, start: int, stop: int, step: int) -> range:
        return range(start, stop, step)

    def _scalar(self, part: int) -> Any:
        return self._array_of(part)[()]

    def _array_of(self, part: int) -> Any:
        return np.load(io.BytesIO(self._parts[part]), allow_pickle=False)

    def _list(self, values: list[Any]) -> list[Any]:
        made = self._keep([])
        made.extend(map(self.value, values))
        return made  # type: ignore[no-any-return]

    def _dict(self, pairs: list[Any]) -> Any:
        return self._filled(self._keep({}), pairs)

    def _OrderedDict(self, pairs: list[Any]) -> Any:  # noqa: N802 - called as the type
        return self._filled(self._keep(OrderedDict()), pairs)

    def _Counter(self, pairs: list[Any]) -> Any:  # noqa: N802 - called as the type
        return self._filled(self._keep(Counter()), pairs)

    def _defaultdict(self, factory: str | None, pairs: list[Any]) -> Any:
        return self._filled(self._keep(defaultdict(_FACTORIES[factory] if factory else None)), pairs)

    def _filled(self, made: Any, pairs: list[Any]) -> Any:
        for key, part in pairs:
            made[self.value(key)] = self.value(part)
        return made

    def _set(self, values: list[Any]) -> Any:
        made = self._keep(set())
        made.update(map(self.value, values))
        return made

    def _frozenset(self, values: list[Any]) -> Any:
        place = len(self._kept)
        self._kept.append(None)
        self._kept[place] = frozenset(map(self.value, values))
        return self._kept[place]

    def _deque(self, longest: int | None, values: list[Any]) -> Any:
        made = self._keep(deque(maxlen=longest))
        made.extend(map(self.value, values))
        return made

    def _bytearray(self, part: int) -> Any:
        return self._keep(bytearray(self._parts[part]))

    def _ndarray(self, part: int) -> Any:
        return self._keep(self._array_of(part))

    def _open(self, part: int) -> Any:
        return pa.ipc.open_stream(pa.py_buffer(self._parts[part]))

    def _table(self, part: int) -> Any:
        return self._open(part).read_all()

    def _batch(self, part: int) -> Any:
        return self._open(part).read_next_batch()

    def _chunks(self, part: int) -> Any:
        return self._open(part).read_all().column(0)

    def _array(self, part: int) -> Any:
        return self._batch(part).column(0)

    def _arrow(self, part: int) -> Any:
        return self._array(part)[0]

    def _schema(self, part: int) -> Any:
        return pa.ipc.read_schema(pa.py_buffer(self._parts[part]))

    def _type(self, part: int) -> Any:
        return self._schema(part).field(0).type
