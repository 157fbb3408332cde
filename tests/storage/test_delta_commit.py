"""Entries appended to a Delta log without reading it: readers understand them, and of two writers one is refused."""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError

from dagster_operators.errors import LedgerError
from dagster_operators.storage.delta_commit import GONE, TableLog, is_plain
from dagster_operators.storage.log_entry import LogEntry, LoggedFile
from dagster_operators.storage.root import Root
from dagster_operators.transactions import ledger as ledger_module
from dagster_operators.transactions.effects import Conflict, RestoreTable
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Generation
from dagster_operators.transactions.tables import Tables
from dagster_operators.types.schema import Schema as Columns
from tests.transactions.flow import SCHEMA

INTERVAL = 5


class Numbers:
    """A table of whole numbers, one file each."""

    def __init__(self, place, *, by_deltalake: bool = False) -> None:
        self.root = Root(str(place))
        self.log = TableLog(self.root, "numbers", INTERVAL)
        self.uri = self.root.join("numbers")
        self.root.files.create_dir(self.root.path("numbers"))
        DeltaTable.create(self.uri, Schema.from_json(SCHEMA), configuration={"delta.checkpointInterval": str(INTERVAL)})
        self.root.creates = not by_deltalake  # what an object store would do, on a folder

    def file(self, number: int) -> LoggedFile:
        path = f"e{number}-g1-0a/key-groups=000-127/part-{number}.parquet"
        target = self.root.path("numbers", path)
        self.root.files.create_dir(target.rpartition("/")[0])
        pq.write_table(pa.table({"n": [number]}), target)
        stats = {"numRecords": 1, "minValues": {"n": number}, "maxValues": {"n": number}}
        return LoggedFile(path, self.root.files.get_file_info(target).size, json.dumps(stats))

    def append(self, base: int, number: int, *removes: LoggedFile) -> LoggedFile | None:
        file = self.file(number)
        entry = LogEntry((file,), removes, transaction=("ours", number), metadata={"dagster_operators.epoch": str(number)})
        return file if self.log.append(base, self.log.stamp(base), entry) else None

    def names(self) -> list[str]:
        return self.root.children("numbers/_delta_log")


WAYS = pytest.mark.parametrize("by_deltalake", [False, True], ids=["linked", "by deltalake"])


@pytest.fixture(params=[False, True], ids=["linked", "by deltalake"])
def numbers(request, tmp_path) -> Numbers:
    return Numbers(tmp_path, by_deltalake=request.param)


def test_what_is_appended_is_read_by_deltalake(numbers):
    first = numbers.append(0, 1)
    assert first
    assert numbers.append(1, 2, first)
    table = DeltaTable(numbers.uri)
    assert table.version() == 2
    assert table.to_pyarrow_table()["n"].to_pylist() == [2]
    assert table.transaction_version("ours") == 2
    added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert [(row["path"], row["num_records"], row["min.n"]) for row in added] == [(numbers.file(2).path, 1, 2)]
    assert DeltaTable(numbers.uri, version=1).to_pyarrow_table()["n"].to_pylist() == [1]
    last, before, _ = table.history()
    assert (last["dagster_operators.epoch"], before["dagster_operators.epoch"]) == ("2", "1")


def test_what_is_appended_is_read_by_spark(spark, tmp_path):
    numbers = Numbers(tmp_path)
    files = [numbers.append(base, base + 1) for base in range(2 * INTERVAL)]
    assert numbers.append(len(files), 99, *files[:3])
    rows = spark.read.format("delta").load(numbers.uri)
    assert sorted(row.n for row in rows.collect()) == [*range(4, 2 * INTERVAL + 1), 99]
    assert spark.read.format("delta").option("versionAsOf", 3).load(numbers.uri).count() == 3
    history = spark.sql(f"DESCRIBE HISTORY delta.`{numbers.uri}`").orderBy("version").collect()
    assert [row.operation for row in history[1:]] == ["WRITE"] * (2 * INTERVAL + 1)


