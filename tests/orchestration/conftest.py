"""A folder with two files of input, a Dagster instance of its own, and Sail as the default engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dagster_operators.runtime.engine import ENGINE_VARIABLE
from tests.orchestration import demo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo.drop(tmp_path, 0, [("a", 1), ("b", 2)])
    demo.drop(tmp_path, 3, [("a", 10)])
    return tmp_path


@pytest.fixture
def on_sail(sail: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that resources without an address choose; the package's own Sail, not the fixture's."""
    assert sail is not None
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made
