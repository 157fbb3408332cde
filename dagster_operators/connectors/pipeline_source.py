"""Tables of another pipeline as sources: all of them as of one of its epochs, with its watermarks."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.connector import Connector, OnCorrupt, SliceChoice
from dagster_operators.connectors.delta_files import read_files, require_files
from dagster_operators.connectors.delta_reader import DeltaReader, versions_of
from dagster_operators.connectors.file_changes import rows_changed
from dagster_operators.connectors.upstream import Upstream, gone, nothing_there
from dagster_operators.connectors.written_position import check_keys, check_reached
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.storage.access import Access
from dagster_operators.storage.delta_log import Commit, DataFile, DeltaLog
from dagster_operators.storage.location import FileLocation, spelled_out
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.records import Complete

CHANGE_TYPE: Final = "_change_type"
"""The column that says what happened to a row: ``insert`` or ``delete``."""

_BEFORE_ALL: Final = 0
"""As of which there is nothing to be read."""

_NO_MORE: Final = "if nothing comes any more, say so by finished=True of the source"

_CHANGE_FIELDS: Final[list[dict[str, Any]]] = [{"name": CHANGE_TYPE, "type": "string", "nullable": True, "metadata": {}}]


class HasRoot(Protocol):
    """A pipeline, as far as its storage root goes."""

    root: str

    @property
    def name(self) -> str:
        """Its name."""


@checked_constructor
@dataclass(frozen=True, eq=False)
class PipelineSource(DeltaReader):
    """A table of another pipeline, or several to choose from: first all rows, then what each of its epochs added.

    All sources and lookups of a pipeline over the same other pipeline read it as of one and the same epoch: a row that one table
    has and another refers to is there. Where the source's event time is the table's own, its watermark is the table's, so that no
    row that the other pipeline still counted is late here.

    Args:
        root: The other pipeline, or its storage root.
        tables: The name of a table, or names: then ``source["orders"]`` is the source over one of them.
        changes: Read what happened to rows, for updating tables: those that are gone and those that are new, with ``delete`` or
            ``insert`` in ``_change_type``, which ``as_changes("_change_type")`` understands. An updated row is both.
        max_epochs: The most epochs of the other pipeline that an epoch reads, behind the first.
        pipeline: The other pipeline's name, as its assets' keys have it. By default as its root says once it has run.
        storage_options: Access to an object store. By default the reading pipeline's, if both roots are on the same store.

    >>> shop = PipelineSource("data/shop", ["orders", "customers"])
    >>> shop["orders"].config()["table"]
    'orders'
    """

    kind: ClassVar[str] = "pipeline_source"
    secrets: ClassVar[tuple[str, ...]] = ("storage_options",)

    root: str | os.PathLike[str] | HasRoot
    tables: str | Sequence[str]
    changes: bool = False
    max_epochs: int | None = None
    pipeline: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    _log: DeltaLog = field(init=False, repr=False)
    _at: int | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        given: Any = self.root
        if isinstance(getattr(given, "root", None), str):
            object.__setattr__(self, "pipeline", self.pipeline or getattr(given, "stored_name", given.name))
            given = given.root
        object.__setattr__(self, "root", os.fspath(given).rstrip("/") if given else "")
        names: Sequence[Any] = (self.tables,) if isinstance(self.tables, str) else tuple(self.tables)
        object.__setattr__(self, "tables", names)
        if not self.root or not names or not all(isinstance(name, str) and name for name in names):
            raise PipelineError(
                "a PipelineSource needs a pipeline and a table", remedy="name both: PipelineSource('data/shop', 'orders')"
            )
        if self.max_epochs is not None and self.max_epochs < 1:
            raise PipelineError(f"max_epochs has to be at least 1, not {self.max_epochs}", remedy="give a number from 1, or none")
        location = FileLocation(self.uri, Access.of(self.storage_options), is_folder=True)
        object.__setattr__(self, "_log", DeltaLog(location))
        object.__setattr__(self, "_upstream", Upstream(str(self.root), self.storage_options))

    def __getitem__(self, table: str) -> PipelineSource:
        """The source over one of the tables."""
        if table not in self.tables:
            raise PipelineError(f"{table!r} is not among the tables of the source", remedy=f"there are: {', '.join(self.tables)}")
        return replace(self, tables=(table,))

    @property
    def table(self) -> str:
        """The table that is read.

        Raises:
            PipelineError: There are several.
        """
        if len(self.tables) > 1:
            raise PipelineError(
                f"a source reads one table, and there are {len(self.tables)}: {', '.join(self.tables)}",
                remedy=f"take one of them: source[{self.tables[0]!r}]",
            )
        return self.tables[0]

    @property
    def uri(self) -> str:
        """Where the table lies."""
        return f"{self.root}/tables/{self.tables[0]}"

    @property
    def _up(self) -> Upstream:
        found: Upstream = self.__dict__["_upstream"]
        return found

    @property
    def pipeline_name(self) -> str | None:
        """The name of the pipeline that is read, if it was given or its root has it."""
        return self.pipeline or self._up.name

    def config(self) -> dict[str, JSON]:
        """All settings but the access to the object store."""
        return {"root": str(self.root), "table": self.table, "changes": self.changes, "max_epochs": self.max_epochs}

    def identity(self) -> dict[str, JSON]:
        """The table, and what its versions are read as."""
        return {"root": str(self.root), "table": self.table, "changes": self.changes}

    @override
    def positions(self) -> dict[str, JSON]:
        return {**self.identity(), "root": spelled_out(str(self.root))}

    @override
    def may_go_on_from(self, before: Connector) -> bool:
        return isinstance(before, PipelineSource) and (before.tables, before.changes) == (self.tables, self.changes)

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"epoch": int}, ("version", "commit"))
        check_reached(position, "epoch", lambda: last.epoch if (last := self._up.epoch()) else None, self.uri)

    def below(self, root: Root) -> PipelineSource:
        """With the root's access if the other pipeline lies on the same store and has no ``storage_options`` of its own."""
        options = root.options_for(str(self.root)) if self.storage_options is None else None
        return replace(self, storage_options=options) if options else self

    def infer_schema(self, session: SparkSession) -> str:  # noqa: ARG002  # the log has it
        """The table's schema as of the last epoch."""
        last = self._up.epoch()
        if last is None:
            raise nothing_there(str(self.root), self.table)
        with self._up.told(self.table):
            return self._schema_json(self._up.version(last, self.table))

    # --- one cut over several tables ---------------------------------------------------------------------------------

    @property
    @override
    def cut(self) -> str:
        return spelled_out(str(self.root))

    @override
    def cut_at(self, positions: Sequence[JSON | None]) -> int | None:
        last = self._up.epoch()
        if last is None:
            return None
        begun = [int(position["epoch"]) for position in positions if isinstance(position, dict)]
        if self.max_epochs is None or not begun:
            return last.epoch
        # One that was cleaned away leads to the next: its rows are in what later versions added, as without a limit.
        return min(last.epoch, max(min(begun) + self.max_epochs, self._up.first()))

    @override
    def as_of(self, cut: int | None) -> PipelineSource:
        made = copy.copy(self)
        object.__setattr__(made, "_at", _BEFORE_ALL if cut is None else cut)
        return made

    def _epoch(self) -> Complete | None:
        """The epoch as of which it is read; None if there was none."""
        return None if self._at == _BEFORE_ALL else self._up.epoch(self._at)

    @override
    def time(self) -> tuple[str, int] | None:
        epoch = self._epoch()
        told = self._up.time(epoch, self.table) if epoch else None
        return (told.column, told.watermark) if told else None

    # --- which versions ----------------------------------------------------------------------------------------------

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:
        """All rows first, then what later epochs of the other pipeline did to the table.

        Raises:
            PipelineError: There is no such table.
            EndedInputError: All rows were read, and the other pipeline no longer writes the table.
            BadInputError: Rows changed, and changes are not read; or the table is not the one that was read before.
            MissingInputError: The other pipeline was read before, and is gone.
        """
        if self._at is None:
            return self.as_of(self.cut_at([start])).choose(start, consumed)
        with self._up.told(self.table):
            return self._choose(start)

    def _choose(self, start: JSON | None) -> SliceChoice | None:
        epoch = self._epoch()
        if epoch is None:
            if isinstance(start, dict):
                raise gone(str(self.root), self.table, start["epoch"])
            return None
        if isinstance(start, dict) and not self._up.has(epoch, self.table):
            raise self._up.ended(epoch, self.table, _NO_MORE)
        if not self.changes and self._up.is_updating(self.table):
            raise self._refused("is an updating or replaced table, whose rows change from epoch to epoch", "read")
        version = self._up.version(epoch, self.table)
        self._up.require_own(epoch, self.table)
        more = (last := self._up.epoch()) is not None and last.epoch > epoch.epoch
        if not isinstance(start, dict):
            end = self._position(epoch.epoch, version)
            self._all_files(version)  # now, as before the first epoch nothing can be reset
            return SliceChoice(SourceSlice(None, end, {"snapshot": version}), more=more)
        before = self._version_of(start)
        self._check_same(start, before, version)
        end = {**self._position(epoch.epoch, version)}
        if version == before or not self._has_rows(before, version):
            if not more and not self._up.is_written(self.table):
                raise self._up.ended(epoch, self.table, _NO_MORE)
            # Behind a limit an epoch without rows has to go on, or none ever would.
            return SliceChoice(SourceSlice(start, end, None), more=more, news=more and self.max_epochs is not None)
        return SliceChoice(SourceSlice(start, end, {"versions": [before + 1, version]}), more=more)

    @override
    def pin(self) -> JSON:
        epoch = self._epoch()
        if epoch is None:
            raise nothing_there(str(self.root), self.table)
        pin = {"snapshot": self._up.version(epoch, self.table)}
        self._up.require_own(epoch, self.table)
        if not self._up.is_written(self.table):
            as_it_is = f"if it stays as it is, look it up as a Delta table: DeltaSource({self.uri!r})"
            raise self._up.ended(epoch, self.table, as_it_is)
        return pin

    def _position(self, epoch: int, version: int) -> dict[str, JSON]:
        (commit,) = self._log.commits(version, version)
        return {"epoch": epoch, "version": version, "commit": commit.digest}

    def _version_of(self, start: Mapping[str, Any]) -> int:
        if "version" in start:
            return int(start["version"])
        epoch = self._up.epoch(start["epoch"])
        return 0 if epoch is None else self._up.version(epoch, self.table)

    def _check_same(self, start: Mapping[str, Any], before: int, version: int) -> None:
        commit = self._log.commit(before)
        same = commit is None or start.get("commit", commit.digest) == commit.digest
        if not same or version < before:
            raise BadInputError(
                f"the table is not the one that was read at epoch {start['epoch']}: the pipeline, or its ledger, was replaced",
                table=self.uri, remedy='read it anew, into tables that begin anew: pipeline.reset(source, 0, tables="restart")',
            )  # fmt: skip

    def _has_rows(self, before: int, version: int) -> bool:
        """Whether anything happened to rows between two versions; rows that are gone are refused unless changes are read."""
        if self.changes:
            return any(commit.changes_data for commit in self._commits(before + 1, version))
        added, gone = self._net(before + 1, version)
        if gone is not None:
            made = self._up.made(self.table, gone.version)
            told = f"epoch {made.epoch}" + (f", a {made.transition}," if made.transition else "") if made else "somebody"
            raise self._refused(f"lost rows: {told} of the pipeline {self.pipeline_name!r} took them back", "read further")
        return bool(added)

    def _commits(self, first: int, last: int) -> Iterator[Commit]:
        """What the pipeline committed as these versions.

        Raises:
            BadInputError: Somebody wrote over one of them.
        """
        for commit in self._log.commits(first, last):
            self._up.require_known(commit, self.table)
            yield commit

    def _net(self, first: int, last: int) -> tuple[list[DataFile], Commit | None]:
        """The files that versions added and that are still there, and a commit that removed others."""
        added: dict[str, DataFile] = {}
        gone: Commit | None = None
        for commit in self._commits(first, last):
            if commit.has_deletion_vectors:
                gone = gone or commit
            for path in commit.removed:
                if added.pop(path, None) is None:
                    gone = gone or commit
            added |= {each.file.path: each for each in commit.added}
        return list(added.values()), gone

    def _refused(self, why: str, verb: str) -> BadInputError:
        anew = '; or read it anew, into tables that begin anew: pipeline.reset(source, 0, tables="restart")' * (verb != "read")
        return BadInputError(
            f"the table {self.table!r} {why}, and cannot be {verb} as rows that were added", table=self.uri,
            remedy=f'read its changes: PipelineSource with changes=True, then .as_changes("{CHANGE_TYPE}"){anew}',
        )  # fmt: skip

    # --- reading -----------------------------------------------------------------------------------------------------

    @override
    def read(self, session: SparkSession, items: JSON, schema_json: str, *, corrupt: OnCorrupt = "fail") -> DataFrame:
        with self._up.told(self.table):
            return super().read(session, items, schema_json, corrupt=corrupt)

    @override
    def verify_again(self, items: JSON, schema_json: str) -> None:
        super().verify_again(items, schema_json)
        if commit := self._log.commit(versions_of(items)[1]):  # it may have been written over since it was chosen
            self._up.require_known(commit, self.table)

    @property
    @override
    def _change_fields(self) -> list[dict[str, Any]]:
        return _CHANGE_FIELDS

    @override
    def _files(self, items: JSON) -> list[DataFile]:
        first, last = versions_of(items)
        if first is None:
            return self._all_files(last)
        return [*itertools.chain(*self._both(first, last))] if self.changes else self._net(first, last)[0]

    @override
    def _all_files(self, version: int) -> list[DataFile]:
        files = super()._all_files(version)
        self._up.require_files(self.table, version, [each.file.path for each in files])
        return files

    @override
    def _require_as_written(self, files: Sequence[DataFile]) -> None:
        self._up.require_as_written(self.table, files)

    def _both(self, first: int, last: int) -> tuple[list[DataFile], list[DataFile]]:
        """The files that are no longer there, and those that are new."""
        before = {each.file.path: each for each in self._all_files(first - 1)}
        after = {each.file.path: each for each in self._all_files(last)}
        gone, new = before.keys() - after.keys(), after.keys() - before.keys()
        return [before[path] for path in sorted(gone)], [after[path] for path in sorted(new)]

    @override
    def _check_changes(self, first: int, last: int) -> None:
        require_files(self._log.location, self._files({"versions": [first, last]}))

    @override
    def _read_changes(self, session: SparkSession, first: int, last: int, schema_json: str) -> DataFrame:
        gone, new = self._both(first, last)
        self._require_as_written([*gone, *new])
        names = [name for name in Schema.from_json(schema_json).names if name != CHANGE_TYPE]
        before, after = (read_files(session, self._log.location, files, self._columns(last, names)) for files in (gone, new))
        return rows_changed(before, after, CHANGE_TYPE)
