"""What sources over a Delta table have in common: they read all rows of a version, or what some versions did to the rows."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.connectors import delta_files, parquet_format
from dagster_operators.connectors.change_feed import as_inserts, without_feed
from dagster_operators.connectors.connector import UNKNOWN, Connector, OnCorrupt, Unknown
from dagster_operators.connectors.delta_bounds import may_have_any
from dagster_operators.connectors.delta_versions import check_same_table
from dagster_operators.connectors.read_failure import explain_read_failure
from dagster_operators.errors import BadInputError, MissingInputError, SourceError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.delta_log import DataFile, DeltaLog
from dagster_operators.storage.input_content import check_content
from dagster_operators.storage.location import SourceFile
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema
from dagster_operators.types.widening import is_wider

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_FOOTERS = 256
_FEATURES = ("delta.columnMapping.", "delta.typeChanges")
_ANEW = (
    "read the whole table again, with the columns that it has now, into tables that begin anew: "
    'pipeline.reset(source, 0, tables="restart")'
)
_AS_IT_IS = f"put the column back as it was; or {_ANEW}"


class DeltaReader(Connector):
    """A source over one Delta table. Slices are versions: one for all its rows, or the first and last of several.

    Attributes:
        changes: Whether what happened to rows is read, and not the rows that were added.
    """

    changes: bool
    _log: DeltaLog

    @property
    @abstractmethod
    def _change_fields(self) -> list[dict[str, Any]]:
        """The columns of changes behind the table's own."""

    @abstractmethod
    def _check_changes(self, first: int, last: int) -> None:
        """Make sure that what versions changed can be read."""

    @abstractmethod
    def _read_changes(self, session: SparkSession, first: int, last: int, schema_json: str) -> DataFrame:
        """What versions changed."""

    def _schema_json(self, version: int | None = None) -> str:
        """The table's schema, with the columns of changes."""
        fields = [{**_without_features(column), "metadata": {}} for column in self._log.fields(version)]
        return json.dumps({"type": "struct", "fields": fields + (self._change_fields if self.changes else [])})

    @override
    def together(self, before: JSON, after: JSON) -> JSON | None:
        (first, _), (_, last) = versions_of(before), versions_of(after)
        if first is None or not isinstance(before, dict) or not isinstance(after, dict):
            return None
        content = {**before.get("content", {}), **after.get("content", {})}
        return {"versions": [first, last], **({"content": content} if content else {})}

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the table still has all columns in their types, and the data files are there."""
        last = versions_of(items)[1]
        changes = json.dumps({"type": "struct", "fields": self._change_fields if self.changes else []})
        found = {**self._log.schema(last).types, **Schema.from_json(changes).types}
        for column, kind in Schema.from_json(schema_json).types.items():
            if column not in found:
                problem = f"version {last} of the Delta table does not have a column that it had"
                raise BadInputError(problem, table=self.uri, column=column, remedy=_AS_IT_IS)
            if found[column].sql != kind.sql:
                problem = f"a column of the Delta table was {kind.shown} and is {found[column].shown} in version {last}"
                one_way = is_wider(kind, found[column])  # nobody makes it narrower again
                raise BadInputError(problem, table=self.uri, column=column, remedy=_ANEW if one_way else _AS_IT_IS)
        self.verify_again(items, schema_json)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        """Look whether the data files are there, and no further."""
        first, last = versions_of(items)
        if self.changes and first is not None:
            self._check_changes(first, last)
        elif first is not None:
            delta_files.require_files(self._log.location, self._files(items))
        check_content(self._log.location, content_of(items))

    @override
    def verify_position(self, position: JSON | None) -> None:
        if isinstance(position, dict) and {"version", "commit"} <= position.keys():
            check_same_table(self._log, position)

    def read(
        self,
        session: SparkSession,
        items: JSON,
        schema_json: str,
        *,
        corrupt: OnCorrupt = "fail",  # noqa: ARG002  # a table has no corrupt records
    ) -> DataFrame:
        """The rows of a snapshot, or what versions added or changed."""
        self.verify(items, schema_json)
        names = Schema.from_json(schema_json).names
        first, last = versions_of(items)
        if first is None:
            rows = self._snapshot(session, last, names)
            return as_inserts(rows, next(self._log.commits(last, last))).select(*names) if self.changes else rows
        if self.changes:
            return self._read_changes(session, first, last, schema_json)
        return self._read_files(session, self._files(items), self._columns(last, names))

    @property
    @override
    def knows_places(self) -> bool:
        return not self.changes

    def _read_files(self, session: SparkSession, files: Sequence[DataFile], fields: Sequence[Field]) -> DataFrame:
        self._require_as_written(files)
        return delta_files.read_files(session, self._log.location, files, fields, places=self.gives_places)

    def _require_as_written(self, files: Sequence[DataFile]) -> None:
        """See that files are as they were written, where more than their sizes is known: of tables of others it is not."""

    @property
    def skips_files(self) -> bool:
        """Unless the change feed is read."""
        return not self.changes

    def read_some(self, session: SparkSession, items: JSON, schema_json: str, any_of: Sequence[str]) -> DataFrame:
        """As ``read``, without files that partition values and statistics in the log tell to have none of the rows."""
        _, last = versions_of(items)
        if self.changes or self._log.may_have_deletion_vectors(last):
            return self.read(session, items, schema_json)
        self.verify(items, schema_json)
        fields = self._columns(last, Schema.from_json(schema_json).names)
        files = [file for file in self._files(items) if may_have_any(file, fields, any_of)]
        self._require_as_written(files)
        return delta_files.read_files(session, self._log.location, files, fields)

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The data file that made the engine fail; of a change feed one that is gone, if one is."""
        if isinstance(error, SourceError):  # it was noticed before the engine was asked
            return error
        if self.changes and versions_of(items)[0] is not None:
            if told := without_feed(error, self.uri):
                return told
            try:
                delta_files.require_files(self._log.location, self._files(items))
            except MissingInputError as gone:
                return gone
        files = {self._log.location.full_path(each.file): each for each in self._files(items)}
        columns = self._columns(versions_of(items)[1], Schema.from_json(schema_json).names)
        return explain_read_failure(
            error, files, lambda each: delta_files.read_files(session, self._log.location, [each], columns)
        )

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """From the Parquet footers of a moderate number of files; else unknown."""
        footers = self._footers(items)
        if footers is None:
            return UNKNOWN
        return parquet_format.largest_event_time(footers, self._stored_name(items, column))

    def null_count(self, items: JSON, column: str) -> int | Unknown:
        """From the Parquet footers of a moderate number of files; else unknown."""
        footers = self._footers(items)
        if footers is None:
            return UNKNOWN
        return parquet_format.null_count(footers, self._stored_name(items, column))

    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """All rows of the pinned version."""
        return self.read(session, pin, schema_json)

    def _columns(self, version: int, names: Sequence[str]) -> list[Field]:
        fields = {column.name: column for column in self._log.schema(version)}
        return [fields[name] for name in names if name in fields]

    def _snapshot(self, session: SparkSession, version: int, names: Sequence[str]) -> DataFrame:
        """All rows: by the list of files, or through the engine's own Delta reader where rows may be marked as deleted."""
        columns = self._columns(version, names)
        if not self._log.may_have_deletion_vectors(version):
            files = sorted(self._all_files(version), key=lambda each: each.file)
            return self._read_files(session, files, columns)
        frame = session.read.format("delta").option("versionAsOf", version).load(self._log.location.folder_uri())
        return frame.select(*(column.name for column in columns))

    def _files(self, items: JSON) -> list[DataFile]:
        """The data files of a slice; of a change feed those with the added rows."""
        first, last = versions_of(items)
        if first is None:
            return self._all_files(last)
        return [file for commit in self._log.commits(first, last) for file in commit.added]

    def _all_files(self, version: int) -> list[DataFile]:
        """All data files of a version."""
        return self._log.files(version)

    def _footers(self, items: JSON) -> list[parquet_format.Footer] | None:
        """The footers of a slice; None where they would be too many or not tell what is read."""
        first, last = versions_of(items)
        if (first is not None and self.changes) or self._log.may_have_deletion_vectors(last):
            return None
        files = self._files(items)
        if len(files) > _MOST_FOOTERS:
            return None
        return [parquet_format.footer(self._log.location, each.file) for each in files]

    def _stored_name(self, items: JSON, column: str) -> str:
        (found,) = self._columns(versions_of(items)[1], [column])
        return delta_files.physical_name(found)


def _without_features(stored: Any) -> Any:
    """A schema in JSON without the marks of Delta's features, as physical names, which mean nothing in other tables."""
    if isinstance(stored, list):
        return [_without_features(each) for each in stored]
    if not isinstance(stored, dict):
        return stored
    return {name: _without_features(value) for name, value in stored.items() if not name.startswith(_FEATURES)}


def content_of(items: JSON) -> list[SourceFile]:
    """The files of a slice with the digests of their content, as far as these are known.

    >>> content_of({"versions": [1, 2], "content": {"a.parquet": ["0a", 5]}}), content_of({"snapshot": 1})
    ([SourceFile(modified=0, path='a.parquet', size=0, digest='0a', changed_at=5)], [])
    """
    listed: Any = items
    content = listed.get("content", {})
    return [SourceFile.from_json([path, 0, 0, digest, changed_at]) for path, (digest, changed_at) in content.items()]


def versions_of(items: JSON) -> tuple[int | None, int]:
    """First and last version of a slice; no first one means all rows of the last."""
    slice_: Any = items
    if "snapshot" in slice_:
        return None, slice_["snapshot"]
    first, last = slice_["versions"]
    return first, last
