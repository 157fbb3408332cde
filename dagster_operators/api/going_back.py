"""What puts a pipeline, or one of its sources, back to where it was: epochs that compute nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError, call_of
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.results import EpochResult, result_of
from dagster_operators.time.watermark import MIN_WATERMARK, format_timestamp, to_micros

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.outputs import Table
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.runtime.resetting import Place, Tables


class GoingBack:
    """The methods of a pipeline that put it elsewhere."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """The pipeline's name."""

        @property
        def tables(self) -> dict[str, Table]:
            """The tables."""

        @property
        def dataflow(self) -> Dataflow:
            """The graph."""

        @property
        def epochs(self) -> Epochs:
            """The steps of an epoch."""

        def _run_epoch(self, wait_seconds: float, watermarks: Mapping[str, int] | None = None) -> EpochResult: ...

        def _taken(self) -> AbstractContextManager[Epochs]: ...

    def rollback(self, to: int, *, keep_sinks: bool = False) -> EpochResult:
        """Make a new epoch that is equal to an earlier one: all tables and states, source positions and watermarks.

        What came in between stays in the history and can still be read. The next epoch goes on from there: sources are read again
        from where they stood, so they must still have what they gave. The program is compared with what that epoch ran.

        Args:
            to: The epoch to go back to.
            keep_sinks: Whether sinks outside that have taken rows since may keep them; they get them again. A sink of changes is
                not told which of them are gone, and what it has is wrong from then on.

        Returns:
            The new epoch.

        Raises:
            UnknownEpochError: The epoch was never completed, or its files were cleaned away.
            LedgerError: It is the last one, or a table of it was dropped since, or a sink has taken rows since.
            LostFileError: A file of it is gone.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.rollback(to=1).epoch, pipeline.to_arrow("kept").num_rows
        (3, 1)
        >>> pipeline.run_epoch().rows  # the second batch again
        {'kept': 1}
        >>> folder.cleanup()
        """
        from dagster_operators.transactions.rollback import roll_back

        with self._taken() as epochs:
            return result_of(roll_back(epochs.coordinator, to, keep_sinks=keep_sinks), tuple(self.tables))

    def reset(
        self, source: str | Collection[str], to: Place, *, tables: Tables | None = None, keep_sinks: bool = False
    ) -> EpochResult:
        """Have a source go on from somewhere else with the next epoch.

        Rows that it gave before come again, or some are left out: ``tables`` says what becomes of the tables behind it.

        Args:
            source: The source, or several that are to be put elsewhere together.
            to: An epoch: where the source stood behind it, 0 for its beginning; a time (text as ``2026-01-31 12:00``, UTC, or a
                datetime): behind the last epoch that was complete then; a mapping: a position, as the ledger has them.
            tables: ``"restart"`` empties the tables and the state behind the source, in the same epoch, and its watermark begins
                anew. ``"keep"`` leaves all as it is: rows that come again are there twice, and those that are behind the
                watermark count as late.
            keep_sinks: With ``"restart"``, whether sinks outside may keep what they took; they get it again.

        Returns:
            The epoch that did it, which read nothing.

        Raises:
            PipelineError: There is no such source, it is there already, or it is not said, or not possible, what is to become of
                its tables: with ``"restart"`` changes that an operator counts are read from the beginning.
            UnknownEpochError: There was no such epoch.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> result = pipeline.reset("rows", to=1, tables="restart")  # empties the table, and reads on behind the first epoch
        >>> pipeline.run_epoch().rows, pipeline.to_arrow("kept").to_pylist()
        ({'kept': 1}, [{'v': 2}])
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.resetting import TABLES, Resetting

        if tables is not None and tables not in TABLES:
            raise PipelineError(f"tables={tables!r}", pipeline=self.name, remedy=f"choose one of {', '.join(TABLES)}")
        sources = [source] if isinstance(source, str) else list(source)
        with self._taken() as epochs:
            made = Resetting(epochs.coordinator).reset(sources, to, tables, keep_sinks=keep_sinks)
            return result_of(made, tuple(self.tables))

    def set_watermark(self, source: str, to: str | datetime) -> EpochResult:
        """Say that a source has given all rows before a time, in an epoch that reads nothing: what waits for them is put out.

        Rows before that time that come all the same are late.

        Args:
            source: A source with an event time.
            to: The time: text as ``2026-01-31 12:00`` (UTC), or a datetime.

        Returns:
            The epoch.

        Raises:
            PipelineError: There is no such source, or its watermark is that far: it does not go back.
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline, Tumbling
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> source = MemorySource([[("2024-01-01 12:30",)]], schema="at timestamp")
        >>> hours = pipeline.source("rows", source, event_time="at").window(Tumbling("1 hour")).aggregate(n="count(*)")
        >>> table = hours.select("n").to_table("hours")
        >>> pipeline.run_epoch().rows, pipeline.set_watermark("rows", "2024-01-01 13:00").rows
        ({'hours': 0}, {'hours': 1})
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.resetting import moment_of

        node, micros = self.dataflow.nodes.get(source), to_micros(moment_of(to))
        operator = node.operator if node else None
        if not isinstance(operator, Source) or operator.event_time is None:
            raise PipelineError(
                "there is no source of that name with an event time", pipeline=self.name, source=source,
                remedy="name a source with event_time=",
            )  # fmt: skip
        last = self.epochs.coordinator.last_complete()
        if last and last.watermarks.get(source, MIN_WATERMARK) >= micros:
            anew = f"have its time begin anew: {call_of('reset', source, 0, tables='restart')}"
            past = [one.epoch for one in self.epochs.coordinator.history() if one.watermarks.get(source, micros) < micros]
            ways = [f"go back with all of the pipeline: {call_of('rollback', past[-1])}", anew] if past else [anew]
            raise PipelineError(
                f"its watermark is at {format_timestamp(last.watermarks[source])}, and never moves back",
                pipeline=self.name, source=source, remedy=f"name a later time; or {'; or '.join(ways)}",
            )  # fmt: skip
        return self._run_epoch(0, {source: micros})
