"""Expressions as functions over Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dagster_operators.operators.datasets.expressions.terms import Term


@dataclass(frozen=True)
class SqlColumns:
    """A batch whose columns are computed of another one's.

    Attributes:
        terms: The terms, by the names of the columns.
    """

    terms: tuple[tuple[str, Term], ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch of a batch."""
        return pa.RecordBatch.from_arrays([term.values(batch) for _, term in self.terms], [name for name, _ in self.terms])


@dataclass(frozen=True)
class SqlCondition:
    """The truth value of each row of a batch.

    Attributes:
        term: The condition.
    """

    term: Term

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """The truth values of a batch."""
        return self.term.values(batch)
