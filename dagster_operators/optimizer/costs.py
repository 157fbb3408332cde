"""What a plan costs: bytes on the network, bytes on the disk, and work of the processor.

Each is known, or unknown. Beside it a heuristic number is always known, which is compared where one of two plans is unknown.
The numbers are those of Flink's cost estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.strategies import DriverStrategy, Ship, Temp

if TYPE_CHECKING:
    from dagster_operators.optimizer.candidates import Channel

_BASE: Final = 1e9
"""The heuristic cost of moving a data set once."""
_KEEPING, _HASHING, _SORTING = 1.0, 4.0, 9.0
"""The work of the processor for each byte."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a plan, or of a part of it.

    Attributes:
        network: Bytes that are sent; None if unknown.
        disk: Bytes that are written and read.
        processor: Work, in bytes that are looked at once.
        heuristics: The same three where nothing is known of sizes.

    >>> (Costs(1.0) + Costs(None)).network is None
    True
    """

    network: float | None = 0.0
    disk: float | None = 0.0
    processor: float | None = 0.0
    heuristics: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def parts(self) -> tuple[float | None, float | None, float | None]:
        """Network, disk and processor."""
        return (self.network, self.disk, self.processor)

    def __add__(self, other: Costs) -> Costs:
        # Written out: an optimization adds hundreds of thousands of costs.
        mine, its = self.heuristics, other.heuristics
        return Costs(
            None if self.network is None or other.network is None else self.network + other.network,
            None if self.disk is None or other.disk is None else self.disk + other.disk,
            None if self.processor is None or other.processor is None else self.processor + other.processor,
            (mine[0] + its[0], mine[1] + its[1], mine[2] + its[2]),
        )

    def __mul__(self, factor: float) -> Costs:
        first, second, third = self.heuristics
        return Costs(
            None if self.network is None else self.network * factor,
            None if self.disk is None else self.disk * factor,
            None if self.processor is None else self.processor * factor,
            (first * factor, second * factor, third * factor),
        )

    def is_less(self, other: Costs) -> bool:
        """Whether this is the cheaper one: by the network, else by the disk, else by the processor.

        A number that is unknown on one side is compared by the heuristics on both.

        >>> Costs(1.0, 9.0).is_less(Costs(2.0)), Costs(None, heuristics=(2.0, 0.0, 0.0)).is_less(Costs(1.0))
        (True, False)
        """
        for part, its_part, guess, its_guess in zip(self.parts, other.parts, self.heuristics, other.heuristics, strict=True):
            number, its_number = (guess, its_guess) if part is None or its_part is None else (part, its_part)
            if number != its_number:
                return number < its_number
        return False


NO_COSTS: Final = Costs()


def of_ship(ship: Ship, estimate: Estimate, receivers: int = 1) -> Costs:
    """The cost of moving rows.

    Args:
        ship: How they move.
        estimate: The rows that are sent, copies included.
        receivers: How many parts get a copy, of a broadcast.

    >>> of_ship(Ship.HASH, Estimate(100)).network, of_ship(Ship.FORWARD, Estimate(100)).network
    (100, 0.0)
    """
    size = estimate.size or None
    if ship is Ship.FORWARD:
        return NO_COSTS
    if ship is Ship.RANGE:
        sampled = _BASE * 0.1
        return Costs(None if size is None else size + int(size * 0.1), heuristics=(_BASE + sampled, 2 * sampled, 0.0))
    if ship is Ship.BROADCAST:
        return Costs(None if size is None else size * receivers, heuristics=(_BASE * 10 * receivers, 0.0, 0.0))
    return Costs(size, heuristics=(_BASE, 0.0, 0.0))


def of_sort(estimate: Estimate) -> Costs:
    """The cost of sorting the rows of a part."""
    size, guess = estimate.size, (0.0, 2 * _BASE, _BASE * _SORTING)
    return Costs(0.0, 2 * size, size * _SORTING, guess) if size else Costs(0.0, None, None, guess)


def of_channel(channel: Channel) -> Costs:
    """The cost of getting rows into an operator: of moving, sorting and keeping them, as often as rounds are expected."""
    estimate = channel.estimate
    costs = of_ship(channel.ship, estimate, channel.replication)
    if channel.local.dams:
        costs += of_sort(estimate)
    if channel.temp is not Temp.NONE:
        keeping = Costs(0.0, 2 * estimate.size, 0.0) if estimate.size else Costs(0.0, None, None)
        costs += keeping + Costs(heuristics=(0.0, 2 * _BASE, _BASE * _KEEPING))
        if estimate.size:  # Flink's estimator counts the keeping in place of the sorting
            costs = Costs(costs.network, costs.disk, estimate.size * _KEEPING, costs.heuristics)
    return costs * channel.weight if channel.is_dynamic else costs


DriverCost = Callable[["tuple[Channel, ...]", int], Costs]
"""From an operator's inputs, and the number of rounds that are expected, to the cost of its driver."""

_OF_DRIVERS: dict[str, DriverCost] = {}


def cost_of(strategy: DriverStrategy, cost: DriverCost) -> None:
    """Register the cost of a driver strategy.

    Raises:
        PipelineError: Another cost is registered for it.

    >>> example = strategies.driver(DriverStrategy("EXAMPLE_SAMPLE"))
    >>> cost_of(example, lambda inputs, weight: Costs())
    """
    if _OF_DRIVERS.setdefault(strategy.name, cost) is not cost:
        raise PipelineError(
            f"the driver strategy {strategy.name!r} has a cost already", remedy="register a strategy with a name of its own"
        )


