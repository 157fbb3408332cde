"""The plan that a program of data sets ran by, with the rows that there were: kept with the epoch, to be drawn."""

from __future__ import annotations

import logging
from typing import Final

from dagster_operators.operators.datasets.running.fragment_runs import Results
from dagster_operators.optimizer.drawing.drawn import drawn_plan, to_json
from dagster_operators.optimizer.planning import OptimizedPlan

LARGEST: Final = 100_000
"""Characters: a longer plan is not kept, as each epoch would write it; it has some 500 operators."""

_log = logging.getLogger(__name__)


def drawn_of(plan: OptimizedPlan, results: Results) -> str:
    """The plan as text; empty where there is none to keep.

    Args:
        plan: The plan.
        results: What its run came to.
    """
    try:
        rows = {**results.rows, **{name: sum(chunk.rows for chunk in chunks) for name, chunks in results.sinks.items()}}
        ways: dict[str, list[str]] = {}
        for name, way in sorted(results.ways):
            ways.setdefault(name, []).append(way)
        shown = {name: " and ".join(several) for name, several in ways.items()}
        text = to_json(drawn_plan(plan, rows, results.supersteps, shown))
    except Exception as error:  # noqa: BLE001 - the rows are there: no epoch fails for a picture
        _log.warning("the plan of the epoch is not kept for a picture: %s: %s", type(error).__name__, error)
        return ""
    return text if len(text) <= LARGEST else ""
