"""The logs of Delta tables that others write, whole and damaged."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.storage.delta_log import HINT, LOG, DeltaLog, entry_path
from dagster_operators.storage.location import FileLocation

DAMAGED = {
    "empty": b"",
    "cut short": b'{"commitInfo":{"timest',
    "no text": b"\xff\xfe{{",
    "no actions": b"[1]\n",
    "no object": b"7",
}


@pytest.fixture
def table(tmp_path):
    folder = tmp_path / "weather"
    for value in range(3):
        append(folder, value)
    return folder


def append(table, value):
    write_deltalake(table, pa.table({"v": [value]}), mode="append")


def log_of(table):
    return DeltaLog(FileLocation(str(table), is_folder=True))


def versions(choice):
    return choice.slice.items["versions"]


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_entry_is_not_passed_over(table, content):
    source = DeltaSource(table)
    start = source.choose(None, list).slice.end
    append(table, 3)
    entry = table / entry_path(3)
    whole = entry.read_bytes()
    entry.write_bytes(content)
    with pytest.raises(MissingInputError, match=r"version 3 .* empty, cut short or no entry") as told:
        source.choose(start, list)
    assert told.value.retryable, "it may be on its way here"
    entry.write_bytes(whole)
    assert versions(source.choose(start, list)) == [3, 3]
    # And the other way on: its rows are written again.
    entry.write_bytes(content)
    entry.unlink()
    append(table, 3)
    assert versions(source.choose(start, list)) == [3, 3]


def test_a_table_with_an_empty_entry_is_not_read_without_its_rows(table):
    (table / entry_path(1)).write_bytes(b"")
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2, "no reader tells"
    with pytest.raises(MissingInputError, match="version 1 "):
        log_of(table).table()
    assert log_of(table).table(0).version() == 0


def test_an_empty_entry_that_a_checkpoint_sums_up_does_not_matter(table):
    DeltaTable(table).create_checkpoint()
    (table / entry_path(1)).write_bytes(b"")
    assert log_of(table).table().version() == 2


@pytest.mark.parametrize("hint", [b"", b"{", b"[]", b'{"version": null}', b'{"version": "x"}'])
def test_a_hint_that_cannot_be_read_is_passed_over(table, hint):
    source = DeltaSource(table)
    start = source.choose(None, list).slice.end
    DeltaTable(table).create_checkpoint()
    (table / LOG / HINT).write_bytes(hint)
    assert source.choose(start, list) is None
    append(table, 3)
    assert versions(source.choose(start, list)) == [3, 3]
    append(table, 4)
    DeltaTable(table).create_checkpoint()
    (table / LOG / HINT).write_bytes(hint)
    (table / entry_path(3)).unlink()
    with pytest.raises(BadInputError, match=r"version 3 .* cleaned out of its log .* at 4"):
        source.choose(start, list)


def test_a_hint_at_a_checkpoint_that_is_not_there(table):
    source = DeltaSource(table)
    start = source.choose(None, list).slice.end
    (table / LOG / HINT).write_bytes(b'{"version": 99, "size": 1}')
    with pytest.raises(MissingInputError, match=r"cannot be read \(.*_last_checkpoint"):
        source.choose(start, list)
    (table / LOG / HINT).unlink()
    assert source.choose(start, list) is None


def test_an_entry_that_may_not_be_read_is_no_version_to_come(table):
    source = DeltaSource(table)
    start = source.choose(None, list).slice.end
    (table / entry_path(3)).mkdir()
    with pytest.raises(MissingInputError, match="cannot be read"):
        source.choose(start, list)
    shutil.rmtree(table / entry_path(3))
    assert source.choose(start, list) is None
