from __future__ import annotations

import pytest

from dagster_operators.state import merge_plan
from dagster_operators.state.handle import Handle


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of three rows and merges of three runs, so that small histories have many of both."""
    monkeypatch.setattr(Handle, "slice_rows", 3)
    monkeypatch.setattr(merge_plan, "TIER_LENGTH", 3)
