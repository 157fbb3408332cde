"""Figures about rows that are taken while the rows are being written anyway: largest event time, late rows, failed checks.

On Apache Spark they ride along as observed metrics; on an engine without those (Sail), or where the optimizer removed the
observed node together with the rows, they are computed by a query of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_PATIENCE = 5.0
"""Seconds that a finished query's metrics may take to arrive before they are computed again."""


@dataclass
class _Watched:
    frame: DataFrame
    expressions: Mapping[str, str]
    observation: Observation | None
    values: dict[str, Any] | None = None
    ran: bool = False


class Observed:
    """The figures of one attempt at a stage.

    Args:
        engine: The engine's kind; Sail has no observed metrics.
    """

    def __init__(self, engine: str) -> None:
        self._rides_along = engine != "sail"
        self._watched: dict[str, _Watched] = {}

    def watch(self, name: str, frame: DataFrame, expressions: Mapping[str, str]) -> DataFrame:
        """The same rows; aggregates of them will be there under the name once they have been computed."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        if not self._rides_along:
            self._watched[name] = _Watched(frame, expressions, None)
            return frame
        observation = Observation()
        self._watched[name] = _Watched(frame, expressions, observation)
        return frame.observe(observation, *(F.expr(text).alias(key) for key, text in expressions.items()))

    def ran(self) -> None:
        """Tell that a query over everything watched so far has finished."""
        for watched in self._watched.values():
            watched.ran = True

    def names(self) -> list[str]:
        """What is being watched."""
        return list(self._watched)

    def brought_along(self, name: str) -> dict[str, Any] | None:
        """The figures under a name if a query over the rows has brought them along; None if they would take one of their own."""
        watched = self._watched.get(name)
        if watched is None:
            return None
        if watched.values is None and watched.ran and watched.observation is not None:
            watched.values = _arrived(watched.observation, watched.expressions)
        return watched.values

    def values(self, name: str) -> dict[str, Any]:
        """The figures under a name, by a query of their own if no query has brought them along."""
        watched = self._watched[name]
        if self.brought_along(name) is None:
            texts = [f"{text} AS `{key}`" for key, text in watched.expressions.items()]
            watched.values = watched.frame.selectExpr(*texts).collect()[0].asDict()
        return watched.values or {}


def _arrived(observation: Observation, expressions: Mapping[str, str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}

    def wait() -> None:
        try:
            found.update(observation.get)
        except Exception:  # noqa: BLE001 - Spark raises an assertion of its own when the observed node was optimised away
            found.clear()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(_PATIENCE)
    return dict(found) if set(found) == set(expressions) else None
