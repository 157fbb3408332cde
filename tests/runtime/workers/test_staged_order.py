"""A worker that reads its staged rows itself: in their order, and without having all of them in memory."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from dagster_operators.graph.places import PLACES
from dagster_operators.operators.batch_operator import ORIGIN, SEQUENCE
from dagster_operators.runtime.workers import staged_order
from dagster_operators.runtime.workers.staged_order import can_be_ordered, staged_rows
from dagster_operators.runtime.workers.task import NumberedFiles, StagedFile

FILES = fs.LocalFileSystem()
ORDER = ("t", ORIGIN, SEQUENCE)
SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("v", pa.string())])


def staged(folder, origin, files):
    """Files of some times each (None for a row without one); what a row holds is where it is."""
    found, first = [], 7
    for number, times in enumerate(files):
        path = f"{folder}/{origin}-{number}.parquet"
        values = [f"{origin} {number} {place}" for place in range(len(times))]
        pq.write_table(pa.table({"v": values, "t": pa.array(times, pa.timestamp("us", "UTC"))}), path, row_group_size=3)
        found.append(StagedFile(path, len(times), first))
        first += len(times)
    return NumberedFiles(tuple(found), SCHEMA, origin)


def read(entries, order=ORDER):
    return [
        (entry, row)
        for entry, batch in staged_rows(entries, order, FILES)
        for row in pa.Table.from_batches([batch]).set_column(0, "t", batch.column("t").cast(pa.int64())).to_pylist()
    ]


def expected(entries):
    rows = [
        (number, {"t": None, "v": None, ORIGIN: entry.origin, SEQUENCE: file.first + place})
        for number, entry in enumerate(entries)
        if entry
        for file in entry.files
        for place in range(file.rows)
    ]
    read_back = {
        (entry.origin, file.first + place): row
        for entry in entries
        if entry
        for file in entry.files
        for place, row in enumerate(
            pq.read_table(file.path).set_column(1, "t", pq.read_table(file.path).column("t").cast(pa.int64())).to_pylist()
        )
    }
    for _, row in rows:
        row.update(read_back[row[ORIGIN], row[SEQUENCE]])
    return sorted(rows, key=lambda one: (one[1]["t"] is not None, one[1]["t"] or 0, one[1][ORIGIN], one[1][SEQUENCE]))


TIMES = st.lists(st.lists(st.none() | st.integers(-5, 20), max_size=12), max_size=4)


@pytest.mark.parametrize("waiting", [staged_order._WAITING_BYTES, 0], ids=["in memory", "put by"])
def test_rows_come_by_time_then_origin_then_place(waiting, monkeypatch):
    monkeypatch.setattr(staged_order, "_WAITING_BYTES", waiting)
    monkeypatch.setattr(staged_order, "_ROWS", 4)

    @settings(max_examples=40, deadline=None)
    @given(TIMES, TIMES, st.booleans())
    def check(ours, others, is_sorted):
        if is_sorted:
            ours = [sorted(times, key=lambda one: (one is not None, one)) for times in ours]
        with tempfile.TemporaryDirectory() as folder:
            entries = [staged(folder, "b", ours), None, staged(folder, "a", others)]
            assert read(entries) == expected(entries)

    check()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), max_size=8), max_size=3), st.booleans()
)
def test_rows_of_one_time_come_by_their_places_in_the_source(files, knows_places):
    with tempfile.TemporaryDirectory() as folder:
        entries = [placed(folder, "b", files, knows_places=knows_places), placed(folder, "a", files)]
        rows = [(stream, *map(int, row["v"].split())) for stream, row in read(entries, ("t", ORIGIN, *PLACES, SEQUENCE))]
    assert rows == sorted(
        (
            (stream, time, file, place, staged)
            for stream in (1, 0)
            for staged, (time, file, place) in enumerate(itertools.chain(*files))
        ),
        key=lambda row: (row[1], row[0] == 0, *(row[2:4] if row[0] == 1 or knows_places else ()), row[4]),
    )


def placed(folder, origin, files, *, knows_places=True):
    """Files of rows with a time and their places in the source; what a row holds is these, and where it is staged."""
    entry = staged(folder, origin, [[time for time, _, _ in rows] for rows in files])
    number = 0
    for file, rows in zip(entry.files, files, strict=True):
        columns = {name: [row[1 + column] for row in rows] for column, name in enumerate(PLACES) if knows_places}
        values = [f"{time} {which} {place} {number + staged}" for staged, (time, which, place) in enumerate(rows)]
        number += len(rows)
        table = pq.read_table(file.path).drop_columns("v").append_column("v", pa.array(values, pa.string()))
        for name, column in columns.items():
            table = table.append_column(name, pa.array(column, pa.int64()))
        pq.write_table(table, file.path)
    return replace(entry, placed=True)


def test_rows_without_an_order_come_as_they_are_numbered(tmp_path):
    entries = [staged(tmp_path, "a", [[3, 1], [], [2]])]
    assert [row[SEQUENCE] for _, row in read(entries, ())] == [7, 8, 9]


def test_rows_that_are_in_order_are_handed_on_where_they_are(tmp_path):
    entries = [staged(tmp_path, "a", [list(range(5)), list(range(5, 10))])]
    assert [batch.num_rows for _, batch in staged_rows(entries, ORDER, FILES)] == [5, 5]


def test_large_rows_are_read_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(staged_order, "_BYTES", 1000)
    path = str(tmp_path / "large.parquet")
    times = [5, 4, *range(6, 100)]
    table = pa.table({"t": pa.array(times, SCHEMA.field("t").type), "v": [f"{time:0300d}" for time in times]})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    entries = [NumberedFiles((StagedFile(path, 96, 0),), SCHEMA, "a")]
    found = [batch for _, batch in staged_rows(entries, ORDER, FILES)]
    assert max(batch.num_rows for batch in found) <= 3
    assert [int(value) for batch in found for value in batch.column("v").to_pylist()] == [4, 5, *range(6, 100)]


def test_what_waits_is_little_where_rows_are_nearly_in_order(tmp_path):
    times = [time + 3 * (time % 2) for time in range(3000)]
    entries = [staged(tmp_path, "a", [times, times])]
    parts = [staged_order._Part(0, entries[0], file, FILES) for file in entries[0].files]
    merge = staged_order._Merge(parts, ["t"])
    assert merge._most_waiting() < 10 * merge._weights.max()


def test_the_engine_orders_what_it_orders_otherwise():
    plain, others = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string())]), pa.schema([("t", pa.int32())])
    assert can_be_ordered(["t", ORIGIN], [plain])
    assert can_be_ordered([], [plain])
    assert not can_be_ordered(["t"], [plain, others])
    assert not can_be_ordered(["x"], [plain])
    assert not can_be_ordered(["t", "s"], [plain])
