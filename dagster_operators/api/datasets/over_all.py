"""What a data set says of its results over all epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.datasets.base import Bag


@dataclass(frozen=True)
class OverAll:
    """How the results of groups are kept over all epochs.

    Attributes:
        appends: Whether rows that came out stay as they are.
        several: Whether a group has several rows.
        kept: The data set whose rows are kept, of which the results are made; None where these are kept themselves.
    """

    appends: bool = False
    several: bool = False
    kept: Bag | None = None


def require_of_epoch(over: OverAll | None, operator: str) -> None:
    """Refuse results over all epochs as an input: in an epoch there are only those of groups that have new rows.

    Args:
        over: How they are kept; None of results of an epoch.
        operator: The operator that gives them.

    Raises:
        PipelineError: They are over all epochs.

    >>> require_of_epoch(None, "Reduce")
    """
    if over is not None:
        raise PipelineError(
            "results over all epochs are read by another operation", operator=operator,
            remedy="write them to a table, to_table('results'), and go on from the data set of that table, which has all of them",
        )  # fmt: skip
