"""Operations whose rows go round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types, united
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.context import Rounds
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.fields import Fields


@dataclass(frozen=True)
class RowsOfRound(Operation):
    """Where rows come into a round.

    Attributes:
        iteration: What the user calls the iteration.
    """

    iteration: str
    kind: ClassVar[str] = "Partial Solution"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        raise PipelineError(
            "the rows of a round are read outside of the round", operator=self.iteration,
            remedy="close the iteration, and read what that gives",
        )  # fmt: skip


@dataclass(frozen=True)
class BulkRounds(Operation):
    """A bulk iteration.

    Attributes:
        most: How many rounds there are at most.
        start: The rows of a round.
        end: The rows of the next one.
        criterion: The data set that ends it when it has no rows; None where none does.
        rounds: Its aggregators.
    """

    most: int
    start: Bag
    end: Bag
    criterion: Bag | None
    rounds: Rounds
    kind: ClassVar[str] = "Bulk Iteration"

    @property
    @override
    def ends_of_round(self) -> tuple[Bag, ...]:
        return (self.end,) if self.criterion is None else (self.end, self.criterion)

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        return united(rows[0], rows[1], "an iteration", operator) or rows[0].types  # the others are looked at as they are written

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        parallelism = translation.parallelism_of(data_set)
        loop = BulkIteration(data_set.shown, inputs[0], rounds=self.most, parallelism=parallelism)
        loop.work = self.rounds
        within = translation.within(parallelism, {self.start: loop.start})
        return loop.close(within.node(self.end), None if self.criterion is None else within.node(self.criterion))


@dataclass(frozen=True)
class DeltaRounds(Operation):
    """A delta iteration.

    Attributes:
        most: How many rounds there are at most.
        keys: The key of the solution set.
        solution: The solution set in a round.
        workset: The workset of a round.
        delta: The changes of the solution set.
        end: The next workset.
        rounds: Its aggregators.
        kept: The solution set of the last epoch; None where each epoch begins with the first one.
    """

    most: int
    keys: Fields
    solution: Bag
    workset: Bag
    delta: Bag
    end: Bag
    rounds: Rounds
    kept: Bag | None = None
    kind: ClassVar[str] = "Workset Iteration"

    @property
    @override
    def without_effect(self) -> frozenset[str]:
        return frozenset() if self.kept is None else frozenset({"most"})  # too few rounds are an error there

    @property
    @override
    def ends_of_round(self) -> tuple[Bag, ...]:
        return (self.delta, self.end)

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        solution, workset, delta, end, *_ = rows
        solution.require_keys(self.keys)
        united(workset, end, "an iteration", operator)
        return united(solution, delta, "a delta iteration", operator) or solution.types

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        parallelism = translation.parallelism_of(data_set)
        loop = DeltaIteration(data_set.shown, *inputs, keys=self.keys, rounds=self.most, parallelism=parallelism)
        loop.must_end = self.kept is not None
        loop.work = self.rounds
        within = translation.within(parallelism, {self.solution: loop.solution, self.workset: loop.start})
        return loop.close(within.node(self.delta), within.node(self.end))
