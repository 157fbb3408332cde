"""CSV files by Spark's own reader, and JSON that is no object a line: no record and no value gets lost without a trace.

Spark's readers parse only the columns a query asks for, so that whether a record counts as corrupt would depend on the query.
A condition that is always true but mentions every column keeps them all, so that it does not.

What they take for another value than it is, is read as text and cast here: a time of day would be one of today, ``1,5`` fifteen.
Bytes of CSV that are no UTF-8 would become a sign that says so: each byte is read as a character, and decoded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.places import places_of_text, with_metadata
from dagster_operators.connectors.rejects import CORRUPT_RECORD, INCOMPLETE, NO_UTF8
from dagster_operators.connectors.spark_rows import rows_and_rejects
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.text_format import DECIMAL, TextFormat
from dagster_operators.operators.engine_schema import struct
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import DataType, Decimal, Field, Plain
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.connectors.connector import OnCorrupt

_BYTES: Final = "ISO-8859-1"
"""The encoding in which each byte is a character."""
_TEXT: Final = Plain("string")
_DATED: Final = "^[^0-9T]*[0-9]{4}"
_TEXTS: Final = ("sep", "delimiter", "nullvalue", "emptyvalue")
"""Options that are texts of any length."""


def read_text(
    session: SparkSession,
    location: FileLocation,
    text: TextFormat,
    files: Sequence[SourceFile],
    *,
    columns: Sequence[str],
    schema_json: str,
    corrupt: OnCorrupt,
    places: bool,
) -> DataFrame:
    """The rows of files with the same columns, as :meth:`TextReader.read` gives them."""
    as_bytes, types = _is_read_as_bytes(text), Schema.from_json(schema_json).types
    fields = _file_fields(text, columns, schema_json)
    options = _options(text) | ({"encoding": _BYTES} if as_bytes else {})
    if as_bytes:
        options |= {name: _as_bytes(told) for name, told in options.items() if name.lower() in _TEXTS}
    frame = (
        session.read.format(text.name)
        .schema(struct(Schema((*fields, Field(CORRUPT_RECORD, _TEXT))).to_json()))
        .options(**options)
        .options(mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT_RECORD)
        .options(ignoreCorruptFiles="false", ignoreMissingFiles="false")
        .load(reader_paths(session, location.file_uris(files)))
    )
    frame, metadata = with_metadata(frame)
    read = {field.name: field.type for field in fields}
    casts = {name: _cast(text, name, kind, as_bytes=as_bytes) for name, kind in types.items()}
    told = CORRUPT_RECORD if text.name == "csv" else f"make_valid_utf8({CORRUPT_RECORD})"
    record = _decoded(CORRUPT_RECORD, valid=False) if as_bytes else told
    lost = {name: f"{quoted(name)} IS NOT NULL AND {cast} IS NULL" for name, cast in casts.items() if cast != quoted(name)}
    odd = ", ".join(f"CASE WHEN {is_lost} THEN {_about(name, types[name])} END" for name, is_lost in lost.items())
    found = _reason(text, record, list(read), types)
    reason = f"CASE WHEN {CORRUPT_RECORD} IS NOT NULL THEN {found} ELSE concat_ws('; ', {odd}) END" if lost else found
    written = _written(text, list(read), as_bytes=as_bytes) if lost else record
    values = [cast if cast == quoted(name) else f"{cast} AS {quoted(name)}" for name, cast in casts.items()]
    return rows_and_rejects(
        frame,
        values,
        wrong=" OR ".join((f"{CORRUPT_RECORD} IS NOT NULL", *lost.values())),
        reason=reason,
        record=f"coalesce({record}, {written})",
        metadata=metadata,
        corrupt=corrupt,
        places=places_of_text(metadata) if places else (),
        matters=_all_columns_matter([*read, CORRUPT_RECORD]),
    )


def _options(text: TextFormat) -> dict[str, str]:
    """The options of the reader."""
    if text.name == "json":
        split = {} if text.is_utf8 or text.has_several_lines else {"lineSep": "\n"}  # without it Spark reads UTF-8 only
        return split | dict(text.options)
    # Of an encoding whose lines cannot be found by their bytes a file is read as a whole.
    whole = {"multiLine": "true"} if text.is_wide else {}
    escape = {"escape": text.option("escape", default=text.option("quote", default='"'))}
    return escape | dict(text.options) | whole | {"header": str(text.has_header).lower(), "columnPruning": "false"}


def _is_read_as_bytes(text: TextFormat) -> bool:
    signs = "".join(text.option(name, default="") for name in ("quote", "escape", "comment"))
    return text.name == "csv" and text.is_utf8 and not text.has_several_lines and signs.isascii()


def _as_bytes(text: str) -> str:
    return text.encode().decode(_BYTES)


def _decoded(column: str, *, valid: bool = True) -> str:
    """SQL for a text that was read as if each byte were a character; null if it is no UTF-8, or made valid."""
    text = f"CAST(encode({column}, '{_BYTES}') AS string)"
    decoded = f"try_validate_utf8({text})" if valid else f"make_valid_utf8({text})"
    return f"CASE WHEN octet_length({column}) = char_length({column}) THEN {column} ELSE {decoded} END"


def _cast(text: TextFormat, name: str, kind: DataType, *, as_bytes: bool) -> str:
    """SQL for a column's value from what Spark's reader gave."""
    column = quoted(name)
    if kind == _TEXT:
        return _decoded(column) if as_bytes else column
    if not _is_cast_here(text, kind):
        return column
    if isinstance(kind, Decimal):
        return f"CASE WHEN {column} RLIKE {literal(DECIMAL)} THEN try_cast({column} AS {kind}) END"
    zone = text.option("timeZone", default="")
    # In another zone than the session's it is parsed as the reader would.
    there = f"from_csv({column}, 't timestamp', map('timeZone', {literal(zone)}, 'sep', '\\t')).t"
    return f"CASE WHEN {column} RLIKE {literal(_DATED)} THEN {there if zone else f'try_cast({column} AS {kind})'} END"


def _is_cast_here(text: TextFormat, kind: DataType) -> bool:
    """Whether Spark's reader would take some text for another value of the type than it is."""
    given = {name.lower() for name, _ in text.options}
    if text.name != "csv":
        return False
    if kind == Plain("timestamp"):
        return not given & {"timestampformat", "enabledatetimeparsingfallback", "locale"}
    return isinstance(kind, Decimal) and "locale" not in given


