"""Frontiers that follow changes of what is held, one by one: for operators that run side by side within an epoch."""

from __future__ import annotations

from dagster_operators.time.change_batch import ChangeBatch
from dagster_operators.time.mutable_antichain import MutableAntichain
from dagster_operators.time.reachability import Location, Reachability
from dagster_operators.time.timestamp import Time


class Tracker:
    """Counts of times held at the locations of a graph, and how the frontiers change with them.

    (It is the ``Tracker`` of timely dataflow. This one finds all frontiers anew.)

    Args:
        graph: The graph.

    >>> from dagster_operators.time import InputOf, OutputOf
    >>> tracker = Tracker(Reachability({}, [(OutputOf("a"), InputOf("b"))]))
    >>> tracker.update(OutputOf("a"), 17, 1)
    >>> [change for change in tracker.propagate() if change[0] == InputOf("b")]
    [(InputOf(node='b', port=0), 17, 1)]
    """

    def __init__(self, graph: Reachability) -> None:
        self._graph = graph
        self._held: dict[Location, MutableAntichain] = {}
        self._frontiers = graph.frontiers({})

    def update(self, location: Location, time: Time, difference: int) -> None:
        """Change how often a time is held at a location; nothing follows from it before :meth:`propagate`."""
        self._held.setdefault(location, MutableAntichain()).update([(time, difference)])

    def propagate(self) -> list[tuple[Location, Time, int]]:
        """The changes of all frontiers since the last call: the times that left that of a location, as -1, or entered it, as +1.

        >>> Tracker(Reachability({}, [])).propagate()
        []
        """
        before, self._frontiers = (
            self._frontiers,
            self._graph.frontiers({location: times.frontier() for location, times in self._held.items()}),
        )
        changes: list[tuple[Location, Time, int]] = []
        for location, frontier in self._frontiers.items():
            if frontier != before[location]:
                batch = ChangeBatch([*((time, -1) for time in before[location]), *((time, 1) for time in frontier)])
                changes.extend((location, time, difference) for time, difference in batch)
        return changes
