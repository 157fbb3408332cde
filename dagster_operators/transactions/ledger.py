"""The ledger: a Delta table with one row per record, appended to by compare-and-set."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from dagster_operators.errors import LedgerError, located
from dagster_operators.storage.delta_commit import GONE, TableLog
from dagster_operators.storage.forked import require_own_process
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_entries import empty_versions, never_added
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.storage.side_by_side import at_once
from dagster_operators.transactions.effects import Conflict
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.ledger_files import (
    SCHEMA_JSON,
    active_files,
    damaged_ledger,
    foldable,
    last_rows,
    loaded,
    no_ledger,
    read_rows,
    require_whole,
    to_entries,
    to_row,
    write_rows,
)
from dagster_operators.transactions.manifest import FORMAT_VERSION, check_format
from dagster_operators.transactions.records import Entry, Format, Record
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from dagster_operators.storage.delta_commit import Stamp
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.ledger_files import LedgerFile

T = TypeVar("T")

_KEPT_VERSIONS: Final = 200

_FRESH_SECONDS: Final = 0.05
"""So long what is known of a ledger on an object store counts as what is there: about what a request takes."""

_RECENT_SECONDS: Final = 3.0
"""So long for what only records something behind it, which is refused if the ledger has moved on."""

_KEPT_CLASS: Final = 1
"""Rows of larger files are read again when those are folded, which is every four thousand records."""

_AT_ONCE: Final = 16
"""So many files a store is asked for at a time."""

_AHEAD: Final = 10
"""So many of the last files are asked for at once when a ledger is opened: about the records of two epochs."""

_AHEAD_BYTES: Final = 1 << 20
"""No more are asked for at once behind so many bytes."""

_KEPT_SECONDS: Final = 3600.0
"""Folded files and the old part of the log stay this long for readers that still have a version before."""


@dataclass(frozen=True)
class _Known:
    """The ledger at one version. ``files`` are the active ones in the order of their rows, ``stamp`` is the version's."""

    view: LedgerView
    files: tuple[LedgerFile, ...]
    stamp: Stamp


