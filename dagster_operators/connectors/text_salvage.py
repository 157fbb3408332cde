"""Reading text on engines that are not Spark: records are cut in Python by Spark's rules, values are cast by the engine.

Sail's own readers take a stray quote for all the rest of a file, cut 2.7 to 2 where a whole number belongs, and leave out some
options without a word.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed does not have it
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.places import PLACES_DDL, places_of
from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD, INCOMPLETE
from dagster_operators.connectors.sql_text import digits, literal
from dagster_operators.connectors.text_format import TextFormat, decoded_lines
from dagster_operators.errors import PipelineError
from dagster_operators.graph.places import PLACES
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import Array, DataType, Map, Plain, Struct
from dagster_operators.types.data_type import Decimal as DecimalType
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 4096
_TASKS = 32
_RAW = "_record"
_FILE = "_file"
_WHOLE = "_is_whole"
_SOUND = "_is_sound"
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?|true|false")
_NOT_FINITE = frozenset({"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"})
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_NOT_READ = " (not read)"
"""Behind a nested value that the engine would read otherwise than Spark."""
_FIRST_SECOND = -62_135_596_800
"""The beginning of the year 1."""
_LAST_SECOND = 250_000_000_000
"""Beyond it, in the year 9892, no time of an event lies: such a number counts milliseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPTIONS = frozenset({
    "charset", "comment", "delimiter", "encoding", "escape", "header", "inferschema", "multiline", "nullvalue", "quote", "sep",
})  # fmt: skip
"""The options of Spark's readers that are done here."""


def refuse_unknown(text: TextFormat) -> None:
    """Refuse options that only Spark knows.

    Raises:
        PipelineError: There is one.
    """
    for option, _ in text.options:
        if option.lower() not in _OPTIONS or (text.name == "json" and option.lower() == "multiline"):
            raise PipelineError(
                f"the option {option!r} for reading {text.name.upper()} is known to Spark only", option=option,
                remedy="leave it out, and read the column as a string that with_columns(...) converts, or run on Spark",
            )  # fmt: skip


def read_strictly(
    session: SparkSession,
    location: FileLocation,
    text: TextFormat,
    files: Sequence[SourceFile],
    schema_json: str,
    *,
    places: bool = False,
) -> DataFrame:
    """The rows of files in the columns of the schema, and places if wanted; a query of any fails if a record is corrupt."""
    more = PLACES if places else ()
    types = Schema.from_json(schema_json).types
    values = [f"{cast} AS v{place}" for place, cast in enumerate(_casts(text, types))]
    lost = _any([f"(c{place} IS NOT NULL AND v{place} IS NULL)" for place in range(len(types))])
    told = f"CAST(raise_error(concat('MALFORMED_RECORD in ', {_FILE})) AS BOOLEAN)"  # which one and why is found out then
    sound = f"CASE WHEN NOT {_WHOLE} OR {lost} THEN {told} ELSE true END AS {_SOUND}"
    records = _records(session, location, text, files, types, places=places).selectExpr("*", *values)
    checked = records.selectExpr(*(f"v{place}" for place in range(len(types))), sound, *more).where(_SOUND)
    # A condition behind this is asked before this one, of rows that are then not looked at: so it depends on it, too.
    taken = (f"CASE WHEN {_SOUND} THEN v{place} END AS {quoted(name)}" for place, name in enumerate(types))
    return checked.selectExpr(*taken, *more)


def read_salvaging(
    session: SparkSession,
    location: FileLocation,
    text: TextFormat,
    files: Sequence[SourceFile],
    schema_json: str,
    *,
    places: bool = False,
) -> DataFrame:
    """The rows of files in the columns of the schema, with the three columns of rejects behind, and places if wanted."""
    more = PLACES if places else ()
    types = Schema.from_json(schema_json).types
    values, wrong = [], []
    for place, ((name, kind), cast) in enumerate(zip(types.items(), _casts(text, types), strict=True)):
        values.append(f"{cast} AS {quoted(name)}")
        about = literal(f"column {name} is no {kind.shown}: ")
        wrong.append(f"CASE WHEN c{place} IS NOT NULL AND {cast} IS NULL THEN concat({about}, c{place}) END")
    reason = f"CASE WHEN NOT {_WHOLE} THEN {literal(INCOMPLETE)} ELSE nullif(concat_ws('; ', {', '.join(wrong)}), '') END"
    return (
        _records(session, location, text, files, types, places=places)
        .selectExpr(*values, _RAW, _FILE, f"{reason} AS {CORRUPT_REASON}", *more)
        .selectExpr(
            *map(quoted, types),
            f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_RAW} END AS {CORRUPT_RECORD}",
            f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_FILE} END AS {CORRUPT_FILE}",
            CORRUPT_REASON,
            *more,
        )
    )


