"""Files that are staged and read by their list: what counts as written, and that nothing is left out in silence.

Stands for the fault scripts a8 and a9.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dagster_operators.errors import LostFileError, StageFailedError
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.landing import Landing, keys_of, rows_of
from tests.engines import ENGINES

BOTH = pytest.mark.parametrize("engine", ["sail", "spark"])


@pytest.fixture
def landing(tmp_path: Path, engine: str) -> Landing:
    """Two epochs are complete, each with rows of its own."""
    made = Landing(tmp_path, ENGINES[engine])
    for key in "ab":
        made.arrive(f"{key},1,2024-01-01T00:00:00Z", "same,1,2024-01-01T00:00:00Z")
        made.pipeline().run_epoch()
    return made


@BOTH
@pytest.mark.parametrize("how", ["gone", "cut short"])
def test_a_lost_file_of_a_table_is_not_read_as_empty(landing: Landing, how: str) -> None:
    files = sorted((landing.root / "tables" / "clean").glob("e2-*/**/*.parquet"))
    kept = files[0].read_bytes()
    files[0].unlink()
    if how == "cut short":
        files[0].write_bytes(kept[:-9])
    with pytest.raises(LostFileError, match="missing" if how == "gone" else "bytes instead of") as caught:
        landing.pipeline().read("clean")
    assert caught.value.table == "tables/clean"
    files[0].write_bytes(kept)
    assert keys_of(landing.pipeline()) == ["a", "b", "same", "same"]


@BOTH
def test_a_lost_file_of_a_state_table_stops_the_epoch(landing: Landing) -> None:
    lost = next(iter((landing.root / "state" / "per_key.partials").glob("e2-*/**/*.parquet")))
    kept = lost.read_bytes()
    lost.unlink()
    landing.arrive("same,1,2024-01-01T00:00:00Z")
    with pytest.raises(LostFileError, match="a file that was written is missing"):
        landing.pipeline().run_epoch()
    lost.write_bytes(kept)
    landing.pipeline().run_epoch()
    assert ("same", 3, 3) in rows_of(landing.pipeline(), "totals")


@BOTH
def test_what_a_task_that_was_given_up_left_is_no_row(landing: Landing) -> None:
    """Its files lie below the attempt's folder, too, in one of Spark's own."""

    def straggle(name: str) -> None:
        if name == "stage:half_files":
            for file in list((landing.root / "tables" / "clean").glob("e3-*/*.parquet")):
                folder = file.parent / "_temporary" / "0" / "_temporary" / "attempt_1"
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, folder / "part-00000-late.snappy.parquet")

    landing.arrive("c,1,2024-01-01T00:00:00Z")
    with watch(straggle):
        result = landing.pipeline().run_epoch()
    assert list((landing.root / "tables" / "clean").glob("e3-*/_temporary/**/*.parquet")), "the straggler wrote"
    assert result.rows["clean"] == 1
    assert keys_of(landing.pipeline()) == ["a", "b", "c", "same", "same"]


@BOTH
def test_a_file_that_the_engine_has_not_finished_is_not_left_out(landing: Landing) -> None:
    """Sail gives a file its name when it is whole; when it says that all is written, none may have another one."""

    def unfinished(name: str) -> None:
        if name == "stage:half_files":
            for file in (landing.root / "tables" / "clean").glob("e3-*/*.parquet"):
                file.rename(file.with_name(f"{file.name}#1"))

    landing.arrive("c,1,2024-01-01T00:00:00Z")
    with watch(unfinished), pytest.raises(StageFailedError, match=r"not finished.*run again") as caught:
        landing.pipeline().run_epoch()
    assert caught.value.file.endswith(".parquet#1")
    assert caught.value.retryable
    assert landing.pipeline().run_epoch().rows["clean"] == 1
    assert keys_of(landing.pipeline()) == ["a", "b", "c", "same", "same"]
