"""CSV and JSON-lines files as DataFrames, in which no record and no value gets lost without a trace."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_operators.connectors.connector import OnCorrupt
from dagster_operators.connectors.places import in_order_of_files
from dagster_operators.connectors.spark_lines import has_odd_lines
from dagster_operators.connectors.spark_text import read_text
from dagster_operators.connectors.text_format import TextFormat, check_encoding
from dagster_operators.connectors.text_salvage import read_salvaging, read_strictly, refuse_unknown
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.storage.location import FileLocation, SourceFile
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
        if self._is_read_here(session, files, schema_json):
            read = read_salvaging if corrupt == "reject" else read_strictly
            return read(session, self.location, self.text, files, schema_json, places=places)
        parts = []
        for columns, some in self._layouts(files, schema_json):
            there = self._there(columns, schema_json)
            rows = read_text(
                session, self.location, self.text, some, columns=columns, schema_json=there, corrupt=corrupt, places=places
            )
            parts.append(rows if there == schema_json else _with_nulls(rows, schema_json))
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

    def _there(self, columns: Sequence[str], schema_json: str) -> str:
        """The schema without the columns that files with these do not have."""
        schema, names = Schema.from_json(schema_json), {name.lower() for name in columns}
        fields = tuple(field for field in schema if field.name.lower() in names)
        is_whole = len(fields) == len(schema.names) or not self.text.has_header
        return schema_json if is_whole else Schema(fields).to_json()

    def _is_read_here(self, session: SparkSession, files: Sequence[SourceFile], schema_json: str) -> bool:
        """Whether the package itself has to cut files into records: on Sail, and where Spark would lose some of a line.

        Raises:
            BadInputError: It would, and there are options that Spark alone knows.
        """
        if not reads_like_spark(session):
            return True
        if self.text.name != "json" or self.text.has_several_lines or self.text.is_wide:
            return False
        if not has_odd_lines(session, self.location, self.text, files, schema_json):
            return False
        try:
            refuse_unknown(self.text)
        except PipelineError as error:
            raise BadInputError(
                "a line is more than one object, or has a text that Spark takes for another value than it is",
                file=self.location.full_path(files[0]) if len(files) == 1 else self.location.path,
                remedy=f"correct the file, or leave out the option {error.where['option']!r}: then such a line is corrupt",
            ) from error
        return True


def _with_nulls(rows: DataFrame, schema_json: str) -> DataFrame:
    """Rows with all columns of the schema, in its order, and what follows them: those that they do not have are null."""
    types, there = Schema.from_json(schema_json).types, set(rows.columns)
    columns = (quoted(name) if name in there else f"CAST(NULL AS {kind.sql}) AS {quoted(name)}" for name, kind in types.items())
    return rows.selectExpr(*columns, *(quoted(name) for name in rows.columns if name not in types))


def check_options(session: SparkSession, text: TextFormat) -> None:
    """Refuse options that the session's readers do not know, or do not read right.

    Raises:
        PipelineError: There is one.
    """
    if not reads_like_spark(session):
        refuse_unknown(text)
        check_encoding(text)
        return
    if text.has_header:
        check_encoding(text)
    if text.name == "json" and text.is_wide and not text.has_several_lines:
        raise PipelineError(
            f"Spark reads no JSON lines in {text.encoding.upper()}", option="encoding",
            remedy="write the files in UTF-8, and leave the option out; or run on Sail",
        )  # fmt: skip
