"""Drives a frontier operator over rows with times of small whole numbers, however they are cut into epochs."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import count

from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK

_ZERO = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone
_MICROSECOND = timedelta(microseconds=1)

CUTS = [(1, 1), (3, 1), (1, 7), (3, 7), (1, None), (3, None)]
"""Parallelism, and how many rows an epoch has; all if None."""


def run(operator, schema, *inputs, parallelism=1, size=None, restart=None, port="main"):
    """What comes out, as pairs of a time and its rows, sorted.

    Args:
        operator: The definition.
        schema: The columns of each input without the time ``t``.
        inputs: For each input its rows, as pairs of a time and a dictionary.
        parallelism: The number of subtasks.
        size: How many rows of each input an epoch has.
        restart: The parallelism to go on with from the middle on, in a new harness.
        port: Which output is asked for.
    """
    columns = f"{schema}, t timestamp_ntz"
    harness = OperatorHarness(operator, *[columns] * len(inputs), event_time="t", parallelism=parallelism)
    found = defaultdict(list)
    epochs = list(_epochs(inputs, size))
    for number, (parts, marks) in enumerate(epochs):
        if restart is not None and number == len(epochs) // 2:
            before, harness = harness, OperatorHarness(operator, *[columns] * len(inputs), event_time="t", parallelism=restart)
            harness.restore(before.snapshot(), parallelism=restart)
        frontier = harness.frontier(port)
        for index, rows in enumerate(parts):
            harness.process([{**row, "t": time} for time, row in rows], index)
        for index, mark in enumerate(marks):
            harness.move(mark, index)
        harness.end_epoch()
        assert frontier.dominates(harness.frontier(port)), "a frontier went back"
        for row in harness.rows(port):
            time = (row.pop("t") - _ZERO) // _MICROSECOND
            assert frontier.less_equal(time), "a row came behind its frontier"
            found[time].append(row)
    return {time: sorted(rows, key=repr) for time, rows in sorted(found.items())}


def _epochs(inputs, size):
    """The parts of each input, and how far it has come behind them: to the least time that still comes."""
    for number in count():
        parts = [rows if size is None else rows[number * size : (number + 1) * size] for rows in inputs]
        left = [[] if size is None else rows[(number + 1) * size :] for rows in inputs]
        yield parts, [min((time for time, _ in rows), default=MAX_WATERMARK) for rows in left]
        if not any(left):
            return
