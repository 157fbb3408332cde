"""Tables with partition columns hold what the same tables hold without, and each of their files is of one partition."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError, LedgerError, PipelineError, SchemaError, UndecidedChangeError
from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.plans.diff import diff
from tests.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagster_operators.runtime.engine import Spark

SCHEMA: Final = "id long, day date, shop string, v double, n long"
BY: Final = {"every": ["day", "shop"], "current": ["shop"], "totals": ["day"], "seen": ["shop"]}
SHOPS: Final = ("a/b=c %d", "ü", None, "x" * 300, "null")
ALL: Final = [
    [(number, date(2024, 1, 1 + number % 3), SHOPS[(number + epoch) % 5], epoch + number / 2, epoch) for number in range(12)]
    for epoch in range(3)
]


class Same(do.ArrowOperator):
    """Hands its rows on, from the workers."""

    def output_schema(self, *inputs: Any) -> Any:
        return inputs[0]

    def process_batch(self, batch: Any, ctx: Any, out: Any) -> None:
        out.collect(batch)


def epochs(number: int) -> list[list[dict[str, Any]]]:
    return [[dict(zip(("id", "day", "shop", "v", "n"), row, strict=True)) for row in epoch] for epoch in ALL[:number]]


def build(root: Path, number: int = 3, engine: Spark = SAIL, by: dict[str, list[str]] = BY, **more: Any) -> do.Pipeline:
    """A table that grows, current rows whose partition changes, an aggregate, and rows that workers write."""
    pipeline = do.Pipeline("shop", root=str(root), engine=engine)
    rows = pipeline.source("rows", do.MemorySource(epochs(number), schema=SCHEMA))
    rows.to_table("every", partition_by=by.get("every", ()), **more)
    rows.to_changes("id", order_by="n").latest("id").to_table("current", partition_by=by.get("current", ()), **more)
    rows.key_by("day").aggregate(sum="sum(v)", largest="max(n)").to_table("totals", partition_by=by.get("totals", ()), **more)
    rows.key_by("id").apply(Same(), name="same").to_table("seen", partition_by=by.get("seen", ()), **more)
    return pipeline


def run(pipeline: do.Pipeline, number: int = 3) -> do.Pipeline:
    for _ in range(number):
        pipeline.run_epoch()
    return pipeline


def arrow(pipeline: do.Pipeline, table: str) -> Any:
    return pipeline.read(table).toArrow()


def rows_of(table: Any) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


def check(root: Path, by: dict[str, list[str]] = BY, tables: Iterable[str] = tuple(BY)) -> None:
    """What the log says of each file is what is in it."""
    for name in tables:
        table = DeltaTable(root / "tables" / name)
        assert table.metadata().partition_columns == by.get(name, [])
        actions = table.get_add_actions(flatten=True).to_struct_array().to_pylist()
        assert actions
        for file in actions:
            told = [(column, file[f"partition.{column}"]) for column in by.get(name, [])]
            inside = {tuple((column, row[column]) for column in by.get(name, [])) for row in read(root, name, file["path"])}
            assert inside == {tuple(told)}
        rows = table.to_pyarrow_table().to_pylist()
        for column in by.get(name, []):
            for value in {row[column] for row in rows} - {None}:
                found = table.to_pyarrow_table(filters=[(column, "=", value)])
                assert found.num_rows == sum(row[column] == value for row in rows)


def read(root: Path, name: str, path: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.ParquetFile(root / "tables" / name / path).read().to_pylist()


@pytest.mark.sail
def test_the_rows_are_those_without_partitions(tmp_path: Path) -> None:
    made, plain = run(build(tmp_path / "a")), run(build(tmp_path / "b", by={}))
    check(tmp_path / "a")
    check(tmp_path / "b", {})
    for name in BY:
        assert rows_of(arrow(made, name)) == rows_of(arrow(plain, name)), name
    before = len(DeltaTable(tmp_path / "a/tables/every").file_uris())
    assert made.compact().tables["every"].into < before
    check(tmp_path / "a")
    assert rows_of(arrow(made, "every")) == rows_of(arrow(plain, "every"))
    assert made.rollback(2)
    check(tmp_path / "a")


@pytest.mark.spark
def test_spark_writes_and_reads_them(tmp_path: Path) -> None:
    pipeline = do.Pipeline("shop", root=str(tmp_path), engine=EMBEDDED)
    rows = pipeline.source("rows", do.MemorySource(epochs(2), schema=SCHEMA))
    rows.to_table("every", partition_by=BY["every"])
    rows.to_changes("id", order_by="n").latest("id").to_table("current", partition_by=BY["current"])
    run(pipeline, 2)
    check(tmp_path, tables=("every", "current"))
    given = [row for epoch in epochs(2) for row in epoch]
    wanted = {"every": given, "current": list({row["id"]: row for row in given}.values())}
    for name, expected in wanted.items():
        by_delta = EMBEDDED.session().read.format("delta").load(str(tmp_path / "tables" / name))
        for found in (arrow(pipeline, name), by_delta.toArrow()):
            assert Counter(map(repr, found.select(list(expected[0])).to_pylist())) == Counter(map(repr, expected))


def test_other_partitions_take_a_rebuild(tmp_path: Path) -> None:
    run(build(tmp_path, 2), 2)
    other = {"every": ["shop"], "current": ["shop"], "totals": [], "seen": ["day"]}
    changed = build(tmp_path, by=other)
    with pytest.raises(ChangedPipelineError, match=r"(?s)partition.*pipeline\.rebuild") as told:
        changed.run_epoch()
    assert isinstance(told.value, UndecidedChangeError)
    changed.rebuild(["every", "totals", "seen"])
    check(tmp_path, other)
    changed.run_epoch()
    check(tmp_path, other)
    assert rows_of(arrow(changed, "every")).total() == 36
    changed.rollback(2)
    check(tmp_path)
    assert rows_of(arrow(changed, "every")).total() == 24


def test_a_table_that_is_emptied_has_other_partitions(tmp_path: Path) -> None:
    run(build(tmp_path, 2), 2)
    other = {**BY, "every": []}
    changed = build(tmp_path, by=other)
    changed.decide("table every", "restart")
    changed.run_epoch()
    check(tmp_path, other)
    assert rows_of(arrow(changed, "every")).total() == 12


@pytest.mark.slow
def test_a_change_data_feed_of_partitions(tmp_path: Path) -> None:
    from tests.end_to_end.test_change_feed import check_feed, feed_of

    run(build(tmp_path, change_feed=True))
    check(tmp_path)
    for table in ("current", "totals"):
        check_feed(tmp_path, table, feed_of(tmp_path, table))


def test_empty_text_is_refused_and_its_remedy_holds(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"id": 1, "shop": ""}]], schema="id long, shop string"))
    rows.to_table("t", partition_by=["shop"])
    with pytest.raises(SchemaError, match=r"empty text.*nullif\(`shop`, ''\)"):
        pipeline.run_epoch()
    mended = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = mended.source("rows", do.MemorySource([[{"id": 1, "shop": ""}]], schema="id long, shop string"))
    rows.with_columns({"shop": "nullif(`shop`, '')"}).to_table("t", partition_by=["shop"])
    mended.run_epoch()
    assert arrow(mended, "t").to_pylist() == [{"id": 1, "shop": None}]


def test_a_plan_and_what_is_shown_of_it_have_them(tmp_path: Path) -> None:
    pipeline = build(tmp_path)
    plan = pipeline.logical_plan()
    assert from_bytes(to_bytes(plan), to_run=False) == plan
    assert {table.name: list(table.partition_by) for table in plan.tables} == BY
    assert "writes table every (append), partitioned by day, shop" in pipeline.explain()
    assert "partition_by" in str(diff(plan, build(tmp_path, by={}).logical_plan()))


def test_another_pipeline_reads_them(tmp_path: Path) -> None:
    made = run(build(tmp_path / "a", 1), 1)
    reader = do.Pipeline("reader", root=str(tmp_path / "b"), engine=SAIL)
    reader.source("every", do.DeltaSource(str(tmp_path / "a/tables/every"))).to_table("copied")
    reader.run_epoch()
    assert rows_of(arrow(reader, "copied")) == rows_of(arrow(made, "every"))


@pytest.mark.parametrize(
    ("by", "error"),
    [
        ("id", r"partition_by is 'id'.*give a list of columns: \['id'\]"),
        (["none"], "there is no column 'none' to partition by.*there are: id, v"),
        (["id", "id"], "given twice"),
        ([1], "1 is no column"),
    ],
)
def test_what_cannot_be_partition_columns(by: Any, error: str) -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    with pytest.raises(PipelineError, match=error):
        pipeline.source("rows", do.MemorySource([], schema="id long, v double")).to_table("t", partition_by=by)


@pytest.mark.parametrize(("by", "error"), [(["v"], "'v', which is double.*CAST"), (["id", "day"], "needs a column")])
def test_types_that_cannot_be_partition_columns(tmp_path: Path, by: list[str], error: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    schema = "id long, v double" if by == ["v"] else "id long, day date"
    pipeline.source("rows", do.MemorySource([], schema=schema)).to_table("t", partition_by=by)
    with pytest.raises(SchemaError, match=error):
        pipeline.run_epoch()


def test_files_of_others_without_the_partition_columns_are_not_accepted(tmp_path: Path) -> None:
    """Their values would be null: other writers leave these columns out of the files, and the log alone has them."""
    made = run(build(tmp_path, by={"every": ["shop"]}), 2)
    before = sorted(map(str, made.to_arrow("every").to_pylist()))
    theirs = {"id": [1], "day": [date(2024, 1, 1)], "shop": ["z"], "v": [1.5], "n": [1]}
    write_deltalake(str(tmp_path / "tables/every"), pa.table(theirs), mode="append")
    with pytest.raises(LedgerError, match="1 files do not have the partition columns shop") as caught:
        made.repair("every", keep="theirs")
    assert 'pipeline.repair("every", keep="ours")' in caught.value.remedy
    made.repair("every", keep="ours")
    assert sorted(map(str, made.to_arrow("every").to_pylist())) == before
    DeltaTable(str(tmp_path / "tables/every")).delete("shop = 'null'")
    made.repair("every", keep="theirs")
    made.run_epoch()
    assert {row["shop"] for row in made.to_arrow("every").to_pylist() if row["n"] < 2} == {*SHOPS} - {"null"}
