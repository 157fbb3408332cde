"""A pipeline as its storage root tells of it, for those who have no program at hand: look, read, settle, clean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagster_operators.api.checked_pipelines import checked_pipeline
from dagster_operators.api.history import History
from dagster_operators.api.settling import Settling
from dagster_operators.api.turn import Turn
from dagster_operators.arguments import checked_constructor
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.results import table_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.plans.verdict import Choice
    from dagster_operators.runtime.doctor import Finding
    from dagster_operators.runtime.engine import Engine
    from dagster_operators.runtime.resetting import Place, Tables
    from dagster_operators.runtime.status import Status
    from dagster_operators.runtime.stored_changes import StoredChanges, StoredDiff
    from dagster_operators.runtime.stored_plan import StoredPlan
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.records import Complete


@checked_pipeline
@checked_constructor
class StoredPipeline(Settling):
    """What lies in a storage root: its epochs, tables and whoever is at work.

    It starts no engine and imports nothing of the user's; :meth:`to_spark` alone reads with the engine that it is given.

    Args:
        root: The storage root of a pipeline that has run.
        storage_options: Credentials and settings of an object store; never written anywhere.

    Raises:
        LedgerError: There is no pipeline in the root.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as root:
        ...     StoredPipeline(root)
        Traceback (most recent call last):
        dagster_operators.errors.LedgerError: there is no pipeline in the storage root ...
    """

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None) -> None:
        from dagster_operators.storage.root import Root
        from dagster_operators.transactions.whose import pipeline_of

        self.root = root
        self._storage_options = storage_options
        self._name = pipeline_of(Root(root, storage_options))
        self._turn = Turn()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_coordinator", "_owner")}

    def __repr__(self) -> str:
        return f"StoredPipeline({self._coordinator.root.uri!r})"

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._name

    @cached_property
    def _coordinator(self) -> Coordinator:
        from dagster_operators.transactions.coordinator import Coordinator

        return Coordinator(self._name, self.root, storage_options=self._storage_options)

    @cached_property
    def _owner(self) -> Owner:
        from dagster_operators.transactions.owner import Owner

        return Owner.of_process()

    def history(self) -> History:
        """The completed epochs, oldest first.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> [epoch.epoch for epoch in StoredPipeline(folder.name).history()]
        [1, 2]
        >>> folder.cleanup()
        """
        return History(self._coordinator.history(), KeptPlans(self._coordinator.root))

    def last_epoch(self) -> int:
        """The number of the last completed epoch.

        Raises:
            UnknownEpochError: None is complete yet.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).last_epoch()
        2
        >>> folder.cleanup()
        """
        return self._coordinator.versions().epoch

    def versions(self, epoch: int | None = None) -> dict[str, int]:
        """The Delta version of each table as of an epoch, by default of the last completed one: one consistent cut.

        Raises:
            UnknownEpochError: There is no such completed epoch, or it was cleaned away.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).versions(epoch=1)
        {'kept': 1}
        >>> folder.cleanup()
        """
        return table_names(self._coordinator.versions(epoch).versions)

    def to_arrow(
        self, table: str, *, epoch: int | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table:
        """The rows of a table as of an epoch, read in this process: for tables that fit into memory, or their first rows.

        Args:
            table: The table's name.
            epoch: A completed epoch; the last one by default.
            columns: Only these.
            limit: At most so many rows, whichever.

        Raises:
            PipelineError: There is no such table or column.
            UnknownEpochError: There is no such completed epoch, or it was cleaned away.
            LostFileError: A file of the table is missing.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).to_arrow("kept", epoch=1).to_pylist()
        [{'v': 1}]
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.arrow_reading import read_arrow

        return read_arrow(self._coordinator, self._coordinator.versions(epoch), table, columns, limit)

    def to_spark(self, table: str, engine: Engine | str, *, epoch: int | None = None) -> DataFrame:
        """The rows of a table as of an epoch, as an engine's DataFrame: for tables of any size.

        Args:
            table: The table's name.
            engine: Whose session reads them, as ``Pipeline(engine=)`` takes it.
            epoch: A completed epoch; the last one by default.

        Raises:
            PipelineError: There is no such table.
            UnknownEpochError: There is no such completed epoch, or it was cleaned away.
            LostFileError: A file of the table is missing.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).to_spark("kept", "sail").filter("v > 1").collect()
        [Row(v=2)]
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.engine import default_engine, engine_given
        from dagster_operators.runtime.engine_reading import read_on
        from dagster_operators.runtime.own_engine import prepared

        chosen = prepared(engine_given(engine) or default_engine())
        return read_on(chosen, self._coordinator, self._coordinator.versions(epoch), table)

    def status(self) -> Status:
        """How the pipeline stands: its last epoch, what is under way, who is at work, what is wrong.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).status().epoch
        2
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.status import status_of

        return status_of(self._coordinator)

    def explain(self, epoch: int | None = None) -> StoredPlan:
        """What the pipeline was in an epoch: operators, tables, sinks and stages; as text, and as JSON by ``to_json``.

        Args:
            epoch: A completed epoch; the last one by default.

        Raises:
            UnknownEpochError: There is no such completed epoch, or no plan was kept of it.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> print(StoredPipeline(folder.name).explain(1))  # doctest: +ELLIPSIS
        epoch 1
        pipeline p (dagster_operators ...)
          rows: source(...)
          table kept <- rows
          stage kept: ... s
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.stored_plan import StoredPlan

        history = self.history()
        at = self.last_epoch() if epoch is None else epoch
        plan = history.plan(at)
        known = [one for one in history if one.epoch <= at]
        return StoredPlan.of(known, known[-1], plan)

    def unlock(self) -> Owner | None:
        """Take the pipeline from the run at work on it, which is refused from then on; the next run goes on from what it left.

        So with a run that computes tables anew or fills them.

        Returns:
            From whom it was taken; None when it was free.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> print(StoredPipeline(folder.name).unlock())
        None
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.rebuild_folder import runs_of
        from dagster_operators.transactions.unlocking import unlock

        ledgers = self._coordinator, runs_of(self._coordinator.root, self._name)
        taken = [unlock(ledger, self._owner) for ledger in ledgers]
        return next(filter(None, taken), None)

    def changes(self, plan: bytes | None = None) -> StoredDiff:
        """What changed since the last completed epoch, and what follows from it.

        Args:
            plan: The pipeline as it is now, from ``pipeline.to_plan()``; by default the one that was refused last.

        Raises:
            LedgerError: No epoch is complete, no plan was kept of it, or no pipeline was refused since.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> changed = Pipeline("p", root=folder.name)
        >>> rows = changed.source("rows", MemorySource([], schema="v long")).filter("v > 1").to_table("kept")
        >>> print(StoredPipeline(folder.name).changes(changed.to_plan()).changes)
        + filter <- rows: filter(condition='v > 1')
        ~ table kept: stream was 'rows', is 'filter'
        >>> folder.cleanup()
        """
        from dagster_operators.plans.codec import from_bytes
        from dagster_operators.runtime.stored_changes import StoredChanges

        return StoredChanges(self._coordinator).compared(from_bytes(plan, to_run=False).without_rows() if plan else None)

    def decide(self, subject: str, choice: Choice) -> None:
        """Answer what the run that was refused last asked: see :meth:`Pipeline.decide`.

        Args:
            subject: What was asked about: an operator, a table or a source.
            choice: One of the ways out that were offered.

        Raises:
            LedgerError: No run was refused, or nothing was asked about this.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).decide("kept", "drop")
        Traceback (most recent call last):
        dagster_operators.errors.LedgerError: no run was refused since epoch 2 ...
        >>> folder.cleanup()
        """
        with self._changing() as stored:
            stored.decide(subject, choice)

    def withdraw(self, subject: str) -> None:
        """Take back what was decided since the last epoch: see :meth:`Pipeline.withdraw`.

        Args:
            subject: What was decided about.

        Raises:
            PipelineError: Nothing was decided about it.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).withdraw("kept")
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: nothing is decided about 'kept' ...
        >>> folder.cleanup()
        """
        with self._changing() as stored:
            stored.withdraw(subject)

    def drop(self, name: str) -> list[str]:
        """Delete a table or an operator's state that the last epoch no longer had.

        Args:
            name: The table or the operator.

        Returns:
            The folders that are deleted.

        Raises:
            PipelineError: The last epoch had it, or nothing of that name is there.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).drop("kept")
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: the last epoch had 'kept' ...
        >>> folder.cleanup()
        """
        with self._changing() as stored:
            return stored.drop(name)

    def rollback(self, to: int, *, keep_sinks: bool = False) -> Complete:
        """Make a new epoch that is equal to an earlier one: see :meth:`Pipeline.rollback`.

        Args:
            to: The earlier epoch.
            keep_sinks: Whether sinks keep what they were given since; else a pipeline with sinks is refused.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).rollback(1).epoch, pipeline.to_arrow("kept").num_rows
        (3, 1)
        >>> folder.cleanup()
        """
        from dagster_operators.transactions.rollback import roll_back

        with self._owned() as coordinator:
            return roll_back(coordinator, to, keep_sinks=keep_sinks)

    def reset(self, sources: Sequence[str], to: Place, tables: Tables | None = None, *, keep_sinks: bool = False) -> Complete:
        """Have sources go on from somewhere else with the next epoch: see :meth:`Pipeline.reset`.

        Args:
            sources: Their names.
            to: A position, an epoch or a time.
            tables: What becomes of the tables behind them.
            keep_sinks: Whether sinks keep what they were given since; else a pipeline with sinks is refused.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> StoredPipeline(folder.name).reset(["rows"], {"batches": 1}, "keep").epoch
        3
        >>> [pipeline.run_epoch().rows, pipeline.to_arrow("kept").num_rows]
        [{'kept': 1}, 3]
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.resetting import Resetting

        with self._owned() as coordinator:
            return Resetting(coordinator).reset(sources, to, tables, keep_sinks=keep_sinks)

    @contextmanager
    def _changing(self) -> Iterator[StoredChanges]:
        from dagster_operators.runtime.stored_changes import StoredChanges

        with self._owned() as coordinator:
            yield StoredChanges(coordinator)

    @contextmanager
    def _owned(self) -> Iterator[Coordinator]:
        """The ledger, as the owner of the pipeline."""
        self._coordinator.open(self._owner)
        try:
            yield self._coordinator
        finally:
            self._coordinator.close()

    def examine(self, *, start_engine: bool = False, deep: bool = False) -> Iterator[Finding]:
        """Look the root and this machine over: access, clocks, ledger, tables, files, engine, versions.

        Args:
            start_engine: Whether to start the engine, too.
            deep: Whether to read all files through, and compare what logs say of them with what epochs wrote.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> [finding.told for finding in StoredPipeline(folder.name).examine() if finding.verdict == "error"]
        []
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.doctor import examine

        return examine(self._coordinator, start_engine=start_engine, deep=deep)
