"""A storage root on a disk that is full, wherever in an epoch that shows: nothing is committed by halves, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from dagster_operators.errors import StorageError
from dagster_operators.transactions.failpoints import watch
from tests.disk import Disk, disk_at
from tests.end_to_end.landing import Landing, keys_of, refused, rows_of, state_of
from tests.engines import EMBEDDED, SAIL

GOOD = "a,1,2024-01-01T00:00:00Z"
BETTER = "b,2,2024-01-01T05:00:00Z"
NO_SPACE = r"No space left|os error 28|\[Errno 28\]"
BEFORE_THE_DECISION = [
    "before:append_generation",
    "before:append_begin",
    "stage:half_files",
    "before:write_manifest",
    "before:append_prepared",
    "before:append_decision",
]
AFTER_THE_DECISION = ["before:commit_table:1", "before:commit_table:3", "before:append_complete"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with disk_at(tmp_path / "disk") as made:
        yield made


def landing_on(disk: Disk, tmp_path: Path) -> Landing:
    """One epoch is complete, the rows of a second one have landed."""
    landing = Landing(tmp_path, SAIL, root=disk.place / "root")
    landing.arrive(GOOD)
    landing.pipeline().run_epoch()
    landing.arrive(BETTER)
    return landing


def fill_at(disk: Disk, wanted: str) -> AbstractContextManager[None]:
    return watch(lambda place: disk.fill() if place == wanted else None)


def assert_all_is_there(landing: Landing) -> None:
    pipeline = landing.pipeline()
    assert not pipeline.run_until_caught_up() or len(pipeline.history()) == 2
    assert len(pipeline.history()) == 2
    assert keys_of(pipeline) == ["a", "b"]
    assert rows_of(pipeline, "totals") == {("a", 1, 1): 1, ("b", 1, 2): 1}
    assert rows_of(pipeline, "hourly").total() == 1


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("place", BEFORE_THE_DECISION)
def test_full_before_the_decision(disk: Disk, tmp_path: Path, place: str) -> None:
    landing = landing_on(disk, tmp_path)
    pipeline = landing.pipeline()
    with refused(pipeline, StorageError, NO_SPACE), fill_at(disk, place):
        pipeline.run_epoch()
    disk.free()
    assert_all_is_there(landing)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("place", AFTER_THE_DECISION)
def test_full_after_the_decision(disk: Disk, tmp_path: Path, place: str) -> None:
    """The epoch is decided: readers see the one before as a whole until the next run has carried it out."""
    landing = landing_on(disk, tmp_path)
    pipeline = landing.pipeline()
    with pytest.raises(StorageError, match=NO_SPACE) as caught, fill_at(disk, place):
        pipeline.run_epoch()
    assert caught.value.pipeline == "landed"
    assert caught.value.remedy
    epochs, _ = state_of(pipeline)
    assert epochs == 1
    assert keys_of(pipeline) == ["a"]
    disk.free()
    assert_all_is_there(landing)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_an_epoch_that_is_larger_than_the_disk(disk: Disk, tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """The engine itself runs out of space while it writes the stage's files."""
    request.getfixturevalue(engine)
    disk.resize(2)
    landing = Landing(tmp_path, {"sail": SAIL, "spark": EMBEDDED}[engine], root=disk.place / "root")
    landing.arrive(GOOD)
    landing.pipeline().run_epoch()
    landing.arrive(*(f"{number * 2_654_435_761 % 2**32:x}{number:x},{number},2024-01-01T05:00:00Z" for number in range(100_000)))
    pipeline = landing.pipeline()
    with refused(pipeline, StorageError, "No space left", epoch=2, file=str(landing.root)):
        pipeline.run_epoch()
    disk.resize(64)
    pipeline.run_epoch()
    assert pipeline.read("clean").count() == 100_001
    assert pipeline.read("totals").count() == 100_001