def test_a_version_that_is_taken_is_refused_and_nothing_is_left(numbers):
    assert numbers.append(0, 1)
    before = numbers.names()
    assert not numbers.append(0, 2)
    assert numbers.names() == before
    assert DeltaTable(numbers.uri).to_pyarrow_table()["n"].to_pylist() == [1]


def test_of_many_writers_one_gets_each_version(numbers):
    taken: list[tuple[int, int]] = []
    start = threading.Barrier(4)

    def write(writer: int) -> None:
        start.wait()
        mine = copy.copy(numbers)
        mine.log = TableLog(numbers.root, "numbers", INTERVAL)  # each run has its own
        for base in range(3 * INTERVAL):
            while not mine.log.has(base):
                pass
            if mine.append(base, 100 * writer + base):
                taken.append((base, 100 * writer + base))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted(base for base, _ in taken) == list(range(3 * INTERVAL))
    found = DeltaTable(numbers.uri).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == sorted(number for _, number in taken)


def test_a_writer_of_another_kind_beside_ours_loses_nothing_and_doubles_nothing(numbers):
    """Fault script d1: deltalake's own appends beside ours."""
    theirs, ours = [10_000 + number for number in range(8)], []

    def write() -> None:
        for number in theirs:
            rows, done = pa.table({"n": pa.array([number], pa.int64())}), False
            while not done:
                with suppress(CommitFailedError):  # it gives up after so many others
                    write_deltalake(numbers.uri, rows, mode="append")
                    done = True

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive() or len(ours) < INTERVAL:
        number = len(ours)
        if numbers.append(DeltaTable(numbers.uri).version(), number):
            ours.append(number)
    writer.join(60)
    found = DeltaTable(numbers.uri).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == sorted([*ours, *theirs])


def test_the_log_is_summed_up_now_and_then(numbers):
    for base in range(2 * INTERVAL):
        assert numbers.append(base, base + 1)
    checkpoints = [name for name in numbers.names() if name.endswith(".checkpoint.parquet")]
    assert len(checkpoints) == 2
    assert len(DeltaTable(numbers.uri).file_uris()) == 2 * INTERVAL


def test_a_commit_stands_though_its_checkpoint_fails(tmp_path, monkeypatch, caplog):
    numbers = Numbers(tmp_path)
    for base in range(INTERVAL - 1):
        assert numbers.append(base, base + 1)

    def fail() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(numbers.log, "load", fail)
    with caplog.at_level(logging.WARNING):
        assert numbers.append(INTERVAL - 1, INTERVAL)
    assert "No space left on device" in caplog.text
    assert DeltaTable(numbers.uri).version() == INTERVAL


def test_a_writer_whose_version_was_cleaned_away_is_refused(numbers):
    assert numbers.append(0, 1)
    stamp = numbers.log.stamp(1)
    for base in range(1, 2 * INTERVAL):
        assert numbers.append(base, base + 1)
    numbers.log.clean(before=2 * INTERVAL, older_than=float("inf"))
    kept = numbers.names()
    assert f"{2:020d}.json" not in kept

    zombie = TableLog(numbers.root, "numbers", INTERVAL)
    assert not zombie.append(1, stamp, LogEntry((numbers.file(77),)))
    assert numbers.names() == kept, "what it wrote is gone again"
    assert not zombie.append(1, GONE, LogEntry((numbers.file(77),))), "it looked at its version after that was gone"
    # Nor is it fooled by the entry of another such writer that died before it looked back.
    assert numbers.root.create(f"numbers/_delta_log/{1:020d}.json", b"{}")
    assert not zombie.append(1, stamp, LogEntry((numbers.file(77),)))
    assert sorted(DeltaTable(numbers.uri).to_pyarrow_table()["n"].to_pylist()) == list(range(1, 2 * INTERVAL + 1))


