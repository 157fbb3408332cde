"""All that operators of data sets are made of, for packages that bring their own: ``do.data_sets``.

An operator has a strategy, a driver that does its work, a cost, a descriptor, and an operation that makes its node.
``docs/data_set_operators.md`` shows one from beginning to end.
"""

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.data_set import CustomUnaryOperation, DataSet
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.api.datasets.rows_at_hand import from_collection
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.operators.datasets.context import Accumulator, Aggregator, IterationContext, RichFunction, RuntimeContext
from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, TaskContext, Work, driver_for
from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.costs import NO_COSTS, Costs, cost_of
from dagster_operators.optimizer.descriptors import BinaryDescriptor, UnaryDescriptor
from dagster_operators.optimizer.estimates import UNKNOWN, Estimate, Hints
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.distribution import Distribution, Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.properties.local_order import LocalOrder, RequiredOrder
from dagster_operators.optimizer.properties.ordering import Direction, Ordering
from dagster_operators.optimizer.strategies import Dam, DriverStrategy, driver, driver_named

__all__ = [
    "NO_COSTS",
    "UNKNOWN",
    "Accumulator",
    "Aggregator",
    "ArrowFunction",
    "Bag",
    "BinaryDescriptor",
    "Candidate",
    "ChainedDriver",
    "Channel",
    "Costs",
    "CustomUnaryOperation",
    "Dam",
    "DataSet",
    "Direction",
    "Distribution",
    "Driver",
    "DriverStrategy",
    "Estimate",
    "Forwarding",
    "Hints",
    "IterationContext",
    "LocalOrder",
    "LocalProgram",
    "Node",
    "Operation",
    "Ordering",
    "Partitioning",
    "RequiredDistribution",
    "RequiredOrder",
    "RichFunction",
    "RuntimeContext",
    "TaskContext",
    "Translation",
    "UnaryDescriptor",
    "Work",
    "cost_of",
    "driver",
    "driver_for",
    "driver_named",
    "from_collection",
]
