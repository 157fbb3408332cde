"""Computing tables of a pipeline anew over what its sources gave."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import PipelineError, UnknownEpochError, call_of
from dagster_operators.runtime.results import EpochResult, result_of
from dagster_operators.time.watermark import to_micros

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property

    from dagster_operators.api.turn import Turn
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.outputs import Table
    from dagster_operators.graph.restricted import Part
    from dagster_operators.graph.time_range import TimeRange
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.records import Complete


AT_ONCE: Final = 500
"""Of so many epochs one epoch of a rebuild reads at most, unless it is said otherwise."""

_ENDS: Final = 2


class Rebuildable:
    """The methods of a pipeline that compute tables anew."""

    if TYPE_CHECKING:
        _turn: Turn

        @property
        def name(self) -> str:
            """The pipeline's name."""

        @property
        def tables(self) -> dict[str, Table]:
            """The tables."""

        @cached_property
        def dataflow(self) -> Dataflow:
            """The graph."""

        @cached_property
        def epochs(self) -> Epochs:
            """The steps of an epoch."""

        @property
        def _owner(self) -> Owner: ...

        def epochs_beside(self, epochs: Epochs) -> Callable[[Part, str], Epochs]:
            """Makes the steps of epochs of a part of the pipeline."""

    def rebuild(
        self,
        tables: str | Collection[str] | None = None,
        operators: str | Collection[str] = (),
        *,
        since: int | str | datetime = 0,
        between: tuple[str | datetime, str | datetime] | None = None,
        epochs_at_once: int = AT_ONCE,
        empty: bool = False,
        wait_seconds: float = 0,
    ) -> EpochResult:
        """Compute tables anew, with the state behind them, over all that the pipeline's epochs have read, and take them over.

        What comes out is what the program as it is now gives for these rows. It is computed beside the pipeline, in as many
        epochs as it takes, while the pipeline's own epochs go on; a run that is killed is taken up by the next call. Then all of
        it is taken over in one epoch. Changes that needed a decision about these tables are decided by it.
        Records that it rejects come to those of their source that were rejected before.

        Args:
            tables: Their names; with them those that show the same state. All when neither these nor operators are named. Of a
                table of changes that is among them and was not named, a warning is logged, as it may come to have fewer changes.
            operators: Operators: all tables that they lead to.
            since: The first epoch whose rows are read, or a time: those of epochs that were complete from then on.
            between: A range of event time, from the first moment up to the second, without it; without a time zone UTC. Then only
                the rows of the tables are replaced whose event time (of windows their start) is in it; all other rows, and all
                state, stay as they are. It does not decide about changes.
            epochs_at_once: Of how many epochs one epoch of the rebuild reads at most; of one behind data sets of the rows of an
                epoch, and behind ``to_table(mode="upsert")``. Rows that were late between them are in
                time, and keys are not forgotten between them; a warning is logged of operators with ``forget_after=``.
            empty: Whether ``since`` may leave out all that was read, so that the tables are empty.
            wait_seconds: How long to wait for another rebuild to end, and, when all is computed, for another run of the pipeline.

        Returns:
            The epoch that took the tables over.

        Raises:
            PipelineError: There is no such table or operator; a source does not keep what it gave; a sink has rows of the state;
                ``since`` leaves out all that was read, or changes that an operator counts; rows of a time range of a table
                depend on rows of other times.
            UnknownEpochError: There is no such epoch.
            SourceError: What an epoch has read is gone.
            UndecidedChangeError: Something else changed about which somebody has to decide first.
            PipelineBusyError: Another rebuild, or a run, is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> source = MemorySource([[("a", 1)], [("a", 2)]], schema="k string, v long")
        >>> for total in ("sum(v)", "max(v)"):
        ...     pipeline = Pipeline("p", root=folder.name, engine="sail")
        ...     keyed = pipeline.source("rows", source).key_by("k")
        ...     table = keyed.aggregate(total=total, name="totals").to_table("totals")
        ...     if total == "sum(v)":
        ...         result = pipeline.run_epoch()
        >>> result = pipeline.rebuild("totals")
        >>> while not pipeline.run_epoch().empty:
        ...     pass
        >>> pipeline.to_arrow("totals").to_pylist()
        [{'k': 'a', 'total': 2}]
        >>> folder.cleanup()
        """
        with self._turn.taken(self.name, wait_seconds) as left:
            return self.rebuild_on(
                self.epochs, self.epochs_beside(self.epochs), self._owner, tables=_names(tables),
                operators=_names(operators) or (), since=since, between=None if between is None else self.range_of(between),
                epochs_at_once=epochs_at_once, empty=empty, wait_seconds=left,
            )  # fmt: skip

    def rebuild_on(
        self,
        epochs: Epochs,
        beside: Callable[[Part, str], Epochs],
        owner: Owner,
        *,
        tables: Collection[str] | None,
        operators: Collection[str],
        since: int | str | datetime,
        between: TimeRange | None = None,
        epochs_at_once: int,
        empty: bool = False,
        wait_seconds: float,
    ) -> EpochResult:
        """The same with the steps of epochs that somebody else made, as those of a Dagster run."""
        from dagster_operators.runtime.forgetting_at_once import warn_of_forgetting
        from dagster_operators.runtime.logs_beside import warn_of_logs
        from dagster_operators.runtime.range_rebuilding import RangeRebuilding
        from dagster_operators.runtime.rebuilding import Rebuilding, Request
        from dagster_operators.runtime.rebuilt_part import part_of

        if epochs_at_once < 1:
            raise PipelineError(f"epochs_at_once is {epochs_at_once}", pipeline=self.name, remedy="choose 1 or more")
        part = part_of(epochs, tables, operators, between)
        nodes = epochs.planning.plan().dataflow.nodes
        if any(nodes[name].operator.by_epoch or nodes[name].operator.gives_all for name in part.operators):
            epochs_at_once = 1
        self._check_filled(epochs, part, since)
        self._check_read_whole(epochs, part, since)
        request = Request(part, self._first(epochs, since), epochs_at_once, empty)
        if between is None:
            warn_of_logs(epochs, part, epochs_at_once)
            warn_of_forgetting(epochs, part, epochs_at_once)
            rebuilding = Rebuilding(epochs, beside, request)
        else:
            rebuilding = RangeRebuilding(epochs, beside, request, between)
        return result_of(rebuilding.run(owner, wait_seconds=wait_seconds), tuple(self.tables))

    def range_of(self, between: Sequence[str | datetime]) -> TimeRange:
        """The range of event time from one moment up to another.

        Raises:
            PipelineError: It is no range.
        """
        from dagster_operators.graph.time_range import TimeRange
        from dagster_operators.runtime.resetting import moment_of

        moments = [to_micros(moment_of(moment)) for moment in between]
        if len(moments) != _ENDS or moments[0] >= moments[1]:
            told = ", ".join(map(str, between)) or "no moments"
            raise PipelineError(f"between {told} is no time", pipeline=self.name, remedy="name a moment, and a later one")
        return TimeRange(*moments)

    def fill(self, epochs: Epochs, beside: Callable[[Part, str], Epochs], owner: Owner, wait_seconds: float = 0) -> None:
        """Compute the tables that were added with ``backfill=True`` since the last epoch, if there was one.

        Args:
            epochs: The pipeline's steps.
            beside: Makes those of a part of it.
            owner: Who runs it.
            wait_seconds: How long to wait for another run of the pipeline to end.

        Raises:
            OperatorsError: As of :meth:`rebuild`; a table that shows the same state would not come out as it is.
        """
        if new := self._to_fill(epochs):
            self._check_filling(epochs, new)
            self.rebuild_on(
                epochs, beside, owner, tables=new, operators=(), since=0, epochs_at_once=AT_ONCE, wait_seconds=wait_seconds
            )  # fmt: skip

    def _check_filled(self, epochs: Epochs, part: Part, since: int | str | datetime) -> None:
        """Refuse to rebuild beside a table that is yet to be filled: behind the rebuild the next epoch would take it as there."""
        whole = part.between is None
        left = [name for name in self._to_fill(epochs) if name not in part.tables or not whole]
        if left:
            named, begin = ([*part.tables, *left], _moment(since)) if whole else (left, None)
            raise PipelineError(
                f"{', '.join(left)} is yet to be filled with the rows of before, and would not be behind a rebuild",
                pipeline=self.name, table=left[0],
                remedy=f"run an epoch first, which fills it; or compute it {'with these' if whole else 'as a whole'}: "
                f"{call_of('rebuild', named, since=begin)}",
            )  # fmt: skip

    def _check_read_whole(self, epochs: Epochs, part: Part, since: int | str | datetime) -> None:
        """Refuse to begin later where a table that nobody named would lose its rows of before, as all its rows are read."""
        from dagster_operators.graph.restricted import read_whole

        read = read_whole(epochs.planning.plan().dataflow, part.operators) if since else ()
        if lost := [name for name in part.beside if name in read]:
            raise PipelineError(
                f"all rows of {lost[0]} are read, so that it is rebuilt, too, and would lose its rows of before",
                pipeline=self.name, table=lost[0],
                remedy=f"rebuild from the first epoch on, without since=; or name all that is to begin there: "
                f"{call_of('rebuild', list(part.tables), since=_moment(since))}",
            )  # fmt: skip

    def _check_filling(self, epochs: Epochs, new: Collection[str]) -> None:
        """Refuse to fill tables where that cannot be done, or others would not stay as they are."""
        from dagster_operators.runtime.backfilling import check_neighbours
        from dagster_operators.runtime.rebuilt_part import part_of

        check_neighbours(epochs, part_of(epochs, new, ()), new, AT_ONCE)

    def _to_fill(self, epochs: Epochs) -> list[str]:
        """The tables that are filled before the next epoch begins."""
        if not self.dataflow.backfilled:
            return []
        last, view = epochs.coordinator.last_complete(), epochs.coordinator.view()
        plan = view.last_plan if last and not last.transition else None
        ran = plan.datasets.keys() if plan else frozenset[str]()
        new = [name for name in self.tables if name in self.dataflow.backfilled and last and f"tables/{name}" not in ran]
        if new:  # of the ledger, not of the last epoch: what was dropped since then is new again
            known = view.versions.keys() - epochs.coordinator.past.left_behind()
            new = [name for name in new if f"tables/{name}" not in known]
        return new

    def _first(self, epochs: Epochs, since: int | str | datetime) -> int:
        from dagster_operators.runtime.resetting import moment_of

        if isinstance(since, int):
            last = epochs.coordinator.last_complete()
            if last and since > last.epoch + 1:
                raise UnknownEpochError(
                    f"there is no epoch {since} yet: the last one is epoch {last.epoch}", pipeline=self.name, epoch=since,
                    remedy=f"name one up to {last.epoch}; since={last.epoch + 1}, empty=True leaves out all that was read",
                )  # fmt: skip
            return since
        seconds = to_micros(moment_of(since)) / 1e6
        found: list[Complete] = [one for one in epochs.coordinator.history() if one.committed_at >= seconds]
        if not found:
            raise UnknownEpochError(f"no epoch was complete since {since}", pipeline=self.name, remedy="name an earlier time")
        return found[0].epoch


def _names(given: str | Collection[str] | None) -> Collection[str] | None:
    return [given] if isinstance(given, str) else given


def _moment(since: int | str | datetime) -> int | str | None:
    """Where a rebuild begins, as a call has it; None for the first epoch."""
    return (since if isinstance(since, int) else str(since)) or None
