"""A pipeline's plan as text, with what the ledger has of its last epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_operators.errors import OperatorsError, number_of
from dagster_operators.planner.explain import explain, has_open_choices
from dagster_operators.runtime.drawn_plans import plans_of_last_epoch
from dagster_operators.runtime.held import held_at_end, kinds_of, told
from dagster_operators.storage.uri import absolute, is_local
from dagster_operators.transactions.ledger_repair import LEDGER

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.optimizer.drawing.drawn import DrawnNode
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete


def explained(
    dataflow: Dataflow,
    root: str,
    epochs: Callable[[], Epochs],
    history: Callable[[], Sequence[Complete]],
    *,
    rules: bool,
    holds: bool,
    rows: bool,
) -> str:
    """The plan as text.

    Args:
        dataflow: The pipeline's graph.
        root: Its storage root.
        epochs: Gives the pipeline's epochs; they open its storage, and are asked for where that is needed alone.
        history: Gives those that are complete.
        rules: Whether the planner's rules are applied.
        holds: Whether to tell which operators held back time.
        rows: Whether to tell how rows lie, and how many there were.
    """
    unknown: list[str] = []
    if has_begun(root) and has_open_choices(dataflow, rules=rules):  # what is recorded is kept
        try:
            epochs().planning.follow()
        except OperatorsError as error:  # the plan as such needs no storage
            unknown.append(f"the ways that operators went in the last epoch are not known: {error.problem}")
    complete = history() if rows else []
    steps = _steps(epochs().coordinator) if complete else {}
    text = explain(dataflow, rules=rules, rows=_rows(complete) if rows else None, steps=steps)
    return "\n".join([text, *unknown, *(_holds(dataflow, history()) if holds else ())])


def has_begun(root: str) -> bool:
    """Whether a storage root may have a ledger; of an object store that is not asked.

    >>> has_begun("nowhere"), has_begun("s3://lake/shop")
    (False, True)
    """
    return not is_local(root) or Path(absolute(root), LEDGER).exists()


def _rows(history: Sequence[Complete]) -> Mapping[str, str]:
    """How many rows the last epoch had of each table and stream, beside those of the epoch before, by which it was planned."""
    if not history:
        return {}
    last, expected = history[-1], history[-2].rows if len(history) > 1 else {}
    return {
        name: f"{number_of(count, 'row')} in epoch {last.epoch}"
        + (f", {expected[name]} estimated, as in the epoch before" if name in expected else "")
        for name, count in last.rows.items()
    }


def _steps(coordinator: Coordinator) -> Mapping[str, Sequence[str]]:
    """The steps of each program of data sets as the last epoch ran them, with the rows that the optimizer estimated."""
    plans = plans_of_last_epoch(coordinator)
    return {name: [line for node in nodes for line in _lines(node, nodes)] for name, nodes in plans.items()}


def _lines(node: DrawnNode, nodes: Sequence[DrawnNode], depth: int = 0) -> Iterator[str]:
    """A step, and those within it, in words."""
    names = {one.number: one.name for outer in nodes for one in outer}
    ways = [
        f"{names.get(edge.source, 'the round before')} by {edge.ship}{f', {edge.local}' if edge.local else ''}"
        for edge in node.edges
    ]
    together = f" of {node.named_so} steps of this name" if node.named_so > 1 else ""
    came = "" if node.actual is None else f"{number_of(node.actual, 'row')}{together}, "
    expected = "an unknown number" if node.estimated is None else f"{node.estimated:.0f}"
    strategy = f" ({node.strategy})" if node.strategy else ""
    source = f" from {' and '.join(ways)}" if ways else ""
    rounds = "" if node.rounds is None else f", {number_of(node.rounds, 'round')}"
    yield f"{'  ' * depth}step {node.name}: {node.kind}{strategy}{source}: {came}{expected} estimated{rounds}"
    for inner in node.within:
        yield from _lines(inner, nodes, depth + 1)


def _holds(dataflow: Dataflow, history: Sequence[Complete]) -> Sequence[str]:
    if not history:
        return ["held: no epoch was run yet"]
    last = history[-1]
    found = told(held_at_end(last), None, last.holders, kinds_of(dataflow))
    return [
        f"held at the end of epoch {last.epoch}{'' if found else ': nothing'}",
        *(f"  {stream}: {time}" for stream, time in found.items()),
    ]
