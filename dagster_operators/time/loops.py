"""Loops must advance time: each way around one must bring rows back at a later time, or the loop never ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dagster_operators.errors import PipelineError
from dagster_operators.time.components import components, in_loop
from dagster_operators.time.scopes import nesting, seen_from_outside
from dagster_operators.time.summary import Direction, direction

Links = Mapping[int, Sequence[tuple[int, Any]]]
"""For each location of a graph those directly after it, each with the summary of the way there."""


def check_loops(links: Links, names: Sequence[str]) -> None:
    """Refuse loops that do not advance time.

    A loop is seen from the outermost scope that it passes through: what advances only within a scope further in is lost on
    leaving it. No step of a loop may move time back, not even if the whole loop advances it.

    Args:
        links: The graph.
        names: What each location belongs to, for the message.

    Raises:
        PipelineError: There is such a loop, or a location can be reached by ways through different numbers of scopes.

    >>> check_loops({0: [(1, 0)], 1: [(0, 1)]}, ["body", "feedback"])
    >>> check_loops({0: [(1, 0)], 1: [(0, 0)]}, ["body", "feedback"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the loop through 'body', 'feedback' does not advance time, so it would never end ...
    """
    depths = _depths(links, names)
    graph = {location: [after for after, _ in following] for location, following in links.items()}
    for component in components(graph):
        if in_loop(component, graph):
            _check(component, links, depths, names)


def _check(loop: Sequence[int], links: Links, depths: Mapping[int, int], names: Sequence[str]) -> None:
    inside, outermost = set(loop), min(depths[location] for location in loop)
    staying: dict[int, list[int]] = {location: [] for location in loop}
    for location in loop:
        for after, summary in links[location]:
            if after in inside and direction(summary) is Direction.BACK:
                raise _error(loop, names, f"may move time back at {names[location]!r}")
            if after in inside and direction(seen_from_outside(summary, depths[location] - outermost)) is not Direction.FORWARD:
                staying[location].append(after)
    for part in components(staying):
        if not in_loop(part, staying):
            continue
        if any(depths[location] == outermost for location in part):
            raise _error(part, names, "does not advance time, so it would never end")
        _check(part, links, depths, names)


def _depths(links: Links, names: Sequence[str]) -> dict[int, int]:
    """How many scopes deep each location is, counted from another one that it hangs together with."""
    ways: dict[int, list[tuple[int, int]]] = {location: [] for location in links}
    for location, following in links.items():
        for after, summary in following:
            ways[location].append((after, nesting(summary)))
            ways[after].append((location, -nesting(summary)))
    depths: dict[int, int] = {}
    for start in links:
        waiting = [] if start in depths else [(start, 0)]
        while waiting:
            location, depth = waiting.pop()
            if location not in depths:
                depths[location] = depth
                waiting += [(after, depth + levels) for after, levels in ways[location]]
            elif depths[location] != depth:
                raise PipelineError(
                    f"ways through different numbers of scopes meet at {names[location]!r}", operator=names[location],
                    remedy="leave each scope that was entered before its rows meet those from outside",
                )  # fmt: skip
    return depths


def _error(locations: Iterable[int], names: Sequence[str], problem: str) -> PipelineError:
    through = sorted({names[location] for location in locations})
    return PipelineError(
        f"the loop through {', '.join(map(repr, through))} {problem}", operator=through[0],
        remedy="advance time by its feedback, as with 1 or Product(0, 1)",
    )  # fmt: skip
