"""Types of rows that follow from those of other data sets than an operation's inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_operators.api.datasets.row_types import Types

if TYPE_CHECKING:
    from dagster_operators.api.datasets.base import Bag


@dataclass(frozen=True)
class TypedBy:
    """The types of rows that follow from those of other data sets than the operation's inputs.

    Attributes:
        bags: The data sets.
        rule: The types, of the fields of each of the data sets.
    """

    bags: tuple[Bag, ...]
    rule: Callable[..., Types]


def same_as(data_set: Bag) -> TypedBy:
    """The types of the fields of a data set."""
    return TypedBy((data_set,), lambda row: row.types)
