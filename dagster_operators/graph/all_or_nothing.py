"""Additions to a dataflow of which all take effect, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from dagster_operators.graph.dataflow import Dataflow


@contextmanager
def all_or_nothing(dataflow: Dataflow) -> Iterator[None]:
    """After an error in it the dataflow is what it was before.

    >>> flow = Dataflow("p")
    >>> with all_or_nothing(flow):
    ...     flow.fresh_name("filter"), 1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> flow.fresh_name("filter")
    'filter'
    """
    before = {name: copy(value) for name, value in vars(dataflow).items()}
    try:
        yield
    except BaseException:
        vars(dataflow).update(before)
        raise
