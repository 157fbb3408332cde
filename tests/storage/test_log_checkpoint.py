"""A checkpoint that is made of what is known of a log says what the log says, and costs few requests."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.delta_log import checkpoint_path
from dagster_operators.storage.log_checkpoint import sum_up
from dagster_operators.storage.log_entries import hinted_checkpoint
from dagster_operators.storage.log_entry import LogEntry, LoggedFile
from dagster_operators.storage.root import Root

SCHEMA = '{"type": "struct", "fields": [{"name": "v", "type": "long", "nullable": true, "metadata": {}}]}'
EVERY = 5
HINT = "_delta_log/_last_checkpoint"


@pytest.fixture
def root(s3):
    return Root(f"{s3.bucket()}/shop", s3.options())


def grown(root, count, log=None, base=0, stamp=None):
    """A table's log with so many more entries, each of which adds a file, and each third of which takes one away."""
    log = log or TableLog(root, "tables/t", EVERY)
    if stamp is None:
        log.create(SCHEMA)
        stamp = log.stamp(0)
    for version in range(base + 1, base + count + 1):
        gone = (LoggedFile(f"f{version - 2}.parquet", 9, None),) if version % 3 == 0 else ()
        entry = LogEntry(
            (LoggedFile(f"f{version}.parquet", 9, json.dumps({"numRecords": version})),), gone, transaction=("p", version)
        )
        stamp = log.append(version - 1, stamp, entry)
        assert stamp
    return log, stamp


def content(root, version=None):
    table = DeltaTable(root.join("tables/t"), version=version, storage_options=root.access.for_deltalake())
    files = sorted(zip(*(table.get_add_actions(flatten=True)[name].to_pylist() for name in ("path", "num_records")), strict=True))
    return table.version(), files, table.metadata().configuration, table.transaction_version("p")


def test_it_is_two_requests_and_what_readers_go_by(root, s3):
    log, stamp = grown(root, EVERY - 1)
    s3.requests()
    log, stamp = grown(root, 1, log, EVERY - 1, stamp)
    asked = s3.requests()
    assert [line.split()[0] for line in asked if "checkpoint" in line] == ["GET", "PUT", "PUT"], (
        "the first looks whether there is one"
    )
    grown(root, EVERY, log, EVERY, stamp)
    assert [line.split()[0] for line in s3.requests() if "checkpoint" in line] == ["PUT", "PUT"]
    whole = content(root)
    assert whole[0] == 2 * EVERY
    for version in range(2 * EVERY + 1):
        root.delete_file(f"tables/t/_delta_log/{version:020d}.json")
    assert content(root) == whole, "by the checkpoint alone"


def test_of_another_process_it_is_the_same(root, s3):
    _, stamp = grown(root, 2 * EVERY - 1)
    grown(root, 1, TableLog(root, "tables/t", EVERY), 2 * EVERY - 1, stamp)
    assert json.loads(root.read(f"tables/t/{HINT}"))["version"] == 2 * EVERY
    whole = content(root)
    for version in range(2 * EVERY + 1):
        root.delete_file(f"tables/t/_delta_log/{version:020d}.json")
    assert content(root) == whole


def test_an_entry_that_was_replaced_is_read_again(root):
    """As by a writer without conditions, or a repair: its stamp is another one."""
    log, _ = grown(root, EVERY - 1)
    path = f"tables/t/_delta_log/{EVERY - 1:020d}.json"
    theirs = {"path": "theirs.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": True}
    root.write(path, json.dumps({"add": theirs | {"stats": '{"numRecords": 7}'}}).encode())
    grown(root, 1, log, EVERY - 1, root.stamp(path))
    found = content(root)
    assert ("theirs.parquet", 7) in found[1]
    for version in range(EVERY + 1):
        root.delete_file(f"tables/t/_delta_log/{version:020d}.json")
    assert content(root) == found


def test_what_is_not_whole_is_left_to_deltalake(root):
    grown(root, 3)
    root.delete_file("tables/t/_delta_log/00000000000000000002.json")
    assert sum_up(root, "tables/t", 3, {}) is None
    root.write(f"tables/t/{HINT}", b'{"version": 1, "parts": 2}')
    assert sum_up(root, "tables/t", 3, {}) is None
    assert not [name for name in root.children("tables/t/_delta_log") if "checkpoint.parquet" in name]


@pytest.mark.parametrize("hint", [b"", b'{"vers', b"[]", b"5", b'{"version": "x"}', b'{"version": 3}', b"\xff"])
def test_a_commit_stands_though_what_names_the_last_checkpoint_is_damaged(root, hint):
    _, stamp = grown(root, EVERY - 1)
    root.write(f"tables/t/{HINT}", hint)
    grown(root, 1, TableLog(root, "tables/t", EVERY), EVERY - 1, stamp)
    assert hinted_checkpoint(root, "tables/t") == EVERY, "deltalake has summed it up, who reads all entries"
    assert content(root)[0] == EVERY


def test_a_commit_stands_though_the_checkpoint_before_is_damaged_and_is_summed_up_from_the_entries(root, caplog):
    _, stamp = grown(root, 2 * EVERY - 1)
    root.write(f"tables/t/{checkpoint_path(EVERY)}", b"PAR1 cut short")
    with caplog.at_level("WARNING"):
        grown(root, 1, TableLog(root, "tables/t", EVERY), 2 * EVERY - 1, stamp)
    assert caplog.text == ""
    assert hinted_checkpoint(root, "tables/t") == 2 * EVERY
    assert content(root)[0] == 2 * EVERY
