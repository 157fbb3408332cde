"""Row groups of bounded size, no file without rows, and nothing half written that looks whole."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from dagster_operators.storage import parquet_writer
from dagster_operators.storage.parquet_writer import ParquetWriter, write_table

SCHEMA = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC")})


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"n": range(first, first + count), "at": range(first, first + count)}).cast(SCHEMA)


@given(st.lists(st.integers(0, 12), max_size=12))
@settings(max_examples=50, deadline=None)
def test_rows_come_back_in_their_order_in_bounded_groups(tmp_path_factory, sizes):
    path = tmp_path_factory.mktemp("rows") / "below" / "a.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_writer, "ROW_GROUP", 10)
        with ParquetWriter(fs.LocalFileSystem(), str(path), SCHEMA) as writer:
            for index, size in enumerate(sizes):
                writer.write(rows(sum(sizes[:index]), size))
    assert writer.rows == sum(sizes)
    if not sum(sizes):
        assert not path.parent.exists()
        return
    file = pq.ParquetFile(path)
    assert file.read() == rows(0, sum(sizes))
    groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert max(groups) < 10 + 12
    assert min(groups[:-1], default=10) >= 10


def test_wide_rows_get_smaller_groups(tmp_path):
    path = str(tmp_path / "a.parquet")
    with ParquetWriter(fs.LocalFileSystem(), path, SCHEMA, group_bytes=100 * 16) as writer:
        for number in range(10):
            writer.write(rows(number * 50, 50))
    assert pq.read_metadata(path).num_row_groups == 5


def test_after_an_error_no_further_rows_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "ROW_GROUP", 10)
    path = tmp_path / "a.parquet"

    def write_until_it_fails():
        with ParquetWriter(fs.LocalFileSystem(), str(path), SCHEMA) as writer:
            writer.write(rows(0, 10))
            writer.write(rows(10, 5))
            raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        write_until_it_fails()
    assert pq.read_table(path) == rows(0, 10)


def test_the_settings_of_files_that_engines_read(tmp_path):
    path = str(tmp_path / "a.parquet")
    with ParquetWriter(fs.LocalFileSystem(), path, SCHEMA) as writer:
        writer.write(rows(0, 5))
    footer = pq.read_metadata(path)
    assert footer.metadata is None  # no Arrow schema, which other readers would have to ignore
    assert footer.row_group(0).column(1).compression == "ZSTD"
    assert "timeUnit=microseconds" in str(footer.schema.column(1).logical_type)


@pytest.mark.parametrize("size", [100, 2**16])
def test_large_values_have_no_dictionary_and_all_else_has(tmp_path, size):
    path = str(tmp_path / "a.parquet")
    given = pa.table({"n": [1, 1, 2], "frame": [bytes([n]) * size for n in (1, 1, 2)], "note": ["x", None, "x"]})
    with ParquetWriter(fs.LocalFileSystem(), path, given.schema) as writer:
        writer.write(given)
    group = pq.read_metadata(path).row_group(0)
    coded = [group.column(column).has_dictionary_page for column in range(3)]
    assert coded == [True, size == 100, True]
    assert pq.read_table(path) == given


def test_large_values_that_get_no_smaller_are_not_compressed(tmp_path):
    path = str(tmp_path / "a.parquet")
    noise = [None, *(os.urandom(2**16) for _ in range(20))]
    given = pa.table({"n": [[number] for number in range(21)], "jpeg": noise, "frame": [bytes(2**16)] * 21, "note": ["x"] * 21})
    with ParquetWriter(fs.LocalFileSystem(), path, given.schema) as writer:
        writer.write(given)
    group = pq.read_metadata(path).row_group(0)
    found = {group.column(column).path_in_schema: group.column(column).compression for column in range(4)}
    assert found == {"n.list.element": "ZSTD", "jpeg": "UNCOMPRESSED", "frame": "ZSTD", "note": "ZSTD"}
    assert pq.read_table(path) == given


@pytest.mark.parametrize("other", [None, b"", b"x"])
def test_what_is_sampled_are_the_values_with_the_bytes(tmp_path, monkeypatch, other):
    looked = []

    class Counting(pa.Codec):
        def compress(self, buf, *given):
            looked.append(buf.size)
            return super().compress(buf, *given)

    monkeypatch.setattr(pa, "Codec", Counting)
    path = tmp_path / "a.parquet"
    frames = pa.chunked_array([[other, b"abc " * 2**14] * 4] * 7 + [[other, b"abc " * 2**14]] * 4)
    given = pa.table({"frame": frames, "unknown": pa.nulls(64, pa.binary())})
    with ParquetWriter(fs.LocalFileSystem(), str(path), given.schema) as writer:
        writer.write(given)
    assert path.stat().st_size < 2**14, "32 frames of 64 KiB that are all alike"
    assert len(looked) <= 8
    assert set(looked) == {2**15}


@pytest.mark.parametrize("nothing", [None, b""])
def test_a_column_without_any_bytes_is_compressed(nothing):
    assert parquet_writer._shrinks(pa.chunked_array([[nothing] * 20], pa.binary()))


def test_a_table_as_it_is(tmp_path):
    path = str(tmp_path / "below" / "a.parquet")
    size = write_table(fs.LocalFileSystem(), path, rows(0, 25), row_group_size=10, write_statistics=False)
    footer = pq.read_metadata(path)
    assert (tmp_path / "below" / "a.parquet").stat().st_size == size
    assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [10, 10, 5]
    assert footer.row_group(0).column(0).statistics is None
    assert pq.read_table(path) == rows(0, 25)
