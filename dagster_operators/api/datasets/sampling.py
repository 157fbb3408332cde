"""Samples of a data set (DataSetUtils): the same rows of the same parts, so that a part which runs again gives them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, TypeVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.numbering import InPart, count_elements
from dagster_operators.api.datasets.operations.row_wise import PartsMapped
from dagster_operators.api.datasets.typed_by import same_as
from dagster_operators.errors import PipelineError

B = TypeVar("B", bound=Bag)


class _Share(InPart):
    """Each row with a probability; with replacement so many times as rare events happen in a time."""

    def __init__(self, fraction: float, seed: int, *, with_replacement: bool) -> None:
        self._fraction = fraction
        self._seed = seed
        self._with_replacement = with_replacement

    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        chance = Random(f"{self._seed} {self.context.subtask}")  # noqa: S311 - no secret
        if not self._with_replacement:
            yield from (row for row in rows if chance.random() < self._fraction)
            return
        next_event, time = chance.expovariate(1.0), 0.0
        for row in rows:
            time += self._fraction
            while next_event < time:
                yield row
                next_event += chance.expovariate(1.0)


class _Chosen(InPart):
    """The rows whose numbers were drawn; each part draws the same numbers."""

    def __init__(self, size: int, seed: int, *, with_replacement: bool) -> None:
        self._size = size
        self._seed = seed
        self._with_replacement = with_replacement

    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        start, total = self.start_and_total()
        chance, numbers = Random(self._seed), range(total)  # noqa: S311 - no secret
        drawn = chance.choices(numbers, k=self._size) if self._with_replacement and total else []
        chosen = iter(sorted(drawn or chance.sample(numbers, min(self._size, total))))
        wanted = next((number for number in chosen if number >= start), None)
        for number, row in enumerate(rows, start):
            while wanted == number:
                yield row
                wanted = next(chosen, None)


def sample(data_set: B, fraction: float, seed: int, *, with_replacement: bool) -> B:
    """Each row with a probability.

    Raises:
        PipelineError: The fraction is negative, or more than one where no row comes twice.
    """
    if fraction < 0 or (fraction > 1 and not with_replacement):
        raise PipelineError(
            f"{fraction} is no fraction of the rows", operator=data_set.shown,
            remedy="give a number from 0 to 1; a larger one with with_replacement=True",
        )  # fmt: skip
    share = _Share(fraction, seed, with_replacement=with_replacement)
    return data_set.derive(PartsMapped(share), fields=data_set.fields, typed_by=same_as(data_set)).name("Sample")


def sample_with_size(data_set: B, size: int, seed: int, *, with_replacement: bool) -> B:
    """So many rows, each as likely as the others.

    Raises:
        PipelineError: The number is negative.
    """
    if size < 0:
        raise PipelineError(f"{size} is no number of rows", operator=data_set.shown, remedy="give 0 or more")
    chosen = PartsMapped(_Chosen(size, seed, with_replacement=with_replacement))
    result = data_set.derive(chosen, fields=data_set.fields, typed_by=same_as(data_set)).name("Sample With Size")
    return result.with_broadcast_set(count_elements(data_set), "counts")
