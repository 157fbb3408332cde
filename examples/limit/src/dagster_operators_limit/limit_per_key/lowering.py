"""What does the work of ``limit`` behind ``key_by``, and what the catalog is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.plugins import Catalog, StreamType
from dagster_operators_limit.limit_per_key.logical import LimitPerKey
from dagster_operators_limit.limit_per_key.physical import TakeRowsPerKey


def lower(operator: LimitPerKey, inputs: Sequence[StreamType]) -> TakeRowsPerKey:
    """One operator in the workers, which gets the rows of a subtask in order."""
    time = inputs[0].event_time
    order = sorted(inputs[0].columns or (), key=lambda column: column != time)
    return TakeRowsPerKey(operator.keys, operator.n, tuple(order))


def register(catalog: Catalog) -> None:
    """Tell the catalog: the entry point."""
    catalog.add_operator(
        LimitPerKey,
        lowerings={"limit_per_key": lower},
        keyed_stream={"limit": "dagster_operators_limit.limit_per_key.logical:limit"},
        docs="examples/limit/README.md",
        samples=lambda: [LimitPerKey(name="few", keys=("k",), n=3)],
    )
