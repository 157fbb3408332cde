"""The pipeline as its user sees it: sources in, tables out, epochs run, any epoch read."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dagster_operators.api.changing import Changing
from dagster_operators.api.checked_pipelines import checked_pipeline
from dagster_operators.api.going_back import GoingBack
from dagster_operators.api.history import History
from dagster_operators.api.pipeline_from_data import FromData
from dagster_operators.api.pipeline_settings import check_settings
from dagster_operators.api.rebuilding import Rebuildable
from dagster_operators.api.settling import Settling
from dagster_operators.api.snapshot import Snapshot
from dagster_operators.api.stopping import Stopping
from dagster_operators.api.turn import Turn
from dagster_operators.arguments import checked_constructor
from dagster_operators.errors import StorageError
from dagster_operators.graph.dataflow import check_name
from dagster_operators.runtime.engine import Engine, default_engine, engine_given
from dagster_operators.runtime.epochs import Epochs
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.own_engine import prepared
from dagster_operators.runtime.results import EpochResult, result_of, table_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.restricted import Part
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.lease import IsRunAlive
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.plan import Slices
    from dagster_operators.transactions.view import LedgerView

T = TypeVar("T")


@checked_pipeline
@checked_constructor
class Pipeline(Changing, GoingBack, Rebuildable, FromData, Settling, Stopping):
    """A named dataflow with one storage root. Building one reads nothing and starts nothing.

    Args:
        name: Letters, digits and underscores.
        root: Where tables, state and the ledger live: a local path or an object-store URI.
        engine: Where stages run, or its name, such as ``"sail"``; by default what ``DAGSTER_OPERATORS_ENGINE`` says, else
            embedded Spark.
        storage_options: Credentials and settings of an object store; never written anywhere.
        lease_seconds: How long a run that gives no sign of life keeps others out.
        parallelism: How many subtasks an operator of the user's own has behind ``key_by``, 1 to 128; by default as many as the
            engine has shuffle partitions. It may change between epochs: state is stored by key group.
        concurrent_stages: How many stages that do not depend on each other run at the same time; 1 runs them one after another.
            By default as many as this machine (or the local Spark master) has cores, at most 8, and 4 on a cluster.
        rules_off: The names of the planner's rules that are not applied, or one name; ``explain`` shows what each does.
        renamed_from: The name that the pipeline had when its root was made, if that was another; it stays in the program. Its
            assets, jobs and sensors in Dagster keep that name too, in a group of the new one.
        durable: Whether an epoch's files are flushed to the disk (fsync), in the order in which recovery needs them, so that a
            power cut takes nothing that was recorded. Of a local root; an object store does it anyway.

    Example:
        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> pipeline = Pipeline("flights", root="data/flights")
        >>> flights = pipeline.source("flights", FileSource("in/*.csv", schema="origin string, dep timestamp, delay int"),
        ...                           event_time="dep", lateness="1 hour")
        >>> hourly = flights.key_by("origin").window(Tumbling("1 hour")).aggregate(departures="count(*)", mean="avg(delay)")
        >>> hourly.to_table("hourly_delays").columns
        ('origin', 'window_start', 'window_end', 'departures', 'mean')
    """

    def __init__(
        self,
        name: str,
        root: str,
        *,
        engine: Engine | str | None = None,
        storage_options: Mapping[str, str] | None = None,
        lease_seconds: float = 30.0,
        parallelism: int | None = None,
        concurrent_stages: int | None = None,
        rules_off: str | Collection[str] = (),
        durable: bool = False,
        renamed_from: str | None = None,
    ) -> None:
        check_settings(name, lease_seconds, parallelism, concurrent_stages)
        if renamed_from is not None:
            check_name("pipeline", renamed_from, pipeline=name)
        self.stored_name = name if renamed_from is None else renamed_from
        super().__init__(name, root, storage_options, rules_off)
        self.engine = engine_given(engine, pipeline=name)
        self._lease_seconds = lease_seconds
        self._parallelism = parallelism
        self._concurrent_stages = concurrent_stages
        self._durable = durable
        self._me: Owner | None = None
        self._turn = Turn()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "epochs"}
        return kept | {"_me": None, "_added": {}}  # queries are shared within one object

    def __copy__(self) -> Self:
        return deepcopy(self)  # what is added to a copy is no part of the pipeline

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, root={self.root!r})"

    # --- as data -----------------------------------------------------------------------------------------------------

    def to_plan(self) -> bytes:
        """The pipeline as data: what it computes, from where and to where, in Protocol Buffers (``plans/plan.proto``).

        The user's functions and operators are in it by their place and a digest of their content; secrets, such as
        ``storage_options``, are left out. Equal pipelines have equal plans.

        Raises:
            PlanError: A setting of a user's operator can be held by no plan, or an operator's kind is not registered.

        >>> from dagster_operators import FileSource
        >>> pipeline = Pipeline("p", root="data/p")
        >>> stream = pipeline.source("rows", FileSource("in", schema="v long")).filter("v > 1").to_table("big")
        >>> again = Pipeline.from_plan(pipeline.to_plan(), root="data/p")
        >>> again.tables["big"].stream == pipeline.tables["big"].stream, again.to_plan() == pipeline.to_plan()
        (True, True)
        """
        from dagster_operators.plans.codec import to_bytes

        plan = self.logical_plan()
        plan.check_complete()
        return to_bytes(plan)

    def logical_plan(self) -> LogicalPlan:
        """The pipeline as a value.

        >>> from dagster_operators import FileSource
        >>> pipeline = Pipeline("p", root="data/p")
        >>> big = pipeline.source("rows", FileSource("in", schema="v long")).filter("v > 1").to_table("big")
        >>> plan = pipeline.logical_plan()
        >>> plan == Pipeline.from_plan(pipeline.to_plan(), root="elsewhere").logical_plan()
        True
        """
        from dagster_operators.plans.logical_plan import LogicalPlan

        if self._given is not None and "dataflow" not in self.__dict__:
            return self._given[0]
        return LogicalPlan.of(self.dataflow)

    # --- running -----------------------------------------------------------------------------------------------------

    @cached_property
    def epochs(self) -> Epochs:
        """The steps of an epoch on the pipeline's own engine, for those who run them one by one."""
        return self.epochs_on(self.engine or default_engine())

    def epochs_on(self, engine: Engine, *, is_run_alive: IsRunAlive | None = None) -> Epochs:
        """The steps of an epoch on a given engine.

        Args:
            engine: Where stages run.
            is_run_alive: Asked whether a Dagster run that owns the pipeline is going on.

        >>> from dagster_operators import FileSource
        >>> from dagster_operators.runtime.engine import engine_named
        >>> pipeline = Pipeline("p", root="data/p")
        >>> big = pipeline.source("rows", FileSource("in", schema="v long")).filter("v > 1").to_table("big")
        >>> [stage.name for stage in pipeline.epochs_on(engine_named("sail")).plan().stages]
        ['big']
        """
        return self._epochs_of(self.dataflow, self.root, engine, is_run_alive)

    def epochs_beside(self, epochs: Epochs, *, is_run_alive: IsRunAlive | None = None) -> Callable[[Part, str], Epochs]:
        """Makes the steps of epochs of a part of the pipeline in another storage root, on the same engine."""
        from dagster_operators.catalog.loading import catalog
        from dagster_operators.graph.restricted import restricted_to
        from dagster_operators.runtime.reading_ranges import reading

        def beside(part: Part, root: str) -> Epochs:
            made = restricted_to(epochs.plan().dataflow, part.tables, tuple(catalog().rules()))
            made = made if part.between is None else reading(made, part.between)
            return self._epochs_of(made, root, epochs.planning.engine, is_run_alive)

        return beside

    def _epochs_of(self, dataflow: Dataflow, root: str, engine: Engine, is_run_alive: IsRunAlive | None) -> Epochs:
        from dagster_operators.transactions.coordinator import Coordinator

        coordinator = Coordinator(
            self.stored_name,
            root,
            program=self.name,
            storage_options=self._storage_options,
            lease_seconds=self._lease_seconds,
            is_run_alive=is_run_alive,
            durable=self._durable,
        )
        return Epochs(dataflow, coordinator, prepared(engine), self._parallelism, self._concurrent_stages)

    @property
    def _coordinator(self) -> Coordinator:
        return self.epochs.coordinator

    @property
    def _owner(self) -> Owner:
        """This process, under one name for as long as it lives (a forked child is another)."""
        from dagster_operators.transactions.owner import Owner

        if self._me is None or self._me.pid != os.getpid():
            self._me = Owner.of_process()
        return self._me

    def run_epoch(self, *, wait_seconds: float = 0) -> EpochResult:
        """Run one epoch in this process, without Dagster.

        Args:
            wait_seconds: How long to wait for another run of the pipeline to end.

        Returns:
            What the epoch did; ``empty`` when the sources held nothing new.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> print(pipeline.run_epoch())
        epoch 1: 1 row in kept
        >>> [pipeline.run_epoch().empty for _ in range(2)]
        [False, True]
        >>> folder.cleanup()
        """
        return self._run_epoch(wait_seconds)

    def _run_epoch(
        self,
        wait_seconds: float,
        watermarks: Mapping[str, int] | None = None,
        choose: Callable[[LedgerView], Slices | None] | None = None,
    ) -> EpochResult:
        with self._turn.taken(self.name, wait_seconds) as left:
            coordinator = self.epochs.coordinator
            try:
                return self._run_steps(left, watermarks, choose)
            except BaseException:
                with contextlib.suppress(StorageError):  # the error at hand says more
                    coordinator.close()  # whoever corrects what is wrong need not wait for our lease to end
                raise

    def _run_steps(
        self,
        wait_seconds: float,
        watermarks: Mapping[str, int] | None,
        choose: Callable[[LedgerView], Slices | None] | None,
    ) -> EpochResult:
        started, before = time.monotonic(), self.epochs.coordinator.last_complete()
        self.fill(self.epochs, self.epochs_beside(self.epochs), self._owner, wait_seconds)
        handle = self.epochs.begin(self._owner, wait_seconds=wait_seconds, watermarks=watermarks, choose=choose)
        begun = time.monotonic()
        if handle is None:
            last = self.epochs.coordinator.last_complete()
            if last and last.transition and before and last.epoch > before.epoch:  # it renamed or filled tables, and no more
                return result_of(last, tuple(self.tables))
            versions = table_names(self.epochs.coordinator.view().versions)
            return EpochResult(last.epoch if last else 0, empty=True, versions=versions)
        self.epochs.run_stages(handle)
        staged = time.monotonic()
        complete = self.epochs.commit(handle)
        result = result_of(complete, tuple(self.tables))
        seconds = {"begin": round(begun - started, 4), **complete.seconds, "commit": round(time.monotonic() - staged, 4)}
        return EpochResult(**{**result.__dict__, "seconds": seconds})

    def run_until_caught_up(self, *, wait_seconds: float = 0) -> list[EpochResult]:
        """Run epochs until the sources hold nothing new; the results of those that were committed.

        Args:
            wait_seconds: How long to wait for another run of the pipeline to end.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> [result.epoch for result in pipeline.run_until_caught_up()]
        [1, 2]
        >>> folder.cleanup()
        """
        return list(self._catch_up(wait_seconds))

    def _catch_up(self, wait_seconds: float) -> Iterator[EpochResult]:
        while not (result := self.run_epoch(wait_seconds=wait_seconds)).empty:
            yield result

    def state(self, operator: str, table: str, epoch: int | None = None) -> DataFrame:
        """The state of an operator as of a completed epoch, by default the last: the rows that the operator itself would find.

        Args:
            operator: The operator's name.
            table: The state table, as the operator declares it.
            epoch: The epoch, or None for the last.

        Raises:
            PipelineError: There is no such operator or state table.
            UnknownEpochError: The epoch is not complete, or too old.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> source = MemorySource([[("a", 1), ("b", 2)], [("a", 3)]], schema="k string, v long")
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> sums = pipeline.source("rows", source).key_by("k").aggregate(total="sum(v)", name="sums").to_table("totals")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.state("sums", "partials", epoch=1).count()
        2
        >>> folder.cleanup()
        """
        complete = self.epochs.coordinator.versions(epoch)
        return self.epochs.read_state(operator, table, complete)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, table: str, epoch: int | None = None) -> DataFrame:
        """A table's rows as of a completed epoch (the last one by default).

        Of an output of an event operator, by its address ``node/output``, the messages in their order.

        Raises:
            UnknownEpochError: The epoch was never completed, or nothing was yet.
            PipelineError: There is no such table.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> source = MemorySource([[("a", 1), ("b", 2)], [("a", 3)]], schema="k string, v long")
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> sums = pipeline.source("rows", source).key_by("k").aggregate(total="sum(v)", name="sums").to_table("totals")
        >>> epochs = pipeline.run_until_caught_up()
        >>> sorted(map(tuple, pipeline.read("totals").collect())), sorted(map(tuple, pipeline.read("totals", epoch=1).collect()))
        ([('a', 4), ('b', 2)], [('a', 1), ('b', 2)])
        >>> folder.cleanup()
        """
        return self.snapshot(epoch).read(table)

    def to_arrow(
        self, table: str, *, epoch: int | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table:
        """A table's rows as of a completed epoch, read in this process without an engine: for small tables, or their first rows.

        Args:
            table: The table's name.
            epoch: A completed epoch; the last one by default.
            columns: Only these.
            limit: At most so many rows, whichever.

        Raises:
            PipelineError: There is no such table or column.
            UnknownEpochError: The epoch was never completed, or nothing was yet.
            LostFileError: A file of the table is missing.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.to_arrow("kept", epoch=1).to_pylist()
        [{'v': 1}]
        >>> folder.cleanup()
        """
        return self.snapshot(epoch).to_arrow(table, columns=columns, limit=limit)

    def snapshot(self, epoch: int | None = None) -> Snapshot:
        """All tables as of one completed epoch: a consistent cut.

        Args:
            epoch: The epoch; the last one by default.

        Raises:
            UnknownEpochError: The epoch was never completed, or nothing was yet.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.snapshot(1)
        Snapshot(epoch=1, versions={'kept': 1})
        >>> folder.cleanup()
        """
        return Snapshot(self, self.epochs.coordinator.versions(epoch))

    def history(self) -> History:
        """The completed epochs, oldest first, each with the versions of all tables, and what changed between them.

        ``history().diff(3, 7)`` tells what differs between the plans of two epochs, ``history().changes()`` where they changed.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> [(epoch.epoch, epoch.rows) for epoch in pipeline.history()]
        [(1, {'kept': 1}), (2, {'kept': 1})]
        >>> folder.cleanup()
        """
        coordinator = self.epochs.coordinator
        return History(coordinator.history(), KeptPlans(coordinator.root))

    def explain(self, *, rules: bool = True, holds: bool = False, rows: bool = False) -> str:
        """The stages, chains, shuffles, state tables and column lineage, and what each rule of the planner did; starts no engine.

        Args:
            rules: Whether the planner's rules are applied; else the plan is shown as it was written.
            holds: Whether to tell which operators held back the time of their outputs at the end of the last epoch.
            rows: Whether to tell how rows are to lie before each operator and lie, and how many the last epochs had.

        >>> from dagster_operators import FileSource
        >>> pipeline = Pipeline("p", root="data/p")
        >>> big = pipeline.source("rows", FileSource("in", schema="v long")).filter("v > 1").to_table("big")
        >>> print(pipeline.explain(rules=False))  # doctest: +ELLIPSIS
        pipeline p: 1 stages, 1 tables
        stage big
          chain: rows -> filter
          rows: source ...
          filter: filter {"condition": "v > 1"}
          writes table big (append)
        column lineage
          big
            v <- rows.v
        """
        from dagster_operators.api.explaining import explained

        return explained(self.dataflow, self.root, lambda: self.epochs, self.history, rules=rules, holds=holds, rows=rows)
