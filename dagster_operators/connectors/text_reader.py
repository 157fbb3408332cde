"""CSV and JSON-lines files as DataFrames, in which no record and no value gets lost without a trace.

Spark's readers parse only the columns a query asks for, so that whether a record counts as corrupt would depend on the query.
A condition that is always true but mentions every column keeps them all, so that it does not. Nor do they parse the rest of a
record once a condition of the query does not hold; so that condition counts rows, too, and Spark takes no other one past it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dagster_operators.connectors.connector import OnCorrupt
from dagster_operators.connectors.dialect import reader_paths
from dagster_operators.connectors.places import in_order_of_files, places_of_text, with_metadata
from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD, INCOMPLETE
from dagster_operators.connectors.sql_text import literal
from dagster_operators.connectors.text_format import TextFormat
from dagster_operators.connectors.text_salvage import read_salvaging, read_strictly, refuse_unknown
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import struct
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.data_type import Field, Plain
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class TextReader:
    """Reads files of one text format with a session.

    Args:
        location: Where the files are.
        text: Their format.
    """

    location: FileLocation
    text: TextFormat

    def read(
        self,
        session: SparkSession,
        files: Sequence[SourceFile],
        schema_json: str,
        corrupt: OnCorrupt,
        *,
        places: bool = False,
    ) -> DataFrame:
        """The rows of files in the columns of the schema; with ``corrupt="reject"`` the three columns of rejects follow.

        If they are wanted, places are the last columns.

        CSV columns are matched by the header's names, so files may order them differently and have more of them.
        """
        if not reads_like_spark(session):
            read = read_salvaging if corrupt == "reject" else read_strictly
            return read(session, self.location, self.text, files, schema_json, places=places)
        parts = [
            self._read_alike(session, alike, columns, schema_json, corrupt, places=places)
            for columns, alike in self._layouts(files, schema_json)
        ]
        rows = functools.reduce(lambda left, right: left.union(right), parts)
        return in_order_of_files(rows, self.location.file_uris(files)) if places else rows

    def _layouts(self, files: Sequence[SourceFile], schema_json: str) -> Iterable[tuple[tuple[str, ...], list[SourceFile]]]:
        """Files grouped by the order of their columns, and by compression, because some engines do not read a mixture at once."""
        declared = Schema.from_json(schema_json).names
        groups: dict[tuple[tuple[str, ...], str], list[SourceFile]] = defaultdict(list)
        for file in files:
            columns = self.text.header(self.location, file) if self.text.has_header else declared
            groups[columns, file.path.rsplit(".", 1)[-1]].append(file)
        return [(columns, alike) for (columns, _), alike in groups.items()]

    def _read_alike(
        self,
        session: SparkSession,
        files: Sequence[SourceFile],
        columns: Sequence[str],
        schema_json: str,
        corrupt: OnCorrupt,
        *,
        places: bool,
    ) -> DataFrame:
        fields = _file_fields(columns, schema_json)
        if corrupt == "reject":
            fields.append(_string_field(CORRUPT_RECORD))
        options = dict(self.text.options)
        if self.text.name == "csv":
            options = {"escape": self.text.option("escape", default=self.text.option("quote", default='"'))} | options
            options |= {"header": str(self.text.has_header).lower(), "columnPruning": "false"}
        frame = (
            session.read.format(self.text.name)
            .schema(struct(Schema(tuple(fields)).to_json()))
            .options(**options)
            .options(mode="PERMISSIVE" if corrupt == "reject" else "FAILFAST", columnNameOfCorruptRecord=CORRUPT_RECORD)
            .options(ignoreCorruptFiles="false", ignoreMissingFiles="false")
            .load(reader_paths(session, self.location.file_uris(files)))
        )
        frame, metadata = with_metadata(frame)
        frame = frame.where(f"{_all_columns_matter([field.name for field in fields])} AND monotonically_increasing_id() >= 0")
        at = places_of_text(metadata) if places else ()
        declared = [quoted(name) for name in Schema.from_json(schema_json).names]
        if corrupt == "fail":
            return frame.selectExpr(*declared, *at)
        reason = self._reason([field.name for field in fields[:-1]], schema_json)
        # The path is a URI: decoded, it is the name people know the file by.
        file = f"regexp_replace(try_url_decode(replace({metadata}.file_path, '+', '%2B')), '^file:/+', '/')"
        located = f"CASE WHEN {CORRUPT_RECORD} IS NOT NULL THEN {file} END AS {CORRUPT_FILE}"
        return frame.selectExpr(*declared, CORRUPT_RECORD, located, f"{reason} AS {CORRUPT_REASON}", *at)

    def _reason(self, columns: Sequence[str], schema_json: str) -> str:
        """SQL for what is wrong with a corrupt record: the columns whose text is there and whose value is not."""
        raw = literal(", ".join(f"{quoted(name)} string" for name in columns))
        options = {name: value for name, value in self.text.options if name.lower() not in {"header", "encoding", "charset"}}
        if self.text.name == "csv":
            options = {"escape": self.text.option("escape", default=self.text.option("quote", default='"'))} | options
        listed = ", ".join(literal(text) for pair in ({"mode": "PERMISSIVE"} | options).items() for text in pair)
        parsed = f"from_{self.text.name}({CORRUPT_RECORD}, {raw}, map({listed}))"
        wrong = [
            f"CASE WHEN {parsed}.{quoted(name)} IS NOT NULL AND {quoted(name)} IS NULL THEN "
            f"concat({literal(f'column {name} is no {kind.shown}: ')}, {parsed}.{quoted(name)}) END"
            for name, kind in Schema.from_json(schema_json).types.items()
        ]
        found = f"concat_ws('; ', {', '.join(wrong)})"
        return f"CASE WHEN {CORRUPT_RECORD} IS NOT NULL THEN coalesce(nullif({found}, ''), {literal(INCOMPLETE)}) END"


def check_options(session: SparkSession, text: TextFormat) -> None:
    """Refuse options of Spark's readers that are not known where the session's readers are not Spark's.

    Raises:
        PipelineError: There is one.
    """
    if not reads_like_spark(session):
        refuse_unknown(text)


def _file_fields(columns: Sequence[str], schema_json: str) -> list[Field]:
    """The fields of a file in its own order: the declared ones as declared, others as strings that nobody reads."""
    declared = {field.name.lower(): replace(field, nullable=True) for field in Schema.from_json(schema_json)}
    return [declared.get(name.lower(), _string_field(f"__do_unread_{place}")) for place, name in enumerate(columns)]


def _string_field(name: str) -> Field:
    return Field(name, Plain("string"))


def _all_columns_matter(names: Iterable[str]) -> str:
    return f"{_sum([f'int({quoted(name)} IS NULL)' for name in names])} >= 0"


def _sum(terms: Sequence[str]) -> str:
    """A sum in brackets by halves: thousands of terms in one row are too deep for an engine.

    >>> _sum(["a", "b", "c"])
    '(a + (b + c))'
    """
    half = len(terms) // 2
    return terms[0] if len(terms) == 1 else f"({_sum(terms[:half])} + {_sum(terms[half:])})"
