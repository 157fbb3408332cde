"""Each test of data sets several times: in lists, in fragments whose exchanges are in files, by columns, and on engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.api.datasets import local_program
from dagster_operators.operators.datasets.running.engine_jobs import EngineJobs
from dagster_operators.operators.datasets.running.files_of_streams import RowsAtHand
from tests.operators.datasets.in_files import ExecutionInFiles, InColumns, run_in_copies

_WAYS = [
    "in lists",
    "in files",
    "in columns",
    pytest.param("sail", marks=pytest.mark.sail),
    pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow]),
]
_ON_ENGINES = 2
"""The number of parts that tests have on engines."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that look into functions of this process run in it alone."""
    in_process = metafunc.definition.get_closest_marker("in_process") is not None
    metafunc.parametrize("way", _WAYS[:1] if in_process else _WAYS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Engines run tests with one number of parts: what differs by that number is seen without them."""
    items[:] = [item for item in items if not _is_too_much(item)]


def _is_too_much(item: pytest.Item) -> bool:
    given = getattr(item, "callspec", None)
    if given is None or given.params.get("way") not in ("sail", "spark"):
        return False
    return bool(given.params.get("parallelism", _ON_ENGINES) != _ON_ENGINES)


@pytest.fixture(autouse=True)
def execution(way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launch: Callable[..., Any] = run_in_copies
    if way == "in lists":
        return
    if way not in ("in files", "in columns"):
        launch = EngineJobs(request.getfixturevalue(way), [request.module.__name__], "program").run

    def made(plan: Any, sources: dict[str, Sequence[Any]], *, claims: bool) -> ExecutionInFiles:
        at_hand = InColumns if way == "in columns" else RowsAtHand
        return ExecutionInFiles(plan, sources, tmp_path, launch, at_hand)

    monkeypatch.setattr(local_program, "LocalExecution", made)
