"""Delta tables that others write, read version by version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.connectors import delta_files, parquet_format
from dagster_operators.connectors.change_feed import CHANGE_FIELDS, as_inserts, check_change_feed, read_change_feed
from dagster_operators.connectors.connector import UNKNOWN, Connector, OnCorrupt, SliceChoice, Unknown
from dagster_operators.connectors.delta_bounds import may_have_any
from dagster_operators.connectors.delta_versions import DeltaVersions
from dagster_operators.connectors.read_failure import explain_read_failure
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import BadInputError, PipelineError, SourceError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.access import Access
from dagster_operators.storage.delta_log import DataFile, DeltaLog
from dagster_operators.storage.location import FileLocation, spelled_out
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

_MOST_FOOTERS = 256


@dataclass(frozen=True, eq=False)
class DeltaSource(Connector):
    """A Delta table: first all its rows, then what each new version adds.

    Versions that only move rows about (OPTIMIZE) or change properties are passed over. One that deletes or updates rows cannot be
    told as added rows, and is an error unless the change data feed is read.

    Args:
        path: The table's path or URI.
        changes: Read the change data feed: inserts, deletes and both sides of updates, with the columns ``_change_type``,
            ``_commit_version`` and ``_commit_timestamp`` behind the table's own. The rows of the first epoch are inserts.
        starting_version: Read from this version's additions on, instead of all rows first.
        max_versions: The most versions with data an epoch reads.
        storage_options: Access to an object store, as deltalake takes it (the engine has its own settings). By default the
            pipeline's, if the table lies on the store of the pipeline's root, else what the environment says.

    >>> DeltaSource("lake/weather").config()["changes"]
    False
    """

    kind: ClassVar[str] = "delta"
    secrets: ClassVar[tuple[str, ...]] = ("storage_options",)

    path: str | os.PathLike[str]
    changes: bool = False
    starting_version: int | None = None
    max_versions: int | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    _log: DeltaLog = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.path:
            raise PipelineError("a DeltaSource needs a path", remedy="name the table's folder: DeltaSource('data/orders')")
        if self.max_versions is not None and self.max_versions < 1:
            raise PipelineError(f"max_versions has to be at least 1, not {self.max_versions}")
        location = FileLocation(os.fspath(self.path), Access.of(self.storage_options), is_folder=True)
        object.__setattr__(self, "_log", DeltaLog(location))

    @property
    def uri(self) -> str:
        """The table's path or URI as it was given."""
        return self._log.location.path

    def config(self) -> dict[str, JSON]:
        """All settings but the access to the object store."""
        limits: dict[str, JSON] = {"starting_version": self.starting_version, "max_versions": self.max_versions}
        return {"path": self.uri, "changes": self.changes, **limits}

    def identity(self) -> dict[str, JSON]:
        """The table, and what its versions are read as."""
        return {"path": self.uri, "changes": self.changes}

    @override
    def positions(self) -> dict[str, JSON]:
        return {**self.identity(), "path": spelled_out(self.uri)}

    @override
    def may_go_on_from(self, before: Connector) -> bool:
        return isinstance(before, DeltaSource) and before.changes == self.changes

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"version": int, "commit": str})

    def below(self, root: Root) -> DeltaSource:
        """With the root's access if the table lies on the same store and has no ``storage_options`` of its own."""
        options = root.options_for(self.uri) if self.storage_options is None else None
        return replace(self, storage_options=options) if options else self

    def infer_schema(self, session: SparkSession) -> str:  # noqa: ARG002  # the log has it
        """The table's schema as it is now, from the log."""
        fields = [{**column, "metadata": {}} for column in self._log.fields()]
        return json.dumps({"type": "struct", "fields": fields + (CHANGE_FIELDS if self.changes else [])})

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:  # noqa: ARG002
        """All rows first, then the versions after ``start``.

        Raises:
            MissingInputError: There is no such table.
            BadInputError: The table was replaced, versions were cleaned up before they were read, or a version removes rows.
        """
        versions = DeltaVersions(self._log, self.changes, self.max_versions)
        if isinstance(start, dict):
            return versions.after(start)
        if self.starting_version is not None:
            return versions.since(self.starting_version)
        return versions.snapshot()

    @override
    def together(self, before: JSON, after: JSON) -> JSON | None:
        (first, _), (_, last) = _versions(before), _versions(after)
        return None if first is None else {"versions": [first, last]}

    def verify(self, items: JSON, schema_json: str) -> None:
        """Look whether the table still has all columns in their types, and the data files are there."""
        last = _versions(items)[1]
        changes = json.dumps({"type": "struct", "fields": CHANGE_FIELDS if self.changes else []})
        found = {**self._log.schema(last).types, **Schema.from_json(changes).types}
        for column, kind in Schema.from_json(schema_json).types.items():
            if column not in found:
                raise BadInputError(f"version {last} of the Delta table no longer has a column", table=self.uri, column=column)
            if found[column].sql != kind.sql:
                problem = f"a column of the Delta table was {kind.shown} and is {found[column].shown} in version {last}"
                raise BadInputError(problem, table=self.uri, column=column, remedy="reset the source, or cast the column back")
        self.verify_again(items, schema_json)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        """Look whether the data files are there, and no further."""
        first, last = _versions(items)
        if self.changes and first is not None:
            check_change_feed(self._log, last)
        elif first is not None:
            delta_files.require_files(self._log.location, self._files(items))

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
        first, last = _versions(items)
        if first is None:
            rows = self._snapshot(session, last, names)
            return as_inserts(rows, next(self._log.commits(last, last))).select(*names) if self.changes else rows
        if self.changes:
            return read_change_feed(session, self._log, first, last, schema_json)
        return delta_files.read_files(session, self._log.location, self._files(items), self._columns(last, names))

    @property
    def skips_files(self) -> bool:
        """Unless the change feed is read."""
        return not self.changes

    def read_some(self, session: SparkSession, items: JSON, schema_json: str, any_of: Sequence[str]) -> DataFrame:
        """As ``read``, without files that partition values and statistics in the log tell to have none of the rows."""
        _, last = _versions(items)
        if self.changes or self._log.may_have_deletion_vectors(last):
            return self.read(session, items, schema_json)
        self.verify(items, schema_json)
        fields = self._columns(last, Schema.from_json(schema_json).names)
        files = [file for file in self._files(items) if may_have_any(file, fields, any_of)]
        return delta_files.read_files(session, self._log.location, files, fields)

    def explain_failure(self, session: SparkSession, error: BaseException, items: JSON, schema_json: str) -> SourceError | None:
        """The data file that made the engine fail."""
        files = {self._log.location.full_path(each.file): each for each in self._files(items)}
        columns = self._columns(_versions(items)[1], Schema.from_json(schema_json).names)
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

    def pin(self) -> JSON:
        """The table's version now."""
        return {"snapshot": self._log.table().version()}

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
            return delta_files.read_files(session, self._log.location, self._log.files(version), columns)
        frame = session.read.format("delta").option("versionAsOf", version).load(self._log.location.folder_uri())
        return frame.select(*(column.name for column in columns))

    def _files(self, items: JSON) -> list[DataFile]:
        """The data files of a slice; of a change feed those with the added rows."""
        first, last = _versions(items)
        if first is None:
            return self._log.files(last)
        return [file for commit in self._log.commits(first, last) for file in commit.added]

    def _footers(self, items: JSON) -> list[parquet_format.Footer] | None:
        """The footers of a slice; None where they would be too many or not tell what is read."""
        first, last = _versions(items)
        if (first is not None and self.changes) or self._log.may_have_deletion_vectors(last):
            return None
        files = self._files(items)
        if len(files) > _MOST_FOOTERS:
            return None
        return [parquet_format.footer(self._log.location, each.file) for each in files]

    def _stored_name(self, items: JSON, column: str) -> str:
        (found,) = self._columns(_versions(items)[1], [column])
        return delta_files.physical_name(found)


def _versions(items: JSON) -> tuple[int | None, int]:
    """First and last version of a slice; no first one means all rows of the last."""
    slice_: Any = items
    if "snapshot" in slice_:
        return None, slice_["snapshot"]
    first, last = slice_["versions"]
    return first, last
