"""Nothing is committed on Sail of whole numbers that do not fit, wherever in a pipeline they are calculated."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.joins.join_columns import HowInWindows
from dagster_operators.planner.differences.checked_numbers import ACCEPTED_AS
from dagster_operators.planner.differences.checked_pipelines import with_checked_numbers
from dagster_operators.planner.differences.refusing import ACCEPTED
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

LARGE = 2**63 - 1
SCHEMA = "k string, l bigint, i int, xs array<bigint>"
ROWS = do.MemorySource([[("a", LARGE, 1, [LARGE, 1]), ("a", 2, 2, [3])]], schema=SCHEMA)
OTHERS = do.MemorySource([[("a", LARGE)]], schema="q string, z bigint")


def pipeline(folder: Path, build: Callable[[do.Stream], do.Stream], checks: dict[str, str] | None = None) -> do.Pipeline:
    made = do.Pipeline("p", root=str(folder), engine=SAIL)
    build(made.source("rows", ROWS)).to_table("t", checks=checks)
    return made


@pytest.mark.parametrize(
    "build",
    [
        lambda rows: rows.select("k", "l * 2 AS x"),
        lambda rows: rows.with_columns({"l * 2": "l * 2"}),
        lambda rows: rows.filter("(l + 1) % 2 = 0"),
        lambda rows: rows.unnest("array(l + 1) AS x"),
        lambda rows: rows.select("Timestamp_Seconds(l) AS x"),
        lambda rows: rows.key_by("k").top(1, by="(l + 1) % 3 DESC"),
        lambda rows: rows.key_by("k").aggregate(x="max(l + i)"),
        lambda rows: rows.key_by("k").aggregate(x="max(l) + 1"),
        lambda rows: rows.key_by("k").aggregate(x="sum(l)"),
        lambda rows: rows.key_by("k", "l").aggregate(n="count(*)").key_by("k").aggregate(x="sum(l)"),
        lambda rows: rows.select("aggregate(xs, 0L, (a, x) -> a + x) AS x"),
    ],
    ids=["select", "with_columns", "filter", "unnest", "time", "order", "argument", "around", "sum", "weighted", "lambda"],
)  # fmt: skip
def test_nothing_is_committed(build: Callable[[do.Stream], do.Stream], tmp_path: Path) -> None:
    made = pipeline(tmp_path, build)
    with pytest.raises(OperatorsError, match=r"Cast error|Can't cast"):
        made.run_epoch()
    assert not [log for log in tmp_path.glob("tables/t/_delta_log/*.json") if '"add"' in log.read_text()]


def test_a_sum_that_no_longer_fits_with_a_later_epoch(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    later = do.MemorySource([[("a", LARGE - 1)], [("a", 1)], [("a", 1)]], schema="k string, l bigint")
    made.source("rows", later).key_by("k").aggregate(x="sum(l)").to_table("t")
    made.run_epoch()
    made.run_epoch()
    assert made.read("t").collect() == [("a", LARGE)]
    with pytest.raises(OperatorsError, match="Cast error"):
        made.run_epoch()
    assert made.read("t").collect() == [("a", LARGE)]


WIDE = do.MemorySource(
    [[("a", 1, Decimal("9e37"), Decimal("1.50"))], [("a", 2, Decimal("9e37"), Decimal("2.50"))]],
    schema="k string, i int, w decimal(38,0), x decimal(30,2)",
)


def wide(folder: Path, function: str, column: str, *, weighted: bool) -> do.Pipeline:
    made = do.Pipeline("p", root=str(folder), engine=SAIL)
    rows = made.source("rows", WIDE)
    counted = rows.key_by("k", "i", column).aggregate(n="count(*)") if weighted else rows
    counted.key_by("k").aggregate(s=f"{function}({column})").to_table("t")
    return made


def twice(made: do.Pipeline) -> None:
    for _ in range(2):
        made.run_epoch()


@pytest.mark.parametrize("rows", ["rows", "changes"])
@pytest.mark.parametrize("function", ["sum", "avg"])
def test_a_sum_of_decimals_with_too_many_digits(function: str, rows: str, tmp_path: Path) -> None:
    made = wide(tmp_path, function, "w", weighted=rows == "changes")
    with pytest.raises(OperatorsError, match=r"more than 38 digits|Overflow"):
        twice(made)
    fits = wide(tmp_path / "other", function, "x", weighted=rows == "changes")
    twice(fits)
    assert fits.read("t").collect() == [("a", Decimal(4 if function == "sum" else 2))]


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "changes"])
def test_a_sum_of_decimals_with_something_added(weighted: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    made = wide(tmp_path, f"CAST('{10**37}' AS decimal(38,0)) + sum", "w", weighted=weighted)
    with pytest.raises(OperatorsError, match="Overflow"):
        made.run_epoch()
    fits = wide(tmp_path / "other", "1 + sum", "x", weighted=weighted)
    twice(fits)
    assert fits.read("t").collect() == [("a", Decimal(5))]


def test_a_check_is_computed_so(tmp_path: Path) -> None:
    with pytest.raises(OperatorsError, match="Cast error"):
        pipeline(tmp_path, lambda rows: rows, {"large": "l + 1 > l"}).run_epoch()


def test_a_lookup_calculates_so(tmp_path: Path) -> None:
    made = pipeline(tmp_path, lambda rows: rows.lookup(OTHERS, on={"k": "q"}, columns=["z + 1 AS y"]))
    with pytest.raises(OperatorsError, match="Cast error"):
        made.run_epoch()


@pytest.mark.parametrize(
    ("condition", "how"),
    [("(z + z) % 3 = 1", "inner"), ("(l + z) % 3 = 1", "anti"), ("z * 2 % 3 = i", "semi")],
    ids=["right", "both", "product"],
)
def test_a_joins_condition_calculates_so_with_both_sides(condition: str, how: HowInWindows, tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    right = made.source("others", OTHERS)
    made.source("rows", ROWS).join(right, on={"k": "q"}, how=how, condition=condition).to_table("t")
    with pytest.raises(OperatorsError, match="Cast error"):
        made.run_epoch()


def test_what_is_accepted_goes_round(tmp_path: Path) -> None:
    session = SAIL.session()
    session.conf.set(ACCEPTED, ACCEPTED_AS)
    try:
        made = pipeline(tmp_path, lambda rows: rows.filter("i = 1").select("l + 1 AS x"))
        made.run_epoch()
        assert made.read("t").collect() == [(-(2**63),)]
    finally:
        session.conf.unset(ACCEPTED)


def test_a_pipeline_without_calculations_stays_the_very_one(tmp_path: Path) -> None:
    made = pipeline(tmp_path, lambda rows: rows.filter("l > -1").with_columns(x="i % 2")).dataflow
    assert with_checked_numbers(SAIL.session(), made, {}, {}) is made
