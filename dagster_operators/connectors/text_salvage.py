"""Rejecting corrupt records on engines whose readers cannot: records are cut in Python, values are cast by the engine.

Slower than an engine's own reader, and used only where that would fail on the first corrupt record.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD, INCOMPLETE
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.text_format import TextFormat, decoded_lines
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import DataType, Plain
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


def read_salvaging(
    session: SparkSession, location: FileLocation, text: TextFormat, files: Sequence[SourceFile], schema_json: str
) -> DataFrame:
    """The rows of files in the columns of the schema, with the three columns of rejects behind."""
    types = Schema.from_json(schema_json).types
    cut = functools.partial(_cut_files, location, text, tuple(types))
    cut_schema = (
        ", ".join(f"c{place} string" for place in range(len(types))) + f", {_RAW} string, {_FILE} string, {_WHOLE} boolean"
    )
    listed = session.createDataFrame([(json.dumps(file.to_json()),) for file in files], "file string")
    values, wrong = [], []
    for place, (name, kind) in enumerate(types.items()):
        cast = cast_of(f"c{place}", kind)
        values.append(f"{cast} AS {quoted(name)}")
        about = literal(f"column {name} is no {kind.shown}: ")
        wrong.append(f"CASE WHEN c{place} IS NOT NULL AND {cast} IS NULL THEN concat({about}, c{place}) END")
    reason = f"CASE WHEN NOT {_WHOLE} THEN {literal(INCOMPLETE)} ELSE nullif(concat_ws('; ', {', '.join(wrong)}), '') END"
    return (
        listed.repartition(min(len(files), _TASKS))
        .mapInArrow(cut, cut_schema)
        .selectExpr(*values, _RAW, _FILE, f"{reason} AS {CORRUPT_REASON}")
        .selectExpr(
            *map(quoted, types),
            f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_RAW} END AS {CORRUPT_RECORD}",
            f"CASE WHEN {CORRUPT_REASON} IS NOT NULL THEN {_FILE} END AS {CORRUPT_FILE}",
            CORRUPT_REASON,
        )
    )


def cast_of(column: str, kind: DataType) -> str:
    """SQL for a value of a type from its text; null if the text is no such value."""
    if kind.is_nested:
        return f"from_json({column}, {literal(kind.sql)})"
    return column if kind == Plain("string") else f"try_cast(trim({column}) AS {kind})"


def _cut_files(
    location: FileLocation, text: TextFormat, columns: Sequence[str], batches: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    """The records of files as text: a column for each one of the schema, the record, its file, and whether it was whole."""
    import pyarrow as pa

    names = [*(f"c{place}" for place in range(len(columns))), _RAW, _FILE]
    schema = pa.schema([*((name, pa.string()) for name in names), (_WHOLE, pa.bool_())])
    for batch in batches:
        for listed in batch.column(0).to_pylist():
            file = SourceFile.from_json(json.loads(listed))
            rows = _cut_file(location, text, columns, file)
            while some := list(itertools.islice(rows, _ROWS)):
                yield pa.record_batch(
                    [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)],
                    schema=schema,
                )


def _cut_file(location: FileLocation, text: TextFormat, columns: Sequence[str], file: SourceFile) -> Iterator[tuple[Any, ...]]:
    path = location.full_path(file)
    with decoded_lines(location, file, text) as lines:
        records = _csv_records(text, lines, columns) if text.name == "csv" else _json_records(lines, columns)
        for values, raw, whole in records:
            yield (*values, raw, path, whole)


def _csv_records(text: TextFormat, lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[list[str | None], str, bool]]:
    consumed: list[str] = []

    def remembered() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line

    records = text.records(remembered())
    header = [name.lower() for name in (next(records) if text.has_header else columns)]
    places = [header.index(column.lower()) for column in columns]
    null = text.option("nullValue", default="")
    consumed.clear()
    for record in records:
        raw = "".join(consumed).rstrip("\r\n")
        consumed.clear()
        values = [record[place] if place < len(record) and record[place] != null else None for place in places]
        yield values, raw, len(record) == len(header)


def _json_records(lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[list[str | None], str, bool]]:
    for line in lines:
        raw = line.rstrip("\r\n")
        if not raw.strip():
            continue
        try:
            record = json.loads(raw, parse_float=Decimal)
        except ValueError:
            record = None
        if isinstance(record, dict):
            yield [_json_text(record.get(column)) for column in columns], raw, True
        else:
            yield [None] * len(columns), raw, False


def _json_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)
