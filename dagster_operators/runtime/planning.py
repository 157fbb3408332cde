"""A pipeline's plan on an engine: the schemas of its sources, its stages as the engine sees them, the number of subtasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import located
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.planner.lowering import needed_operators
from dagster_operators.planner.plan import Plan, plan
from dagster_operators.planner.rules.rule_set import optimised
from dagster_operators.runtime import java_start
from dagster_operators.runtime.comparing import Comparing
from dagster_operators.runtime.engine import PreparedEngine
from dagster_operators.runtime.estimating import bytes_read, estimate, goes_otherwise
from dagster_operators.runtime.plan_record import plan_record
from dagster_operators.runtime.spark_packages import need_for
from dagster_operators.runtime.stages.stage_work import connector_of
from dagster_operators.runtime.store_access import tell_engine
from dagster_operators.storage.access import Access
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.view import LedgerView
from dagster_operators.transactions.whose import pipeline_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SUBTASKS: Final = 128
"""Of one operator: each has at least one key group."""


class Planning:
    """The plan of a pipeline, made when it is first needed and again when the pipeline has grown.

    Args:
        dataflow: The pipeline's graph; may still grow.
        coordinator: Knows the schemas that the ledger has pinned.
        engine: Analyses every operator.
        parallelism: How many subtasks a keyed batch operator has; by default as many as the engine has shuffle partitions.
    """

    def __init__(
        self, dataflow: Dataflow, coordinator: Coordinator, engine: PreparedEngine, parallelism: int | None = None
    ) -> None:
        self.dataflow = dataflow
        self.engine = engine
        self._coordinator = coordinator
        self._parallelism = parallelism
        self._plan: tuple[tuple[str, ...], Plan] | None = None
        self._followed: tuple[Any, ...] | None = None
        self._estimated: tuple[Any, ...] = ()
        self._whole: Plan | None = None
        self.comparing = Comparing(dataflow, coordinator)
        self._used: tuple[tuple[tuple[str, ...], frozenset[str]], frozenset[str]] | None = None
        self._kept: tuple[Plan, str] | None = None
        self._record: tuple[tuple[Any, ...], PlanRecord] | None = None
        self._schemas: dict[str, str] = {}
        self._were_pinned: set[str] = set()
        self._turn = threading.RLock()
        self._told: tuple[SparkSession, tuple[str, ...]] | None = None
        self._connectors: dict[str, Connector] = {}

    @property
    def session(self) -> SparkSession:
        """The engine's session, which can reach what the pipeline reads and writes."""
        shape = self._shape()
        if self.engine.name == "spark" and (self._told is None or self._told[1] != shape):
            with located(pipeline=self.dataflow.name):
                need_for(uri for uri, _ in self._places())
                self._expect()
        session = self.engine.session()
        if self._told is None or self._told[0] is not session or self._told[1] != shape:
            with located(pipeline=self.dataflow.name):
                tell_engine(session, self.engine.name, self._places())
            self._told = (session, shape)
        return session

    def _expect(self) -> None:
        """Let a Java that is not started yet know how much the last epoch read, where all of it is known."""
        if not java_start.is_brief() or pipeline_in(self._coordinator.root) is None:
            return
        read = self._coordinator.view().last_read
        names = list(read.offsets) if read else []
        if not all(name in self.dataflow.nodes for name in names):  # renamed or gone since
            return
        sizes = [read and bytes_read(read, self.connector(name), name) for name in names]
        if sizes and None not in sizes:
            java_start.expect(sum(size or 0 for size in sizes))

    def _places(self) -> Iterator[tuple[str, Access]]:
        root = self._coordinator.root
        yield root.uri, root.access
        for name in self.dataflow.nodes:
            connector = self.connector(name)
            if connector is not None:
                yield connector.uri, Access.of(getattr(connector, "storage_options", None))

    @property
    def parallelism(self) -> int:
        """How many subtasks a keyed batch operator has: as given, else the engine's number of shuffle partitions."""
        if self._parallelism is None:
            told = None if self.engine.name == "sail" else self.session.conf.get("spark.sql.shuffle.partitions")
            self._parallelism = min(int(told), MOST_SUBTASKS) if told else os.cpu_count() or 1
        return self._parallelism

    def plan(self) -> Plan:
        """The plan, made anew if the pipeline has grown.

        Raises:
            SchemaError: An operator does not fit its input.
        """
        with self._turn:  # several stages may ask at once
            return self._plan_now()

    def plan_of(self, begun: PlanRecord) -> Plan:
        """The plan by which an epoch was begun, perhaps in another process, with the ways that it chose.

        Args:
            begun: The plan in the epoch's begin record.
        """
        with self._turn:
            self._follow(begun, begun=True)
            return self._plan_now()

    def follow(self) -> None:
        """Let operators go the ways that the ledger has recorded; where there is none, none is made."""
        with self._turn:
            if pipeline_in(self._coordinator.root) is not None:
                self._follow_ledger(self._coordinator.view())

    def _plan_as_of(self, view: LedgerView) -> Plan:
        with self._turn:
            self._follow_ledger(view)
            return self._plan_now()

    def _follow_ledger(self, view: LedgerView) -> None:
        begin = view.open_begin
        record = begin.plan if begin else view.last_plan
        if record is not None:
            self._follow(record, begun=begin is not None)
        if begin is None:
            self._estimate(view)

    def _estimate(self, view: LedgerView) -> None:
        """Let ways be chosen by the sizes of the last epoch; the plan is made anew if one is chosen otherwise."""
        now = (view.last_epoch, self._shape())
        if self._estimated != now:
            self._estimated = now
            estimate(self.dataflow, view, self.connector, self._parallelism or os.cpu_count() or 1)
            if self._plan and goes_otherwise(self._plan[1], self.dataflow.cost_model):
                self._whole, self._plan = self._plan[1], None

    def _follow(self, record: PlanRecord, *, begun: bool) -> None:
        """Take the choices of an epoch for recorded; the plan is made anew if it goes another way."""
        known = (record.choices, record.logical, begun, self._shape(), self.dataflow.cost_model)
        if known != self._followed:
            recorded = self.comparing.recorded_choices(record, begun=begun)
            self.dataflow.choices.recorded, self._followed = recorded, known
            made = self._plan[1].choices if self._plan else {}
            if self._plan and any(made.get(name, taken) != taken for name, taken in recorded.taken.items()):
                self._whole, self._plan = self._plan[1], None

    def _plan_now(self) -> Plan:
        self.comparing.go_on()
        shape = self._shape()
        if self._plan is None or self._plan[0] != shape:
            self._follow_ledger(self._coordinator.view())
            schemas = self.input_schemas()
            with located(pipeline=self.dataflow.name):
                self._plan = (shape, plan(self.session, self.dataflow, schemas, self._whole))
        return self._plan[1]

    def _shape(self) -> tuple[str, ...]:
        """Other names when the pipeline has grown."""
        return (*self.dataflow.nodes, *self.dataflow.side_streams.values(), *self.dataflow.tables, *self.dataflow.sinks)

    def input_schemas(self) -> Mapping[str, str]:
        """The schema of every source and lookup table in use: as pinned in the ledger, else as declared or found now."""
        with self._turn:
            return self._input_schemas()

    def _input_schemas(self) -> Mapping[str, str]:
        pinned = self._pinned_schemas(self._coordinator.view())
        for name in self._in_use() - self._schemas.keys():
            connector = self.connector(name)
            if connector is not None:
                kept = pinned.get(name, pinned.get(self.dataflow.renamed.get(name, "")))
                kept = kept if connector.declared_schema is None else None
                with located(pipeline=self.dataflow.name, source=name):
                    self._schemas[name] = kept or connector.planned_schema(self.session)
        return self._schemas

    def _pinned_schemas(self, view: LedgerView) -> Mapping[str, str]:
        """The schemas in the ledger; those that it no longer has, of sources that were reset, by whomever, are found anew."""
        pinned = view.last_complete.schemas if view.last_complete else {}
        self._forget(self._were_pinned - pinned.keys())
        self._were_pinned |= pinned.keys()
        return pinned

    def _forget(self, reset: AbstractSet[str]) -> None:
        if not reset.isdisjoint(self._schemas):
            self._plan = None
        for name in reset:
            self._schemas.pop(name, None)
        self._were_pinned -= reset

    def _in_use(self) -> frozenset[str]:
        """The operators that lead to a table or a sink; every stage asks for them, and they change only with the pipeline."""
        shape = (self._shape(), self.dataflow.rules_off)
        if self._used is None or self._used[0] != shape:
            self._used = (shape, frozenset(needed_operators(optimised(self.dataflow).plan)))
        return self._used[1]

    def be_part_of(self, whole: Planning) -> None:
        """Go on with what is known of a pipeline that this is a part of, on the same engine."""
        self._schemas.update({name: schema for name, schema in whole.input_schemas().items() if name in self.dataflow.nodes})
        self._whole = whole.plan()

    def connector(self, operator: str) -> Connector | None:
        """The connector of a source or lookup operator, with access to the root's store; None for other operators.

        It is the same one at each call: a source remembers which files it has seen.
        """
        found = connector_of(self.dataflow, operator)
        if found is not None and operator not in self._connectors:
            self._connectors[operator] = found.below(self._coordinator.root)
        return self._connectors.get(operator)

    def rebuilt(self, tables: Collection[str]) -> PlanRecord:
        """The same for an epoch that takes over tables that were computed anew, which decides about changes of them.

        Raises:
            UndecidedChangeError: Something else of the pipeline changed.
        """
        view = self._coordinator.view()
        made, kept = self._plan_as_of(view), self.comparing.keep()
        binding = self.comparing.bound(view, kept, made.physical, tables)
        return replace(plan_record(made, self.input_schemas(), binding, None), logical=kept)

    def previewed(self) -> PlanRecord:
        """What :meth:`record` would be, as far as it is decided what becomes of what is stored; nothing is stored."""
        view = self._coordinator.view()
        made = self._plan_as_of(view)
        return plan_record(made, self.input_schemas(), self.comparing.as_if_decided(view, made.physical), None)

    def record(self) -> PlanRecord:
        """What the ledger keeps of the plan; the logical plan is in the storage root from then on.

        Raises:
            UndecidedChangeError: The pipeline changed, and it has to be decided what becomes of what is stored.
        """
        view = self._coordinator.view()
        with self._turn:
            self._pinned_schemas(view)
            made = self._plan_as_of(view)
        if self._kept is None or self._kept[0] is not made:
            self._kept = (made, self.comparing.keep())
        begun = view.open_begin.plan if view.open_begin else None
        known = (made, view.last_complete, view.decisions, begun.sources if begun else None)
        if self._record is None or self._record[0] != known:
            binding = self.comparing.bound(view, self._kept[1], made.physical)
            record = plan_record(made, self.input_schemas(), binding, begun)
            self._record = (known, replace(record, logical=self._kept[1]))
        return self._record[1]
