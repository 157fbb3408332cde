"""What a driver is, what it knows of its task, and which driver belongs to a strategy.

A package from outside registers its own with :func:`driver_for`, for a strategy of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.columns.column_rows import RowLayout
from dagster_operators.operators.datasets.columns.column_work import ColumnWork
from dagster_operators.operators.datasets.context import RuntimeContext
from dagster_operators.operators.datasets.prepared import rows_at_hand
from dagster_operators.operators.datasets.rows import Row, snapshot
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy

Collect: TypeAlias = Callable[[Row], None]
"""Takes a row on its way out."""


@dataclass(frozen=True)
class Work:
    """What an operator does to rows, whatever strategy does it.

    Attributes:
        function: The user's function; None for an operator that only moves or sorts rows.
        combine: What combines rows of a group before they move, of a function of groups.
        keys: The key; of an operator with two inputs, that of the first.
        second_keys: The key of the second input.
        within: The order of the rows of a group, which a combiner needs, too.
        several: Whether a function of single rows gives any number of rows each time, instead of one.
        condition: Whether the function says if a row is kept, as a filter's does.
        keeps_first: Whether rows of the first input without a partner are there, of a join.
        keeps_second: Whether those of the second are.
        declares_forwarded: Whether the user says of the function which fields it forwards.
        columns: The same work on columns, where it needs no function of the user's.
        layout: The layout of the rows that come out, as far as the plan knows it.
    """

    function: Callable[..., Any] | None = None
    combine: Callable[..., Any] | None = None
    keys: Fields = ()
    second_keys: Fields = ()
    within: Ordering | None = None
    several: bool = False
    condition: bool = False
    keeps_first: bool = False
    keeps_second: bool = False
    declares_forwarded: bool = False
    columns: ColumnWork | None = None
    layout: RowLayout | None = None


@dataclass
class TaskContext:
    """What a driver knows of the task that it is in.

    Attributes:
        work: What is to be done.
        inputs: The rows of each input, moved and sorted as the plan says.
        collect: Takes what comes out.
        runtime: What the user's function knows.
    """

    work: Work
    inputs: tuple[Iterable[Row], ...]
    collect: Collect
    runtime: RuntimeContext = field(default_factory=lambda: RuntimeContext("task"))

    @property
    def function(self) -> Callable[..., Any]:
        """The user's function.

        Raises:
            PipelineError: The operator has none.
        """
        if self.work.function is None:
            raise PipelineError("the operator has no function", operator=self.runtime.task, remedy="give it one")
        return self.work.function


class Driver(ABC):
    """Does an operator's work on the rows of a part. Each method is called once, in this order; ``cleanup`` always."""

    context: TaskContext
    is_cancelled: bool = False

    def setup(self, context: TaskContext) -> None:
        """Take the task's context."""
        self.context = context

    def prepare(self) -> None:  # noqa: B027 - not every driver needs it
        """Do what comes before the first row, such as building a table; the user's function is not open yet."""

    @abstractmethod
    def run(self) -> None:
        """Read the inputs, and collect what comes out."""

    def cleanup(self) -> None:  # noqa: B027 - not every driver needs it
        """Give back what was taken; called after a failure, too."""

    def cancel(self) -> None:
        """Called from another thread: ``run`` is to end soon, and what it collected is thrown away."""
        self.is_cancelled = True

    def rows(self, number: int = 0) -> Iterable[Row]:
        """The rows of an input, until the task is cancelled."""
        for row in rows_at_hand(self.context.inputs[number]):
            if self.is_cancelled:
                return
            yield snapshot(row)  # others may read it, too, and a function may change it


class ChainedDriver(ABC):
    """Does an operator's work behind another one, in the same task, on each row as it comes."""

    comes_last: ClassVar[bool] = False
    """Whether rows come out as it is closed, as those of a combiner."""

    def setup(self, context: TaskContext) -> None:
        """Take the task's context, which has no inputs."""
        self.context = context

    @abstractmethod
    def collect(self, row: Row) -> None:
        """Take a row."""

    def finish(self) -> None:  # noqa: B027 - not every driver needs it
        """There are no more rows: put out what is left."""


_DRIVERS: dict[str, tuple[type[Driver], type[ChainedDriver] | None]] = {}


def driver_for(strategy: DriverStrategy, driver: type[Driver], chained: type[ChainedDriver] | None = None) -> None:
    """Register what does an operator's work by a strategy.

    Args:
        strategy: The strategy.
        driver: What does it in a task of its own.
        chained: What does it behind another driver.

    Raises:
        PipelineError: The strategy has a driver already, or says that it is chained, and none is given.
    """
    if strategy.chained != (chained is not None):
        said = (
            "is chained, and there is no chained driver" if strategy.chained else "is not chained, and there is a chained driver"
        )
        raise PipelineError(
            f"the strategy {strategy.name!r} {said}", remedy="give both: chained=True to the strategy, and a chained driver here"
        )
    if _DRIVERS.setdefault(strategy.name, (driver, chained)) != (driver, chained):
        raise PipelineError(f"the strategy {strategy.name!r} has another driver", remedy="register a strategy of your own")


def drivers_of(strategy: DriverStrategy) -> tuple[type[Driver], type[ChainedDriver] | None]:
    """What does an operator's work by a strategy: in a task of its own, and behind another driver.

    Raises:
        PipelineError: Nothing is registered for it.

    >>> from dagster_operators.optimizer.strategies import DriverStrategy
    >>> drivers_of(DriverStrategy("NOT_REGISTERED"))
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the strategy 'NOT_REGISTERED' has no driver. To do: register it: \
driver_for(strategy, MyDriver)
    """
    if strategy.name not in _DRIVERS:
        raise PipelineError(f"the strategy {strategy.name!r} has no driver", remedy="register it: driver_for(strategy, MyDriver)")
    return _DRIVERS[strategy.name]


def drivers_as_sent(sent: Mapping[str, tuple[type[Driver], type[ChainedDriver] | None]]) -> None:
    """Take the drivers that came with a program, in a process that has not imported the modules that register them.

    Args:
        sent: The driver of each strategy, and that behind another driver, by the strategy's name.
    """
    _DRIVERS.update(sent)
