"""Which airports hang together: the connected components of every airline's routes, kept up to date as flights come in.

An airline's routes from New York are a graph. Two airports are in one component if that airline alone gets one from one to
the other; the network ``ALL`` is of all airlines together. A component is called by the first of its airports. What changes is
worked out from the routes that are new in an epoch: their labels go around in a loop until they change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import dagster_operators as do
from jobs.feed import FLIGHTS_SCHEMA

ALL = "ALL"
_ROUTE = "network string, origin string, dest string"
_LABEL = "network string, airport string, component string"
_BY_NETWORK = do.frontier.Exchange("network")


def build(folder: Path, *, files_per_epoch: int | None = 1, parallelism: int | None = None) -> do.Pipeline:
    """The pipeline below a folder: input in ``landing``, tables in ``networks``.

    Args:
        folder: Where everything lies.
        files_per_epoch: How many daily files an epoch takes; None for all there are.
        parallelism: How many subtasks there are; by default as the engine has it.
    """
    pipeline = do.Pipeline("networks", root=str(folder / "networks"), parallelism=parallelism)
    landing = do.FileSource(str(folder / "landing"), format="csv", schema=FLIGHTS_SCHEMA, max_files=files_per_epoch)
    flights = pipeline.source("landed_flights", landing, event_time="sched_dep", lateness="1 hour")
    by_airline = flights.select("carrier AS network", "origin", "dest", "sched_dep", name="of_airlines")
    together = flights.select(f"'{ALL}' AS network", "origin", "dest", "sched_dep", name="of_all")
    routes = by_airline.union(together, name="routes").key_by("network", "origin", "dest").deduplicate(name="new_routes")
    components(pipeline, routes).key_by("network", "airport").aggregate(component="min(component)", name="components").to_table(
        "components", description="The component of every airport in each airline's network, by the first of its airports"
    )
    return pipeline


def components(pipeline: do.Pipeline, routes: do.Stream) -> do.Stream:
    """Every change of an airport's component that routes bring about; components only ever get an earlier name.

    Args:
        pipeline: The pipeline.
        routes: ``network``, ``origin``, ``dest``, and an event time.
    """
    scope = do.frontier.Scope("spreading", pipeline, iterative=True)
    handle, cycle = scope.loop_variable(1)
    state = {
        "edges": do.KeyedState(_ROUTE, key=["network", "origin", "dest"]),
        "labels": do.KeyedState(_LABEL, key=["network", "airport"]),
    }
    entered = scope.enter(routes, _BY_NETWORK)
    changes = entered.binary_frontier(cycle, _BY_NETWORK, _BY_NETWORK, "label", label, schema=_LABEL, state=state)
    handle.connect(changes)
    scope.leave(changes)
    found: do.Stream = scope.build()
    return found


def label(_capability: Any, info: Any) -> Callable[..., None]:
    """The logic: a new route joins two components, and whoever got an earlier name tells its neighbours in the next round."""
    known = _Networks(info.state["edges"].scan().to_pylist(), info.state["labels"].scan().to_pylist())

    def logic(routes: Any, changed: Any, output: Any) -> None:
        for time, batch in routes:
            fresh = known.add(batch.select(["network", "origin", "dest"]).to_pylist())
            if fresh:
                info.state["edges"].put(pa.Table.from_pylist(fresh))
            _put(output, time, info, known.join(fresh))
        for time, batch in changed:
            _put(output, time, info, known.tell(batch.to_pylist()))

    return logic


def _put(output: Any, time: Any, info: Any, changes: Iterable[tuple[str, str, str]]) -> None:
    names = ("network", "airport", "component")
    newest = {change[:2]: change for change in changes}
    if newest:
        rows = pa.Table.from_pylist([dict(zip(names, change, strict=True)) for change in newest.values()])
        info.state["labels"].put(rows)
        output.session(time).give_batch(rows)


class _Networks:
    """The networks of a subtask: each airport's neighbours and component."""

    def __init__(self, edges: Iterable[dict[str, str]], labels: Iterable[dict[str, str]]) -> None:
        self._neighbours: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._labels = {(row["network"], row["airport"]): row["component"] for row in labels}
        self.add(edges)

    def add(self, edges: Iterable[dict[str, str]]) -> list[dict[str, str]]:
        """Add edges; those that were not known."""
        fresh = []
        for edge in edges:
            network, one, other = edge["network"], edge["origin"], edge["dest"]
            if other not in self._neighbours[network, one]:
                self._neighbours[network, one].add(other)
                self._neighbours[network, other].add(one)
                fresh.append(edge)
        return fresh

    def join(self, edges: Iterable[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
        """Give both ends of new edges the earlier of their names; what changed by that."""
        for edge in edges:
            network, ends = edge["network"], (edge["origin"], edge["dest"])
            first = min(self._labels.get((network, end), end) for end in ends)
            yield from (change for end in ends if (change := self._label(network, end, first)))

    def tell(self, changed: Iterable[dict[str, str]]) -> Iterator[tuple[str, str, str]]:
        """Give the neighbours of airports that changed their name, if it is earlier; what changed by that."""
        for row in changed:
            network, name = row["network"], row["component"]
            for neighbour in sorted(self._neighbours[network, row["airport"]]):
                if change := self._label(network, neighbour, name):
                    yield change

    def _label(self, network: str, airport: str, name: str) -> tuple[str, str, str] | None:
        before = self._labels.get((network, airport))
        if before is not None and before <= name:
            return None
        self._labels[network, airport] = name
        return network, airport, name