def _about(name: str, kind: DataType) -> str:
    """SQL for what is wrong with a value that is there and cannot be cast."""
    if kind == _TEXT:
        return literal(f"column {name} has {NO_UTF8}")
    return f"concat({literal(f'column {name} is no {kind.shown}: ')}, {quoted(name)})"


def _reason(text: TextFormat, record: str, columns: Sequence[str], types: Mapping[str, DataType]) -> str:
    """SQL for what is wrong with a record that Spark set aside: the columns whose text is there and whose value is not."""
    raw = literal(", ".join(f"{quoted(name)} string" for name in columns))
    options = {name: value for name, value in _options(text).items() if name.lower() not in {"header", "encoding", "charset"}}
    listed = ", ".join(literal(told) for pair in ({"mode": "PERMISSIVE"} | options).items() for told in pair)
    parsed = f"from_{text.name}({record}, {raw}, map({listed}))"
    wrong = [
        f"CASE WHEN __do_texts.{quoted(name)} IS NOT NULL AND {quoted(name)} IS NULL THEN "
        f"concat({literal(f'column {name} is no {kind.shown}: ')}, __do_texts.{quoted(name)}) END"
        for name, kind in types.items()
    ]
    # transform() gives the texts a name: they are parsed once, and hundreds of columns name them twice each.
    told = f"transform(array({parsed}), __do_texts -> concat_ws('; ', {', '.join(wrong)}))[0]"
    found = f"coalesce(nullif({told}, ''), {literal(INCOMPLETE)})"
    if text.name == "csv" or not text.is_utf8:
        return found
    return f"CASE WHEN NOT is_valid_utf8({CORRUPT_RECORD}) THEN {literal(NO_UTF8)} ELSE {found} END"


def _written(text: TextFormat, columns: Sequence[str], *, as_bytes: bool) -> str:
    """SQL for a record that Spark's reader did not keep, from its values."""
    names = ", ".join(map(quoted, columns))
    given = {name: text.option(name, default=default) for name, default in (("quote", '"'), ("escape", '"'))}
    kept = dict.fromkeys(("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"), "false")
    listed = ", ".join(literal(told) for pair in (given | kept).items() for told in pair)
    separator = text.option("sep", "delimiter", default=",")
    written = f"to_csv(struct({names}), map('sep', {literal(_as_bytes(separator) if as_bytes else separator)}, {listed}))"
    return _decoded(written, valid=False) if as_bytes else written


def _file_fields(text: TextFormat, columns: Sequence[str], schema_json: str) -> list[Field]:
    """The fields of a file in its own order: the declared ones as declared or to be cast, others as strings that nobody reads."""
    declared = {field.name.lower(): replace(field, nullable=True) for field in Schema.from_json(schema_json)}
    fields = [declared.get(name.lower(), Field(f"__do_unread_{place}", _TEXT)) for place, name in enumerate(columns)]
    return [replace(field, type=_TEXT) if _is_cast_here(text, field.type) else field for field in fields]


def _all_columns_matter(names: Iterable[str]) -> str:
    return f"{_sum([f'int({quoted(name)} IS NULL)' for name in names])} >= 0"


def _sum(terms: Sequence[str]) -> str:
    """A sum in brackets by halves: thousands of terms in one row are too deep for an engine.

    >>> _sum(["a", "b", "c"])
    '(a + (b + c))'
    """
    half = len(terms) // 2
    return terms[0] if len(terms) == 1 else f"({_sum(terms[:half])} + {_sum(terms[half:])})"
