"""Additions to a dataflow of which all take effect, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def all_or_nothing(*take_back: Callable[[], None]) -> Iterator[None]:
    """After an error in it all is what it was when these were made, which take back what came since.

    >>> from dagster_operators.graph.dataflow import Dataflow
    >>> flow = Dataflow("p")
    >>> with all_or_nothing(flow.mark()):
    ...     flow.fresh_name("filter"), 1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> flow.fresh_name("filter")
    'filter'
    """
    try:
        yield
    except BaseException:
        for each in reversed(take_back):
            each()
        raise
