"""Positions of sources that somebody wrote by hand: no source could go on from a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from dagster_operators.errors import PipelineError, SourceError, StorageError
from dagster_operators.graph.slice import JSON


def check_keys(position: JSON, needed: Mapping[str, type], also: Collection[str] = ()) -> None:
    """See that a position has what it must have, and nothing that is unknown.

    Args:
        position: As it was written.
        needed: What it must have, and of which type each is; ``object`` for any.
        also: What it may have.

    Raises:
        PipelineError: It is none; the remedy says what it must have.

    >>> check_keys({"batches": 2}, {"batches": int})
    >>> check_keys({"batch": 2}, {"batches": int})
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: {'batch': 2} is no position of the source. To do: give a mapping with 'batches' ...
    """
    fits = isinstance(position, dict) and needed.keys() <= position.keys() <= {*needed, *also}
    if not fits or not all(_is_a(position[name], kind) for name, kind in needed.items()):  # type: ignore[index, call-overload]
        parts = ", ".join(f"{name!r}" if kind is object else f"{name!r} ({kind.__name__})" for name, kind in needed.items())
        raise PipelineError(
            f"{position!r} is no position of the source",
            remedy=f"give a mapping with {parts}; or name an epoch, behind which the source is put where it stood then",
        )


def check_reached(position: JSON, part: str, last: Callable[[], int | None], place: str) -> None:
    """See that a position is not behind all that there is, where rows would be missed until it is reached.

    Args:
        position: As it was written.
        part: What counts in it, such as ``epoch``.
        last: Finds the last one there is; None for none yet. What cannot be reached from here is told by the next epoch.
        place: What is read.

    Raises:
        PipelineError: It is; the remedy says what there is.

    >>> check_reached({"epoch": 3}, "epoch", lambda: 1, "shop")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: shop has not come to epoch 3... To do: name one up to 1, the last there is
    """
    asked: Any = position[part] if isinstance(position, dict) else None
    found = None
    with suppress(SourceError, StorageError):
        found = last()
    if found is not None and asked > found:
        raise PipelineError(
            f"{place} has not come to {part} {asked}: rows up to there would be missed",
            remedy=f"name one up to {found}, the last there is",
        )


def _is_a(value: JSON, kind: type) -> bool:
    """A number is a count here: not negative, and neither true nor false."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind)
