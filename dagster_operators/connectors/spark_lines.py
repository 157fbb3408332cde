"""Lines of JSON that Spark's own reader takes for something else than they are, without a word.

It takes the first value of a line and loses what follows, makes a row of each item of a list, takes a time of day for one of
today, ``"20240102"`` for so many days since 1970, and ``"1,5"`` for fifteen.

To look is a job that reads the files, so what it found is remembered: every stage that reads a slice asks, and each time it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.debezium_values import as_texts
from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.text_format import TextFormat
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINE: Final = "value"
_OF_LINES: Final = frozenset({"encoding", "charset", "linesep", "multiline"})
_FLAT: Final = "^[ \t]*([{][^}]*[}])?[ \t\r]*$"
"""Nothing, or one object with none in it: nothing can be behind it."""
_LIST: Final = r"^[ \t]*\["
_NOT_FINITE: Final = "NaN|INF|Infinity"
_CLOCK: Final = "^[^0-9A-Za-z]*(T|[0-9]{1,2}:)"
"""A time of day."""
_DAYS: Final = "^[+-]?([0-9]{1,3}|[0-9]{5,})$"
"""A number that is no year, which would be one of days since 1970."""
_MAYBE_CLOCK: Final = r"""["'][^0-9A-Za-z"'\\]*T?([0-9]{1,2}:|[0-9]{0,2}\\)"""
_MAYBE_NUMBER: Final = r"""["'][+-]?([0-9.,]*\\|[0-9.]+,|,[0-9]|[0-9]+["'])"""
"""Whether a line may have such texts: in quotes, perhaps with escapes."""


def has_odd_lines(
    session: SparkSession, location: FileLocation, text: TextFormat, files: Sequence[SourceFile], schema_json: str
) -> bool:
    """Whether there is such a line in files; all of them are looked through, once."""
    look = _look_at(location, text, tuple(files), schema_json)
    with look.lock:  # stages that run side by side ask at the same time
        if look.found is None:
            look.found = _look_through(session, location, text, files, Schema.from_json(schema_json))
    return look.found


@dataclass
class _Look:
    """What is known of files, which stay what they are: another size or time makes them others."""

    found: bool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@lru_cache(maxsize=32)
def _look_at(location: FileLocation, text: TextFormat, files: tuple[SourceFile, ...], schema_json: str) -> _Look:  # noqa: ARG001
    return _Look()


def _look_through(
    session: SparkSession, location: FileLocation, text: TextFormat, files: Sequence[SourceFile], schema: Schema
) -> bool:
    line_end = {name: value for name, value in text.options if name.lower() == "linesep"}
    read = session.read.format("text").options(**line_end, ignoreCorruptFiles="false", ignoreMissingFiles="false")
    lines = read.load(reader_paths(session, location.file_uris(files)))
    parser = _Parser(text)
    behind = f"NOT {_LINE} RLIKE {literal(_FLAT)} AND {_more_than_an_object(parser)}"
    odd = f"CASE WHEN {behind} THEN true {_taken_otherwise(parser, schema.types)} ELSE false END"
    return lines.selectExpr(f"coalesce(bool_or({odd}), false) AS odd").collect()[0]["odd"] is True


class _Parser:
    """SQL that reads a line by the options of a format."""

    def __init__(self, text: TextFormat) -> None:
        self.options = {name: value for name, value in text.options if name.lower() not in _OF_LINES}

    def parse(self, line: str, schema: str, **options: str) -> str:
        listed = ", ".join(literal(told) for pair in (self.options | {"mode": "PERMISSIVE"} | options).items() for told in pair)
        return f"from_json({line}, {literal(schema)}, map({listed}))"

    def has(self, option: str) -> bool:
        return option in map(str.lower, self.options)


def _more_than_an_object(parser: _Parser) -> str:
    """SQL for whether a line is a list, or begins with an object that has something behind it; not for what is no JSON at all."""

    def alone(count: str) -> str:
        # A list of nothing but the line has one item, and one more with another behind it: then the line closes no list.
        one, two = (f"concat('[', {_LINE}, {literal(end)})" for end in ("\n]", "\n,0]"))
        return f"({count.format(one)} = 1 AND {count.format(two)} = 2)"

    fast, exact = alone("json_array_length({})"), alone("size(" + parser.parse("{}", "array<string>") + ")")
    whole = f"(coalesce({fast}, false) OR coalesce({exact}, false))"
    begins = f"(json_object_keys({_LINE}) IS NOT NULL OR {_LINE} RLIKE {literal(_NOT_FINITE)})"
    return f"({_LINE} RLIKE {literal(_LIST)} OR {begins} AND NOT {whole})"


def _taken_otherwise(parser: _Parser, types: Mapping[str, DataType]) -> str:
    """SQL's WHEN for lines with texts that Spark takes for other values than they are."""
    clocks = not any(map(parser.has, ("timestampformat", "dateformat", "enabledatetimeparsingfallback")))
    commas = not parser.has("locale")
    found = {name: list(_odd(f"__do_texts.{quoted(name)}", kind, clocks=clocks, commas=commas)) for name, kind in types.items()}
    odd = {name: conditions for name, conditions in found.items() if conditions}
    if not odd:
        return ""
    texts = parser.parse(_LINE, ", ".join(f"{quoted(name)} {as_texts(types[name]).sql}" for name in odd))
    wrong = " OR ".join(f"coalesce({condition}, false)" for conditions in odd.values() for condition in conditions)
    # exists() gives the texts a name: they are parsed once.
    told = f"exists(array({texts}), __do_texts -> {wrong})"
    maybe = f"({_LINE} RLIKE {literal(_MAYBE_CLOCK)} OR {_LINE} RLIKE {literal(_MAYBE_NUMBER)})"
    return f"WHEN {maybe} THEN {told}"


def _odd(value: str, kind: DataType, *, clocks: bool, commas: bool) -> Iterator[str]:
    """SQL conditions for texts that Spark takes for other values of a type."""
    match kind:
        case Plain("timestamp") if clocks:
            yield f"{value} RLIKE {literal(_CLOCK)}"
        case Plain("date") if clocks:
            yield f"{value} RLIKE {literal(_DAYS)}"
        case Decimal() if commas:
            yield f"{value} LIKE '%,%'"
        case Struct(fields):
            for part in fields:
                yield from _odd(f"{value}.{quoted(part.name)}", part.type, clocks=clocks, commas=commas)
        case Array(within) | Map(_, within):
            items = value if isinstance(kind, Array) else f"map_values({value})"
            item = f"__do_item{items.count('__do_item')}"
            for condition in _odd(item, within, clocks=clocks, commas=commas):
                yield f"exists({items}, {item} -> coalesce({condition}, false))"