class DeltaLedger:
    """The ledger of one pipeline. Threads may share one: they take turns.

    Args:
        root: The pipeline's storage root.
        name: The pipeline's name; a root that holds another pipeline's ledger is refused.
        creates: Whether there is one from the first look on; else a root without a ledger is refused, and left as it is.
        program: What the program calls the pipeline, if that is another name.
    """

    def __init__(self, root: Root, name: str, *, creates: bool = True, program: str | None = None) -> None:
        self._root = root
        self._creates = creates
        self._name = name
        self._program = program or name
        self._log = TableLog(root, "ledger")
        self._known: _Known | None = None
        self._turn = threading.RLock()
        self._steady = threading.local()
        self._fresh_until = self._recent_until = 0.0
        self._rows: dict[str, pa.Table] = {}
        """On an object store the rows of small files that were read or written here, by path: they are folded as they are."""
        self._opened_until = 0.0
        """Until then what was read when the ledger was opened is not read again."""
        self.replacements = 0
        """How often it turned out to be another than the one that was known: a repair has records forgotten."""

    def view(self) -> LedgerView:
        """The ledger as it is now; it is created when there is none. Cheap when nothing is new.

        Where a look is a request, what was looked at or appended to just now is not looked at again, so that what another handle
        has appended since may be left out. What follows from a view is recorded by compare-and-set, or refused; where it is not,
        :meth:`look`.
        """
        with self._turn:
            steady = getattr(self._steady, "depth", 0) > 0 or time.monotonic() < self._fresh_until
            if self._known is not None and steady:
                return self._known.view
            return self.look()

    def look(self) -> LedgerView:
        """The ledger as it is now, whatever was seen just now."""
        require_own_process()
        with self._turn:
            found = self._now().view
            self._stay_fresh()
            return found

    def recent(self) -> LedgerView:
        """The ledger as it is now, or was some seconds ago if a look is a request: for what only records by compare-and-set."""
        with self._turn:
            if self._known is not None and time.monotonic() < self._recent_until:
                return self._known.view
            return self.view()

    @contextmanager
    def steady(self) -> Iterator[None]:
        """While this is open, this thread takes the ledger for what it was when it was looked at last, if that is a request.

        What is computed meanwhile is recorded by compare-and-set, or refused.
        """
        depth: int = getattr(self._steady, "depth", 0)
        self._steady.depth = depth if self._root.is_local else depth + 1
        try:
            yield
        finally:
            self._steady.depth = depth

    def pipeline(self) -> str:
        """The id of the pipeline, which stays."""
        with self._turn:
            return (self._known or self._now()).view.pipeline

    @property
    def known(self) -> LedgerView | None:
        """The ledger as it was when it was looked at last."""
        with self._turn:
            return self._known.view if self._known else None

    def append(self, record: Record, version: int, ready: Callable[[], object] = lambda: None) -> LedgerView | Conflict:
        """Append a record if the ledger is still at ``version``, else give the view of now.

        Args:
            record: The record.
            version: The version that it was made for.
            ready: Returns once what the record goes by is stored; it is called before anyone can see the record.
        """
        with self._turn:
            known = self._known
            if known is None or known.view.version != version:
                return Conflict(self._now().view)
            entry = Entry(known.view.entries[-1].seq + 1, round(time.time(), 6), record)
            row = to_row(entry)
            file = write_rows(self._root, row)
            ready()
            stamp = self._log.append(version, known.stamp, LogEntry((file.logged,)))
            if stamp is None:
                return Conflict(self._now().view)
            self._keep(file, row)
            self._known = _Known(known.view.appended(version + 1, entry), (*known.files, file), stamp)
            self._stay_fresh()
            return self._known.view

    def _is_kept(self, file: LedgerFile) -> bool:
        return not self._root.is_local and file.size_class <= _KEPT_CLASS

    def _keep(self, file: LedgerFile, rows: pa.Table) -> None:
        if self._is_kept(file):
            self._rows[file.path] = rows

    def _stay_fresh(self) -> None:
        if not self._root.is_local:
            now = time.monotonic()
            self._fresh_until, self._recent_until = now + _FRESH_SECONDS, now + _RECENT_SECONDS

    def scan(self, kinds: Collection[str], after: int = 0) -> Iterator[Entry]:
        """All records of these kinds behind ``after``, oldest first. Its cost follows the number of records."""
        with self._turn:
            files = [file for file in self._now().files if file.last > after]
        for first in range(0, len(files), _AT_ONCE):
            for rows in self._side_by_side(self._scanned, files[first : first + _AT_ONCE]):
                yield from to_entries(rows, after, kinds)

    def _scanned(self, file: LedgerFile) -> pa.Table:
        known = self._rows.get(file.path)
        if known is not None and time.monotonic() < self._opened_until:
            return known
        with self._root.guard(f"ledger/{file.path}", "the ledger cannot be read"), located(pipeline=self._name):
            try:
                return self._read_file(file)
            except FileNotFoundError:
                raise damaged_ledger(self._root, "a file of records is missing", file.path) from None

    def _side_by_side(self, read: Callable[[LedgerFile], pa.Table], files: Sequence[LedgerFile]) -> Iterator[pa.Table]:
        """The rows of some files; a store is asked at once for all. What is wrong with one is told when its turn comes."""
        return map(read, files) if self._root.is_local or len(files) <= 1 else at_once(read, files, _AT_ONCE)

    def fold(self) -> bool:
        """Fold small files into one if there are enough. Returns whether it did."""
        with self._turn:
            return self._fold()

    def _fold(self) -> bool:
        old = time.time() - _KEPT_SECONDS  # before we look, for then whatever is as old and not active stays so
        # A store is not asked: if what is known is not what is there, the entry is refused.
        known = self._now() if self._root.is_local or self._known is None else self._known
        group = foldable(known.files)
        if not group:
            return False
        rows = self._rows_of(group)
        file, version = write_rows(self._root, rows), known.view.version
        entry = LogEntry((file.logged,), tuple(folded.logged for folded in group), data_change=False)
        stamp = self._log.append(version, known.stamp, entry)
        if stamp is None:
            return False
        view = LedgerView(version + 1, known.view.pipeline, known.view.name, known.view.entries)
        kept = (other for other in known.files if other not in group)
        files = tuple(sorted((*kept, file), key=lambda other: other.first))
        self._keep(file, rows)
        self._rows = {other.path: self._rows[other.path] for other in files if other.path in self._rows}
        self._known = _Known(view, files, stamp)
        if group[-1].size_class > 0:
            self._delete_old(files, view.version, old)
        return True

    def _rows_of(self, files: Sequence[LedgerFile]) -> pa.Table:
        """The rows of some files; a store is asked at once for all that are not known."""
        import pyarrow as pa

        with self._root.guard("ledger", "the ledger cannot be read"):
            unknown = [file for file in files if file.path not in self._rows]
            read = dict(zip(unknown, self._side_by_side(self._read_file, unknown), strict=True))
            return pa.concat_tables(read[file] if file in read else self._rows[file.path] for file in files)

    def _read_file(self, file: LedgerFile) -> pa.Table:
        rows = read_rows(self._root, file)
        self._keep(file, rows)
        return rows

    def _now(self) -> _Known:
        known = self._known
        if known is None:
            self._known = self._open()
        elif self._log.is_last(known.view.version, known.stamp):
            return known
        elif self._log.has(known.view.version + 1):
            self._known = self._catch_up(known)
        else:
            self._known = self._reopen(known.view)
        return self._known

    def _open(self) -> _Known:
        while True:
            known = self._read(self._tail)
            if known is not None:
                return known
            if not self._creates:
                raise no_ledger(self._root)
            with self._root.guard("ledger", "the ledger cannot be opened"):
                if not self._log.is_table():
                    self._create()
            # The format record, by compare-and-set on the empty table: of two runs that create the ledger at once, one writes it.
            first = Entry(1, round(time.time(), 6), Format(FORMAT_VERSION, uuid.uuid4().hex, self._name))
            base = max(empty_versions(self._root, "ledger"), default=0)  # of two runs at once earlier versions made it twice
            self._log.append(base, self._log.stamp(base), LogEntry((write_rows(self._root, to_row(first)).logged,)))

    def _read(self, read: Callable[[DeltaTable | None], T]) -> T:
        """What ``read`` makes of the newest version, read again if what it needs was folded or cleaned away meanwhile."""
        before = -1
        while True:
            version = -1
            try:
                with loaded(self._root, self._log) as table:
                    version = table.version() if table else -1
                    return read(table)
            except FileNotFoundError as error:
                if version == before:
                    problem = damage(self._root, "ledger") or f"a file of records is missing ({error})"
                    raise damaged_ledger(self._root, problem) from None
                before = version

    def forget(self) -> None:
        """Read the ledger anew when it is next asked for something."""
        with self._turn:
            self._known = None

    def _reopen(self, before: LedgerView) -> _Known:
        """Our version is gone from the log: so many came since that it was cleaned out, or it is not what it was.

        A repair that ended it before what was lost took a new generation, and what there is then counts.

        Raises:
            DamagedLedgerError: It ends before what is known, and nobody repaired it.
            LedgerError: It is gone, or another one.
        """
        known = self._open() if self._log.is_table() else None
        if known is None or known.view.pipeline != before.pipeline:
            raise LedgerError(
                "the ledger was removed or replaced while in use", pipeline=self._name, file=self._root.join("ledger"),
                remedy="put its folder back; or go on with what is there now: with a new Pipeline, or in a new process",
            )  # fmt: skip
        first, last = known.view.entries[-1].seq + 1, before.entries[-1].seq
        if first > last:
            return known
        if known.view.generation <= before.generation:
            with located(pipeline=self._name):
                lost = f"record {last} is" if first == last else f"records {first} to {last} are"
                raise damaged_ledger(self._root, f"{lost} missing at its end, of those that this process knows")
        self.replacements += 1
        return known

    def _create(self) -> None:
        reach("before:create_ledger")
        about = f"The epochs of the pipeline {self._name}: what began, was prepared, decided and completed"
        self._log.create(SCHEMA_JSON, description=about)
        reach("after:create_ledger")

    def _tail(self, table: DeltaTable | None) -> _Known | None:
        """The view from the first file and as many of the last ones as it takes; None while there is none, or it is empty."""
        if table is None:
            return None
        files, version = active_files(self._root, table), table.version()
        if not files and never_added(self._root, "ledger"):
            return None
        if not files and self._log.has(version + 1):
            raise FileNotFoundError("its first records")  # another run wrote them since the table was loaded: read it again
        require_whole(self._root, files)
        if not files:
            raise damaged_ledger(self._root, "its log names no records")
        tables = self._from_the_end(files)
        oldest = next(tables)
        first = to_entries(oldest)[0].record
        if not isinstance(first, Format):
            raise damaged_ledger(self._root, "it does not start with its format")
        with located(pipeline=self._name, file=self._root.join("ledger")):
            check_format(first.format)
        if first.name != self._name:
            raise LedgerError(
                f"the storage root belongs to the pipeline {first.name!r}",
                pipeline=self._program,
                file=self._root.uri,
                remedy="choose another root; or, if it was renamed, say so: "
                f"Pipeline({self._program!r}, root={self._root.uri!r}, renamed_from={first.name!r}); of a YAML file, in a shell: "
                f"dagster-operators run with --renamed-from {first.name}",
            )
        rows = last_rows(chain(tables, [oldest]))
        self._opened_until = time.monotonic() + _RECENT_SECONDS
        view = LedgerView(version, first.pipeline, first.name, ()).appended(version, *to_entries(rows))
        return _Known(view, tuple(files), self._stamp(version))

    def _from_the_end(self, files: Sequence[LedgerFile]) -> Iterator[pa.Table]:
        """The rows of the first file, then those of the others from the last on; a store is asked for several at once."""
        batch, left = [files[0]], [*files[1:]]
        while batch:
            size = 0
            while left and self._is_kept(left[-1]) and len(batch) <= _AHEAD and size < _AHEAD_BYTES:
                size += left[-1].size
                batch.append(left.pop())
            yield from self._side_by_side(self._read_file, batch)
            batch = [left.pop()] if left else []

    def _stamp(self, version: int) -> Stamp:
        stamp = self._log.read_stamp(version)
        if stamp == GONE:
            raise FileNotFoundError(f"version {version} of its log")  # cleaned out since it was loaded
        return stamp

    def _catch_up(self, known: _Known) -> _Known:
        last = known.view.entries[-1].seq

        def read(table: DeltaTable | None) -> _Known | None:
            if table is None:
                raise FileNotFoundError("its log")
            files, version = active_files(self._root, table), table.version()
            require_whole(self._root, files)
            if not self._goes_on(known, files):
                return None
            read_anew = self._side_by_side(self._read_file, [file for file in files if file.last > last])
            new = [entry for rows in read_anew for entry in to_entries(rows, last)]
            view = known.view.appended(version, *sorted(new, key=lambda entry: entry.seq))
            return _Known(view, tuple(files), self._stamp(version))

        found = self._read(read)
        if found is None:
            self.replacements += 1
            return self._open()
        return found

    def _goes_on(self, known: _Known, files: Sequence[LedgerFile]) -> bool:
        """Whether the last record that is known is still there: in its file, or in the one that this was folded into."""
        last = known.view.entries[-1]
        holder = next((file for file in files if file.first <= last.seq <= file.last), None)
        if holder is None or holder.path in {file.path for file in known.files}:
            return holder is not None
        same = next(iter(to_entries(read_rows(self._root, holder), last.seq - 1)))
        return (same.at, same.record.kind, same.record.generation) == (last.at, last.record.kind, last.record.generation)

    def _delete_old(self, files: Collection[LedgerFile], version: int, old: float) -> None:
        """Delete files that were folded a while ago, ones that were written but never committed, and the old part of the log."""
        active = {file.path for file in files}
        there = self._root.written("ledger")
        gone = [name for name, written in there.items() if name.endswith(".parquet") and name not in active and written < old]
        self._root.delete_files([f"ledger/{name}" for name in gone])
        self._log.clean(version - _KEPT_VERSIONS, old)
