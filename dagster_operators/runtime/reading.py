"""Reading what a pipeline has written, as of an epoch: tables, and the state of its operators."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.operators.batch_operator import BatchOperator, keys_of
from dagster_operators.operators.engine_schema import empty
from dagster_operators.runtime.event_time import Frontiers, at_beginning, held_in
from dagster_operators.runtime.planning import Planning
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.workers.state_reader import StateReader
from dagster_operators.storage.cache import state_copies
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.records import Complete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Reading:
    """Reads a pipeline's own datasets on its engine.

    Args:
        planning: The pipeline's plan and session.
        coordinator: Knows the files of each version.
    """

    def __init__(self, planning: Planning, coordinator: Coordinator) -> None:
        self._planning = planning
        self._coordinator = coordinator

    def read(self, dataset: str, complete: Complete) -> DataFrame:
        """The rows of one of the pipeline's own tables as of a completed epoch."""
        schema, files = self._coordinator.content(complete, dataset)
        rows = StagedFiles(self._coordinator.root, self._planning.session).read(dataset, files, schema)
        return empty(self._planning.session, schema) if rows is None else rows

    def read_state(self, operator: str, table: str, complete: Complete) -> DataFrame:
        """The rows of one of an operator's state tables as of a completed epoch."""
        made = self._planning.plan()
        if f"{operator}.{table}" not in made.states:
            kept = made.physical.own_table(operator) if operator in made.physical.nodes else None
            raise PipelineError(
                f"there is no state table {table!r}",
                pipeline=self._planning.dataflow.name,
                operator=operator,
                remedy=f"its state is {kept}: read that" if kept else f"there are: {', '.join(made.states)}",
            )
        node = made.physical.nodes[operator]
        physical = node.operator
        identity = self._planning.comparing.identity_in(complete, operator, node.logical)
        dataset = f"state/{identity}.{table}"
        if dataset in self._coordinator.past.at(complete.epoch).versions.keys() - complete.versions.keys():
            raise PipelineError(
                f"the state of epoch {complete.epoch} was deleted since (pipeline.drop, or a restart)",
                pipeline=self._planning.dataflow.name, operator=operator, epoch=complete.epoch,
                remedy="read that of a later epoch",
            )  # fmt: skip
        at = complete if dataset in complete.versions else replace(complete, versions={**complete.versions, dataset: 0})
        if not isinstance(physical, BatchOperator):
            return self.read(dataset, at)
        _, files = self._coordinator.content(at, dataset)
        self._coordinator.require_as_written(dataset, files)
        frontiers = Frontiers(self._planning.dataflow, at_beginning(complete.watermarks), held_in(complete.held))
        end = frontiers.watermark_of_input(node.logical)
        root, cache = self._coordinator.root, state_copies(self._coordinator.view().pipeline)
        declared, place = physical.tables(made.analysed[operator].facts)[table], root.path("").rstrip("/")
        keys, module = keys_of(node.inputs[0].exchange), physical.module
        reader = StateReader(
            operator, identity, table, declared, keys, module, files, place, root.shipped, complete.epoch, end, cache
        )
        return reader.rows(self._planning.session, self._planning.parallelism)
