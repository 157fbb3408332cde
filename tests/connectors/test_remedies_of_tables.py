"""A table that is read was replaced, cleaned, altered or damaged: each call of the error is made, and the rows are right then."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dagster_operators import DeltaSource, MemorySource, Pipeline, PipelineSource
from dagster_operators.errors import BadInputError, MissingInputError, OperatorsError
from tests.engines import SAIL
from tests.following import copied, follow, refused, ways_of

pytestmark = pytest.mark.usefixtures("sail")


def write(table: Path, *values: int, mode: str = "append", **options: object) -> None:
    write_deltalake(table, pa.table({"v": pa.array(values, pa.int64())}), mode=mode, **options)  # type: ignore[call-overload]


def reader(root: Path, table: Path, **options: object) -> Pipeline:
    made = Pipeline("p", root=str(root), engine=SAIL)
    made.source("rows", DeltaSource(table, **options)).select("v").to_table("copy")  # type: ignore[arg-type]
    return made


def values_of(made: Pipeline) -> list[int]:
    return sorted(made.to_arrow("copy")["v"].to_pylist())


def follow_all(error: OperatorsError, root: Path, pipeline: Callable[[Path], Pipeline], wanted: Collection[object]) -> None:
    """Each way in a copy of the root: behind it the values are one of the lists that are right."""
    assert ways_of(error), error
    for number, way in enumerate(ways_of(error)):
        copy = copied(root, root.parent / f"way {number}")
        follow(way, lambda copy=copy: pipeline(copy))  # type: ignore[misc]
        assert values_of(pipeline(copy)) in wanted, way


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with two versions."""
    made = tmp_path / "table"
    write(made, 1)
    write(made, 2)
    return made


def replaced(table: Path) -> None:
    for path in sorted(table.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for value in (7, 8):
        write(table, value)


def cleaned(table: Path) -> None:
    for value in (3, 4):
        write(table, value)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / f"_delta_log/{version:020}.json").unlink()


ALTERED = (
    (replaced, "it was replaced", [[7, 8]]),
    (cleaned, "was cleaned out of its log", [[1, 2, 3, 4]]),
)


@pytest.mark.parametrize(("change", "match", "wanted"), ALTERED, ids=[change.__name__ for change, *_ in ALTERED])
def test_a_table_that_is_another_one(
    table: Path, tmp_path: Path, change: Callable[[Path], None], match: str, wanted: list[object]
) -> None:
    root = tmp_path / "p"
    reader(root, table).run_epoch()
    change(table)
    error = refused(reader(root, table).run_epoch, BadInputError, match)
    follow_all(error, root, lambda place: reader(place, table), wanted)


def test_a_version_that_takes_rows_away_is_passed_over_alone(table: Path, tmp_path: Path) -> None:
    """What was added before it in the same epoch comes to the tables, and is not passed over with it."""
    root = tmp_path / "p"
    reader(root, table).run_epoch()
    write(table, 3)
    DeltaTable(table).delete("v = 1")
    write(table, 4)
    reader(root, table).run_epoch()
    assert values_of(reader(root, table)) == [1, 2, 3]
    error = refused(reader(root, table).run_epoch, BadInputError, "version 3 .* deletes or changes earlier rows")
    assert "without the 0 rows in files that it wrote; rows that it took away stay" in error.remedy
    assert len(ways_of(error)) == 2
    follow_all(error, root, lambda place: reader(place, table), [[2, 3, 4], [1, 2, 3, 4]])


def test_the_rows_that_a_passed_version_wrote_are_counted(table: Path, tmp_path: Path) -> None:
    root = tmp_path / "p"
    reader(root, table).run_epoch()
    write(table, 5, 6, mode="overwrite")
    error = refused(reader(root, table).run_epoch, BadInputError, "deletes or changes earlier rows")
    assert "without the 2 rows in files that it wrote" in error.remedy
    follow_all(error, root, lambda place: reader(place, table), [[5, 6], [1, 2]])


def test_a_file_that_was_cut_short(table: Path, tmp_path: Path) -> None:
    """Nothing but a backup has its rows: the table as it is cannot be read either, and the error says so again."""
    root = tmp_path / "p"
    reader(root, table).run_epoch()
    before = set(table.glob("*.parquet"))
    write(table, 3)
    (added,) = set(table.glob("*.parquet")) - before
    kept = added.read_bytes()
    added.write_bytes(kept[:-9])
    error = refused(reader(root, table).run_epoch, BadInputError, "cut short")
    assert error.remedy.startswith("put it back from a backup")
    added.write_bytes(kept)
    follow_all(error, root, lambda place: reader(place, table), [[1, 2, 3]])


def test_a_file_that_was_vacuumed_before_it_was_read(table: Path, tmp_path: Path) -> None:
    root = tmp_path / "p"
    reader(root, table).run_epoch()
    before = set(table.glob("*.parquet"))
    write(table, 3)
    (added,) = set(table.glob("*.parquet")) - before
    write(table, 7, mode="overwrite")
    added.unlink()
    error = refused(reader(root, table).run_epoch, MissingInputError, "has been removed")
    follow_all(error, root, lambda place: reader(place, table), [[7]])


class Shop:
    """A pipeline whose table ``orders`` another one reads."""

    def __init__(self, folder: Path) -> None:
        self.root, self.batches = folder / "shop", list[Any]()

    def pipeline(self) -> Pipeline:
        made = Pipeline("shop", root=str(self.root), engine=SAIL)
        made.source("rows", MemorySource(self.batches, schema="v long")).to_table("orders")
        return made

    def sell(self, value: int) -> None:
        self.batches.append([(value,)])
        self.pipeline().run_epoch()

    def reader(self, root: Path) -> Pipeline:
        made = Pipeline("report", root=str(root), engine=SAIL)
        made.source("orders", PipelineSource(str(self.root), "orders")).select("v").to_table("copy")
        return made


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A shop with two sales, both of which were read."""
    made = Shop(tmp_path)
    made.sell(1)
    made.sell(2)
    made.reader(tmp_path / "report").run_epoch()
    return made


def another(shop: Shop) -> None:
    shop.root.rename(shop.root.with_name("former"))
    shop.batches.clear()
    for value in (7, 8, 9):
        shop.sell(value)


def taken_back(shop: Shop) -> None:
    shop.pipeline().rollback(1)
    shop.batches[1:] = []
    shop.sell(3)


PIPELINES = (
    (another, "was replaced|is not the one", [[7, 8, 9]]),
    (taken_back, "took them back|lost rows", [[1, 3]]),
)


@pytest.mark.parametrize(("change", "match", "wanted"), PIPELINES, ids=[change.__name__ for change, *_ in PIPELINES])
def test_a_pipeline_that_is_another_one(
    shop: Shop, tmp_path: Path, change: Callable[[Shop], None], match: str, wanted: list[object]
) -> None:
    change(shop)
    error = refused(shop.reader(tmp_path / "report").run_epoch, BadInputError, match)
    follow_all(error, tmp_path / "report", shop.reader, wanted)


def test_a_pipeline_that_is_gone_and_comes_anew(shop: Shop, tmp_path: Path) -> None:
    shop.root.rename(shop.root.with_name("former"))
    error = refused(shop.reader(tmp_path / "report").run_epoch, MissingInputError, "is gone")
    shop.batches.clear()
    shop.sell(7)
    follow_all(error, tmp_path / "report", shop.reader, [[7]])
