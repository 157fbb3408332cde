"""Files of Debezium's change events as DataFrames.

Events are taken apart in Python, in their order; their values are cast by the engine.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dagster_operators.connectors.connector import OnCorrupt
from dagster_operators.connectors.debezium import UnreadableEventError, entries_of
from dagster_operators.connectors.debezium_values import as_texts, has_bytes
from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD, MISSING, lacks_value
from dagster_operators.connectors.required_places import RequiredPlace
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.text_format import TextFormat, decoded_lines
from dagster_operators.connectors.text_salvage import cast_of
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import MOVE, OF_SEVERAL, OPERATION, PLACE, TRUNCATE, told_column
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import DataType, Plain
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

ENTRY_COLUMNS: Final = f"{OPERATION} string, {PLACE} bigint"
"""What comes behind the row's columns: what is done to it, and in which order."""

OnUnknown: TypeAlias = Literal["repair", "ignore", "fail"]
"""What an update or deletion of a key does that is not there."""

DEBEZIUM: Final = "debezium-json"
"""The format, as users call it."""

_ROWS = 4096
_TASKS = 32
_RAW, _FILE, _WRONG = "_record", "_file", "_wrong"
_HALF: Final = "_half"
"""Of an event that gives a row another key: 0 for taking the old row away, 1 for adding the new one; null for others."""
_LINE_BITS = 40
_LARGEST_ORDER = 2**61
_PATH: Final = re.compile(r"\w+(\.\w+)*")
_WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")

NO_EVENT: Final = "from_debezium: an event cannot be read: "
"""What a query says, before the reason, that fails on an event in a column."""


