"""What tells one state of a run from another: where its generators stand, with the values of their local variables."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from dagster_operators.transactions import effects as fx
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.plan import EpochHandle
from dagster_operators.transactions.records import Record
from dagster_operators.transactions.view import LedgerView
from tests.transactions.model_world import manifest_number, record_number

RECORDS = get_args(Record)
PLAIN = (type(None), int, str, float)


def place_of(steps: Any) -> Any:
    """Where a generator stands: line and local variables of each generator it waits for."""
    frames = []
    while steps is not None and getattr(steps, "gi_frame", None) is not None:
        frame = steps.gi_frame
        values = tuple(
            (name, number_of(value)) for name, value in sorted(frame.f_locals.items()) if name not in {"self", "run", "plan"}
        )
        frames.append((frame.f_code.co_name, frame.f_lasti, values))
        steps = steps.gi_yieldfrom
    return tuple(frames)


def number_of(value: Any) -> Any:  # noqa: C901, PLR0911 - one for each type
    """Something hashable that is equal for equal values."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, LedgerView):
        return ("view", id(value))  # the model makes one view for each content of the ledger and keeps it
    if isinstance(value, RECORDS):
        return record_number(value)
    if isinstance(value, EpochHandle):
        return ("handle", value.epoch, value.generation, value.begin_id)
    if isinstance(value, fx.StageAttempt):
        return ("attempt", value.attempt)
    if isinstance(value, Manifest):
        return manifest_number(value)
    if isinstance(value, dict):
        return tuple((name, number_of(item)) for name, item in sorted(value.items()))
    if isinstance(value, (tuple, list)):
        return tuple(number_of(item) for item in value)
    if isinstance(value, (frozenset, set)):
        return frozenset(number_of(item) for item in value)
    if isinstance(value, Exception):
        return repr(value)
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, *(number_of(getattr(value, item.name)) for item in dataclasses.fields(value)))
    return type(value).__name__
