"""Rows with their places: files in the order of the slice, and rows in that of their file, however an engine reads them."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.graph.places import FILE, PLACE

NAMES = ("c.x", "a b", "b%20+ü", "d#1")
"""Files, which are read in this order."""


@pytest.fixture(params=["spark", "sail"])
def session(request):
    found = request.getfixturevalue(request.param)
    if request.param == "sail":
        yield found
        return
    before = found.conf.get("spark.sql.files.maxPartitionBytes")
    found.conf.set("spark.sql.files.maxPartitionBytes", "60")  # a file is read in many pieces
    try:
        yield found
    finally:
        found.conf.set("spark.sql.files.maxPartitionBytes", before)


def write(folder, kind, number, name, values):
    path = folder / f"{name}.{kind}"
    match kind:
        case "parquet":
            pq.write_table(pa.table({"v": values}), path, row_group_size=5)
        case "csv":
            path.write_text("v\n" + "".join(f"{value}\n" for value in values))
        case "csv.gz":
            path.write_bytes(gzip.compress(("v\n" + "".join(f"{value}\n" for value in values)).encode()))
        case "json":
            path.write_text("".join(json.dumps({"v": value}) + "\n" for value in values))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def in_their_order(rows):
    return [row.v for row in sorted(rows, key=lambda row: (row[FILE], row[PLACE]))]


def frame_of(session, source):
    items = source.choose(None, lambda: iter(())).slice.items
    return source.with_places().read(session, items, source.infer_schema(session), corrupt=source.on_corrupt)


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "json"])
@pytest.mark.parametrize("names", [NAMES, NAMES[:1]], ids=["files", "file"])
def test_rows_of_files_have_their_places(session, tmp_path, kind, names):
    values = iter(range(1000))
    for number, name in enumerate(names):
        write(tmp_path, kind, number, name, [next(values) for _ in range(40)])
    source = FileSource(tmp_path, format=kind.partition(".")[0], schema="v long")
    found = frame_of(session, source)
    assert found.columns == ["v", FILE, PLACE]
    assert in_their_order(found.collect()) == list(range(40 * len(names)))


def test_beside_rejects(session, tmp_path):
    for number, name in enumerate(NAMES):
        write(tmp_path, "csv", number, name, [10 * number, "x", 10 * number + 1])
    good, bad = split_rejects(frame_of(session, FileSource(tmp_path, format="csv", schema="v long", corrupt="reject")))
    assert in_their_order(good.collect()) == [0, 1, 10, 11, 20, 21, 30, 31]
    assert bad.columns == ["file", "record", "reason"]
    assert bad.count() == len(NAMES)


def test_files_with_columns_in_other_orders(session, tmp_path):
    (tmp_path / "a.csv").write_text("v,w\n0,x\n1,x\n")
    (tmp_path / "b.csv").write_text("w,v\nx,2\nx,3\n")
    (tmp_path / "c.csv").write_text("v,w\n4,x\n5,x\n")
    for number, name in enumerate("abc"):
        os.utime(tmp_path / f"{name}.csv", (1_700_000_000 + number,) * 2)
    assert in_their_order(frame_of(session, FileSource(tmp_path, schema="v long, w string")).collect()) == list(range(6))


def test_rows_of_a_delta_table(session, tmp_path):
    for version in range(3):
        values = range(20 * version, 20 * version + 20)
        rows = pa.table({"v": values, "p": [f"p {value // 10 % 2}" for value in values]})
        write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"], mode="append")
    table = DeltaTable(str(tmp_path / "t"))
    source = DeltaSource(tmp_path / "t")
    found = in_their_order(frame_of(session, source).collect())
    assert sorted(found) == list(range(60))
    assert all(found[start : start + 10] == list(range(found[start], found[start] + 10)) for start in range(0, 60, 10))
    added = source.with_places().read(session, {"versions": [1, table.version()]}, source.infer_schema(session))
    commits = in_their_order(added.collect())
    assert sorted(commits[:20]) == list(range(20, 40))


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_columns_of_the_user_may_have_the_names_of_sparks_and_of_helpers(session, tmp_path, kind):
    names = ["v", "_number", "_Metadata", "_unread_4"]
    for number, name in enumerate("ab"):
        rows = [dict.fromkeys(names, value) | {"other": 7} for value in (2 * number, 2 * number + 1)]
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif kind == "csv":
            path.write_text("\n".join([",".join([*names, "other"]), *(",".join(map(str, row.values())) for row in rows)]))
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + number,) * 2)
    for corrupt in ("fail", "reject"):
        source = FileSource(tmp_path, format=kind, schema=", ".join(f"{name} long" for name in names), corrupt=corrupt)
        found = (
            split_rejects(frame_of(session, source))[0]
            if corrupt == "reject" and kind != "parquet"
            else frame_of(session, source)
        )
        told = sorted(found.collect(), key=lambda row: (row[FILE], row[PLACE]))
        assert [[row[name] for name in names] for row in told] == [[value] * 4 for value in range(4)]


def test_rows_in_memory(session):
    source = MemorySource([[(5,), (3,), (4,)]], schema="v long")
    assert in_their_order(frame_of(session, source).collect()) == [5, 3, 4]


def test_nested_columns_and_others_than_are_read(session, tmp_path):
    rows = [{"skipped": 1, "s": {"more": 1, "a": number, "b": ["x"]}, "v": number} for number in range(7)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=3)
    found = frame_of(session, FileSource(tmp_path, format="parquet", schema="v long, s struct<a: bigint, b: array<string>>"))
    assert found.drop(PLACE, FILE).columns == ["v", "s"]
    told = sorted(found.collect(), key=lambda row: row[PLACE])
    assert [(row.v, row.s.a, row.s.b) for row in told] == [(number, number, ["x"]) for number in range(7)]


def test_who_does_not_ask_gets_no_more_columns(session, tmp_path):
    write(tmp_path, "parquet", 0, "a", [1])
    source = FileSource(tmp_path, schema="v long")
    source.with_places()
    items = source.choose(None, lambda: iter(())).slice.items
    assert source.read(session, items, source.infer_schema(session)).columns == ["v"]
