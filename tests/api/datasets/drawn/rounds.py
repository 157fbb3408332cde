"""The iterations of drawn programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.api.datasets.drawn import functions
from tests.api.datasets.drawn.steps import Rows, Step, computed
from tests.api.datasets.drawn.values import Row


@dataclass(frozen=True)
class Rounds(Step):
    """A bulk iteration: the first input goes round, the second one is the same in each round.

    Attributes:
        body: Steps of data sets of which the rows of the round are number 0, the second input number 1.
        rounds: How many there are at most.
        criterion: A condition of rows of the next round; without any the iteration ends.
    """

    body: tuple[Step, ...] = field(default=())
    rounds: int = 1
    criterion: str | None = None
    in_rounds: ClassVar[bool] = False

    def rows(self, *given: Rows) -> Rows:
        rows, outside = given
        for _ in range(self.rounds):
            known = [rows, outside]
            for step in self.body:
                known.append(computed(step, known))
            rows = known[-1]
            if self.criterion is not None and not any(map(functions.KEEPS[self.criterion], rows)):
                break
        return rows

    def data_set(self, schema: str, *given: Any) -> Any:
        loop = given[0].iterate(self.rounds)
        known = [loop.rows_of_round, given[1]]
        for step in self.body:
            known.append(step.data_set(schema, *(known[number] for number in step.inputs)))
        end = known[-1]
        return loop.close_with(end, None if self.criterion is None else end.filter(functions.KEEPS[self.criterion]))


@dataclass(frozen=True)
class DeltaRounds(Step):
    """A delta iteration: the best text of each number, with offers that change from round to round.

    Attributes:
        rounds: How many there are at most.
        goes_on: The function by which changes become offers of the next round.
    """

    rounds: int = 1
    goes_on: str = "bump"
    in_rounds: ClassVar[bool] = False

    def rows(self, *given: Rows) -> Rows:
        solution = self._best(given[0])
        offers = given[1]
        for _ in range(self.rounds):
            changes = [row for key, offer in self._best(offers).items() for row in functions.improved(offer, solution.get(key))]
            solution.update((row[0], row) for row in changes)
            offers = [tuple(functions.MAPS[self.goes_on][0](row)) for row in changes]
            if not offers:
                break
        return list(solution.values())

    def _best(self, rows: Rows) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for row in rows:
            found[row[0]] = functions.larger(found[row[0]], row) if row[0] in found else row
        return found

    def data_set(self, schema: str, *given: Any) -> Any:
        start = given[0].group_by("a").reduce(functions.larger)
        loop = start.iterate_delta(given[1], self.rounds, "a")
        offers = loop.workset.group_by("a").reduce(functions.larger)
        join = offers.join(loop.solution_set).where("a").equal_to("a")
        changes = join.with_function(functions.improved, schema=schema, several=True)
        return loop.close_with(changes, changes.map(functions.MAPS[self.goes_on][0], schema=schema))
