"""What is refused because of a decision or a rebuild names calls; each is made, and the tables are right then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dagster_operators import FileSource, MemorySource, Pipeline
from dagster_operators.errors import (
    EpochUnderWayError,
    LedgerError,
    OperatorsError,
    PipelineError,
    RestoredTableError,
    UnknownEpochError,
)
from tests.engines import SAIL
from tests.following import copied, follow, refused, rows_of, ways_of

pytestmark = pytest.mark.usefixtures("sail")

ROWS: list[Any] = [[("a", n, f"2026-01-01 00:0{n}:00"), ("b", 2 * n, f"2026-01-01 00:0{n}:30")] for n in range(3)]
TABLES = ("raw", "totals")
RANGE = ("2026-01-01", "2026-01-02")


def program(root: Path, *, total: str = "sum(v)", raw: bool = True, columns: tuple[str, ...] = ()) -> Pipeline:
    made = Pipeline("p", root=str(root), engine=SAIL)
    source = MemorySource(ROWS, schema="k string, v long, at timestamp")
    rows = made.source("rows", source, event_time="at")
    if raw:
        rows.select("k", "v", "at", *columns).to_table("raw")
    rows.key_by("k").aggregate(n=total, name="per_key").to_table("totals")
    return made


def other(root: Path) -> Pipeline:
    return program(root, total="max(v)")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two epochs, of which a third one has yet to come."""
    root = tmp_path_factory.mktemp("base") / "root"
    for _ in range(2):
        program(root).run_epoch()
    return root


@pytest.fixture(scope="module")
def wanted(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    root = copied(base, tmp_path_factory.mktemp("wanted"))
    program(root).run_until_caught_up()
    return rows_of(program(root), TABLES)


def decided(root: Path) -> None:
    refused(other(root).run_epoch, OperatorsError)
    other(root).decide("operator per_key", "restart")


def waits_for_a_rollback(root: Path) -> OperatorsError:
    decided(root)
    return refused(lambda: program(root).rollback(1), LedgerError, "would be forgotten")


def waits_for_a_compaction(root: Path) -> OperatorsError:
    decided(root)
    return refused(lambda: other(root).compact("raw"), EpochUnderWayError, "takes effect with the next epoch")


def waits_for_a_rebuild(root: Path) -> OperatorsError:
    decided(root)
    return refused(lambda: other(root).rebuild("raw"), PipelineError, "takes effect with an epoch")


def waits_for_a_range(root: Path) -> OperatorsError:
    decided(root)
    return refused(lambda: program(root).rebuild("raw", between=RANGE), PipelineError, "takes effect with the next epoch")


def no_range_of_a_total(root: Path) -> OperatorsError:
    return refused(lambda: program(root).rebuild("totals", between=RANGE), PipelineError)


def rolled_back_over_a_rebuild(root: Path) -> OperatorsError:
    refused(other(root).run_epoch, OperatorsError)
    other(root).rebuild(operators="per_key")
    return refused(lambda: other(root).rollback(1), LedgerError)


SCENARIOS: tuple[Callable[[Path], OperatorsError], ...] = (
    waits_for_a_rollback, waits_for_a_compaction, waits_for_a_rebuild, waits_for_a_range, no_range_of_a_total,
    rolled_back_over_a_rebuild,
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_way_leads_to_the_end(
    base: Path, tmp_path: Path, wanted: dict[str, list[str]], scenario: Callable[[Path], OperatorsError]
) -> None:
    root = copied(base, tmp_path)
    error = scenario(root)
    assert ways_of(error), error
    for number, way in enumerate(ways_of(error)):
        copy = copied(root, tmp_path / str(number))
        follow(way.replace(str(root), str(copy)), partial(program, copy))
        assert rows_of(program(copy), TABLES) == wanted, way


def test_a_range_of_a_table_with_other_columns(base: Path, tmp_path: Path) -> None:
    root = copied(base, tmp_path)
    changed = partial(program, root, columns=("v + 1 AS w",))
    error = refused(lambda: changed().rebuild("raw", between=RANGE), OperatorsError, "columns")
    (way,) = ways_of(error)
    follow(way, changed)
    assert sorted(changed().to_arrow("raw")["w"].to_pylist()) == [1, 1, 2, 3, 3, 5]


def test_a_table_that_is_no_longer_written_and_is_gone(base: Path, tmp_path: Path, wanted: dict[str, list[str]]) -> None:
    root = copied(base, tmp_path)
    less = partial(program, root, raw=False)
    less().run_epoch()
    shutil.rmtree(root / "tables/raw")
    error = refused(less().run_epoch, RestoredTableError, "no longer writes was deleted")
    (way,) = ways_of(error)
    assert way == "pipeline.drop('raw')"
    follow(way, less)
    assert rows_of(less(), ("totals",)) == {"totals": wanted["totals"]}


def test_nothing_was_run_yet(tmp_path: Path, wanted: dict[str, list[str]]) -> None:
    error = refused(lambda: program(tmp_path).to_arrow("raw"), UnknownEpochError)
    (way,) = ways_of(error)
    follow(way, partial(program, tmp_path))
    assert rows_of(program(tmp_path), TABLES) == wanted


def test_rejected_records_are_read_as_the_error_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("k,v\na,1\nb,x\n")
    files = FileSource(str(tmp_path / "in"), format="csv", schema="k string, v long", corrupt="reject")

    def pipeline() -> Pipeline:
        made = Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        made.source("rows", files).to_table("t")
        return made

    rows = Pipeline("p", root=str(tmp_path / "root"), engine=SAIL).source("rows", files)
    error = refused(rows.rejects, PipelineError, "are no stream")
    pipeline().run_epoch()
    (way,) = ways_of(error)
    follow(way, pipeline)
    assert pipeline().to_arrow("rows_rejects").num_rows == 1