def _records(
    session: SparkSession,
    location: FileLocation,
    text: TextFormat,
    files: Sequence[SourceFile],
    types: Mapping[str, DataType],
    *,
    places: bool,
) -> DataFrame:
    """The records of files: each value as text in a column of its own, the record, its file, and whether it was whole."""
    refuse_unknown(text)
    cut = functools.partial(_cut_files, location, text, types, places=places)
    texts = "".join(f"c{place} string, " for place in range(len(types)))
    told = [(json.dumps([number, file.to_json()]),) for number, file in enumerate(files)]
    listed = session.createDataFrame(told, "file string")
    some = listed.repartition(min(len(files), _TASKS))
    more = f", {PLACES_DDL}" if places else ""
    return some.mapInArrow(cut, f"{texts}{_RAW} string, {_FILE} string, {_WHOLE} boolean{more}")


def _any(terms: Sequence[str]) -> str:
    """Whether one of several conditions holds, in brackets by halves: thousands in one row are too deep for an engine."""
    half = len(terms) // 2
    return "".join(terms) if len(terms) <= 1 else f"({_any(terms[:half])} OR {_any(terms[half:])})"


def _casts(text: TextFormat, types: Mapping[str, DataType]) -> list[str]:
    """SQL for the value of each column from its text; null if the text is no such value."""
    base64 = Plain("binary") if text.name == "json" else None
    return [
        _bytes_of(f"c{place}") if kind == base64 else _strict_cast(f"c{place}", kind) for place, kind in enumerate(types.values())
    ]


def cast_of(column: str, kind: DataType) -> str:
    """SQL for a value of a type from its text; null if the text is no such value."""
    if kind.is_nested:
        return f"from_json({column}, {literal(kind.sql)})"
    return column if kind == Plain("string") else f"try_cast(trim({column}) AS {kind})"


def _strict_cast(column: str, kind: DataType) -> str:
    """As :func:`cast_of`, and null also where Spark's readers are stricter than its casts."""
    if kind.is_whole_number:
        return f"CASE WHEN {column} RLIKE '^[+-]?[0-9]+$' THEN try_cast({column} AS {kind}) END"
    if kind == Plain("boolean"):
        return f"CASE WHEN lower({column}) IN ('true', 'false') THEN try_cast({column} AS {kind}) END"
    if kind.is_nested:
        return f"CASE WHEN NOT endswith({column}, {literal(_NOT_READ)}) THEN {cast_of(column, kind)} END"
    if kind == Plain("date") or kind.is_timestamp:  # a longer year makes Sail fail, and a time alone would be today's
        return f"CASE WHEN trim({column}) RLIKE '^[0-9]{{4}}(-|$)' THEN {cast_of(column, kind)} END"
    return cast_of(column, kind)


def _bytes_of(column: str) -> str:
    """SQL for bytes from Base64; null if the text is none."""
    return f"CASE WHEN {column} RLIKE {literal(_BASE64)} THEN unbase64({column}) END"


def _cut_files(
    location: FileLocation, text: TextFormat, types: Mapping[str, DataType], batches: Iterable[RecordBatch], *, places: bool
) -> Iterator[RecordBatch]:
    """The records of files as text: a column for each one of the schema, the record, its file, whether it was whole, places."""
    import pyarrow as pa

    names = [*(f"c{place}" for place in range(len(types))), _RAW, _FILE]
    schema = pa.schema([*((name, pa.string()) for name in names), (_WHOLE, pa.bool_())])
    whole = pa.schema([*schema, *((name, pa.int64()) for name in PLACES if places)])
    for batch in batches:
        for listed in batch.column(0).to_pylist():
            number, file = json.loads(listed)
            rows, place = _cut_file(location, text, types, SourceFile.from_json(file)), 0
            while some := list(itertools.islice(rows, _ROWS)):
                columns = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)]
                columns += places_of(number, place, len(some)) if places else []
                yield pa.record_batch(columns, schema=whole)
                place += len(some)


def _cut_file(
    location: FileLocation, text: TextFormat, types: Mapping[str, DataType], file: SourceFile
) -> Iterator[tuple[Any, ...]]:
    path = location.full_path(file)
    with decoded_lines(location, file, text) as lines:
        records = _csv_records(text, lines, tuple(types)) if text.name == "csv" else _json_records(lines, types)
        for values, raw, whole in records:
            yield (*values, raw, path, whole)


