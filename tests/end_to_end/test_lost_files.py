"""A file of a table or a state is lost, with and without a clean since: each way out that the error tells works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from dagster_operators.errors import LedgerError, LostFileError
from tests.end_to_end.landing import Landing, rows_of
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

TABLES = ("clean", "totals", "hourly")
KEPT = 4
LOST = {"tables/totals": "totals", "state/per_key.partials": "totals", "tables/clean": "clean", "state/per_hour.panes": "hourly"}
"""What of the pipeline loses a file, and the table to look at."""


def hour(number: int) -> list[str]:
    return [f"{key},{number * 10 + minute},2024-01-01T{number:02d}:0{minute}:00Z" for minute, key in enumerate("aba")]


def landed(folder: Path) -> Landing:
    landing = Landing(folder, SAIL)
    for number in range(KEPT):
        landing.arrive(*hour(number))
        landing.pipeline().run_epoch()
    return landing


def expected(folder: Path) -> dict[str, Any]:
    """What the tables are when nothing is lost, and one file more arrived."""
    landing = landed(folder)
    landing.arrive(*hour(KEPT))
    pipeline = landing.pipeline()
    pipeline.run_until_caught_up()
    return {table: rows_of(pipeline, table) for table in TABLES}


def found_by(call: Callable[[], object]) -> LostFileError | None:
    try:
        call()
    except LostFileError as error:
        return error
    return None


@pytest.mark.parametrize("cleaned", [False, True], ids=["", "behind a clean"])
@pytest.mark.parametrize("dataset", LOST)
def test_each_way_out_that_is_told_works(tmp_path: Path, dataset: str, cleaned: bool) -> None:  # noqa: FBT001
    wanted = expected(tmp_path / "whole")
    landing = landed(tmp_path)
    if cleaned:
        landing.pipeline().clean(keep="0 seconds", keep_epochs=1)
    for file in DeltaTable(landing.root / dataset).file_uris():
        Path(file.removeprefix("file://")).unlink()
    landing.arrive(*hour(KEPT))
    pipeline = landing.pipeline()
    looked = (
        pipeline.run_until_caught_up,
        lambda: pipeline.to_arrow(LOST[dataset]),
        lambda: pipeline.repair(dataset, keep="ours"),
    )
    errors = [error for error in map(found_by, looked) if error]
    assert errors, "somebody tells"
    ways = {way for error in errors for way in re.findall(r"pipeline\.[a-z_]+\([^()]*\)", error.remedy)}
    back = {way for way in ways if way.startswith("pipeline.repair_ledger")}
    assert bool(back) is not cleaned, "going back is told where it can be done"
    assert ways - back, "computing anew is told"
    for number, way in enumerate(sorted(ways)):
        copy = Landing(tmp_path / f"way{number}", SAIL, folder=landing.folder, root=tmp_path / f"root{number}")
        shutil.copytree(landing.root, copy.root, copy_function=shutil.copy2)
        again = copy.pipeline()
        eval(way, {"pipeline": again})  # noqa: S307 - what the error says to call
        again = copy.pipeline()
        again.run_until_caught_up()
        assert {table: rows_of(again, table) for table in TABLES} == wanted, way
        assert again.repair(dataset, keep="ours") is None, "all files are there"


def test_going_back_behind_a_clean_is_refused_with_what_works(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    pipeline = landing.pipeline()
    pipeline.clean(keep="0 seconds", keep_epochs=1)
    with pytest.raises(LedgerError, match=r"were cleaned away.*pipeline\.rebuild\(\)"):
        pipeline.repair_ledger(last_epoch=1)