def test_cleaning_keeps_what_is_young_and_what_no_checkpoint_covers(tmp_path):
    numbers = Numbers(tmp_path)
    for base in range(2 * INTERVAL + 2):
        assert numbers.append(base, base + 1)
    everything = numbers.names()
    numbers.log.clean(before=1000, older_than=0.0)
    assert numbers.names() == everything
    numbers.log.clean(before=1000, older_than=float("inf"))
    assert [name.partition(".")[0].lstrip("0") for name in numbers.names()] == ["10", "10", "11", "12", "_last_checkpoint"]


@pytest.fixture
def forgetful(monkeypatch):
    """A ledger keeps little of its past."""
    monkeypatch.setattr(ledger_module, "_KEPT_SECONDS", -60.0)
    monkeypatch.setattr(ledger_module, "_KEPT_VERSIONS", 10)


@pytest.mark.usefixtures("forgetful")
@WAYS
def test_a_run_that_slept_while_the_ledger_was_cleaned_is_told_of_it(tmp_path, by_deltalake):
    zombie, ledger = DeltaLedger(Root(str(tmp_path)), "old"), DeltaLedger(Root(str(tmp_path)), "old")
    asleep = zombie.view()
    zombie._root.creates = ledger._root.creates = not by_deltalake
    owner = Owner.of_process()
    for generation in range(1, 400):
        view = ledger.append(Generation(generation, owner), ledger.view().version)
        assert not isinstance(view, Conflict)
        ledger.fold()
    log = tmp_path / "ledger" / "_delta_log"
    assert not (log / f"{asleep.version:020d}.json").exists(), "the log was not cleaned: this test shows nothing"
    assert len(list(log.iterdir())) < 200

    refused = zombie.append(Generation(1, owner), asleep.version)
    assert isinstance(refused, Conflict)
    assert refused.view == ledger.view() == DeltaLedger(Root(str(tmp_path)), "old").view()
    assert [entry.record.generation for entry in zombie.scan({"generation"})] == list(range(1, 400))


@pytest.mark.usefixtures("forgetful")
def test_a_run_that_slept_before_it_looked_at_its_version_is_told_of_it(tmp_path, monkeypatch):
    """The log is cleaned between the loading of a version and the look at its entry."""
    ledger = DeltaLedger(Root(str(tmp_path)), "old")
    ledger.view()
    owner, zombie = Owner.of_process(), DeltaLedger(Root(str(tmp_path)), "old")
    load = zombie._log.load

    def sleep_after_loading(version=None):
        table = load(version)
        monkeypatch.undo()
        monkeypatch.setattr(ledger_module, "_KEPT_SECONDS", -60.0)
        monkeypatch.setattr(ledger_module, "_KEPT_VERSIONS", 10)
        for generation in range(1, 400):
            ledger.append(Generation(generation, owner), ledger.view().version)
            ledger.fold()
        return table

    monkeypatch.setattr(zombie._log, "load", sleep_after_loading)
    assert zombie.view() == ledger.view()
    assert not isinstance(zombie.append(Generation(400, owner), ledger.view().version), Conflict)
    assert ledger.view().generation == 400


def test_a_fold_that_slept_deletes_nothing_that_came_meanwhile(tmp_path, monkeypatch):
    """Whoever folds may be paused for longer than files are kept, behind its commit and before it deletes."""
    root = Root(str(tmp_path))
    ledger, other, owner = DeltaLedger(root, "old"), DeltaLedger(root, "old"), Owner.of_process()
    delete = ledger._delete_old

    def sleep_before_deleting(*arguments):
        for generation in range(1000, 1010):
            other.append(Generation(generation, owner), other.view().version)
        monkeypatch.setattr("time.time", lambda now=time.time: now() + 2 * 3600)
        delete(*arguments)
        monkeypatch.undo()

    monkeypatch.setattr(ledger, "_delete_old", sleep_before_deleting)
    folded = 0
    for generation in range(1, 300):
        assert not isinstance(ledger.append(Generation(generation, owner), ledger.view().version), Conflict)
        ledger.fold()
        folded = max(folded, ledger.view().generation)
    assert folded >= 1000, "it never came to deleting: this test shows nothing"
    kept = [entry.record.generation for entry in DeltaLedger(root, "old").scan({"generation"})]
    assert sorted(kept) == [*range(1, 300), *range(1000, 1010)]