def keys_of(key: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The key columns as they were given.

    >>> keys_of("id"), keys_of(["a", "b"]), keys_of(None)
    (('id',), ('a', 'b'), None)
    """
    return None if key is None else (key,) if isinstance(key, str) else tuple(key)


def check_events(
    events: bool,  # noqa: FBT001 - whether the files are of events
    schema: str | None,
    key: str | Sequence[str] | None,
    options: Mapping[str, Any] | None,
    *,
    unknown: OnUnknown | None,
    order_by: str | None = None,
) -> None:
    """Raise PipelineError unless a source of files has the settings that its format needs, and no others."""
    keys = keys_of(key)
    if not events:
        if keys is not None or unknown is not None or order_by is not None:
            told = "an order_by" if keys is None and unknown is None else "a key"
            raise PipelineError(
                f"only change events have {told}", remedy=f"give format={DEBEZIUM!r}, or leave key=, unknown= and order_by= out"
            )
        return
    path: object = order_by
    if path is not None and not (isinstance(path, str) and _PATH.fullmatch(path)):
        raise PipelineError(
            f"order_by={path!r} is no field of a change event", remedy="write order_by='source.lsn', say: names and dots"
        )
    if unknown not in (None, "repair", "ignore", "fail"):
        raise PipelineError(f'unknown is "repair", "ignore" or "fail", not {unknown!r}', remedy="choose one of them")
    if options:
        raise PipelineError("change events are read without options", remedy="leave options= out")
    if schema is None or not keys:
        raise PipelineError("change events need the schema of the table's rows, and its key", remedy="give schema= and key=")
    check_key(schema, keys)


def order_in_state(order_by: str | None) -> str | None:
    """What :class:`~dagster_operators.operators.relational.to_changes.ToChanges` orders events of a source by.

    It names the field: by another one its state would mean something else.

    >>> order_in_state("source.lsn"), order_in_state(None)
    ('__place /* source.lsn */', None)
    """
    return None if order_by is None else f"{PLACE} /* {order_by} */"


def check_key(schema: str, keys: Sequence[str]) -> None:
    """Raise PipelineError unless the key of a table is among the columns of its rows."""
    names = Schema.from_ddl(schema).names
    for name in keys:
        if name not in names:
            raise PipelineError(
                f"the key {name!r} is no column of the schema", column=name, remedy=f"name some of: {', '.join(names)}"
            )


def read_events(  # noqa: PLR0917 - what a reader of files needs
    session: SparkSession,
    location: FileLocation,
    files: Sequence[SourceFile],
    schema_json: str,
    keys: Sequence[str] | None,
    corrupt: OnCorrupt,
    order_by: str | None = None,
) -> DataFrame:
    """What the events of files do: the row's columns and those of :data:`ENTRY_COLUMNS`; of rejects three more.

    Args:
        session: Where to read.
        location: Where the files are.
        files: The files, in the order in which they count.
        schema_json: The columns of the row with those of :data:`ENTRY_COLUMNS`.
        keys: The key columns of the row.
        corrupt: What happens to events that cannot be read.
        order_by: The field of an event that says its place; by default its place in the files.
    """
    hidden = Schema.from_ddl(ENTRY_COLUMNS).names
    types = {name: kind for name, kind in Schema.from_json(schema_json).types.items() if name not in hidden}
    _refuse_bytes_within(session, types)
    events = _Events({name: str(kind) for name, kind in types.items()}, tuple(keys or ()), _path(order_by), of_source=True)
    cut = functools.partial(_cut_files, location, events)
    listed = session.createDataFrame(
        [(json.dumps(file.to_json()), number) for number, file in enumerate(files)], "file string, number bigint"
    )
    found = _read(listed.repartition(min(len(files), _TASKS)), cut, types, tuple(keys or ()))
    names = list(map(quoted, types))
    if corrupt == "fail":
        return found.selectExpr(*names, _or_fail("'Json error: '"), PLACE)
    told_once = found.filter(f"{CORRUPT_REASON} IS NULL OR {_HALF} IS NULL OR {_HALF} = 1")
    return told_once.selectExpr(
        *names, *hidden,
        f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_RAW} END AS {CORRUPT_RECORD}",
        f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_FILE} END AS {CORRUPT_FILE}",
        CORRUPT_REASON,
    )  # fmt: skip


def entries_in(  # noqa: PLR0917 - what a reader of a column needs
    frame: DataFrame,
    event: str,
    order: str,
    types: Mapping[str, DataType],
    keys: Sequence[str],
    required: Sequence[RequiredPlace] = (),
) -> DataFrame:
    """What the events in a column do: the row's columns and those of :data:`ENTRY_COLUMNS`.

    An event that cannot be read fails the query, and so does one whose row lacks a value that is declared NOT NULL.

    Args:
        frame: The rows.
        event: SQL for an event.
        order: SQL for a whole number that orders them.
        types: The columns of the row.
        keys: The key columns of the row.
        required: The places that are declared NOT NULL.
    """
    _refuse_bytes_within(frame.sparkSession, types)
    cut = functools.partial(_cut_column, _Events({name: str(kind) for name, kind in types.items()}, tuple(keys)))
    given = frame.selectExpr(f"CAST(({event}) AS STRING) AS event", f"({order}) AS place")
    _refuse_no_whole_number(order, schema_of(given).types["place"])
    given = given.selectExpr("event", "CAST(place AS BIGINT) AS place")
    found = _read(given, cut, types, tuple(keys))
    missing = [
        f"CASE WHEN {lacks_value(place, found.columns)} THEN {literal(MISSING.format(place.path))} END" for place in required
    ]
    reason = f"nullif(concat_ws('; ', {', '.join([CORRUPT_REASON, *missing])}), '')" if missing else CORRUPT_REASON
    return found.selectExpr(*map(quoted, types), _or_fail(f"'{NO_EVENT}'", reason), PLACE)


def _read(given: DataFrame, cut: Any, types: Mapping[str, DataType], keys: tuple[str, ...]) -> DataFrame:
    """What a function that takes events apart makes of rows, with the values of the row's types."""
    texts = (*(f"c{place} string" for place in range(len(types))), *(f"k{place} string" for place in range(len(keys))))
    made = f"{', '.join(texts)}, {ENTRY_COLUMNS}, {_RAW} string, {_FILE} string, {_WRONG} string, {_HALF} int"
    values, reason = _values(types, keys)
    told = OPERATION, PLACE, _RAW, _FILE, f"{reason} AS {CORRUPT_REASON}", _HALF
    return given.mapInArrow(cut, made).selectExpr(*values, *told)


def _or_fail(told: str, reason: str = CORRUPT_REASON) -> str:
    """SQL for the operation, which fails where the event is corrupt."""
    failed = f"CAST(raise_error(concat({told}, {reason})) AS STRING)"
    return f"CASE WHEN {reason} IS NOT NULL THEN {failed} ELSE {OPERATION} END AS {OPERATION}"


def _values(types: Mapping[str, DataType], keys: Sequence[str]) -> tuple[list[str], str]:
    """SQL for the columns of a row, and for what is wrong with the event that it comes from: all of it counts, or nothing."""
    values, wrong = [], [_WRONG]

    def checked(text: str, name: str) -> str:
        cast = _cast_of(text, types[name])
        about = literal(f"column {name} is no {types[name].shown}: ")
        wrong.append(f"CASE WHEN {text} IS NOT NULL AND {cast} IS NULL THEN concat({about}, {text}) END")
        return cast

    old = {name: checked(f"k{place}", name) for place, name in enumerate(keys)}
    for place, name in enumerate(types):
        value = checked(f"c{place}", name)
        values.append(f"{f'IF({_HALF} = 0, {old[name]}, {value})' if name in old else value} AS {quoted(name)}")
    return values, f"nullif(concat_ws('; ', {', '.join(wrong)}), '')"


def _cast_of(column: str, kind: DataType) -> str:
    """SQL for a value of a type from its text; values within others are texts, too."""
    if kind.is_nested:
        return f"CAST(from_json({column}, {literal(as_texts(kind).sql)}) AS {kind.sql})"
    return f"unbase64({column})" if kind == Plain("binary") else cast_of(column, kind)


def _refuse_bytes_within(session: SparkSession, types: Mapping[str, DataType]) -> None:
    for name, kind in types.items():
        if kind.is_nested and has_bytes(kind) and not reads_like_spark(session):
            raise PipelineError(
                f"bytes within the column {name} are read by Spark only", column=name,
                remedy="declare them as string, which has them in Base64, or run on Spark",
            )  # fmt: skip


def _refuse_no_whole_number(order: str, kind: DataType) -> None:
    """Refuse what a cast would make equal that is not: times within a second, numbers with the same whole part."""
    if str(kind) not in _WHOLE_NUMBERS:
        raise SchemaError(
            f"order_by={order!r} of change events is no whole number but {kind.shown}: as one, several would be equal",
            remedy="order by a TINYINT, SMALLINT, INT or BIGINT: unix_micros(at) of a timestamp, CAST(at AS BIGINT) of numbers "
            "that are whole",
        )  # fmt: skip


def _path(order_by: str | None) -> tuple[str, ...]:
    return tuple(order_by.split(".")) if order_by else ()


@dataclass(frozen=True)
class _Events:
    """How events are taken apart, in the engine's workers.

    Attributes:
        columns: The columns of the row, with their types.
        keys: Those of its key.
        order_by: The path to what says an event's place; empty for the place at which it is.
        of_source: Whether they are all that a source has, so that a truncation is done to all rows of before.
    """

    columns: Mapping[str, str]
    keys: Sequence[str]
    order_by: tuple[str, ...] = ()
    of_source: bool = False

    def cut(self, raw: str, place: int, path: str | None) -> Iterator[tuple[Any, ...]]:
        """What an event does, all of it or nothing; a row of texts for each thing."""
        places = [list(self.columns).index(key) for key in self.keys]
        try:
            entries = list(entries_of(raw, self.columns, self.keys, self.order_by, of_rows=True, of_source=self.of_source))
            if self.order_by and entries:
                place = 2 * _order_within_bounds(entries[0].order)
        except UnreadableEventError as error:
            yield self.corrupt(raw, place, path, str(error))
            return
        moved = len(entries) > 1  # the old row, taken away, has nothing but its key
        old = [entries[0].values[one] if moved else None for one in places]
        for part, entry in enumerate(entries):
            told = [MOVE if moved and part == 0 else entry.operation, *map(told_column, entry.unsent)]
            if entry.operation == TRUNCATE and (path or "").endswith(OF_SEVERAL):
                told.append(OF_SEVERAL)
            yield (*entries[-1].values, *old, " ".join(told), place + part, raw, path, None, part if moved else None)

    def corrupt(self, raw: str, place: int, path: str | None, reason: str) -> tuple[Any, ...]:
        """An event that cannot be read."""
        return (*[None] * (len(self.columns) + len(self.keys) + 1), place, raw, path, reason, None)

    def batches(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[RecordBatch]:
        """Such rows for the engine."""
        import pyarrow as pa

        texts = [(f"c{place}", pa.string()) for place in range(len(self.columns))]
        texts += [(f"k{place}", pa.string()) for place in range(len(self.keys))]
        entry = [(OPERATION, pa.string()), (PLACE, pa.int64())]
        told = [(_RAW, pa.string()), (_FILE, pa.string()), (_WRONG, pa.string()), (_HALF, pa.int32())]
        schema = pa.schema([*texts, *entry, *told])
        while some := list(itertools.islice(rows, _ROWS)):
            arrays = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)]
            yield pa.record_batch(arrays, schema=schema)


def _order_within_bounds(order: int | None) -> int:
    if order is None or abs(order) > _LARGEST_ORDER:
        raise UnreadableEventError(f"its order is {order}" if order is not None else "it has no order")
    return order


def _cut_files(location: FileLocation, events: _Events, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        for listed, number in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from events.batches(_cut_file(location, events, SourceFile.from_json(json.loads(listed)), number))


def _cut_column(events: _Events, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        rows = (row for event, order in pairs if event and event.strip() for row in _of_column(event, order, events))
        yield from events.batches(rows)


def _of_column(event: str, order: int | None, events: _Events) -> Iterator[tuple[Any, ...]]:
    try:
        place = 2 * _order_within_bounds(order)
    except UnreadableEventError as error:
        yield events.corrupt(event, 0, None, str(error))
    else:
        yield from events.cut(event, place, None)


def _cut_file(location: FileLocation, events: _Events, file: SourceFile, number: int) -> Iterator[tuple[Any, ...]]:
    path, text = location.full_path(file), TextFormat("json")
    with decoded_lines(location, file, text) as lines:
        for line, raw in enumerate(lines):
            if raw.strip():  # an event does two things at most
                yield from events.cut(raw.rstrip("\r\n"), (number << _LINE_BITS) + 2 * line, path)
