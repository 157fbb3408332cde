"""Iterations on their way: the rows of a round are a data set, and closing says what goes round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.keys import Keys
from dagster_operators.api.datasets.operations.paired import CoGroups, Pairs
from dagster_operators.api.datasets.operations.rounds import BulkRounds, DeltaRounds, RowsOfRound
from dagster_operators.api.datasets.other_names import OtherNames
from dagster_operators.api.datasets.typed_by import same_as
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.context import Aggregator, Rounds

B = TypeVar("B", bound=Bag)


class _Aggregating(OtherNames):
    """The aggregators of an iteration, and its criterion."""

    def __init__(self) -> None:
        self._aggregators: dict[str, Aggregator] = {}
        self._criterion: tuple[str, Callable[[int, Any], bool]] | None = None
        self._closed = False

    def register_aggregator(self, name: str, start: Any, combine: Callable[[Any, Any], Any] | None = None) -> None:
        """Let functions of a round add to a value: ``context.iteration.aggregators[name]``.

        Args:
            name: The aggregator's name; what it came to in the round before is ``context.iteration.previous[name]``.
            start: The value before anything is added.
            combine: From two values to one; by default ``+``.

        >>> import dagster_operators as do
        >>> class Halved(do.data_sets.RichFunction):
        ...     def open(self, context):
        ...         self.total = context.iteration.aggregators["total"]
        ...     def __call__(self, value):
        ...         self.total.add(value / 2)
        ...         return value / 2
        >>> program = do.data_sets.LocalProgram()
        >>> loop = program.rows([8.0, 4.0]).iterate(20)
        >>> loop.register_aggregator("total", 0.0)
        >>> loop.register_convergence_criterion("total", lambda superstep, total: total < 2)
        >>> program.collect(loop.close_with(loop.rows_of_round.map(Halved())))
        [1.0, 0.5]
        """
        self._require_open()
        self._aggregators[name] = Aggregator(start, combine) if combine else Aggregator(start)

    def register_convergence_criterion(self, name: str, ends: Callable[[int, Any], bool]) -> None:
        """End the iteration behind the round for which a function is true, of the round's number and an aggregator's value in it.

        Raises:
            PipelineError: There is no such aggregator.

        >>> import dagster_operators as do
        >>> loop = do.data_sets.LocalProgram().rows([1]).iterate(5)
        >>> loop.register_convergence_criterion("moved", lambda superstep, moved: moved == 0)
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: there is no aggregator 'moved'. To do: register it before: ...
        """
        self._require_open()
        if name not in self._aggregators:
            raise PipelineError(f"there is no aggregator {name!r}", remedy="register it before: register_aggregator(name, start)")
        self._criterion = (name, ends)

    @property
    def rounds(self) -> Rounds:
        """The aggregators, and the criterion."""
        return Rounds(dict(self._aggregators), self._criterion)

    def _require_open(self, operator: str | None = None) -> None:
        if self._closed:
            raise PipelineError(
                "the iteration is closed already", operator=operator,
                remedy="begin another one for another end: iterate(...) or iterate_delta(...)",
            )  # fmt: skip


class Iterating(_Aggregating, Generic[B]):
    """A bulk iteration that is not closed yet.

    Args:
        source: The rows of the first round.
        most: How many rounds there are at most.

    Attributes:
        rows_of_round: The rows of a round.
    """

    _ends: ClassVar[str] = "go on from its rows_of_round, and end the iteration: close_with(...)"

    def __init__(self, source: B, most: int) -> None:
        super().__init__()
        if type(most) is not int or most < 1:
            raise PipelineError(f"{most} rounds are none", operator=source.shown, remedy="let there be one at least")
        self._source = source
        self._most = most
        self.rows_of_round: B = _rows_of_round(source)

    def close_with(self, end: B, criterion: B | None = None) -> B:
        """The result of the iteration.

        Args:
            end: The rows of the next round.
            criterion: The iteration ends behind the round in which this data set has no rows.

        Raises:
            PipelineError: The next round's rows are not made of the round's, or the iteration is closed already.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> loop = program.rows([1, 30]).iterate(10)
        >>> doubled = loop.rows_of_round.map(lambda value: value * 2)
        >>> small = doubled.filter(lambda value: value < 10)
        >>> program.collect(loop.close_with(doubled, small)), program.supersteps
        ([16, 480], {'Bulk Iteration': 4})
        """
        self._require_open(self._source.shown)
        if not _reaches(end, self.rows_of_round):
            raise PipelineError(
                "the rows of the next round are not made of those of the round", operator=self._source.shown,
                remedy="begin the step with the iteration's rows_of_round",
            )  # fmt: skip
        self._closed = True
        operation = BulkRounds(self._most, self.rows_of_round, end, criterion, self.rounds)
        return self._source.derive(operation, fields=end.fields)


class DeltaIterating(_Aggregating, Generic[B]):
    """A delta iteration that is not closed yet.

    Args:
        solution: The first solution set.
        workset: The first workset.
        most: How many rounds there are at most.
        keys: The key of the solution set.
        kept: The solution set of the last epoch; None where each epoch begins with the first one.

    Attributes:
        solution_set: The solution set in a round, which may be joined and co-grouped on its key.
        workset: The workset of a round.
    """

    _ends: ClassVar[str] = "go on from its workset and its solution_set, and end the iteration: close_with(...)"

    def __init__(self, solution: B, workset: B, most: int, keys: Keys, kept: B | None = None) -> None:
        super().__init__()
        if keys.function is not None:
            raise PipelineError("the key of a solution set is of fields", operator=solution.shown, remedy="name its fields")
        self._sources = (solution, workset)
        self._most = most
        self._keys = keys
        self._kept = kept
        solution.row_type.require_keys(keys.fields)
        self.solution_set: B = _rows_of_round(solution)
        self.workset: B = _rows_of_round(workset)

    def close_with(self, delta: B, workset: B) -> B:
        """The solution set behind the last round: behind ``most`` rounds, or when the workset has no rows.

        Args:
            delta: The changes of the solution set: rows that are put in, or take the place of those with the same key.
            workset: The rows of the next round.

        Raises:
            PipelineError: The next workset is not made of the workset, the solution set is not joined on its key, or the
                iteration is closed already.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> start = program.rows([(1, 0), (2, 9), (3, 9)], "node", "hops")
        >>> roads = program.rows([(1, 2), (2, 3)], "near", "far")
        >>> loop = start.iterate_delta(start.filter(lambda row: row.node == 1), 9, "node")
        >>> further = loop.workset.join(roads).where("node").equal_to("near").with_function(
        ...     lambda row, road: (road.far, row.hops + 1), schema="node long, hops long")
        >>> less = further.join(loop.solution_set).where("node").equal_to("node").with_function(
        ...     lambda new, old: [new] if new.hops < old.hops else [], several=True, schema="node long, hops long")
        >>> sorted(map(tuple, program.collect(loop.close_with(less, less))))
        [(1, 0), (2, 1), (3, 2)]
        """
        shown = self._sources[0].shown
        self._require_open(shown)
        if not _reaches(workset, self.workset):
            raise PipelineError(
                "the next workset is not made of the workset",
                operator=shown,
                remedy="begin the step with the iteration's workset",
            )
        for reader, side in _readers(self.solution_set, (delta, workset)):
            operation = reader.operation
            keys = (operation.first, operation.second)[side] if side >= 0 and isinstance(operation, Pairs | CoGroups) else None
            if keys != self._keys.fields:
                raise PipelineError(
                    "a solution set is joined or co-grouped on its key, and nothing else", operator=reader.shown,
                    remedy="join it by the fields of iterate_delta(...)",
                )  # fmt: skip
        if self._kept is not None and self.rounds.criterion is not None:
            raise PipelineError(
                "an iteration that keeps its solution set ends when its workset has no rows, and not before", operator=shown,
                remedy="leave out the convergence criterion, or keep=True",
            )  # fmt: skip
        self._closed = True
        within = (self.solution_set, self.workset, delta, workset)
        operation = DeltaRounds(self._most, self._keys.fields, *within, self.rounds, self._kept)
        return self._sources[0].derive(operation, self._sources[1], fields=self._sources[0].fields)


def _rows_of_round(source: B) -> B:
    result = type(source)(RowsOfRound(source.shown), (), source.fields)
    result.typed_by = same_as(source)
    return result


def _all_before(ends: tuple[Bag, ...]) -> list[Bag]:
    seen: dict[Bag, None] = {}
    waiting = list(ends)
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen[current] = None
            waiting += [*current.inputs, *current.broadcasts.values()]
    return list(seen)


def _reaches(end: Bag, start: Bag) -> bool:
    return start in _all_before((end,))


def _readers(source: Bag, ends: tuple[Bag, ...]) -> list[tuple[Bag, int]]:
    """Who reads a data set, and by which input."""
    before = _all_before(ends)
    named = [(reader, -1) for reader in before if source in reader.broadcasts.values()]
    return named + [(reader, side) for reader in before for side, read in enumerate(reader.inputs) if read is source]
