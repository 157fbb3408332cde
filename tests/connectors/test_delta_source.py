"""Delta tables as others write them, with deltalake and with delta-spark."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import dagster_operators as do
from dagster_operators.connectors.change_feed import check_change_feed
from dagster_operators.connectors.connector import UNKNOWN
from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError
from dagster_operators.storage.delta_log import DeltaLog
from dagster_operators.storage.location import FileLocation
from tests.engines import SAIL


@pytest.fixture(params=["spark", "sail"])
def session(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def table(tmp_path):
    return tmp_path / "lake 1" / "weather"


def write(table, *values, mode="append", **options):
    columns = {"k": [f"k{value}" for value in values], "v": pa.array(values, pa.int64())}
    table.parent.mkdir(exist_ok=True)
    write_deltalake(table, pa.table(columns), mode=mode, **options)


def nothing():
    return iter(())


def drain(session, source, start=None):
    """The values of each slice until there are no more, and the position behind them."""
    slices = []
    while choice := source.choose(start, nothing):
        frame = source.read(session, choice.slice.items, source.infer_schema(session))
        slices.append(sorted(row["v"] for row in frame.select("v").collect()))
        start = choice.slice.end
    return slices, start


def test_all_rows_first_and_then_what_versions_add(session, table):
    write(table, 1, 2)
    write(table, 3)
    source = DeltaSource(table)
    slices, position = drain(session, source)
    assert slices == [[1, 2, 3]]
    write(table, 4)
    write(table, 5)
    assert source.choose(position, nothing).slice.items == {"versions": [2, 3]}
    assert drain(session, source, position)[0] == [[4, 5]]
    assert drain(session, DeltaSource(table, max_versions=1), position)[0] == [[4], [5]]


def test_more_says_whether_there_are_further_versions(table):
    for value in range(4):
        write(table, value)
    source = DeltaSource(table, starting_version=1, max_versions=2)
    first = source.choose(None, nothing)
    assert (first.slice.items, first.more) == ({"versions": [1, 2]}, True)
    second = source.choose(first.slice.end, nothing)
    assert (second.slice.items, second.more) == ({"versions": [3, 3]}, False)
    assert source.choose(second.slice.end, nothing) is None


def test_a_starting_version_in_the_future_waits(table):
    write(table, 1)
    waiting = DeltaSource(table, starting_version=1)
    assert waiting.choose(None, nothing) is None
    assert waiting.backlog(None, nothing) == {"versions": 0, "files": 0, "bytes": 0, "rows": 0}


def size(table, *versions):
    log = DeltaLog(FileLocation(str(table), is_folder=True))
    return sum(file.file.size for version in versions for file in log.commit(version).added)


def test_what_waits_is_counted_by_the_log(table, monkeypatch):
    write(table, 1, 2)
    write(table, 3)
    source, feed = DeltaSource(table, max_versions=1), DeltaSource(table, changes=True)
    assert source.backlog(None, nothing) == {"files": 2, "bytes": size(table, 0, 1), "rows": 3}
    assert DeltaSource(table, starting_version=1).backlog(None, nothing) == {
        "versions": 1, "files": 1, "bytes": size(table, 1), "rows": 1
    }  # fmt: skip
    position = source.choose(None, nothing).slice.end
    assert source.backlog(position, nothing) == {"versions": 0, "files": 0, "bytes": 0, "rows": 0}
    write(table, 4, 5, 6)
    DeltaTable(table).optimize.compact()
    write(table, 7)
    assert source.backlog(position, nothing) == {"versions": 3, "files": 2, "bytes": size(table, 2, 4), "rows": 4}
    assert feed.backlog(position, nothing) == {"versions": 3}, "a change may be two rows"
    monkeypatch.setattr("dagster_operators.connectors.delta_versions._MOST_COMMITS", 2)
    assert source.backlog(position, nothing) == {"versions": 3}, "more than are read for this"


def test_rows_that_the_log_does_not_tell_are_not_guessed(table):
    write_deltalake(table, pa.table({"k": pa.array([], pa.string()), "v": pa.array([], pa.int64())}))
    assert DeltaSource(table).backlog(None, nothing) == {"files": 0, "bytes": 0, "rows": 0}
    position = DeltaSource(table).choose(None, nothing).slice.end
    write(table, 1)
    log = table / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert DeltaSource(table).backlog(position, nothing) == {"versions": 1, "files": 1, "bytes": size(table, 1)}
    assert "rows" not in DeltaSource(table).backlog(None, nothing)


def test_versions_without_new_rows_are_passed_over(session, table):
    write(table, 1)
    write(table, 2)
    source = DeltaSource(table)
    _, position = drain(session, source)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    assert source.choose(position, nothing) is None
    write(table, 3)
    assert drain(session, source, position)[0] == [[3]]


def remove(table):
    DeltaTable(table).delete("v = 1")


def update(table):
    DeltaTable(table).update({"k": "'x'"}, predicate="v = 1")


def overwrite(table):
    write(table, 9, mode="overwrite")


@pytest.mark.parametrize(("change", "operation"), [(remove, "DELETE"), (update, "UPDATE"), (overwrite, "WRITE")])
def test_a_version_that_changes_old_rows_is_an_error(table, change, operation):
    write(table, 1, 2)
    source = DeltaSource(table)
    position = source.choose(None, nothing).slice.end
    change(table)
    with pytest.raises(BadInputError, match=r"pipeline.reset\(source, .*changes=True") as raised:
        source.choose(position, nothing)
    assert (raised.value.version, raised.value.operation) == (1, operation)
    with pytest.raises(BadInputError, match="starting_version=2"):
        DeltaSource(table, starting_version=1).choose(None, nothing)
    assert DeltaSource(table, starting_version=2).choose(None, nothing) is None


def test_the_change_feed_tells_deletes_and_updates(session, table):
    write(table, 1, 2, configuration={"delta.enableChangeDataFeed": "true"})
    source = DeltaSource(table, changes=True)
    schema = source.infer_schema(session)
    first = source.choose(None, nothing)
    rows = source.read(session, first.slice.items, schema)
    assert rows.columns == ["k", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    assert sorted(tuple(row)[:4] for row in rows.collect()) == [("k1", 1, "insert", 0), ("k2", 2, "insert", 0)]
    remove(table)
    DeltaTable(table).update({"k": "'x'"}, predicate="v = 2")
    write(table, 3)
    second = source.choose(first.slice.end, nothing)
    assert second.slice.items == {"versions": [1, 3]}
    rows = source.read(session, second.slice.items, schema)
    assert dict(rows.dtypes)["_commit_timestamp"] == "timestamp"
    assert sorted(tuple(row)[:4] for row in rows.collect()) == [
        ("k1", 1, "delete", 1),
        ("k2", 2, "update_preimage", 2),
        ("k3", 3, "insert", 3),
        ("x", 2, "update_postimage", 2),
    ]


def test_a_feed_whose_files_were_cleaned_up_before_it_was_read_says_so(table):
    write(table, 1, configuration={"delta.enableChangeDataFeed": "true"})
    write(table, 2)
    source = DeltaSource(table, changes=True, starting_version=1)
    items = source.choose(None, nothing).slice.items
    for path in table.glob("*.parquet"):
        path.unlink()
    told = source.explain_failure(None, OSError("no such file"), items, source.infer_schema(None))
    assert isinstance(told, MissingInputError)
    assert "has been removed, by VACUUM or otherwise" in str(told)


def test_a_table_without_a_change_feed(session, table):
    write(table, 1)
    source = DeltaSource(table, changes=True, starting_version=0)
    with pytest.raises(BadInputError, match="enableChangeDataFeed"):
        source.read(session, source.choose(None, nothing).slice.items, source.infer_schema(session))


@pytest.mark.usefixtures("sail")
def test_a_version_that_was_written_without_the_feed_and_the_way_on(tmp_path, table):
    write(table, 1, configuration={"delta.enableChangeDataFeed": "true"})
    pipeline = do.Pipeline("p", root=str(tmp_path / "p"), engine=SAIL)
    pipeline.source("rows", DeltaSource(table, changes=True)).as_changes().latest("v").to_table("current")
    pipeline.run_epoch()
    for switch in ("false", "true"):
        DeltaTable(table).alter.set_table_properties({"delta.enableChangeDataFeed": switch})
        write(table, 2 if switch == "false" else 3)
    with pytest.raises(BadInputError, match="version 1 of the Delta table was written while it had no change data feed") as told:
        pipeline.run_epoch()
    assert "pipeline.reset('rows', 0, tables=\"restart\")" in told.value.remedy
    pipeline.reset("rows", 0, tables="restart")
    pipeline.run_epoch()
    assert sorted(pipeline.to_arrow("current")["v"].to_pylist()) == [1, 2, 3]
    spark = "Error getting change data for range [1 , 3] as change data was not\nrecorded for version [2]. If you"
    assert "version 2 of the Delta table" in str(
        DeltaSource(table, changes=True).explain_failure(None, RuntimeError(spark), {"versions": [1, 3]}, "")
    )


def test_the_change_feed_of_a_pipelines_table_is_its_pipelines(tmp_path):
    table = str(tmp_path / "shop" / "tables" / "orders")
    write_deltalake(table, pa.table({"n": [1]}))
    DeltaTable(table).alter.set_table_properties({"dagster_operators.pipeline": "sales"}, raise_if_not_exists=False)
    with pytest.raises(BadInputError) as told:
        check_change_feed(DeltaLog(FileLocation(table, is_folder=True)), 1)
    assert "ALTER TABLE" not in str(told.value)
    assert f"PipelineSource({str(tmp_path / 'shop')!r}, 'orders', changes=True)" in str(told.value)
    assert "change_feed=True of to_table" in str(told.value)


def test_partitioned_tables(session, table):
    rows = pa.table({"day": pa.array([None, 1, 2], pa.date32()), "place": ["a b", None, "c=d/e%f"], "v": [1, 2, 3]})
    table.parent.mkdir()
    write_deltalake(table, rows, partition_by=["day", "place"])
    source = DeltaSource(table)
    frame = source.read(session, source.choose(None, nothing).slice.items, source.infer_schema(session))
    found = frame.selectExpr("v", "CAST(day AS string)", "place").collect()
    assert sorted(tuple(row) for row in found) == [(1, None, "a b"), (2, "1970-01-02", None), (3, "1970-01-03", "c=d/e%f")]


@pytest.mark.slow
def test_column_mapping_and_deletion_vectors(spark, table):
    table.parent.mkdir()
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (k string, `a b` struct<`x y`: long>, v long) USING delta "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableDeletionVectors = true)"
    )
    spark.sql(f"INSERT INTO {name} SELECT 'k', named_struct('x y', id), id FROM range(10)")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN v TO w")
    spark.sql(f"DELETE FROM {name} WHERE w < 5")
    source = DeltaSource(table)
    first = source.choose(None, nothing)
    assert source.backlog(None, nothing).keys() == {"files", "bytes"}
    schema = source.infer_schema(spark)
    rows = source.read(spark, first.slice.items, schema).selectExpr("`a b`.`x y`", "w").collect()
    assert sorted(tuple(row) for row in rows) == [(value, value) for value in range(5, 10)]
    assert source.largest_event_time(first.slice.items, "w") is UNKNOWN
    spark.sql(f"INSERT INTO {name} SELECT 'k', named_struct('x y', id), id FROM range(3)")
    second = source.choose(first.slice.end, nothing)
    assert source.backlog(first.slice.end, nothing)["rows"] == 3
    rows = source.read(spark, second.slice.items, schema).selectExpr("`a b`.`x y`", "w").collect()
    assert sorted(tuple(row) for row in rows) == [(value, value) for value in range(3)]


def test_partitions_under_column_mapping(spark, table):
    table.parent.mkdir()
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (`a day` date, v long) USING delta PARTITIONED BY (`a day`) "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name')"
    )
    source = DeltaSource(table)
    position = source.choose(None, nothing).slice.end
    spark.sql(f"INSERT INTO {name} VALUES (DATE'2024-01-01', 1), (NULL, 2)")
    for start in (None, position):
        items = source.choose(start, nothing).slice.items
        rows = source.read(spark, items, source.infer_schema(spark)).selectExpr("CAST(`a day` AS string)", "v").collect()
        assert sorted((row[1], row[0]) for row in rows) == [(1, "2024-01-01"), (2, None)]


def test_event_times_come_from_footers(table):
    times = [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(2024, 1, 2, microsecond=7, tzinfo=UTC)]
    table.parent.mkdir()
    write_deltalake(table, pa.table({"t": pa.array(times, pa.timestamp("us", "UTC"))}))
    source = DeltaSource(table)
    items = source.choose(None, nothing).slice.items
    assert source.largest_event_time(items, "t") == int(times[2].timestamp()) * 1_000_000 + 7
    assert source.null_count(items, "t") == 1


def test_no_table(tmp_path):
    with pytest.raises(MissingInputError, match="no Delta table") as raised:
        DeltaSource(tmp_path / "none").choose(None, nothing)
    assert "correct the path" in raised.value.remedy


def test_a_column_that_disappears_or_changes_type(table, session):
    write(table, 1)
    source = DeltaSource(table)
    schema = source.infer_schema(session)
    position = source.choose(None, nothing).slice.end
    write_deltalake(table, pa.table({"k": ["a"]}), mode="overwrite", schema_mode="overwrite")
    items = {"snapshot": 1}
    with pytest.raises(BadInputError, match="does not have a column that it had") as raised:
        source.verify(items, schema)
    assert raised.value.column == "v"
    write_deltalake(table, pa.table({"k": ["a"], "v": ["x"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(BadInputError, match="was long and is string") as raised:
        source.verify({"snapshot": 2}, schema)
    assert raised.value.column == "v"
    with pytest.raises(BadInputError):
        source.choose(position, nothing)


def test_a_table_that_others_compact_and_restore(session, table):
    """Fault script d1, with the races in ``tests/storage/test_delta_commit.py``."""
    for value in (1, 2, 3):
        write(table, value)
    source = DeltaSource(table)
    slices, position = drain(session, source)
    assert slices == [[1, 2, 3]]
    DeltaTable(table).optimize.compact()
    write(table, 4)
    slices, position = drain(session, source, position)
    assert slices == [[4]]
    DeltaTable(table).restore(1)
    with pytest.raises(BadInputError, match="RESTORE"):
        source.choose(position, nothing)
    shutil.rmtree(table)
    for value in range(9):
        write(table, 100 + value)
    with pytest.raises(BadInputError, match="was replaced"):
        source.choose(position, nothing)


def test_a_table_that_was_replaced(table):
    write(table, 1)
    source = DeltaSource(table)
    position = source.choose(None, nothing).slice.end
    shutil.rmtree(table)
    write(table, 2)
    with pytest.raises(BadInputError, match="was replaced"):
        source.choose(position, nothing)


def test_a_table_that_was_read_and_is_gone(table):
    write(table, 1)
    position = DeltaSource(table).choose(None, nothing).slice.end
    shutil.rmtree(table)
    with pytest.raises(MissingInputError, match="no Delta table"):
        DeltaSource(table).choose(position, nothing)


def test_versions_cleaned_up_before_they_were_read(table):
    write(table, 1)
    source = DeltaSource(table)
    position = source.choose(None, nothing).slice.end
    write(table, 2)
    write(table, 3)
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(BadInputError, match="cleaned out of its log"):
        source.choose(position, nothing)


def test_a_vacuumed_file_is_not_read_as_empty(session, table):
    write(table, 1)
    source = DeltaSource(table)
    choice = source.choose(None, nothing)
    for file in table.glob("*.parquet"):
        file.unlink()
    with pytest.raises(MissingInputError, match="VACUUM"):
        source.read(session, choice.slice.items, source.infer_schema(session))


def test_a_truncated_data_file_is_named(session, table):
    write(table, *range(1000))
    source = DeltaSource(table)
    items = source.choose(None, nothing).slice.items
    (file,) = table.glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    schema = source.infer_schema(session)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # engines raise errors of many kinds
        source.read(session, items, schema).collect()
    error = source.explain_failure(session, raised.value, items, schema)
    assert isinstance(error, BadInputError)
    assert error.file == str(file)


def test_pinned_tables_stay_as_they_were(session, table):
    write(table, 1)
    source = DeltaSource(table)
    pin = source.pin()
    write(table, 2)
    assert [row["v"] for row in source.read_pinned(session, pin, source.infer_schema(session)).collect()] == [1]


def test_an_empty_table(session, table):
    write(table)
    assert drain(session, DeltaSource(table))[0] == [[]]


def test_settings():
    assert DeltaSource("a").fingerprint() == DeltaSource("a", max_versions=3).fingerprint()
    assert DeltaSource("a").fingerprint() != DeltaSource("a", changes=True).fingerprint()
    assert "secret" not in str(DeltaSource("s3://b/t", storage_options={"AWS_SECRET_ACCESS_KEY": "secret"}).config())
    with pytest.raises(PipelineError, match="max_versions"):
        DeltaSource("a", max_versions=0)
