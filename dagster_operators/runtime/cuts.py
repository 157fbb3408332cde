"""Sources and lookup tables that are read together: all as of one moment of where they lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.slice import JSON
from dagster_operators.runtime.planning import Planning


def one_cut(planning: Planning, names: Iterable[str], positions: Mapping[str, JSON]) -> dict[str, Connector]:
    """The sources and lookup tables that have a cut in common with others or themselves, each as of that cut.

    Args:
        planning: Knows the connectors.
        names: The sources and lookups in use.
        positions: Where the sources stand.
    """
    groups: dict[str, dict[str, Connector]] = defaultdict(dict)
    for name in names:
        connector = planning.connector(name)
        if connector is not None and connector.cut is not None:
            groups[connector.cut][name] = connector
    found: dict[str, Connector] = {}
    for group in groups.values():
        begun = [positions.get(name) for name in group]
        moments = [moment for each in group.values() if (moment := each.cut_at(begun)) is not None]
        # Without a moment nothing is read: what there is by the time that a source is asked, others may not have seen.
        found |= {name: each.as_of(min(moments, default=None)) for name, each in group.items()}
    return found
