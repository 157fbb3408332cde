"""Entries and checkpoints that carry a digest: whatever bit flips in one is seen, by whatever reads the log."""

from __future__ import annotations

import random

import pytest

from dagster_operators.errors import StorageError
from dagster_operators.storage.altered import altered_entry, is_altered_checkpoint
from dagster_operators.storage.delta_commit import TableLog
from dagster_operators.storage.delta_log import HINT, LOG, checkpoint_path, entry_path
from dagster_operators.storage.digests import is_altered
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.root import Root
from tests.storage.test_log_checkpoint import EVERY, grown

DATASET = "tables/t"


def flipped(root, path, byte, bit=0):
    content = bytearray(root.read(f"{DATASET}/{path}"))
    content[byte] ^= 1 << bit
    root.write(f"{DATASET}/{path}", bytes(content))


@pytest.fixture(params=["local", "store"])
def root(request, tmp_path):
    if request.param == "local":
        return Root(str(tmp_path))
    s3 = request.getfixturevalue("s3")
    return Root(f"{s3.bucket()}/shop", s3.options())


def test_any_bit_of_an_entry_is_seen_beside_those_of_the_name_of_its_digest(tmp_path):
    grown(Root(str(tmp_path)), 1)
    for version in (0, 1):
        content = (tmp_path / DATASET / entry_path(version)).read_bytes()
        assert not is_altered(content)
        name = content.index(b'"dagster_operators.digest":')
        for byte in range(len(content)):
            if not name <= byte < name + 27:
                hurt = bytearray(content)
                hurt[byte] ^= 1 << random.Random(byte).randrange(8)  # noqa: S311 - any bit
                assert is_altered(bytes(hurt)), byte


def test_whoever_reads_a_log_with_an_altered_entry_is_refused(root):
    grown(root, 3)
    path = entry_path(2)
    content = root.read(f"{DATASET}/{path}")
    flipped(root, path, content.index(b'"add"') + 2)
    with pytest.raises(StorageError, match="an entry of the log"), TableLog(root, DATASET, EVERY).reading():
        pass
    assert damage(root, DATASET) == "entry 2 of its log is no entry: something in it was changed"
    assert altered_entry(root, DATASET, 3) is root.is_local


def test_a_log_that_was_read_before_is_refused_at_every_read_of_an_altered_entry(tmp_path):
    root = Root(str(tmp_path))
    grown(root, 2)
    log = TableLog(root, DATASET, EVERY)
    assert log.load(1).version() == 1
    flipped(root, entry_path(2), root.read(f"{DATASET}/{entry_path(2)}").index(b'"add"') + 2)
    for _ in range(2):
        with pytest.raises(StorageError, match="an entry of the log"), log.at(2):
            pass
    assert altered_entry(root, DATASET, 2, above=1)
    assert not altered_entry(root, DATASET, 2, above=2)


def test_an_altered_checkpoint_is_moved_away_where_entries_say_the_same(root):
    grown(root, EVERY + 1)
    assert not is_altered_checkpoint(root, DATASET)
    path = checkpoint_path(EVERY)
    flipped(root, path, len(root.read(f"{DATASET}/{path}")) // 2)
    assert is_altered_checkpoint(root, DATASET)
    with TableLog(root, DATASET, EVERY).reading() as table:
        assert table is not None
        assert table.version() == EVERY + 1
    assert {path.removeprefix(f"{LOG}/"), HINT}.isdisjoint(root.children(f"{DATASET}/{LOG}"))
    assert damage(root, DATASET) == ""
