"""What is only shown in Dagster: a failure in it is a warning, as the epoch is complete and every retry would fail alike."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


def shown_or(default: T, what: str, make: Callable[[], T]) -> T:
    """What ``make`` gives; the default, and a warning in the log, where it fails.

    >>> shown_or("none", "a preview", lambda: "rows")
    'rows'
    """
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - whatever it is, it may not fail a run behind the decision
        _log.warning("%s is not shown: %s: %s", what, type(error).__name__, error)
        return default