def of_driver(strategy: DriverStrategy, inputs: tuple[Channel, ...], weight: int) -> Costs:
    """The cost of a driver.

    Args:
        strategy: The driver's.
        inputs: What it reads.
        weight: How many rounds are expected; 1 outside of iterations.

    Raises:
        PipelineError: No cost is registered for it.

    >>> of_driver(strategies.driver(DriverStrategy("EXAMPLE_WITHOUT_COST")), (), 1)
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the driver strategy 'EXAMPLE_WITHOUT_COST' has no cost. To do: register one: \
cost_of(strategy, lambda inputs, weight: Costs(...))
    """
    cost = _OF_DRIVERS.get(strategy.name)
    if cost is None:
        raise PipelineError(
            f"the driver strategy {strategy.name!r} has no cost",
            remedy="register one: cost_of(strategy, lambda inputs, weight: Costs(...))",
        )
    return cost(inputs, weight)


def _nothing(inputs: tuple[Channel, ...], weight: int) -> Costs:  # noqa: ARG001 - others need them
    return NO_COSTS


def _hash_join(build: int) -> DriverCost:
    def cost(inputs: tuple[Channel, ...], weight: int) -> Costs:
        built, probed = inputs[build].estimate.size, inputs[1 - build].estimate.size
        guess = (0.0, 2 * _BASE, 2 * _BASE * _HASHING)
        if not built or not probed:
            return Costs(0.0, None, None, guess) * weight
        return Costs(0.0, 2 * built + probed, (2 * built + probed) * _HASHING, guess) * weight

    return cost


def _cached_hash_join(build: int) -> DriverCost:
    def cost(inputs: tuple[Channel, ...], weight: int) -> Costs:
        built, probed = inputs[build].estimate.size, inputs[1 - build].estimate.size
        guess = (0.0, (1 + weight) * _BASE, (1 + weight) * _BASE * _HASHING)
        if not built or not probed:
            return Costs(0.0, None, None, guess)
        overall = 2 * built + weight * probed
        return Costs(0.0, overall, overall * _HASHING, guess)

    return cost


def _blocked_loops(outer: int) -> DriverCost:
    def cost(inputs: tuple[Channel, ...], weight: int) -> Costs:
        outside, inside = inputs[outer].estimate.size, inputs[1 - outer].estimate.size
        guess = (0.0, _BASE * 1000, _BASE * 1000 * _KEEPING)
        if not outside or not inside:
            return Costs(0.0, None, None, guess) * weight
        return Costs(0.0, inside, inside * _KEEPING, guess) * weight

    return cost


def _streamed_loops(outer: int) -> DriverCost:
    def cost(inputs: tuple[Channel, ...], weight: int) -> Costs:
        rows, inside = inputs[outer].estimate.rows, inputs[1 - outer].estimate.size
        guess = (0.0, _BASE * 100000, _BASE * 100000 * _KEEPING)
        if rows is None or not inside:
            return Costs(0.0, None, None, guess) * weight
        return Costs(0.0, rows * inside, rows * inside * _KEEPING, guess) * weight

    return cost


for _strategy in (
    strategies.NO_DRIVER, strategies.NO_OP, strategies.BINARY_NO_OP, strategies.MAP, strategies.MAP_PARTITION,
    strategies.FLAT_MAP, strategies.ALL_REDUCE, strategies.ALL_GROUP_REDUCE, strategies.ALL_GROUP_REDUCE_COMBINE,
    strategies.ALL_GROUP_COMBINE, strategies.SORTED_REDUCE, strategies.SORTED_PARTIAL_REDUCE, strategies.HASHED_PARTIAL_REDUCE,
    strategies.SORTED_GROUP_REDUCE, strategies.SORTED_GROUP_COMBINE, strategies.CO_GROUP, strategies.UNION,
    strategies.UNION_WITH_CACHED, strategies.MERGE, strategies.LEFT_OUTER_MERGE, strategies.RIGHT_OUTER_MERGE,
    strategies.FULL_OUTER_MERGE,
):  # fmt: skip
    cost_of(_strategy, _nothing)
for _build, _several in enumerate((
    (strategies.HYBRID_HASH_FIRST, strategies.LEFT_HASH_FIRST, strategies.RIGHT_HASH_FIRST, strategies.FULL_HASH_FIRST),
    (strategies.HYBRID_HASH_SECOND, strategies.LEFT_HASH_SECOND, strategies.RIGHT_HASH_SECOND, strategies.FULL_HASH_SECOND),
)):  # fmt: skip
    for _strategy in _several:
        cost_of(_strategy, _hash_join(_build))
for _outer, (_cached, _blocked, _streamed) in enumerate((
    (strategies.CACHED_HASH_FIRST, strategies.BLOCKED_LOOPS_FIRST, strategies.STREAMED_LOOPS_FIRST),
    (strategies.CACHED_HASH_SECOND, strategies.BLOCKED_LOOPS_SECOND, strategies.STREAMED_LOOPS_SECOND),
)):  # fmt: skip
    cost_of(_cached, _cached_hash_join(_outer))
    cost_of(_blocked, _blocked_loops(_outer))
    cost_of(_streamed, _streamed_loops(_outer))