def test_a_ledger_that_lost_a_file_says_so(tmp_path):
    ledger = DeltaLedger(Root(str(tmp_path)), "old")
    ledger.append(Generation(1, Owner.of_process()), ledger.view().version)
    newest = max((tmp_path / "ledger").glob("*.parquet"))
    newest.unlink()
    with pytest.raises(LedgerError, match=f"a file of records is missing.*{newest.name}"):
        DeltaLedger(Root(str(tmp_path)), "old").view()


def test_a_table_that_asks_for_more_is_not_written_by_hand(tmp_path):
    numbers = Numbers(tmp_path)
    assert is_plain(numbers.log.load())
    for name, plain in (("delta.appendOnly", False), ("delta.enableChangeDataFeed", True)):
        table = DeltaTable.create(str(tmp_path / name), Schema.from_json(SCHEMA), configuration={name: "true"})
        assert is_plain(table) == plain, name
    table.alter.add_constraint({"is_positive": "n > 0"})
    assert not is_plain(DeltaTable(str(tmp_path / name)))


def test_a_table_that_is_written_while_it_is_restored_is_left_alone(tmp_path, monkeypatch):
    """Between the look at a table and its repair somebody may write it again."""
    numbers = Numbers(tmp_path)
    for base in range(3):
        assert numbers.append(base, base + 1)
    tables = Tables(numbers.root)
    looked = tables.status("numbers", "ours")
    assert numbers.append(3, 4)
    monkeypatch.setattr(tables, "status", lambda *_: looked)
    assert isinstance(tables.restore(RestoreTable("numbers", looked.version, 1, "ours"), {}), Conflict)
    assert DeltaTable(numbers.uri).version() == 4


def test_of_two_who_create_a_table_one_does_and_both_have_it(tmp_path):
    root = Root(str(tmp_path))
    first, second = TableLog(root, "tables/numbers", INTERVAL), TableLog(root, "tables/numbers", INTERVAL)
    first.create(SCHEMA, description="of the first", properties={"owner": "first"})
    second.create(SCHEMA, description="of the second", properties={"owner": "second"})
    about = second.load().metadata()
    assert (about.name, about.description) == ("numbers", "of the first")
    assert about.configuration == {"owner": "first", "delta.checkpointInterval": str(INTERVAL)}
    assert second.load().version() == 0


def test_a_table_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "numbers").write_text("no folder")
    with pytest.raises(OSError, match="numbers"):
        TableLog(Root(str(tmp_path)), "numbers").create(SCHEMA)


@pytest.mark.parametrize("feed", [False, True])
def test_times_without_a_zone_name_the_feature_that_readers_need(tmp_path, feed):
    """Added to a table, or within maps: no reader opened the table any more, or it could not be made."""
    root = Root(str(tmp_path))
    log = TableLog(root, "tables/t")
    properties = {"delta.enableChangeDataFeed": "true"} if feed else {}
    log.create(Columns.from_ddl("id long").to_json(), properties=properties)
    wider = Columns.from_ddl("id long, m array<map<string, timestamp_ntz>>").to_json()
    assert log.append(0, log.stamp(0), LogEntry(schema_json=wider)) is not None
    maps = TableLog(root, "tables/m")
    maps.create(wider)
    for name in ("t", "m"):
        table = DeltaTable(tmp_path / "tables" / name)
        assert json.loads(table.schema().to_json())["fields"] == json.loads(wider)["fields"]
        assert table.protocol().reader_features == ["timestampNtz"]
        assert is_plain(table)
        assert ("changeDataFeed" in (table.protocol().writer_features or ())) == (feed and name == "t")
