"""Tests on embedded Spark that fail since it stopped by itself are run once more, and that is told with the reason.

One thread of Spark's that fails stops all of it, and with it every further test: seen once in hundreds of runs, most likely as
the 48 MB that Java had for compiled code were full (tests/engines.py). No test does that to the Spark that all share, so one that
does would fail again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol

from dagster_operators.runtime import engine
from tests.engines import CONNECT, EMBEDDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that asks for Spark."""
    if item.get_closest_marker("spark") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    before = engine._sessions.get(EMBEDDED._key)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = [report.longreprtext for report in reports if report.failed]
    if failed and (why := _why_stopped(before)):
        item.warn(
            pytest.PytestWarning(f"run once more, as Spark stopped by itself ({why}): {failed[0].strip().splitlines()[-1]}")
        )
        engine._sessions.pop(CONNECT._key, None)  # of the same Java process
        item._initrequest()  # type: ignore[attr-defined] # a second run has fixtures of its own
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _why_stopped(before: SparkSession | None) -> str:
    """Why the session is not there any more that there was before the test; empty if it is."""
    if why := EMBEDDED._end_if_stopped(EMBEDDED._key):
        return why
    replaced = before is not None and engine._sessions.get(EMBEDDED._key) is not before
    return "while an epoch ran" if replaced else ""
