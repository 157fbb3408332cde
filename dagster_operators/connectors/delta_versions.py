"""Which versions of a Delta table belong to the next slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dagster_operators.connectors.connector import SliceChoice
from dagster_operators.errors import BadInputError
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.storage.delta_commit import PIPELINE_PROPERTY
from dagster_operators.storage.delta_log import Commit, DeltaLog

_MOST_COMMITS: Final = 100
"""Of so many unread versions, each of which is a file of the log, it is looked up how large they are."""


@dataclass(frozen=True)
class DeltaVersions:
    """Chooses versions of one table.

    A position is a version with the digest of its commit, so that another table in the same place is noticed.

    Args:
        log: The table's log.
        changes: Deleted and updated rows can be told.
        max_versions: The most versions a slice has that change data.
    """

    log: DeltaLog
    changes: bool
    max_versions: int | None

    def snapshot(self) -> SliceChoice:
        """All rows there are now."""
        version = self.log.table().version()
        (commit,) = self.log.commits(version, version)
        return SliceChoice(
            SourceSlice(None, _position(commit), {"snapshot": version}), more=self.log.commit(version + 1) is not None
        )

    def newest(self, start: Mapping[str, Any]) -> SliceChoice | None:
        """All rows of the newest version, or None if no version after a position changes data; what lies between is not needed.

        Raises:
            BadInputError: The table was replaced.
        """
        check_same_table(self.log, start)
        made = self.snapshot()
        last = made.slice.items["snapshot"] if isinstance(made.slice.items, dict) else 0
        between = (self.log.commit(version) for version in range(start["version"] + 1, last + 1))
        if not any(commit is None or commit.changes_data for commit in between):
            return None
        return SliceChoice(replace(made.slice, start=dict(start)), more=made.more)

    def after(self, start: Mapping[str, Any]) -> SliceChoice | None:
        """The versions after a position, or None if none of them changes data.

        Raises:
            BadInputError: The table was replaced, versions were cleaned up before they were read, or one removes rows.
        """
        check_same_table(self.log, start)
        return self.since(start["version"] + 1, dict(start))

    def since(self, first: int, start: JSON = None) -> SliceChoice | None:
        """A version and those behind it, or None if none of them changes data.

        Raises:
            MissingInputError: There is no such table.
        """
        if start is None:
            self.log.table()
        taken: list[Commit] = []
        changing = 0
        commit = self.log.commit(first)
        while commit is not None:
            if commit.changes_data:
                if changing == self.max_versions or (changing and not self._is_readable(commit)):
                    break  # what cannot be read is refused by an epoch that begins with it: to pass over it loses no other one
                self._check_readable(commit, is_first=start is None)
                changing += 1
            taken.append(commit)
            commit = self.log.commit(commit.version + 1)
        if commit is None:
            self._check_nothing_cleaned_up(first + len(taken))
        if not changing:
            return None
        last = taken[-1]
        return SliceChoice(
            SourceSlice(start, _position(last), {"versions": [first, last.version]}),
            more=commit is not None,
        )

    def backlog(self, start: Mapping[str, Any] | None, first: int | None) -> dict[str, int]:
        """How much is behind a position, or of a table that is still to be read, as its log tells.

        Args:
            start: The position; None before the first epoch.
            first: The version that the first epoch begins with; None for all rows that there are.
        """
        table = self.log.table()
        if start is None and first is None:
            return self.log.extent(table)
        next_ = first if start is None else start["version"] + 1
        versions = max(table.version() + 1 - (next_ or 0), 0)
        told = {"versions": versions}
        if self.changes or versions > _MOST_COMMITS:  # a change is up to two rows, and a part of a file
            return told
        files = [file for commit in self.log.commits(next_ or 0, table.version()) for file in commit.added]
        rows = [file.stats.rows if file.stats else None for file in files]
        told |= {"files": len(files), "bytes": sum(file.file.size for file in files)}
        known = [count for count in rows if isinstance(count, int)]
        return told | ({"rows": sum(known)} if len(known) == len(rows) else {})

    def _is_readable(self, commit: Commit) -> bool:
        return self.changes or not (commit.removes_rows or commit.has_deletion_vectors)

    def _check_readable(self, commit: Commit, *, is_first: bool) -> None:
        if not self._is_readable(commit):
            raise BadInputError(
                f"version {commit.version} of the Delta table ({commit.operation}) deletes or changes earlier rows",
                table=self.log.location.path,
                version=commit.version,
                operation=commit.operation,
                remedy=self._instead(commit, is_first=is_first),
            )

    def _instead(self, commit: Commit, *, is_first: bool) -> str:
        """How to read what cannot be told as added rows: of a table of a pipeline, as its log says, from the pipeline."""
        root, _, name = self.log.location.path.rstrip("/").rpartition("/tables/")
        if not root or not self.log.table().metadata().configuration.get(PIPELINE_PROPERTY):
            return _before_all(commit) if is_first else _behind_others(commit)
        source = f'PipelineSource({root!r}, {name!r}, changes=True) with .as_changes("_change_type") behind it'
        if is_first:
            return f"it is a table of a pipeline: read its changes by {source}"
        return (
            'it is a table of a pipeline, whose changes can be read: pipeline.reset(source, 0, tables="restart"), then put '
            f"{source} into the program in its place; what is to be decided for that is told then; "
            f"or {_behind_others(commit, feed=False)}"
        )

    def _check_nothing_cleaned_up(self, missing: int) -> None:
        """A version that is not in the log is yet to come, unless a checkpoint has it."""
        if self.log.is_cleaned_out(missing):
            raise BadInputError(
                f"version {missing} of the Delta table was cleaned out of its log before it was read; "
                f"the table is at {self.log.table().version()}",
                table=self.log.location.path,
                remedy='pipeline.reset(source, 0, tables="restart") reads the table as it is now, into tables that begin anew; '
                "then run more often than delta.logRetentionDuration",
            )


def check_same_table(log: DeltaLog, position: Mapping[str, Any]) -> None:
    """See that a table is the one that a position is of: another one in its place has versions of the same numbers.

    Raises:
        BadInputError: It was replaced.
    """
    commit = log.commit(position["version"])
    # Without the commit (cleaned up, or of a table that was replaced) the table's version has to tell.
    same = commit.digest == position["commit"] if commit is not None else log.table().version() >= position["version"]
    if not same:
        raise BadInputError(
            f"the Delta table is not the one whose version {position['version']} was read: it was replaced",
            table=log.location.path,
            remedy="read the new one from its beginning, into tables that begin anew: "
            'pipeline.reset(source, 0, tables="restart")',
        )


def _position(commit: Commit) -> dict[str, JSON]:
    return {"version": commit.version, "commit": commit.digest}


def _left_out(commit: Commit) -> str:
    """What of a version never comes to tables that pass over it.

    >>> _left_out(Commit(3, "DELETE", "0a", 0.0))
    'the 0 rows in files that it wrote; rows that it took away stay'
    """
    counts = [file.stats.rows if file.stats else None for file in commit.added]
    known = [count for count in counts if count is not None]
    rows = f"{sum(known)} rows" if len(known) == len(counts) else "rows"
    return f"the {rows} in files that it wrote; rows that it took away stay"


def _before_all(commit: Commit) -> str:
    return f"read its changes, by changes=True of DeltaSource, or start behind it with starting_version={commit.version + 1}"


def _behind_others(commit: Commit, *, feed: bool = True) -> str:
    """Of a source that has a position: ``starting_version`` plays no part any more."""
    anew = (
        'read the table as it is now, into tables that begin anew: pipeline.reset(source, 0, tables="restart"); '
        f'or pass over the version: pipeline.reset(source, {_position(commit)}, tables="keep"), without {_left_out(commit)}'
    )
    changes = "; or read changes, by changes=True of DeltaSource, from the beginning: what is to be decided for that is told then"
    return f"{anew}{changes * feed}"
