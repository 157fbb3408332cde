"""The logs of Delta tables that others write, whole and damaged."""

from __future__ import annotations

import contextlib
import json
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.storage.delta_log import HINT, LOG, DeltaLog, entry_path, version_of_hint
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


@pytest.mark.parametrize("path", ["../victim.parquet", "%2e%2e/victim.parquet", "a/..%2f../victim.parquet", "a%00b"])
def test_a_file_that_the_log_names_outside_of_the_table_is_refused(table, path):
    entry = table / entry_path(2)
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = path
    entry.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(BadInputError, match="outside of its folder"):
        log_of(table).commit(2)


ENTRY = [
    {"commitInfo": {"operation": "WRITE", "timestamp": 7}},
    {"add": {"path": "a", "size": 1, "modificationTime": 7, "partitionValues": {"day": "1"}, "dataChange": True, "stats": "{}"}},
    {"remove": {"path": "b", "dataChange": True}},
    {"txn": {"appId": "x", "version": 1}},
]
FORGED = st.one_of(
    st.sampled_from(
        ["../x", "%2e%2e/x", "/etc/x", "file:///x", "", "a%00b", "[" * 50_000, -1, 1 << 70, 1e400, None, [], {}, True]
    ),
    st.text(max_size=5),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_forged_in_an_entry_names_no_file_elsewhere(tmp_path, data):
    number = data.draw(st.integers(0, len(ENTRY) - 1))
    ((kind, fields),) = ENTRY[number].items()
    changed = {kind: fields | {data.draw(st.sampled_from(sorted(fields))): data.draw(FORGED)}}
    lines = [*ENTRY[:number], data.draw(st.one_of(st.just(changed), FORGED)), *ENTRY[number + 1 :]]
    (tmp_path / LOG).mkdir(exist_ok=True)
    (tmp_path / entry_path(0)).write_text("\n".join(map(json.dumps, lines)))
    with contextlib.suppress(BadInputError, MissingInputError):
        commit = log_of(tmp_path).commit(0)
        for added in commit.added:
            assert (tmp_path / added.file.path).is_relative_to(tmp_path)
            assert ".." not in added.file.path.split("/")
            assert added.file.to_json() == json.loads(json.dumps(added.file.to_json()))


@pytest.mark.parametrize(
    "hint", [b'{"version": 1e400}', b'{"version": -1}', b"[" * 100_000, b'{"version": ' + b"9" * 4000 + b"}"]
)
def test_a_forged_hint_is_none(hint):
    assert version_of_hint(hint) is None
