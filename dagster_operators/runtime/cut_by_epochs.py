"""What epochs did that comes out otherwise where what they read is cut into other epochs.

Rows that were late are in time where an epoch reads them with those before, and keys that were forgotten go on with what they
had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dagster_operators.operators.forgetting_keys import FORGOTTEN_KEYS

if TYPE_CHECKING:
    from dagster_operators.transactions.records import Complete


def late_in(complete: Complete) -> Iterator[str]:
    """The operators for which rows were late in an epoch, of a join its sides: ``joined.left``."""
    return (name for name, rows in complete.late_rows.items() if rows)


def forgetful_in(complete: Complete) -> Iterator[str]:
    """The operators that forgot keys when an epoch ended."""
    return (operator_of(name) for name, keys in complete.metrics.items() if keys and name.endswith(f".{FORGOTTEN_KEYS}"))


def cut_in(epochs: Sequence[Complete]) -> tuple[str, ...]:
    """The operators of some epochs, one after another, whose rows would be others if those were one epoch."""
    late = (operator_of(name) for complete in epochs for name in late_in(complete))
    forgetful = (name for complete in epochs[:-1] for name in forgetful_in(complete))
    return tuple(sorted({*late, *forgetful}))


def operator_of(name: str) -> str:
    """The operator that a figure is of, which may be one of its sides.

    >>> operator_of("joined.left"), operator_of("counts")
    ('joined', 'counts')
    """
    return name.partition(".")[0]
