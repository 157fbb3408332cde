"""Whoever reads the reference of a public name finds an example of it, which is tried as a doctest."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators import time
from dagster_operators.api.datasets.co_grouping import CoGrouping
from dagster_operators.api.datasets.grouping import Grouping
from dagster_operators.api.datasets.iterating import DeltaIterating, Iterating
from dagster_operators.api.datasets.joining import Crossing, Joining, Projecting
from dagster_operators.api.history import History
from dagster_operators.api.loop import Loop
from dagster_operators.testing import OperatorHarness

WITHOUT = {
    "PipelineComponent": "is written in YAML, as its docstring shows; tests/orchestration/test_component.py reads such a file",
    "load_udf": "needs a library that a compiler made; tests/functions/test_library.py makes one",
}
"""Public names without an example that can be tried, and why."""

CALLED = [
    do.ArrowOperator, do.DataSet, do.KeyedStream, do.Pipeline, do.Registry, do.Snapshot, do.StoredPipeline, do.Stream,
    do.WindowedStream, CoGrouping, Crossing, DeltaIterating, Grouping, Iterating, Joining, Projecting, do.data_sets.LocalProgram,
    History, Loop, OperatorHarness, time.Antichain, time.ChangeBatch, time.Frontier, time.MutableAntichain, time.Product,
    time.Reachability,
]  # fmt: skip
"""Classes whose every method is for users; the methods of sources and sinks are called by the package."""

BETWEEN_PARTS = {
    "DataSet.declaring", "DataSet.declaring_as", "DataSet.derive", "DataSet.function", "DataSet.typed",
    "CoGrouping.both", "Joining.both",
    "Pipeline.epochs_beside", "Pipeline.fill", "Pipeline.range_of", "Pipeline.rebuild_on", "Pipeline.widen_on",
}  # fmt: skip
"""Methods that other parts of the package call, and users do not."""


def named() -> Iterator[Any]:
    """Every public class and function."""
    for module in (do, time):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isroutine(found) or inspect.isclass(found):
                yield pytest.param(found, id=name)


def methods() -> Iterator[Any]:
    """Every public method of the classes that users call."""
    for kind in CALLED:
        for base in kind.__mro__:
            if not base.__module__.startswith("dagster_operators"):
                continue
            for name, member in vars(base).items():
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                told = f"{kind.__name__}.{name}"
                if inspect.isfunction(function) and not name.startswith("_") and told not in BETWEEN_PARTS:
                    yield pytest.param(getattr(kind, name), id=told)


@pytest.mark.parametrize("found", list(named()))
def test_a_public_name_has_an_example(found: Any) -> None:
    assert (">>>" in (found.__doc__ or "")) != (found.__name__ in WITHOUT)


@pytest.mark.parametrize("method", list(methods()))
def test_a_method_that_users_call_has_an_example(method: Any) -> None:
    assert ">>>" in (inspect.getdoc(method) or "")
