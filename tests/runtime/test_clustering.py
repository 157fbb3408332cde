"""A compaction orders the rows of a table by its columns, so that readers who ask for some of their values open few files."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.plans.diff import diff
from dagster_operators.runtime.clustering import cuts, in_order
from dagster_operators.runtime.compacting import groups_of
from dagster_operators.transactions.manifest import FileEntry
from tests.engines import EMBEDDED, SAIL

SCHEMA = "origin string, day date, n long, pad string"
BY = ["origin", "day"]
FIRST = date(2024, 1, 1)


def epochs(count: int, rows: int = 200) -> list[list[dict[str, Any]]]:
    """Rows of which none is near those of like values."""
    return [
        [
            {
                "origin": f"o{(7 * number + epoch) % 40:02}",
                "day": FIRST + timedelta(days=(11 * number + 3 * epoch) % 60) if number % 50 else None,
                "n": epoch * rows + number,
                "pad": f"{number * 2654435761 % 2**32:032b}{epoch}",
            }
            for number in range(rows)
        ]
        for epoch in range(count)
    ]


def build(root: Path, count: int, by: list[str], engine: Any = SAIL, **more: Any) -> do.Pipeline:
    pipeline = do.Pipeline("air", root=str(root), engine=engine)
    rows = pipeline.source("flights", do.MemorySource(epochs(count), schema=SCHEMA))
    rows.to_table("flights", cluster_by=by, **more)
    pipeline.run_until_caught_up()
    return pipeline


def files(root: Path) -> list[dict[str, Any]]:
    return DeltaTable(root / "tables/flights").get_add_actions(flatten=True).to_struct_array().to_pylist()


def opened(root: Path, column: str, value: Any) -> int:
    """How many files a reader has to open who asks for one value, by what the log says."""
    return sum(file[f"min.{column}"] <= value <= file[f"max.{column}"] for file in files(root))


def rows_of(root: Path) -> Counter[str]:
    return Counter(map(repr, DeltaTable(root / "tables/flights").to_pyarrow_table().to_pylist()))


@pytest.mark.sail
def test_readers_of_either_column_open_fewer_files(tmp_path: Path) -> None:
    pipeline = build(tmp_path, 24, BY)
    before, small = rows_of(tmp_path), files(tmp_path)
    size = sum(file["size_bytes"] for file in small)
    assert {opened(tmp_path, "origin", f"o{n:02}") for n in range(40)} == {len(small)}
    done = do.StoredPipeline(str(tmp_path)).compact(target_size=size // 9)
    assert rows_of(tmp_path) == before
    found = files(tmp_path)
    assert done.tables["flights"].into == len(found) == 9
    for column, values in (("origin", [f"o{n:02}" for n in range(40)]), ("day", [FIRST + timedelta(days=n) for n in range(60)])):
        each = [opened(tmp_path, column, value) for value in values]
        assert sum(each) / len(each) < 0.6 * len(found), column
    assert max(file["num_records"] for file in found) - min(file["num_records"] for file in found) <= 1
    (log,) = (tmp_path / "tables/flights/_delta_log").glob(f"*{DeltaTable(tmp_path / 'tables/flights').version()}.json")
    assert {json.loads(line)["add"]["dataChange"] for line in log.read_text().splitlines() if '"add"' in line} == {False}
    while done.tables:
        into = done.tables["flights"].into
        done = pipeline.compact(target_size=size // 9)
        assert not done.tables or done.tables["flights"].into < into, "it comes to an end"
    assert rows_of(tmp_path) == before


@pytest.mark.spark
def test_delta_spark_skips_files_of_what_spark_wrote(tmp_path: Path) -> None:
    pipeline = build(tmp_path, 8, ["n"], EMBEDDED)
    before, size = rows_of(tmp_path), sum(file["size_bytes"] for file in files(tmp_path))
    assert pipeline.compact("flights", target_size=size // 3).tables["flights"].into >= 3
    assert rows_of(tmp_path) == before
    table = EMBEDDED.session().read.format("delta").load(str(tmp_path / "tables/flights"))
    assert len(table.inputFiles()) >= 3
    asked = table.filter("n = 450").selectExpr("n", "input_file_name() AS file")
    assert [row.n for row in asked.collect()] == [450]
    assert opened(tmp_path, "n", 450) == 1


@pytest.mark.sail
def test_partitions_are_ordered_each_for_itself(tmp_path: Path) -> None:
    pipeline = do.Pipeline("air", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("flights", do.MemorySource(epochs(3, 40), schema=SCHEMA)).with_columns(half="n % 2 = 0")
    rows.to_table("flights", partition_by=["half"], cluster_by=["n"])
    pipeline.run_until_caught_up()
    before = rows_of(tmp_path)
    assert pipeline.compact().tables["flights"].into == 2
    assert rows_of(tmp_path) == before
    for uri in DeltaTable(tmp_path / "tables/flights").file_uris():
        numbers = pq.ParquetFile(uri.removeprefix("file://")).read()["n"].to_pylist()
        assert numbers == sorted(numbers)
        assert len({number % 2 for number in numbers}) == 1


@pytest.mark.sail
def test_a_table_says_how_large_its_files_are(tmp_path: Path) -> None:
    """Counted from the next epoch on; what the call says counts more. Without either all of these go into one file."""
    build(tmp_path, 12, [])
    size = sum(file["size_bytes"] for file in files(tmp_path))
    changed = build(tmp_path, 13, [], target_file_size=size // 4)
    assert f"compacted to files of {size // 4} bytes" in str(changed.explain())
    before = rows_of(tmp_path)
    assert do.StoredPipeline(str(tmp_path)).compact().tables["flights"].into == len(files(tmp_path)) in {3, 4, 5}
    assert rows_of(tmp_path) == before
    assert changed.compact(target_size=1 << 30).tables["flights"].into == len(files(tmp_path)) == 1


@pytest.mark.sail
def test_a_clustered_table_says_it_too_and_maintenance_goes_by_it(tmp_path: Path) -> None:
    pipeline = build(tmp_path, 12, BY)
    size = sum(file["size_bytes"] for file in files(tmp_path))
    pipeline = build(tmp_path, 13, BY, target_file_size=size // 5)
    job = do.build_definitions(pipeline, compact=True).resolve_job_def("air_maintenance")
    assert job.execute_in_process().success
    assert len(files(tmp_path)) == 5


@pytest.mark.sail
def test_other_columns_are_nobodys_question(tmp_path: Path) -> None:
    build(tmp_path, 2, ["n"])
    changed = build(tmp_path, 3, ["origin"])
    assert "clustered by origin" in str(changed.explain())
    changed.compact()
    (file,) = files(tmp_path)
    origins = pq.ParquetFile(tmp_path / "tables/flights" / file["path"]).read()["origin"].to_pylist()
    assert origins == sorted(origins)


def test_a_plan_keeps_them() -> None:
    pipeline = do.Pipeline("air", root="nowhere")
    pipeline.source("flights", do.MemorySource([], schema=SCHEMA)).to_table("flights", cluster_by=BY)
    again = from_bytes(to_bytes(pipeline.logical_plan()))
    assert again.tables[0].cluster_by == ("origin", "day")
    sized = do.Pipeline("air", root="nowhere")
    sized.source("flights", do.MemorySource([], schema=SCHEMA)).to_table("flights", target_file_size=1 << 40)
    assert from_bytes(to_bytes(sized.logical_plan())).tables[0].target_file_size == 1 << 40
    assert "target_file_size" in str(diff(pipeline.logical_plan(), sized.logical_plan()))
    other = do.Pipeline("air", root="nowhere")
    other.source("flights", do.MemorySource([], schema=SCHEMA)).to_table("flights")
    assert "cluster_by" in str(diff(pipeline.logical_plan(), other.logical_plan()))


WIDE = ", ".join(f"c{n} int" for n in range(40))


@pytest.mark.sail
@pytest.mark.parametrize(
    ("schema", "by", "told", "mended"),
    [
        ("n int, ok boolean", ["ok"], "clustered by 'ok', which is boolean: its log has no largest value", ["n"]),
        ("n int, x double", ["x"], "clustered by 'x', which is double", ["n"]),
        ("n int, s struct<a: int>", ["s"], "clustered by 's'", ["n"]),
        ("n int, m map<string, int>", ["m"], "clustered by 'm', which is map<string,integer>: its log", ["n"]),
        ("n int, a array<int>", ["n", "a"], "clustered by 'a', which is array<integer>: its log has no largest value", ["n"]),
        (WIDE, ["c35"], "clustered by 'c35': its log has .* first 32 columns only.*select\\('c35'", ["c31"]),
        (f"s struct<{WIDE.replace(' int', ': int')}>, n int", ["n"], "clustered by 'n': its log has", []),
        (WIDE, ["c0", "c1", "c2", "c3", "c4"], "clustered by 5 columns.*give the 4 that", ["c0", "c1", "c2", "c3"]),
    ],
)
def test_columns_that_would_not_help_are_refused(
    tmp_path: Path, schema: str, by: list[str], told: str, mended: list[str]
) -> None:
    def plan(columns: list[str]) -> None:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        pipeline.source("rows", do.MemorySource([[]], schema=schema)).to_table("t", cluster_by=columns)
        pipeline.run_epoch()

    with pytest.raises(SchemaError, match=told):
        plan(by)
    stored = do.StoredPipeline(str(tmp_path))
    assert (stored.history(), stored.status().open) == ([], None), "refused before an epoch begins, not by a compaction"
    plan(mended)


def test_mistakes_are_told_where_they_are_made() -> None:
    rows = do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema="n int"))
    with pytest.raises(PipelineError, match=r"cluster_by is 'n'.*give a list of columns: \['n'\]"):
        rows.to_table("t", cluster_by="n")
    with pytest.raises(PipelineError, match="a column is given twice to cluster by"):
        rows.to_table("t", cluster_by=["n", "n"])
    with pytest.raises(SchemaError, match=r"no column 'm' to cluster by.*there are: n"):
        rows.to_table("t", cluster_by=["m"])
    for size in (0, -1, True, "64 MiB", 2**63):
        with pytest.raises(PipelineError, match=r"target_file_size is .*such as target_file_size=64 \* 1024"):
            rows.to_table("t", target_file_size=size)
    rows.to_table("t", target_file_size=64 * 1024 * 1024)


VALUES = st.sampled_from(
    [
        (st.integers(-(2**63), 2**63 - 1), pa.int64()),
        (st.text("aäb", max_size=2), pa.string()),
        (st.dates(), pa.date32()),
        (st.datetimes(timezones=st.just(UTC)), pa.timestamp("us", "UTC")),
        (st.decimals(-999, 999, places=2), pa.decimal128(10, 2)),
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.lists(VALUES, min_size=1, max_size=3), st.integers(0, 20))
def test_the_order_keeps_every_row_and_sorts_by_one_column(data: st.DataObject, kinds: list[Any], count: int) -> None:
    columns = {
        f"c{n}": pa.array(data.draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
        for n, (values, kind) in enumerate(kinds)
    }
    rows = pa.table({**columns, "row": list(range(count))})
    found = in_order(rows, list(columns))
    assert found.schema == rows.schema
    assert Counter(found["row"].to_pylist()) == Counter(range(count))
    assert found.sort_by("row").to_pylist() == rows.to_pylist()
    one = in_order(rows, ["c0"])["c0"].to_pylist()
    known = [value for value in one if value is not None]
    assert known == sorted(known)
    assert one == [*known, *[None] * (count - len(known))]


@pytest.mark.filterwarnings("error")
def test_null_is_behind_all_and_nobody_is_warned() -> None:
    rows = pa.table({"x": [1, None, 0, 2], "y": [None, None, "a", "b"]})
    assert in_order(rows, ["x", "y"])["x"].to_pylist() == [0, 1, 2, None]


def test_the_order_by_two_columns_goes_through_quarters() -> None:
    rows = pa.table({"x": [x for x in range(8) for _ in range(8)], "y": [y for _ in range(8) for y in range(8)]})
    found = in_order(rows, ["x", "y"])
    places = [(x // 4, y // 4) for x, y in zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True)]
    quarters = [set(places[at : at + 16]) for at in range(0, 64, 16)]
    assert quarters == [{(0, 0)}, {(0, 1)}, {(1, 0)}, {(1, 1)}]


@given(st.integers(0, 100), st.integers(1, 20))
def test_cuts_cover_all_rows(rows: int, count: int) -> None:
    found = cuts(rows, count)
    assert [row for first, size in found for row in range(first, first + size)] == list(range(rows))
    assert len(found) == min(rows, count)


def test_groups_may_be_larger_than_files() -> None:
    small = [FileEntry(f"e{epoch}-g1-0a/a", 4, 1) for epoch in range(1, 8)]
    assert [len(group) for group in groups_of(small, 10)] == [2, 2, 2]
    assert [len(group) for group in groups_of(small, 10, 20)] == [5, 2]
