"""Operators by name and config, from a registry and from other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Literal

import pytest

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow import registry as module


class Scale(do.ArrowOperator):
    def __init__(self, column: str, factor: float = 2, how: Literal["up", "down"] = "up"):
        self.column, self.factor, self.how = column, factor, how

    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        out.collect(batch)


class Twice(do.OperatorConstructor):
    name = "twice"
    schema = {"column": module.Setting(str)}

    def with_config(self, config, registry):
        return registry.create("scale", {**config, "factor": 2.0})


@pytest.fixture
def registry():
    made = do.Registry()
    made.register(Scale, name="scale")
    made.register(Twice())
    return made


def test_a_class_is_made_from_its_arguments(registry):
    assert vars(registry.create("scale", {"column": "v", "factor": 3})) == {"column": "v", "factor": 3, "how": "up"}
    assert registry.names() == ["scale", "twice"]
    assert registry.schema("scale")["column"].required


def test_a_constructor_may_use_other_operators(registry):
    assert registry.create("twice", {"column": "v"}).factor == 2.0


@pytest.mark.parametrize(("config", "told"), [
    ({}, "needs the setting 'column'"),
    ({"column": "v", "speed": 1}, "no setting 'speed'.*column, factor, how"),
    ({"column": 1}, "'column' is 1, not str"),
    ({"column": "v", "factor": True}, "'factor' is True, not float"),
    ({"column": "v", "how": "sideways"}, "'how' is 'sideways'"),
])  # fmt: skip
def test_a_config_that_does_not_fit_says_why(registry, config, told):
    with pytest.raises(PipelineError, match=told):
        registry.create("scale", config)


def test_names_are_unique_and_known(registry):
    registry.register(Scale, name="scale")
    with pytest.raises(PipelineError, match="another operator is registered as 'scale'"):
        registry.register(Twice(), name="scale")
    with pytest.raises(PipelineError, match=r"'scail'.*there are: scale, twice"):
        registry.create("scail")
    with pytest.raises(PipelineError, match="constructs no operator"):
        registry.register(lambda rows: rows)


def test_packages_bring_operators_by_entry_points(monkeypatch):
    points = [
        EntryPoint("scale", f"{__name__}:Scale", module.ENTRY_POINTS),
        EntryPoint("twice", f"{__name__}:Twice", module.ENTRY_POINTS),
    ]
    monkeypatch.setattr(loading, "entry_points", lambda group: points if group == module.ENTRY_POINTS else [])
    monkeypatch.setattr(loading, "_default", [])
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="v long"))
    stream = rows.apply("scale", {"column": "v"}, name="bigger")
    assert (stream.name, stream.columns) == ("bigger", ("v",))
    assert do.registry().names() == ["scale", "twice"]


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch):
    broken = [EntryPoint("broken", "no_such_package_here:Operator", module.ENTRY_POINTS)]
    monkeypatch.setattr(module, "entry_points", lambda group: broken)
    with pytest.raises(PipelineError, match="cannot be loaded from 'no_such_package_here:Operator'"):
        do.Registry().load_entry_points()
