"""What one attempt at a stage is given: the stage, the plan it belongs to, the epoch's handle, and where to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.scope import loops_around
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.relational.source import Source
from dagster_operators.planner.plan import Plan
from dagster_operators.planner.stages import Output, Stage
from dagster_operators.storage.cache import state_copies
from dagster_operators.transactions.effects import StageAttempt
from dagster_operators.transactions.manifest import FileEntry, Manifest
from dagster_operators.transactions.plan import PlanRecord
from dagster_operators.transactions.stage_keys import StageKey
from dagster_operators.transactions.tables import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dagster_operators.transactions.coordinator import Coordinator


@dataclass(frozen=True)
class StageWork:
    """The inputs of an attempt.

    Attributes:
        session: The engine's session.
        engine: The kind of engine.
        dataflow: The pipeline's graph.
        plan: The pipeline's plan.
        stage: The stage to run.
        attempt: The attempt's epoch, folder and upstream manifests.
        coordinator: For the files of tables as of the previous epoch.
        schemas: The schema of each source and lookup table.
        parallelism: How many subtasks a keyed batch operator has.
    """

    session: SparkSession
    engine: str
    dataflow: Dataflow
    plan: Plan
    stage: Stage
    attempt: StageAttempt
    coordinator: Coordinator
    schemas: Mapping[str, str]
    parallelism: int = 1

    @property
    def cache(self) -> str | None:
        """Where workers keep local copies of state files."""
        return state_copies(self.coordinator.view().pipeline)

    def connector(self, operator: str) -> Connector | None:
        """The connector of a source or lookup operator, with access to the root's store; None for other operators."""
        found = connector_of(self.dataflow, operator)
        return found.below(self.coordinator.root) if found else None

    def type_of(self, output: Output) -> StreamType:
        """What is known of an output without an engine."""
        return self.dataflow.type_of(output.ref)

    def schema_of(self, output: Output) -> str:
        """An output's schema as the engine sees it."""
        return self.plan.schemas[output.ref]

    def place_of(self, output: Output) -> str:
        """The dataset that an output's rows are staged in, where later stages and sinks find them.

        The changed rows of an updating table are files of the table, unless some of them are marks of deleted rows.
        """
        if not self.type_of(output).updating:
            return output.dataset
        return output.stream if output.table is None or DELETED in dict(columns_of(self.schema_of(output))) else output.dataset

    @cached_property
    def _begun(self) -> PlanRecord | None:
        """The plan as the epoch's begin has it."""
        return self.coordinator.view().plan

    @property
    def _identities(self) -> Mapping[str, str]:
        return self._begun.identities if self._begun else {}

    def emptied(self, dataset: str) -> list[FileEntry]:
        """The files that leave a table in this round since it begins from nothing with the epoch; of others none."""
        if self._begun is None or dataset not in self._begun.emptied or self.earlier_round:
            return []
        return self.coordinator.files(dataset, self.attempt.begin.base_versions[dataset])

    def state_dataset(self, operator: str, table: str) -> str:
        """The dataset of a state table of a physical operator."""
        return f"state/{self.identity(operator)}.{table}"

    def identity(self, operator: str) -> str:
        """What the state of a physical operator is addressed by."""
        return self._identities.get(operator, operator)

    @cached_property
    def partitions(self) -> dict[str, tuple[str, ...]]:
        """The partition columns of the stage's tables that have some."""
        tables = {output.dataset: output.table for output in self.stage.outputs if output.table is not None}
        return {dataset: table.partition_by for dataset, table in tables.items() if table.partition_by}

    def directory(self, dataset: str) -> str:
        """The attempt's own folder in a dataset."""
        return self.attempt.directory(dataset)

    @cached_property
    def key(self) -> StageKey:
        """The stage and its round."""
        return StageKey.parse(self.attempt.stage)

    @property
    def round(self) -> int:
        """A number that is larger in each round: of a loop within others it counts on from one round of these to the next."""
        number = 0
        for loop, inner in zip(loops_around(self.dataflow.scopes, self.stage.loop), self.key.iteration, strict=True):
            number = number * self.dataflow.scopes[loop].limit + inner
        return number

    @property
    def earlier_round(self) -> Manifest | None:
        """What the stage did in the round before; its changes of state are those of all rounds up to then."""
        return next((made for key, made in self.attempt.upstream.items() if StageKey.parse(key).stage == self.stage.name), None)

    def before(self, dataset: str) -> list[FileEntry]:
        """The files of a dataset as of the previous epoch, or the previous round."""
        begins_anew = self._begun is not None and dataset in self._begun.emptied
        files = [] if begins_anew else self.coordinator.files(dataset, self.attempt.begin.base_versions[dataset])
        change = self.earlier_round.change(dataset) if self.earlier_round else None
        if change is not None:
            gone = set(change.removes)
            files = [*(entry for entry in files if entry.path not in gone), *change.adds]
        self.coordinator.require_as_written(dataset, files)
        return files

    def items(self, operator: str) -> Any:
        """What the epoch reads of a source or lookup table; None if nothing."""
        piece = self.attempt.begin.slices.offsets.get(operator)
        return None if piece is None else piece.items

    def where(self) -> dict[str, Any]:
        """The place that errors name."""
        return {"pipeline": self.dataflow.name, "stage": self.attempt.stage, "epoch": self.attempt.epoch}


def connector_of(dataflow: Dataflow, operator: str) -> Connector | None:
    """The connector that a source or lookup operator was given; None for other operators."""
    node = dataflow.nodes.get(operator)  # a rule may have put in operators that the dataflow does not have
    if node and isinstance(node.operator, Source | Lookup) and isinstance(node.operator.connector, Connector):
        return node.operator.connector
    return None
