"""A pipeline's plan as text, with what the ledger has of its last epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_operators.errors import OperatorsError, number_of
from dagster_operators.planner.explain import explain, has_open_choices
from dagster_operators.runtime.held import held_at_end, kinds_of, told
from dagster_operators.storage.uri import absolute, is_local
from dagster_operators.transactions.ledger_repair import LEDGER

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.runtime.epochs import Epochs
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
    text = explain(dataflow, rules=rules, rows=_rows(history()) if rows else None)
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


def _holds(dataflow: Dataflow, history: Sequence[Complete]) -> Sequence[str]:
    if not history:
        return ["held: no epoch was run yet"]
    last = history[-1]
    found = told(held_at_end(last), None, last.holders, kinds_of(dataflow))
    return [
        f"held at the end of epoch {last.epoch}{'' if found else ': nothing'}",
        *(f"  {stream}: {time}" for stream, time in found.items()),
    ]
