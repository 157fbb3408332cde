"""Complete extracts of a table: what they change is found by the key, whatever epochs, restarts and files come between."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import BadInputError, MissingInputError, OperatorsError, PipelineError
from dagster_operators.plans.codec import from_bytes
from dagster_operators.runtime.engine import Spark
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples
from tests.following import done, refused, ways_of

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "id long, name string, price double"
Rows = list[tuple[Any, ...]]


def built(root: Path, source: Any, engine: Spark = SAIL, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root / "root"), engine=engine)
    items = pipeline.source("items", do.SnapshotSource(source, **{"key": "id", **settings}))
    items.to_table("log")
    items.latest("id").to_table("now")
    return pipeline


def of_files(root: Path, **settings: Any) -> do.Pipeline:
    return built(root, do.FileSource(str(root / "in" / "*.csv"), schema=SCHEMA), **settings)


def of_table(root: Path, **settings: Any) -> do.Pipeline:
    return built(root, do.DeltaSource(str(root / "table")), **settings)


def put(root: Path, name: str, rows: Rows, at: int, *, half: bool = False) -> Path:
    """Write an extract that was changed at a time, the lines of whose second half may be missing."""
    path = root / "in" / name
    path.parent.mkdir(exist_ok=True)
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    path.write_text("\n".join(["id,name,price", *(lines[: len(lines) // 2] if half else lines), ""]))
    os.utime(path, (1_700_000_000 + at,) * 2)
    return path


def found(pipeline: do.Pipeline, table: str) -> Rows:
    rows = (tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in row) for row in pipeline.read(table).collect())
    return sorted(rows, key=repr)


BEFORE: Rows = [(1, "a", 1.0), (2, "b", 2.0), (3, "c", None)]
AFTER: Rows = [(1, "a", 1.0), (2, "b", 2.5), (4, "d", 4.0)]
CHANGES = [
    (1, "a", 1.0, "insert"), (2, "b", 2.0, "insert"), (2, "b", 2.0, "update_before"), (2, "b", 2.5, "update_after"),
    (3, "c", None, "delete"), (3, "c", None, "insert"), (4, "d", 4.0, "insert"),
]  # fmt: skip


@pytest.mark.spark
def test_what_changes_on_spark_and_a_repeated_key_there(tmp_path: Path) -> None:
    batches = [BEFORE, AFTER, [(4, "d", 4.0), (4, "e", 5.0)]]
    pipeline = built(tmp_path, do.MemorySource(batches, schema=SCHEMA), EMBEDDED)
    for _ in range(2):
        pipeline.run_epoch()
    assert (found(pipeline, "now"), found(pipeline, "log")) == (AFTER, CHANGES)
    with pytest.raises(BadInputError, match=r"in an extract the key 4 is there more than once"):
        pipeline.run_epoch()


@pytest.mark.sail
def test_a_zero_with_another_sign_is_the_same_key(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    extract = do.MemorySource([[("a", 0.0), ("a", -0.0)]], schema="k string, d double")
    pipeline.source("items", do.SnapshotSource(extract, ("k", "d"))).to_table("log")
    with pytest.raises(BadInputError, match="is there more than once"):
        pipeline.run_epoch()


@pytest.mark.sail
def test_what_changes_from_one_extract_to_the_next(tmp_path: Path) -> None:
    batches = [BEFORE, AFTER, AFTER, [(4, "d", 4.0)], [(4, "d", 4.0), (4, "e", 5.0)]]
    pipeline = built(tmp_path, do.MemorySource(batches, schema=SCHEMA))
    tables = []
    for _ in range(3):
        pipeline.run_epoch()
        tables.append(found(pipeline, "now"))
    assert tables == [BEFORE, AFTER, AFTER]
    assert found(pipeline, "log") == CHANGES
    with pytest.raises(BadInputError, match=r"an extract lacks 2 of the 3 rows there are, more than max_deleted=0.5 allows"):
        pipeline.run_epoch()
    pipeline = built(tmp_path, do.MemorySource(batches, schema=SCHEMA), max_deleted=1.0)
    said = [(verdict.subject, verdict.level.name) for verdict in pipeline.changes()]
    assert sorted(said) == [("operator items_changes", "FROM_HERE_ON"), ("source items", "FROM_HERE_ON")]
    pipeline.run_epoch()
    assert found(pipeline, "now") == [(4, "d", 4.0)]
    with pytest.raises(BadInputError, match=r"in an extract the key 4 is there more than once") as refused:
        pipeline.run_epoch()
    assert refused.value.where["source"] == "items"
    assert found(pipeline, "now") == [(4, "d", 4.0)]


value = st.sampled_from([None, 0.0, 1.5, math.nan])
extract = st.dictionaries(st.sampled_from([None, 1, 2, 3, 4]), st.tuples(st.sampled_from(["a", None]), value), max_size=5)


@pytest.mark.sail
@fresh_examples(3)
@given(extracts=st.lists(extract, min_size=1, max_size=4), again=st.booleans())
def test_the_table_is_always_the_last_extract(
    tmp_path_factory: pytest.TempPathFactory, extracts: list[dict[Any, Any]], *, again: bool
) -> None:
    root = tmp_path_factory.mktemp("extracts")
    batches = [[(key, *values) for key, values in rows.items()] for rows in extracts]
    pipeline = built(root, do.MemorySource(batches, schema=SCHEMA), max_deleted=1.0)
    for rows in batches:
        if again:
            pipeline = built(root, do.MemorySource(batches, schema=SCHEMA), max_deleted=1.0)
        pipeline.run_epoch()
        shown = sorted((tuple("nan" if v != v else v for v in row) for row in rows), key=repr)  # noqa: PLR0124
        assert found(pipeline, "now") == shown
    left: dict[Any, int] = {}
    for *row, change in found(pipeline, "log"):
        left[tuple(row)] = left.get(tuple(row), 0) + (1 if change in ("insert", "update_after") else -1)
    assert dict.fromkeys(shown, 1) == {row: count for row, count in left.items() if count}
    assert pipeline.run_epoch().empty


@pytest.mark.sail
def test_files_are_taken_by_time_and_one_may_be_written_anew(tmp_path: Path) -> None:
    put(tmp_path, "b.csv", BEFORE, 1)
    put(tmp_path, "a.csv", AFTER, 2)
    pipeline = of_files(tmp_path)
    assert pipeline.run_until_caught_up()[-1].epoch == 2
    assert found(pipeline, "log") == CHANGES
    put(tmp_path, "a.csv", BEFORE, 3)
    (tmp_path / "in" / "b.csv").unlink()
    of_files(tmp_path).run_epoch()
    assert found(pipeline, "now") == BEFORE
    late = put(tmp_path, "c.csv", AFTER, 2)
    with pytest.raises(
        BadInputError, match=r"an extract that was not read is older than the last one that was, a\.csv"
    ) as refused:
        of_files(tmp_path).run_epoch()
    assert str(refused.value.where["file"]).endswith("c.csv")
    os.utime(late, (1_700_000_009,) * 2)
    of_files(tmp_path).run_epoch()
    assert found(pipeline, "now") == AFTER


@pytest.mark.sail
def test_an_extract_that_is_gone_or_left_out_is_rebuilt_as_the_error_says(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", BEFORE, 1)
    last = put(tmp_path, "2.csv", AFTER, 2)
    of_files(tmp_path).run_until_caught_up()
    todo = "pipeline.rebuild(['log', 'now'], since=2)"
    without = refused(lambda: of_files(tmp_path).rebuild(since=3), PipelineError, "leaves no extract")
    assert ways_of(without) == [todo]
    kept = last.rename(tmp_path / "kept")
    gone = refused(lambda: of_files(tmp_path).rebuild(), MissingInputError, "has vanished")
    assert ways_of(gone) == [todo]
    kept.rename(last)
    assert done(todo, lambda: of_files(tmp_path)) is None
    assert found(of_files(tmp_path), "now") == AFTER


@pytest.mark.sail
def test_half_an_extract_deletes_nothing_and_a_whole_one_takes_its_place(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", BEFORE, 1)
    pipeline = of_files(tmp_path, max_deleted=0.4)
    pipeline.run_epoch()
    put(tmp_path, "2.csv", AFTER, 2, half=True)
    with pytest.raises(BadInputError, match="an extract lacks 2 of the 3 rows there are") as refused:
        of_files(tmp_path, max_deleted=0.4).run_epoch()
    assert (refused.value.where["file"], refused.value.where["operator"]) == ("2.csv", "items_changes")
    put(tmp_path, "2.csv", AFTER, 3)
    of_files(tmp_path, max_deleted=0.4).run_epoch()
    assert found(pipeline, "now") == AFTER
    put(tmp_path, "3.csv", [], 4)
    with pytest.raises(BadInputError, match="an extract lacks 3 of the 3 rows there are"):
        of_files(tmp_path).run_epoch()
    of_files(tmp_path, max_deleted=1.0).run_epoch()
    assert found(pipeline, "now") == []


@pytest.mark.sail
def test_a_repeated_key_is_told_with_its_file(tmp_path: Path) -> None:
    put(tmp_path, "1.csv", [(1, "a", 1.0), (7, "b", 2.0), (7, "b", 2.0)], 1)
    with pytest.raises(BadInputError, match="in an extract the key 7 is there more than once") as refused:
        of_files(tmp_path).run_epoch()
    assert refused.value.where["file"] == "1.csv"
    put(tmp_path, "1.csv", BEFORE, 2)
    pipeline = of_files(tmp_path)
    pipeline.run_epoch()
    assert found(pipeline, "now") == BEFORE


@pytest.mark.sail
def test_a_corrupt_record_is_to_be_corrected_since_it_cannot_be_set_aside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id,v\n1,x\n")
    pipeline = built(tmp_path, do.FileSource(str(tmp_path / "in" / "*.csv"), schema="id long, v int"), key="id")
    with pytest.raises(BadInputError, match="cannot be parsed") as refused:
        pipeline.run_epoch()
    assert refused.value.where["record"] == "1,x"
    assert refused.value.remedy == "correct the file: without the record, its row would be deleted"


def rows_of(rows: Rows) -> pa.Table:
    kinds = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=kinds)


@pytest.mark.sail
def test_the_versions_of_a_table_are_extracts_and_older_ones_may_go(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    write_deltalake(table, rows_of(BEFORE))
    pipeline = of_table(tmp_path)
    pipeline.run_epoch()
    write_deltalake(table, rows_of([(9, "x", 9.0)]), mode="overwrite")
    write_deltalake(table, rows_of(AFTER), mode="overwrite")
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    of_table(tmp_path).run_epoch()
    assert (found(pipeline, "now"), found(pipeline, "log")) == (AFTER, CHANGES)
    DeltaTable(table).optimize.compact()
    assert of_table(tmp_path).run_epoch().empty
    DeltaTable(table).delete("id <> 1")
    with pytest.raises(BadInputError, match="an extract lacks 2 of the 3 rows there are") as refused:
        of_table(tmp_path).run_epoch()
    assert refused.value.where["table"] == table
    write_deltalake(table, rows_of(BEFORE), mode="overwrite")
    of_table(tmp_path).run_epoch()
    assert found(pipeline, "now") == BEFORE


@pytest.mark.parametrize(
    ("source", "settings", "problem"),
    [
        (do.FileSource("in", schema=SCHEMA), {"key": ()}, r"\(\) is no key"),
        (do.FileSource("in", schema=SCHEMA), {"max_deleted": 1.5}, "max_deleted is a share from 0 to 1, not 1.5"),
        (do.FileSource("in", schema=SCHEMA), {"max_deleted": True}, "max_deleted is a share from 0 to 1, not True"),
        (do.FileSource("in", schema=SCHEMA, corrupt="reject"), {}, "would delete their rows"),
        (do.FileSource("in", format="debezium-json", schema=SCHEMA, key="id"), {}, "change events are no extracts"),
        (do.DeltaSource("in", changes=True), {}, "changes=True has no place there"),
        (do.DeltaSource("in", starting_version=3), {}, "starting_version has no place there"),
        (do.PipelineSource("in", "t"), {}, "gives no extracts"),
        ("in/*.csv", {}, "'in/[*].csv' gives no extracts"),
    ],
    ids=["key", "share", "truth", "reject", "events", "feed", "starting", "pipeline", "path"],
)
def test_what_gives_no_extracts_is_refused(source: Any, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        do.SnapshotSource(source, **{"key": "id", **settings})


def test_a_key_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorsError, match=r"the source's key='missing' is no column of it.*source 'items'.*use one of: id"):
        built(tmp_path, do.FileSource("in", schema=SCHEMA), key="missing")


def test_a_lookup_reads_a_table(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="a lookup reads a table, not extracts"):
        do.SnapshotSource(do.MemorySource([BEFORE], schema=SCHEMA), "id").pin()


def test_a_plan_has_all_settings_but_the_secrets() -> None:
    options = {"aws_secret_access_key": "hunter2"}
    source = do.SnapshotSource(do.FileSource("s3://b/in", schema=SCHEMA, storage_options=options), ("id", "name"), 0.1)
    pipeline = do.Pipeline("p", root="unused")
    pipeline.source("items", source).to_table("log")
    plan = pipeline.to_plan()
    assert b"hunter2" not in plan
    (read, changes) = from_bytes(plan).nodes
    assert read.operator.left_out() == ("storage_options",)
    given_again = read.operator.with_secrets({"storage_options": options}).connector
    assert (given_again, given_again.source.storage_options) == (source, options)
    assert changes.operator.max_deleted == 0.1
    assert from_bytes(plan) == pipeline.logical_plan()


def test_positions_are_those_of_the_extracts() -> None:
    files = do.SnapshotSource(do.FileSource("in", schema=SCHEMA), "id")
    files.check_position({"files": 1, "digest": "d", "last": ["1.csv", 10, 5]})
    with pytest.raises(PipelineError, match="is no position"):
        files.check_position({"files": 1, "digest": "d"})
    do.SnapshotSource(do.MemorySource([], schema=SCHEMA), "id").check_position({"batches": 1})
    assert files.positions() != do.FileSource("in", schema=SCHEMA).positions()
    assert not files.may_go_on_from(do.SnapshotSource(do.FileSource("other", schema=SCHEMA), "id"))
