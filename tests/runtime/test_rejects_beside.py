"""The records that a rebuild rejects come to those that are there, each as often as it was rejected."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.runtime.rejects_beside import new_rejects, rejects_of
from dagster_operators.runtime.stages.staged_rows import read_batches, write_batches
from dagster_operators.storage.root import Root
from tests.examples import fresh_examples

SCHEMA = pa.schema([("file", pa.string()), ("record", pa.string()), ("reason", pa.string())])
RECORDS = st.lists(st.tuples(st.sampled_from([None, "1.csv", "2.csv"]), st.sampled_from(["a,x", "b"])), max_size=6)


def write(root: Root, path: str, records: list[tuple[str | None, str]], reason: str) -> list[str]:
    rows = [{"file": file, "record": record, "reason": reason} for file, record in records]
    if rows:
        write_batches(root, path, [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)], SCHEMA)
    return [path] if rows else []


def counted(root: Root, paths: list[str]) -> Counter[tuple[str | None, str]]:
    rows = [row for batch in read_batches(root, "", paths, SCHEMA, 100) for row in batch.to_pylist()]
    return Counter((row["file"], row["record"]) for row in rows)


@fresh_examples(40)
@given(there=RECORDS, found=st.lists(RECORDS, max_size=2))
def test_each_record_is_there_as_often_as_it_was_rejected(
    there: list[tuple[str | None, str]], found: list[list[tuple[str | None, str]]]
) -> None:
    """Why it was rejected may be told otherwise the second time."""
    with TemporaryDirectory() as folder:
        root, table = Root(str(Path(folder))), rejects_of("rows")
        here = write(root, f"{table}/there.parquet", there, "no long")
        files = [path for number, one in enumerate(found) for path in write(root, f"beside/{number}.parquet", one, "no int")]
        change = new_rejects(root, table, [path.removeprefix(f"{table}/") for path in here], files, "e2")
        before = counted(root, here)
        added = counted(root, [f"{table}/{entry.path}" for entry in change.adds] if change else [])
        assert before + added == before | sum(map(Counter, found), Counter())
        assert change is None or (not change.removes and sum(entry.rows for entry in change.adds) == added.total() > 0)
