"""Lookup tables as they are when an epoch begins."""

from __future__ import annotations

from collections.abc import Mapping

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import located
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.runtime.planning import Planning


def pinned(planning: Planning, cuts: Mapping[str, Connector] | None = None) -> dict[str, SourceSlice]:
    """All of each lookup table of a plan, as it is now, looked over; those of ``cuts`` as of these."""
    schemas, found = planning.input_schemas(), dict[str, SourceSlice]()
    for name in planning.plan().lookups:
        connector = (cuts or {}).get(name) or planning.connector(name)
        if connector is not None:
            with located(operator=name):
                pin = connector.pin()
                connector.verify(pin, schemas[name])
                pin = connector.pin_with_content(pin)
            found[name] = SourceSlice(None, None, pin)
    return found
