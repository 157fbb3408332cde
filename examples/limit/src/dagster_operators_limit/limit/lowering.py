"""What does the work of ``limit``, and what the catalog is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.plugins import Catalog, StreamType
from dagster_operators_limit.limit.logical import Limit
from dagster_operators_limit.limit.physical import TakeRows


def lower(operator: Limit, inputs: Sequence[StreamType]) -> TakeRows:
    """One relational operator."""
    return TakeRows(operator.name, operator.n, inputs[0].event_time)


def register(catalog: Catalog) -> None:
    """Tell the catalog: the entry point."""
    catalog.add_operator(
        Limit,
        lowerings={"limit": lower},
        stream={"limit": "dagster_operators_limit.limit.logical:limit"},
        docs="examples/limit/README.md",
        samples=lambda: [Limit(name="few", n=3)],
    )
