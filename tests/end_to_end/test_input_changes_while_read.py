"""An input file changes between the look at it and the engine's reading: nothing is committed, and the next run gets it right.

Stands for the fault script a10.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.connectors.file_source import FileSource
from dagster_operators.errors import BadInputError, MissingInputError
from tests.end_to_end.landing import Landing, keys_of, refused
from tests.engines import ENGINES

BOTH = pytest.mark.parametrize("engine", ["sail", "spark"])


@pytest.fixture
def landing(tmp_path: Path, engine: str) -> Landing:
    made = Landing(tmp_path, ENGINES[engine])
    made.arrive("a,1,2024-01-01T00:00:00Z")
    made.arrive("b,2,2024-01-01T00:00:00Z")
    return made


def once_read(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Have something happen once a source was asked to read, before the engine does."""
    plain, done = FileSource.read, []

    def read(self: FileSource, *args: Any, **settings: Any) -> Any:
        frame = plain(self, *args, **settings)
        if not done:
            done.append(change())
        return frame

    monkeypatch.setattr(FileSource, "read", read)


@BOTH
def test_a_file_that_is_written_to(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    def append() -> None:
        with (landing.folder / "001.csv").open("a") as file:
            file.write("late,9,2024-01-01T00:00:00Z\n")

    once_read(monkeypatch, append)
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "changed after it was taken up", source="rows"):
        pipeline.run_epoch()
    landing.pipeline().run_epoch()
    assert keys_of(landing.pipeline()) == ["a", "b", "late"]
    assert landing.pipeline().run_epoch().empty


@BOTH
def test_a_file_that_is_moved_away(landing: Landing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moved, file = tmp_path / "moved.csv", landing.folder / "002.csv"
    once_read(monkeypatch, lambda: file.rename(moved))
    pipeline = landing.pipeline()
    with pytest.raises(MissingInputError) as caught:
        pipeline.run_epoch()
    assert "002.csv" in str(caught.value)
    assert pipeline.history() == []
    moved.rename(file)
    landing.pipeline().run_epoch()
    assert keys_of(landing.pipeline()) == ["a", "b"]