class _Lines:
    """Lines of a file, of which some can be read again."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._again: list[str] = []
        self._read: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else next(self._lines)
        self._read.append(line)
        return line

    def taken(self) -> str:
        """What was read since this was last asked."""
        read, self._read = self._read, []
        return "".join(read).strip("\r\n")

    def back_to_second(self) -> str:
        """The first line that was read and is not empty; those behind it come again."""
        first = next((place for place, line in enumerate(self._read) if line.strip()), len(self._read) - 1)
        self._again += reversed(self._read[first + 1 :])
        del self._read[first + 1 :]
        return self.taken()


def _csv_records(text: TextFormat, lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[list[str | None], str, bool]]:
    read = _Lines(lines)
    header = [name.lower() for name in (next(text.records(read)) if text.has_header else columns)]
    read.taken()
    places = [header.index(column.lower()) for column in columns]
    null = text.option("nullValue", default="")
    records = text.records(read, strict=True)
    while True:
        try:
            record = next(records, None)
        except csv.Error:  # a quote that is not closed, or closed within a value: the line it stands in is lost, and no other
            yield [None] * len(columns), read.back_to_second(), False
            records = text.records(read, strict=True)
            continue
        if record is None:
            return
        values = [record[place] if place < len(record) and record[place] != null else None for place in places]
        yield values, read.taken(), len(record) == len(header)


def _json_records(lines: Iterable[str], types: Mapping[str, DataType]) -> Iterator[tuple[list[str | None], str, bool]]:
    for line in lines:
        raw = line.rstrip("\r\n")
        if not raw.strip():
            continue
        try:
            values = _json_values(raw, types)
        except (RecursionError, UnicodeEncodeError):  # nested more deeply than anybody reads, or half a character
            values = None
        yield values or [None] * len(types), raw, values is not None


def _json_values(raw: str, types: Mapping[str, DataType]) -> list[str | None] | None:
    """The values of a record as text; None if it is no record."""
    try:
        record = json.loads(raw, parse_float=Decimal)
    except (ValueError, ArithmeticError):  # an exponent can be beyond any number
        return None
    if not isinstance(record, dict):
        return None
    texts = _as_written(raw) if any(_keeps_text(record.get(column), kind) for column, kind in types.items()) else {}
    values = [_json_text(record.get(column), kind, texts.get(column)) for column, kind in types.items()]
    if "\\u" in raw:
        "".join(value or "" for value in values).encode()
    return values


def _keeps_text(value: Any, kind: DataType) -> bool:
    """Whether Spark takes the very text of a value that is no text: what is nested, or any for a column of text."""
    return value is not None and not isinstance(value, str) and (kind.is_nested or kind == Plain("string"))


def _as_written(raw: str) -> dict[str, str]:
    """The values of a JSON object, each as it is written.

    >>> _as_written('{"a": {"x": [1,  2]}, "b" : 1.50}')
    {'a': '{"x": [1,  2]}', 'b': '1.50'}
    """
    found: dict[str, str] = {}
    place = raw.find('"') + 1
    while place:
        key, place = scanstring(raw, place)
        begin = _SPACE.match(raw, raw.index(":", place) + 1).end()  # type: ignore[union-attr]  # it matches nothing, too
        place = _DECODER.raw_decode(raw, begin)[1]
        found[key] = raw[begin:place]
        place = raw.find('"', place) + 1
    return found


def _json_text(value: Any, kind: DataType, text: str | None) -> str | None:
    """A value as text; where Spark does not take it for the type, as a text that no engine takes for one either."""
    if value is None:
        return None
    if kind.is_timestamp and type(value) is int and _FIRST_SECOND <= value < _LAST_SECOND:
        return (_EPOCH + timedelta(seconds=value)).isoformat()
    written = value if isinstance(value, str) else text or (digits(value) if isinstance(value, Decimal) else _json(value))
    if kind.is_nested:
        return written if _is_taken_within(value, kind) else written + _NOT_READ
    if _is_taken(value, kind):
        return written
    if isinstance(value, str):
        return _json(value) if _NUMBER.fullmatch(value.strip()) else written
    return f"{written} (no text)" if kind in (Plain("date"), Plain("binary")) or kind.is_timestamp else written


def _json(value: Any) -> str:
    return json.dumps(value, default=float, ensure_ascii=False, separators=(",", ":"))


def _is_taken_within(value: Any, kind: DataType) -> bool:
    """Whether Spark takes a nested value for a type, and the engine reads it as exactly: Sail's from_json goes by doubles.

    >>> from dagster_operators.types.data_type import Field
    >>> exact = Struct((Field("d", DecimalType(30, 10)),))
    >>> [_is_taken_within({"d": Decimal(d)}, exact) for d in ("0.5", "12345678901234567.0123456789")]
    [True, False]
    """
    match value, kind:
        case None, _:
            return True
        case dict(), Struct(fields):
            return all(_is_taken_within(value.get(part.name), part.type) for part in fields)
        case dict(), Map(_, within):
            return all(_is_taken_within(one, within) for one in value.values())
        case list(), Array(within):
            return all(_is_taken_within(one, within) for one in value)
        case int() | Decimal(), DecimalType():
            return value is not True and value is not False and Decimal(repr(float(Decimal(value)))) == value
    return not kind.is_nested and kind != Plain("binary") and _is_taken(value, kind)


def _is_taken(value: Any, kind: DataType) -> bool:
    """Whether Spark takes a value of JSON for a type: no text for a number, no number for a date."""
    if kind.is_whole_number:
        return type(value) is int
    if kind in (Plain("float"), Plain("double")):
        return value in _NOT_FINITE if isinstance(value, str) else isinstance(value, int | float | Decimal) and value is not True
    if kind == Plain("boolean"):
        return isinstance(value, bool)
    return isinstance(value, str) if kind in (Plain("date"), Plain("binary")) or kind.is_timestamp else True
