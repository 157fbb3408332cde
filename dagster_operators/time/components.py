"""The loops of a graph: its strongly connected components, by Tarjan's algorithm without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


def components(graph: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """The strongly connected components in topological order: each before those that can be reached from it.

    Args:
        graph: The successors of each node; successors that are no keys are left out.

    >>> components({1: [2], 2: [3], 3: [2, 4], 4: []})
    [[1], [2, 3], [4]]
    """
    search = _Search(graph)
    for node in reversed(list(graph)):
        if node not in search.number:
            search.visit(node)
    search.found.reverse()
    return search.found


def in_loop(component: Sequence[int], graph: Mapping[int, Iterable[int]]) -> bool:
    """Whether a component is more than one node without an edge to itself.

    >>> in_loop([1], {1: [2]}), in_loop([1], {1: [1]})
    (False, True)
    """
    return len(component) > 1 or component[0] in graph[component[0]]


class _Search:
    """One depth-first search; ``low`` is the least number known to be reached by a node whose component is not found yet."""

    def __init__(self, graph: Mapping[int, Iterable[int]]) -> None:
        self._graph = graph
        self._open: dict[int, None] = {}
        self._low: dict[int, int] = {}
        self.number: dict[int, int] = {}
        self.found: list[list[int]] = []

    def visit(self, root: int) -> None:
        """Find the components of all that can be reached from a node."""
        path = [(root, self._enter(root))]
        while path:
            node, successors = path[-1]
            for after in successors:
                if after not in self.number:
                    path.append((after, self._enter(after)))
                    break
                if after in self._open:
                    self._low[node] = min(self._low[node], self.number[after])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    self._low[before] = min(self._low[before], self._low[node])
                if self._low[node] == self.number[node]:
                    self._close(node)

    def _enter(self, node: int) -> Iterator[int]:
        self.number[node] = self._low[node] = len(self.number)
        self._open[node] = None
        return (after for after in self._graph[node] if after in self._graph)

    def _close(self, first: int) -> None:
        component: list[int] = []
        while not component or component[-1] != first:
            component.append(self._open.popitem()[0])
        self.found.append(component)
