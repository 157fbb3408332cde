"""Another pipeline as its storage root tells of it: its tables' versions at an epoch, and how far time had come in them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster_operators.errors import BadInputError, EndedInputError, ForeignWriteError, MissingInputError, PipelineError
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.lost import repair_command

if TYPE_CHECKING:
    from dagster_operators.storage.delta_log import Commit, DataFile
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.history import History
    from dagster_operators.transactions.ledger import DeltaLedger
    from dagster_operators.transactions.manifest import TableTime
    from dagster_operators.transactions.own_commits import OwnCommits
    from dagster_operators.transactions.records import Complete


class Upstream:
    """A pipeline whose tables another one reads; it is only looked at, also while its epochs go on.

    Args:
        root: Its storage root.
        storage_options: Access to an object store.
    """

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._storage_options = storage_options
        self._name: str | None = None
        self._found: tuple[DeltaLedger, History] | None = None
        self._own: OwnCommits | None = None
        self._files: Root | None = None

    def _ledger(self) -> tuple[DeltaLedger, History] | None:
        """The ledger and what it says of the past; None as long as there is none."""
        if self._found is None:
            from dagster_operators.storage.root import Root
            from dagster_operators.transactions.digests import LedgerDigests
            from dagster_operators.transactions.history import History
            from dagster_operators.transactions.ledger import DeltaLedger
            from dagster_operators.transactions.own_commits import OwnCommits
            from dagster_operators.transactions.whose import pipeline_in

            root = Root(self._root, self._storage_options)
            self._name = pipeline_in(root)
            if self._name is not None:
                ledger = DeltaLedger(root, self._name, creates=False)
                root.known_digests = LedgerDigests(ledger)
                self._found, self._own, self._files = (ledger, History(ledger)), OwnCommits(root, ledger), root
        return self._found

    @property
    def name(self) -> str | None:
        """The pipeline's name; None as long as there is nothing in its root.

        Raises:
            LedgerError: There is something, and it cannot be read.
        """
        return self._name if self._ledger() else None

    def epoch(self, number: int | None = None) -> Complete | None:
        """A completed epoch, by default the last one; None if none is complete.

        Raises:
            UnknownEpochError: There is no such completed epoch, or it was cleaned away.
            LedgerError: The ledger is damaged, or was removed since it was seen.
        """
        found = self._ledger()
        if found is None or found[0].view().last_complete is None:
            return None
        return found[1].readable(number)

    def first(self) -> int:
        """The first epoch that can be read."""
        from dagster_operators.transactions.history import first_readable

        found = self._ledger()
        return first_readable(found[0].view()) if found else 1

    def has(self, epoch: Complete, table: str) -> bool:
        """Whether an epoch has a table, written then or before."""
        return f"tables/{table}" in epoch.versions

    def is_written(self, table: str) -> bool:
        """Whether the program of the last completed epoch writes a table."""
        return table in self._written()

    def _written(self) -> list[str]:
        found = self._ledger()
        plan = found[0].view().last_plan if found else None
        return sorted(name.removeprefix("tables/") for name in plan.datasets if name.startswith("tables/")) if plan else []

    def _renamed_to(self, table: str) -> str:
        """What a table that is no longer written is called now, if the pipeline knows it; else the tables that it writes."""
        from dagster_operators.transactions.records import Begin

        found, names = self._ledger(), [table]
        records = found[0].scan({Begin.kind}) if found else ()
        for begin in (entry.record for entry in records):
            if isinstance(begin, Begin) and begin.transition is not None and begin.transition.renamed:
                names = [next((new for new, old in begin.transition.renamed.items() if old == names[0]), names[0])]
        written = self._written()
        return f"{names[0]!r}" if names[0] in written else ", ".join(written)

    def ended(self, epoch: Complete, table: str, otherwise: str) -> EndedInputError:
        """That nothing comes to a table any more.

        Args:
            epoch: The last epoch.
            table: The table.
            otherwise: What to do if that is as it should be.
        """
        last, written = epoch.last_epochs.get(f"tables/{table}"), self._renamed_to(table) or "there is none"
        told = "no longer writes" if self.has(epoch, table) else "dropped"
        until = f": its epoch {last} was the last one that did" if last else ""
        return EndedInputError(
            f"the pipeline {self.name!r} {told} the table {table!r}{until}", file=self._root, table=table,
            remedy=f"if it was renamed, name the one that it is now ({written}), "
            f'and read it into tables that begin anew: pipeline.reset(source, 0, tables="restart"); {otherwise}; '
            "or put it back into the program of that pipeline",
        )  # fmt: skip

    def version(self, epoch: Complete, table: str) -> int:
        """The version of a table at an epoch.

        Raises:
            PipelineError: The epoch has no such table.
        """
        version = epoch.versions.get(f"tables/{table}")
        if version is None:
            known = sorted(name.removeprefix("tables/") for name in epoch.versions if name.startswith("tables/"))
            raise PipelineError(
                f"the pipeline {self.name!r} has no table {table!r} in its epoch {epoch.epoch}", table=table,
                remedy=f"there are: {', '.join(known) or 'none'}; a new one is there after its pipeline's next epoch",
            )  # fmt: skip
        return version

    def require_own(self, epoch: Complete, table: str) -> None:
        """See that a table at an epoch is what the epoch committed.

        Raises:
            BadInputError: Somebody wrote over it.
        """
        try:
            if self._ledger() and self._own:
                self._own.require(epoch, f"tables/{table}")
        except ForeignWriteError as error:
            raise _as_input(error) from None

    @contextmanager
    def told(self, table: str) -> Iterator[None]:
        """Errors of a table's log and files name the command that settles them, which is about the other pipeline's root."""
        try:
            yield
        except (BadInputError, MissingInputError) as error:
            root, name = self._files, f"tables/{table}"
            if root is None or "`dagster-operators" in error.remedy:
                raise
            if found := damage(root, name):
                problem = f"a table of the pipeline {self._name!r} cannot be read: {found}"
                command = repair_command(root.uri, name)
                raise BadInputError(problem, **{**error.where, "table": name}, remedy=f"put it in order: `{command}`") from None
            if f"/{name}/" in str(error.where.get("file", "")) or not error.remedy:
                error.remedy = _by_doctor(root)
            raise

    def require_files(self, table: str, version: int, paths: Collection[str]) -> None:
        """See that the files of a version of a table are those that epochs committed.

        Raises:
            BadInputError: They are not.
        """
        name, found, last = f"tables/{table}", self._ledger(), self.epoch()
        if not (found and self._own and last):
            return
        past = () if last.versions.get(name) == version else reversed(found[1].completed())
        epoch = last if not past else next((done for done in past if done.versions.get(name) == version), None)
        try:
            if epoch:
                self._own.require_files(epoch, name, paths)
        except ForeignWriteError as error:
            told = _as_input(error)
            if epoch is not last:  # a repair puts the last one in order, and leaves this one as it is
                told.remedy = 'read it anew, into tables that begin anew: pipeline.reset(source, 0, tables="restart")'
            raise told from None

    def require_as_written(self, table: str, files: Iterable[DataFile]) -> None:
        """See that files of a table on a local root are as the pipeline wrote them.

        Raises:
            BadInputError: One is not.
        """
        from dagster_operators.storage.presence import lost_files
        from dagster_operators.transactions.lost import written_files
        from dagster_operators.transactions.manifest import FileEntry

        root = self._files
        if root is None or not root.is_local:
            return
        entries = [FileEntry(each.file.path, each.file.size, 0, changed_at=each.file.modified // 1000) for each in files]
        for path, problem in lost_files(root, written_files(f"tables/{table}", entries)).items():
            raise BadInputError(
                f"a data file of the table {table!r} {problem}", table=table, file=root.join(path),
                remedy=_by_doctor(root),
            )  # fmt: skip

    def require_known(self, commit: Commit, table: str) -> None:
        """See that a commit of a table was made by some epoch of the pipeline, or was accepted.

        Raises:
            BadInputError: Somebody else wrote it.
        """
        found = self._ledger()
        if not (found and self._own) or not commit.version or found[0].pipeline() in commit.applications:
            return
        name = f"tables/{table}"
        if not self._own.is_settled(name, commit.version):
            made = self.made(table, commit.version)
            raise _as_input(self._own.written_over(name, commit.version, made.epoch if made else 0))

    def time(self, epoch: Complete, table: str) -> TableTime | None:
        """How far time had come in a table at the end of an epoch; None if it has no event time."""
        return epoch.times.get(table)

    def is_updating(self, table: str) -> bool:
        """Whether rows of the table change, so that it cannot be read as rows that were added."""
        found = self._ledger()
        plan = found[0].view().plan if found else None
        record = plan.datasets.get(f"tables/{table}") if plan else None
        return record is not None and record.kind == "updating"

    def made(self, table: str, version: int) -> Complete | None:
        """The epoch that made a version of a table, if one did."""
        name, found = f"tables/{table}", self._ledger()
        return next((done for done in (found[1].completed() if found else ()) if done.versions.get(name, -1) >= version), None)


def _by_doctor(root: Root) -> str:
    """What to do about files and logs of the other pipeline."""
    return f"`{shlex.join(['dagster-operators', 'doctor', public_uri(root.uri)])}` says what is wrong, and what helps"


def _as_input(error: ForeignWriteError) -> BadInputError:
    """What is wrong with a table of another pipeline, as an error of the input: there it is settled, not here."""
    return BadInputError(error.problem, remedy=error.remedy, **error.where)


def nothing_there(root: str, table: str) -> MissingInputError:
    """That a table cannot be read yet."""
    return MissingInputError(
        "no epoch of the pipeline that is read is complete yet", file=root, table=table,
        remedy="run it first, or correct the root",
    )  # fmt: skip


def gone(root: str, table: str, epoch: int) -> MissingInputError:
    """That a pipeline is no longer where it was read."""
    return MissingInputError(
        f"the pipeline that is read is gone: its epoch {epoch} was read, and there is no completed epoch in its root now",
        file=root, table=table,
        remedy="put the root back, or correct it in the program if it was moved; or read what comes there anew, into tables that "
        'begin anew: pipeline.reset(source, 0, tables="restart")',
    )  # fmt: skip
