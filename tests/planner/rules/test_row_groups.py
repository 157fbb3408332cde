"""Within a file that is read Spark leaves out the row groups that have no row for the filter; on Sail that is switched off."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from tests.engines import EMBEDDED

ROWS = 2_000
SMALL, LARGE = range(ROWS), range(10_000, 10_000 + ROWS)
TABLE = pa.table({"v": pa.array([*SMALL, *LARGE], pa.int64()), "k": [f"row {v}" for v in (*SMALL, *LARGE)]})


def damage(file: Path, group: int) -> None:
    """Make a row group unreadable; what the footer says of it stays."""
    chunks = pq.read_metadata(file).row_group(group)
    content = bytearray(file.read_bytes())
    for column in range(chunks.num_columns):
        chunk = chunks.column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(content)


def rows_of(pipeline: do.Pipeline) -> int:
    pipeline.run_epoch()
    return pipeline.read("large").count()


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["files", "delta"])
def test_a_row_group_without_a_wanted_row_is_not_read(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    if kind == "files":
        pq.write_table(TABLE, folder / "a.parquet", row_group_size=ROWS)
        source: do.FileSource | do.DeltaSource = do.FileSource(str(folder), schema="v long, k string", format="parquet")
    else:
        from deltalake import WriterProperties

        write_deltalake(folder, TABLE, writer_properties=WriterProperties(max_row_group_size=ROWS, write_batch_size=ROWS))
        source = do.DeltaSource(str(folder))
    [file] = folder.rglob("*.parquet")
    assert pq.read_metadata(file).num_row_groups == 2
    damage(file, 0)

    def pipeline(condition: str) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path / condition[-1]), engine=EMBEDDED)
        made.source("rows", source).filter(condition).to_table("large")
        return made

    assert rows_of(pipeline("v >= 10001")) == ROWS - 1
    with pytest.raises(Exception, match=r"."):
        pipeline("v >= 5").run_epoch()
