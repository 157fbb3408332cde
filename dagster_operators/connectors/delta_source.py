"""Delta tables that others write, read version by version."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.change_feed import CHANGE_FIELDS, check_change_feed, read_change_feed
from dagster_operators.connectors.connector import Connector, SliceChoice
from dagster_operators.connectors.delta_reader import DeltaReader, content_of, versions_of
from dagster_operators.connectors.delta_versions import DeltaVersions
from dagster_operators.connectors.written_position import check_keys, check_reached
from dagster_operators.errors import PipelineError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.access import Access
from dagster_operators.storage.delta_log import DeltaLog
from dagster_operators.storage.input_content import other_content, with_content
from dagster_operators.storage.location import FileLocation, spelled_out
from dagster_operators.storage.uri import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

_MOST_PINNED: Final = 256


@checked_constructor
@dataclass(frozen=True, eq=False)
class DeltaSource(DeltaReader):
    """A Delta table: first all its rows, then what each new version adds.

    Versions that only move rows about (OPTIMIZE) or change properties are passed over. One that deletes or updates rows cannot be
    told as added rows, and is an error unless the change data feed is read.

    Args:
        path: The table's path or URI.
        changes: Read the change data feed: inserts, deletes and both sides of updates, with the columns ``_change_type``,
            ``_commit_version`` and ``_commit_timestamp`` behind the table's own. The rows of the first epoch are inserts.
        starting_version: Read from this version's additions on, instead of all rows first.
        max_versions: The most versions with data an epoch reads.
        storage_options: Access to an object store, as deltalake takes it; the engine is told, too. By default the
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
        if self.path and not isinstance(self.path, str | os.PathLike):
            raise PipelineError(f"{self.path!r} is no path", remedy="name the table's folder: DeltaSource('data/orders')")
        if not self.path:
            raise PipelineError("a DeltaSource needs a path", remedy="name the table's folder: DeltaSource('data/orders')")
        if self.max_versions is not None and self.max_versions < 1:
            raise PipelineError(
                f"max_versions has to be at least 1, not {self.max_versions}", remedy="give a number from 1, or none"
            )
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
        check_reached(position, "version", lambda: self._log.table().version(), self.uri)

    def below(self, root: Root) -> DeltaSource:
        """With the root's access if the table lies on the same store and has no ``storage_options`` of its own."""
        options = root.options_for(self.uri) if self.storage_options is None else None
        return replace(self, storage_options=options) if options else self

    def infer_schema(self, session: SparkSession) -> str:  # noqa: ARG002  # the log has it
        """The table's schema as it is now, from the log."""
        return self._schema_json()

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
    def backlog(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> Mapping[str, int]:
        """From the log."""
        versions = DeltaVersions(self._log, self.changes, self.max_versions)
        return versions.backlog(start if isinstance(start, dict) else None, self.starting_version)

    def next_extract(self, start: JSON | None) -> SliceChoice | None:
        """All rows of the newest version, unless nothing changed them since the last one that was read.

        Raises:
            MissingInputError: There is no such table.
            BadInputError: The table was replaced.
        """
        versions = DeltaVersions(self._log, changes=True, max_versions=None)
        return versions.newest(start) if isinstance(start, dict) else versions.snapshot()

    @override
    def told(self, items: JSON) -> dict[str, Any]:
        first, last = versions_of(items)
        return {"table": self.uri, "version": last} if first is None else {"table": self.uri}

    def pin(self) -> JSON:
        """The table's version now."""
        return {"snapshot": self._log.table().version()}

    @override
    def with_content(self, items: JSON) -> JSON:
        if not is_local(self.uri) or not isinstance(items, dict):
            return items
        first, last = versions_of(items)
        files = self._files(items)
        if self.changes and first is not None:
            files += [file for commit in self._log.commits(first, last) for file in commit.feed]
        known = with_content(self._log.location, [each.file for each in files])
        content = {file.path: [file.digest, file.changed_at] for file in known if file.digest}
        return {**items, "content": content} if content else items

    @override
    def pin_with_content(self, pin: JSON) -> JSON:
        """Not of a table of very many files: each epoch's record of the ledger would name them all."""
        return self.with_content(pin) if len(self._files(pin)) <= _MOST_PINNED else pin

    @override
    def bytes_of(self, items: JSON) -> int | None:
        is_pin = isinstance(items, dict) and "snapshot" in items  # of a slice the log would have to be read commit by commit
        return sum(each.file.size for each in self._files(items)) if is_pin else None

    @override
    def other_content(self, items: JSON) -> Sequence[str]:
        return other_content(self._log.location, content_of(items))

    @property
    @override
    def _change_fields(self) -> list[dict[str, Any]]:
        return CHANGE_FIELDS

    @override
    def _check_changes(self, first: int, last: int) -> None:
        check_change_feed(self._log, last)

    @override
    def _read_changes(self, session: SparkSession, first: int, last: int, schema_json: str) -> DataFrame:
        return read_change_feed(session, self._log, first, last, schema_json)
