"""K-means: kinds of weather, each the mean of the observations that are nearest to it.

A bulk iteration moves the centres. Each round reads them as a broadcast set, and an aggregator adds up how far they move: the
iteration ends when they stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from typing_extensions import override

import dagster_operators as do

CENTRE = "kind int, temp double, wind_speed double, visib double"
"""Fahrenheit, miles per hour and miles, as in the observations."""

FIRST = (
    (1, 20.0, 10.0, 10.0),  # frost
    (2, 35.0, 25.0, 10.0),  # a cold wind
    (3, 40.0, 5.0, 2.0),  # fog
    (4, 55.0, 8.0, 10.0),  # mild
    (5, 80.0, 8.0, 10.0),  # a summer's day
)
"""The centres to begin with."""

ROUNDS = 50
MOVED = "moved"
STILL = 1e-9
"""All centres together move less in the last round."""


def measures(row: Any) -> tuple[float, float, float]:
    """The measures of an observation or a centre."""
    return row.temp, row.wind_speed, row.visib


class Nearest(do.data_sets.RichFunction):
    """The kind of an observation: that of the nearest centre, of the smallest number where several are as near."""

    @override
    def open(self, context: do.data_sets.RuntimeContext) -> None:
        self._centres = sorted((centre.kind, measures(centre)) for centre in context.broadcast("centres"))

    def kind(self, point: Any) -> int:
        """The number of the nearest centre."""
        here = measures(point)
        return int(min(self._centres, key=lambda centre: math.dist(centre[1], here))[0])

    @override
    def __call__(self, point: Any) -> Any:
        return (self.kind(point), *measures(point), 1)


class WithKind(Nearest):
    """An observation as it is, with its kind in front."""

    @override
    def __call__(self, point: Any) -> Any:
        return (self.kind(point), *point)


class Mean(do.data_sets.RichFunction):
    """The centre of some observations, of which sums come; how far it moved is added to the aggregator."""

    @override
    def open(self, context: do.data_sets.RuntimeContext) -> None:
        iteration = context.iteration
        if iteration is None:
            raise ValueError("a centre moves from round to round: this function belongs into an iteration")
        self._moved = iteration.aggregators[MOVED]
        self._before = {centre.kind: measures(centre) for centre in context.broadcast("centres")}

    @override
    def __call__(self, sums: Any) -> Any:
        mean = tuple(measure / sums.count for measure in measures(sums))
        self._moved.add(math.dist(mean, self._before[sums.kind]))
        return (sums.kind, *mean)


def add(first: Any, second: Any) -> Any:
    """The sums of two."""
    return (first.kind, *(one + other for one, other in zip(first[1:], second[1:], strict=True)))


def centres_of(points: do.DataSet, first: do.DataSet) -> do.DataSet:
    """The centres that k-means ends with; one without observations goes.

    Args:
        points: The observations: ``temp``, ``wind_speed`` and ``visib``, none of which is null.
        first: The centres to begin with: ``kind`` and the same fields.

    >>> program = do.data_sets.LocalProgram(parallelism=2)
    >>> points = program.rows([(15.0, 5.0, 10.0), (17.0, 7.0, 10.0), (70.0, 4.0, 9.0)], "temp", "wind_speed", "visib")
    >>> for centre in sorted(program.collect(centres_of(points, program.rows(FIRST, schema=CENTRE)))):
    ...     print(*centre)
    1 16.0 6.0 10.0
    5 70.0 4.0 9.0
    >>> program.supersteps
    {'centres': 2}
    """
    loop = first.iterate(ROUNDS)
    loop.register_aggregator(MOVED, 0.0)
    loop.register_convergence_criterion(MOVED, lambda _, moved: moved < STILL)
    centres = loop.rows_of_round
    kinds = points.map(Nearest(), schema=f"{CENTRE}, count long").with_broadcast_set(centres, "centres").name("nearest centre")
    sums = kinds.group_by("kind").reduce(add).name("sum by kind")
    means = sums.map(Mean(), schema=CENTRE).with_broadcast_set(centres, "centres").name("mean")
    return loop.close_with(means).name("centres")


def kinds_of(points: do.DataSet, centres: do.DataSet, schema: str) -> do.DataSet:
    """Each observation with the kind that it is of.

    Args:
        points: The observations.
        centres: The centres.
        schema: The columns of observations.
    """
    return points.map(WithKind(), schema=f"kind int, {schema}").with_broadcast_set(centres, "centres").name("kind of weather")


def observed(row: Any) -> Iterator[Any]:
    """An observation, unless a measure is missing."""
    if None not in (row.temp, row.wind_speed, row.visib):
        yield row
