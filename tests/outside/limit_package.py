"""The package of ``examples/limit`` as if it were installed, and what its operators are to give."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from dagster_operators.catalog import loading
from dagster_operators.operators.arrow.registry import ENTRY_POINTS

MODULES = ("limit.lowering", "limit_per_key.lowering", "sample.lowering", "merge_samples")


@pytest.fixture
def installed(monkeypatch):
    """Its entry points are found."""
    points = [EntryPoint(name, f"dagster_operators_limit.{name}:register", ENTRY_POINTS) for name in MODULES]
    monkeypatch.setattr(loading, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    monkeypatch.setattr(loading, "_default", [])


def first(epochs, n, key=lambda row: None):
    """The first ``n`` rows of each key: by epoch, then by time, then by all columns, nulls first."""
    taken, rows = {}, []
    for epoch in epochs:
        for row in in_order(epoch):
            taken[key(row)] = taken.get(key(row), 0) + 1
            rows += [row] if taken[key(row)] <= n else []
    return rows


def in_order(rows):
    """Rows of an epoch by time, then by all columns, nulls first."""
    return sorted(rows, key=_order)


def _order(row):
    values = [row["t"], row["k"], row["v"]]
    return [(value is not None, value) for value in values]
