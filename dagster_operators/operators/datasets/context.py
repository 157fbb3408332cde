"""What a function of the user's, and the driver that calls it, know of the task they are in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.arguments import checked_constructor
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.key_kinds import KeyKinds
from dagster_operators.operators.datasets.rows import Row


class RichFunction(ABC):
    """A function with a life: it is opened before the first row of a part, and closed behind the last.

    >>> class Count(RichFunction):
    ...     def open(self, context):
    ...         self.seen = context.accumulator("seen", 0)
    ...     def __call__(self, row):
    ...         self.seen.add(1)
    ...         return row
    >>> context = RuntimeContext("count")
    >>> count = Count()
    >>> count.open(context)
    >>> count((1,)), context.accumulators["seen"].value
    ((1,), 1)
    """

    def open(self, context: RuntimeContext) -> None:  # noqa: B027 - not every function needs it
        """Called once before the first row; within an iteration once in each round."""

    def close(self) -> None:  # noqa: B027 - not every function needs it
        """Called once behind the last row, also when a function failed."""

    @abstractmethod
    def __call__(self, *arguments: Any) -> Any:
        """The function itself."""


@dataclass
class Accumulator:
    """A value that all parts of an operator add to; the parts' values are added up when all have ended well.

    Attributes:
        value: The value so far.
        combine: From two values to one.
    """

    value: Any
    combine: Callable[[Any, Any], Any] = lambda first, second: first + second

    def add(self, value: Any) -> None:
        """Add a value.

        >>> total = Accumulator(1)
        >>> total.add(2)
        >>> total.value
        3
        """
        self.value = self.combine(self.value, value)


def add_up(sums: dict[str, Accumulator], values: Mapping[str, Accumulator]) -> None:
    """Add the values of accumulators to others.

    >>> sums = {"rows": Accumulator(1)}
    >>> add_up(sums, {"rows": Accumulator(2), "bytes": Accumulator(8)})
    >>> {name: accumulator.value for name, accumulator in sums.items()}
    {'rows': 3, 'bytes': 8}
    """
    for name, accumulator in values.items():
        if name in sums:
            sums[name].add(accumulator.value)
        else:
            sums[name] = Accumulator(accumulator.value, accumulator.combine)


@dataclass
class IterationContext:
    """What is known of the round that a function is in.

    Attributes:
        superstep: The number of the round, from 1.
        previous: What each aggregator came to in the round before, by its name.
        aggregators: What it has come to in this part and round.
    """

    superstep: int
    previous: Mapping[str, Any] = field(default_factory=dict)
    aggregators: dict[str, Accumulator] = field(default_factory=dict)


@dataclass
class RuntimeContext:
    """What a function knows of its task.

    Attributes:
        task: The operator's name.
        subtask: Which part of it this is, from 0.
        parallelism: How many parts there are.
        attempt: How often the part was begun before.
        parameters: What the user gave the operator.
        broadcasts: The data sets that each part has, by name.
        accumulators: The values that are added to, by name.
        iteration: The round; None outside of iterations.
        key_kinds: The kinds of the keys that came to an operator with two inputs.

    >>> RuntimeContext("map", subtask=1, parallelism=4).subtask
    1
    """

    task: str
    subtask: int = 0
    parallelism: int = 1
    attempt: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    broadcasts: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    iteration: IterationContext | None = None
    key_kinds: KeyKinds = field(default_factory=KeyKinds)

    def broadcast(self, name: str) -> Sequence[Row]:
        """The rows of a broadcast data set.

        Raises:
            PipelineError: The operator has none of that name.

        >>> RuntimeContext("map", broadcasts={"set": [(1,)]}).broadcast("set")
        [(1,)]
        """
        if name not in self.broadcasts:
            raise PipelineError(
                f"the operator has no broadcast data set {name!r}", operator=self.task,
                remedy=f"give it one: with_broadcast_set(data_set, {name!r})",
            )  # fmt: skip
        return self.broadcasts[name]

    def accumulator(self, name: str, start: Any, combine: Callable[[Any, Any], Any] | None = None) -> Accumulator:
        """An accumulator; all who ask for one name get the same one.

        Args:
            name: Its name.
            start: Its value before anything is added, which adds nothing: 0 of a sum.
            combine: From two values to one; by default ``+``.

        Raises:
            PipelineError: There is one of that name whose values are of another type.

        >>> RuntimeContext("map").accumulator("rows", 0).value
        0
        """
        accumulator = self.accumulators.setdefault(name, Accumulator(start, combine) if combine else Accumulator(start))
        if type(accumulator.value) is not type(start):
            types = type(accumulator.value).__name__, type(start).__name__
            raise PipelineError(
                f"the accumulator {name!r} is of the type {types[0]}, and asked for as {types[1]}", operator=self.task,
                remedy="give one of both another name",
            )  # fmt: skip
        return accumulator


@checked_constructor
@dataclass(frozen=True)
class Aggregator:
    """A value that is added up over all parts in each round of an iteration.

    Attributes:
        start: The value before anything is added.
        combine: From two values to one.

    >>> Aggregator(0, max).combine(3, 5)
    5
    """

    start: Any
    combine: Callable[[Any, Any], Any] = lambda first, second: first + second


@dataclass(frozen=True)
class Rounds:
    """How an iteration's rounds are counted and ended.

    Attributes:
        aggregators: By name.
        criterion: The name of an aggregator, and a function of the number of a round and the aggregator's value in it, which says
            whether the iteration ends behind that round.
    """

    aggregators: Mapping[str, Aggregator] = field(default_factory=dict)
    criterion: tuple[str, Callable[[int, Any], bool]] | None = None
