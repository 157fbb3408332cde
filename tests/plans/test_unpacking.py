"""A plan that unpacks to more than it may, or is cut short, is refused before it fills the memory."""

from __future__ import annotations

import contextlib
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PlanError
from dagster_operators.plans import codec
from dagster_operators.plans.codec import from_bytes, packed, unpacked


def test_a_plan_that_is_too_large_unpacked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_MOST_BYTES", 1 << 20)
    assert len(unpacked(packed(bytes(1 << 20)))) == 1 << 20
    with pytest.raises(PlanError, match="unpacks to more than 1 MB"):
        unpacked(zlib.compress(bytes((1 << 20) + 1)))
    with pytest.raises(PlanError, match="end is missing"):
        unpacked(packed(b"plan" * 99)[:-9])


def plan() -> bytes:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in", schema="k string, v long"))
    rows.filter("v > 0").key_by("k").aggregate(n="count(*)", name="sums").to_table("sums")
    return pipeline.to_plan()


PLAN = unpacked(plan())


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, len(PLAN) - 1), by=st.binary(min_size=1, max_size=9), longer=st.booleans())
def test_whatever_is_forged_in_a_plan_is_an_error_of_ours_or_a_plan(at: int, by: bytes, *, longer: bool) -> None:
    forged = PLAN[:at] + by + PLAN[at if longer else at + len(by) :]
    with contextlib.suppress(OperatorsError):
        from_bytes(forged, to_run=False)
        do.Pipeline.from_plan(forged, root="unused")
