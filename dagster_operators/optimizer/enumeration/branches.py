"""Where readers of one data set come together again: their candidates must agree on how that data set is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Edge, Joiner, Node, Placeholder, Sink, ordered

Open = dict[Node, frozenset[Edge]]
"""Data sets of which readers have not all come together, with the edges to those that have."""


@dataclass
class Branches:
    """What is known of the branches of a program.

    Attributes:
        open: For each operator, those before it that are not closed.
        joined: For each operator, the data sets whose readers come together in it.
        at_once: For each data set with several readers, how many such are open at most where it is.
        breaking: The data sets of which two readers come together: either could wait for the other.
    """

    open: dict[Node, Open] = field(default_factory=dict)
    joined: dict[Node, list[Node]] = field(default_factory=dict)
    at_once: dict[Node, int] = field(default_factory=dict)
    breaking: set[Node] = field(default_factory=set)
    _closed: dict[Node, set[Node]] = field(default_factory=dict)

    @classmethod
    def of(cls, ends: Sequence[Node]) -> Branches:
        """The branches of a program, from its ends."""
        branches = cls()
        entries: dict[Node, Edge] = {}
        nodes = ordered(ends)
        for node in nodes:
            if isinstance(node, BulkIteration):
                entries[node.start] = node.inputs[0]
            elif isinstance(node, DeltaIteration):
                entries[node.start], entries[node.solution] = node.inputs[1], node.inputs[0]
        for node in nodes:
            branches._add(node, entries)
            for branching in branches.open[node]:
                branches.at_once[branching] = max(branches.at_once.get(branching, 1), len(branches.open[node]))
        for start in entries.keys() - branches.open.keys():  # nobody reads it in its round
            branches._add(start, entries)
        return branches

    def _add(self, node: Node, entries: Mapping[Node, Edge]) -> None:
        closed = self._closed.setdefault(node, set())
        if isinstance(node, Placeholder):
            closed |= self._closed[entries[node].source]
            self.open[node] = self._for_reader(entries[node])
            return
        if isinstance(node, BulkIteration):
            (end,) = node.ends_of_round
            closed |= self._closed[end]
            self.open[node] = dict(self.open[end])
            return
        marks = not (isinstance(node, Joiner) and all(isinstance(edge.source, Sink | Joiner) for edge in node.inputs))
        for edge in node.inputs:
            closed |= self._closed[edge.source]
        result: Open = {}
        for edge in node.inputs:
            result = self._merged(node, result, self._for_reader(edge), marks=marks)
        if isinstance(node, DeltaIteration):  # what its inputs share is joined in front of what is in a round
            (end,) = node.ends_of_round
            closed |= self._closed[end]
            result = self._merged(node, result, self.open[end], marks=marks)
        for edge in node.broadcasts.values():
            closed |= self._closed[edge.source]
            result = self._merged(node, result, self._for_reader(edge), marks=marks)
        self.open[node] = result

    def _for_reader(self, edge: Edge) -> Open:
        """What is open behind an edge."""
        source, branches = edge.source, dict(self.open[edge.source])
        if source.is_branching:
            branches[source] = frozenset([edge])
        return branches

    def _merged(self, node: Node, first: Open, second: Open, *, marks: bool) -> Open:
        closed = self._closed[node]
        result: Open = {branching: edges for branching, edges in first.items() if branching not in closed}
        for branching, edges in second.items():
            if branching in closed:
                continue
            joined = result.get(branching)
            if joined is None or joined == edges:
                result[branching] = edges
                continue
            if marks:
                self.breaking.add(branching)
            self.joined.setdefault(node, []).append(branching)
            result[branching] = joined | edges
            if len(result[branching]) == branching.readers:
                closed.add(branching)
                del result[branching]
        return result

    def agree(self, node: Node, first: Candidate, second: Candidate) -> bool:
        """Whether two candidates before an operator take the same of each data set whose readers come together in it."""
        for branching in self.joined.get(node, ()):
            first_choice, second_choice = first.choices.get(branching), second.choices.get(branching)
            if first_choice is not None and second_choice is not None and first_choice is not second_choice:
                return False
        return True

    def choices(self, node: Node, candidates: Iterable[Candidate]) -> dict[Node, Candidate]:
        """Which candidate was taken of each data set that is open behind an operator, from those before it."""
        choices: dict[Node, Candidate] = {}
        for candidate in candidates:
            for branching, taken in candidate.choices.items():
                if branching in self.open[node]:
                    choices.setdefault(branching, taken)
        return choices
