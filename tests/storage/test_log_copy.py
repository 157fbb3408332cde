"""A copy of a log says what deltalake reads from the store, costs three rounds of requests, and is left to it when in doubt."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dagster_operators.storage import log_copy
from dagster_operators.storage.delta_commit import GONE, TableLog
from dagster_operators.storage.delta_log import checkpoint_path, entry_path
from dagster_operators.storage.log_copy import LogCopy, copied
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.storage.root import Root
from tests.storage.test_log_checkpoint import EVERY, HINT, content, grown

DATASET = "tables/t"


@pytest.fixture
def root(s3):
    return Root(f"{s3.bucket()}/shop", s3.options())


def told(table):
    files = sorted(zip(*(table.get_add_actions(flatten=True)[name].to_pylist() for name in ("path", "num_records")), strict=True))
    return table.version(), files, table.metadata().configuration, table.transaction_version("p")


def read(root):
    """What a log says that is opened anew."""
    with TableLog(root, DATASET, EVERY).reading() as table:
        return table and told(table)


def test_of_each_version_it_says_the_same(root, s3):
    assert (copied(root, DATASET), read(root)) == (False, None)
    log, stamp = grown(root, 0)
    for base in range(2 * EVERY + 2):
        log, stamp = grown(root, 1, log, base, stamp)
        for _ in range(3):  # the client repeats a request whose connection was lost, as on a busy machine
            s3.requests()
            copy = copied(root, DATASET)
            asked = s3.requests()
            if len(asked) == len({*asked}):
                break
        assert isinstance(copy, LogCopy)
        assert len(asked) == len({*asked}) == 2 + len(copy.entries) + bool(copy.checkpoint)
        assert len(copy.entries) <= EVERY + 1
        assert copy.stamp == stamp
        with copy.opened() as table:
            assert told(table) == content(root)


def test_what_was_read_is_neither_looked_at_nor_read_again(root, s3):
    _, stamp = grown(root, EVERY + 2)
    log = TableLog(root, DATASET, EVERY)
    with log.reading() as table:
        assert table
    s3.requests()
    assert log.read_stamp(EVERY + 2) == stamp
    with log.at(EVERY + 2) as table:
        assert table.version() == EVERY + 2
    grown(root, EVERY - 2, log, EVERY + 2, stamp)
    assert {line.split()[0] for line in s3.requests()} == {"PUT"}, "with the checkpoint behind it"
    with log.at(2 * EVERY) as table:
        assert told(table) == content(root)
    assert json.loads(root.read(f"{DATASET}/{HINT}"))["version"] == 2 * EVERY


def test_what_somebody_wrote_over_is_refused(root, monkeypatch):
    grown(root, 3)
    log = TableLog(root, DATASET, EVERY)
    with log.reading():
        stamp = log.read_stamp(3)
    root.write(f"{DATASET}/{entry_path(3)}", root.read(f"{DATASET}/{entry_path(2)}"))
    assert not log.is_last(3, stamp)
    monkeypatch.setattr("dagster_operators.storage.delta_commit._SHORT", 0.0)
    assert log.append(3, stamp, LogEntry(())) is None
    assert not root.exists(f"{DATASET}/{entry_path(4)}")


def test_an_entry_that_changes_while_it_is_read_has_the_stamp_of_before(root, monkeypatch):
    _, stamp = grown(root, 3)
    found = log_copy._read

    def slow(root, paths):
        root.write(paths[-1], root.read(paths[-1]).replace(b"dagster_operators.digest", b"of_somebody_else"))
        return found(root, paths)

    monkeypatch.setattr(log_copy, "_read", slow)
    log = TableLog(root, DATASET, EVERY)
    with log.reading():
        assert log.read_stamp(3) == stamp
    assert not log.is_last(3, stamp)


def cut(path):
    return lambda root: root.write(f"{DATASET}/{path}", root.read(f"{DATASET}/{path}")[:40])


def gone(path):
    return lambda root: root.delete_file(f"{DATASET}/{path}")


def newer(root):
    """As after a crash between the checkpoint and the hint."""
    table = DeltaTable(root.join(DATASET), storage_options=root.access.for_deltalake())
    hint = root.read(f"{DATASET}/{HINT}")
    table.create_checkpoint()
    root.write(f"{DATASET}/{HINT}", hint)


def outcome(work):
    """What it gives, or the error that it raises."""
    try:
        return work()
    except (DeltaError, OSError) as error:
        return type(error).__name__


IN_DOUBT = {
    "hint cut short": cut(HINT),
    "hint gone": gone(HINT),
    "checkpoint gone": gone(checkpoint_path(EVERY)),
    "checkpoint cut short": cut(checkpoint_path(EVERY)),
    "a checkpoint that no hint names": newer,
    "entry gone": gone(entry_path(EVERY + 1)),
    "entry cut short": cut(entry_path(EVERY + 1)),
    "parted": lambda root: root.write(f"{DATASET}/{HINT}", json.dumps({"version": EVERY, "size": 1, "parts": 2}).encode()),
}


@pytest.mark.parametrize("damaged", IN_DOUBT.values(), ids=IN_DOUBT)
def test_in_doubt_it_is_left_to_deltalake(root, damaged):
    grown(root, EVERY + 3)
    damaged(root)
    assert copied(root, DATASET) is True
    found = outcome(lambda: read(root))
    assert found == outcome(lambda: told(TableLog(root, DATASET, EVERY).load()))


def test_a_large_log_is_left_to_deltalake_and_one_with_many_entries(root, monkeypatch):
    grown(root, EVERY + 3)
    whole = content(root)
    monkeypatch.setattr(log_copy, "LARGEST_COPY", 1000)
    assert copied(root, DATASET) is True
    assert read(root) == whole
    monkeypatch.undo()
    monkeypatch.setattr(log_copy, "_MOST_ENTRIES", 2)
    assert copied(root, DATASET) is True
    assert read(root) == whole


def test_a_version_that_only_a_checkpoint_tells_of_has_no_stamp(root):
    grown(root, EVERY)
    for version in range(EVERY + 1):
        root.delete_file(f"{DATASET}/{entry_path(version)}")
    log = TableLog(root, DATASET, EVERY)
    with log.reading() as table:
        assert table.version() == EVERY
        assert log.read_stamp(EVERY) == GONE
