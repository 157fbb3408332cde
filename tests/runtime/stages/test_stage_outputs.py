"""Checks of tables: what they find, whether they ride along with the write or need a query of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from tests.engines import EMBEDDED, ENGINES
from tests.spark_jobs import last_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [[{"k": "a", "v": 1}, {"k": None, "v": -2}, {"k": "b", "v": None}], [{"k": "a", "v": -3}]]
CHECKS = {"positive": do.Check("v > 0 -- not negative", blocking=False), "known": do.Check("k IS NOT NULL", blocking=False)}
USERS = {"doubled": do.Check("twice_of(v) > 0", blocking=False)}


@do.udf("long")
def twice_of(values: Any) -> Any:
    """Twice each value."""
    import pyarrow.compute as pc

    return pc.multiply(values, 2)


def run(engine: str, root: Path, checks: dict[str, do.Check], *, updating: bool = False) -> list[dict[str, tuple[int, int]]]:
    """The rows that failed each check and all rows, epoch by epoch."""
    pipeline = do.Pipeline("checked", root=str(root), engine=ENGINES[engine])
    rows = pipeline.source("rows", do.MemorySource(ROWS, schema="k string, v long"))
    (rows.key_by("k").aggregate(v="sum(v)", name="sums") if updating else rows).to_table("checked", checks=checks)
    results = [pipeline.run_epoch() for _ in ROWS]
    return [{check.name: (check.failed_rows, check.total_rows) for check in result.checks} for result in results]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_row_fails_a_check_that_is_false_or_null(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    assert run(engine, tmp_path / "plain", CHECKS) == [
        {"positive": (2, 3), "known": (1, 3)},
        {"positive": (1, 1), "known": (0, 1)},
    ]
    assert run(engine, tmp_path / "own", CHECKS | USERS)[0] == {"positive": (2, 3), "known": (1, 3), "doubled": (2, 3)}


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_of_an_updating_table_the_changed_rows_are_checked(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    found = run(engine, tmp_path, CHECKS, updating=True)
    assert found == [{"positive": (2, 3), "known": (1, 3)}, {"positive": (1, 1), "known": (0, 1)}]


def test_checks_of_spark_s_own_functions_need_no_job(spark: SparkSession, tmp_path: Path) -> None:
    def jobs(checks: dict[str, do.Check], name: str) -> int:
        before = last_job(spark)
        run("spark", tmp_path / name, checks)
        return last_job(spark) - before

    assert EMBEDDED.session() is spark
    assert jobs(CHECKS, "plain") == jobs({}, "none")
    assert jobs(USERS, "own") > jobs({}, "none_again")
