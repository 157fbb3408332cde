"""Reading text on engines that are not Spark: records are cut in Python by Spark's rules, values are cast by the engine.

Sail's own readers take a stray quote for all the rest of a file, cut 2.7 to 2 where a whole number belongs, and leave out some
options without a word.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.json_records import FLOATS, NOT_READ, json_records
from dagster_operators.connectors.places import PLACES_DDL, places_of
from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD, INCOMPLETE
from dagster_operators.connectors.sql_text import literal, without_exponent
from dagster_operators.connectors.text_format import DECIMAL, TextFormat, decoded_lines
from dagster_operators.errors import PipelineError
from dagster_operators.graph.places import PLACES
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import DataType, Plain
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
_FLOAT = "^-?Inf$|^ *[+-]?(NaN|Infinity|([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[dDfF]?) *$"
"""A floating-point number in CSV, as Java reads it."""
_DATED = "^[0-9]{4}(-|$)"
_UNZONED = "^[0-9]{4}(-[0-9]+(-[0-9]+([T ][0-9:.]*)?)?)?$"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
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
    strictly = _strict_cast if text.name == "json" else _csv_cast
    return [strictly(f"c{place}", kind) for place, kind in enumerate(types.values())]


def cast_of(column: str, kind: DataType) -> str:
    """SQL for a value of a type from its text; null if the text is no such value."""
    if kind.is_nested:
        return f"from_json({column}, {literal(kind.sql)})"
    return column if kind == Plain("string") else f"try_cast(trim({column}) AS {kind})"


def _strict_cast(column: str, kind: DataType) -> str:
    """As :func:`cast_of`, and null also where Spark's readers are stricter than its casts."""
    if kind == Plain("binary"):
        return f"CASE WHEN {column} RLIKE {literal(_BASE64)} THEN unbase64({column}) END"
    condition = _is_read(column, kind)
    return f"CASE WHEN {condition} THEN {cast_of(column, kind)} END" if condition else cast_of(column, kind)


def _is_read(column: str, kind: DataType) -> str:
    """SQL for whether Spark's readers look at a text as a value of a type at all; nothing if they do at any."""
    trimmed = f"trim({column})" if kind.is_timestamp or kind == Plain("date") else column
    if kind.is_nested:
        return f"NOT endswith({column}, {literal(NOT_READ)})"
    if kind == Plain("boolean"):
        return f"lower({column}) IN ('true', 'false')"
    if kind.is_whole_number:
        pattern = "^[+-]?[0-9]+$"
    elif isinstance(kind, DecimalType):
        pattern = DECIMAL
    elif trimmed != column:  # a longer year makes Sail fail, and a time alone would be today's
        pattern = _UNZONED if kind == Plain("timestamp_ntz") else _DATED
    else:
        return ""
    return f"{trimmed} RLIKE {literal(pattern)}"


def _csv_cast(column: str, kind: DataType) -> str:
    """The same of CSV, which has numbers as Java reads them, and bytes as text."""
    if kind in FLOATS:
        number = f"regexp_replace(trim({column}), '([0-9.])[dDfF]$', '$1')"
        return f"CASE WHEN {column} RLIKE {literal(_FLOAT)} THEN {cast_of(number, kind)} END"
    return cast_of(column, kind) if kind == Plain("binary") else _strict_cast(column, kind)


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
        records = _csv_records(text, lines, types) if text.name == "csv" else json_records(lines, types)
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


def _csv_records(
    text: TextFormat, lines: Iterable[str], types: Mapping[str, DataType]
) -> Iterator[tuple[list[str | None], str, bool]]:
    read, columns = _Lines(lines), tuple(types)
    decimals = [place for place, kind in enumerate(types.values()) if isinstance(kind, DecimalType)]
    header = [name.lower() for name in (next(text.records(read)) if text.has_header else columns)]
    read.taken()
    # A column that is missing has a place beyond all values: it is null.
    places = [header.index(column.lower()) if column.lower() in header else sys.maxsize for column in columns]
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
        for place in decimals:
            values[place] = without_exponent(values[place])
        yield values, read.taken(), len(record) == len(header)
