"""What does the work of ``sample``, and what the catalog is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.plugins import Catalog, StreamType
from dagster_operators_limit.sample.logical import ALL, Sample
from dagster_operators_limit.sample.physical import KeepRows


def lower(operator: Sample, inputs: Sequence[StreamType]) -> KeepRows | tuple[()]:  # noqa: ARG001 - other operators need the types
    """A condition; nothing where all rows stay."""
    return KeepRows(operator.condition) if operator.percent < ALL else ()


def register(catalog: Catalog) -> None:
    """Tell the catalog: the entry point."""
    catalog.add_operator(
        Sample,
        lowerings={"sample": lower},
        stream={"sample": "dagster_operators_limit.sample.logical:sample"},
        docs="examples/limit/README.md",
        samples=lambda: [Sample(name="some", by=("k",), percent=10.0)],
    )
