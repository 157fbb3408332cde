"""The two-phase commit on an object store: crashes, a takeover, lost answers, a busy store, two writers, other writers."""

from __future__ import annotations

import threading
import time

import pytest

from dagster_operators.errors import DamagedLedgerError, ForeignWriteError, PipelineBusyError, RestoredTableError, StorageError
from dagster_operators.runtime.compacting import compact
from dagster_operators.storage.delta_commit import GONE, TableLog
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_entries import versions_of
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import Conflict
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.tables import Tables
from tests.transactions.flow import TABLES, Flow, check_result, leftovers, read_numbers

THEIRS = (
    '{"commitInfo": {"timestamp": 1, "operation": "WRITE", "engineInfo": "delta-spark"}}\n'
    '{"add": {"path": "x.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": true}}\n'
)


class Died(BaseException):
    """A run that ends where it is."""


@pytest.fixture
def make(s3):
    uri = f"{s3.bucket()}/numbers"

    def made(**options) -> Coordinator:
        return Coordinator("numbers", uri, storage_options=s3.options(), **options)

    return made


def until(place):
    def reached(name):
        if name == place:
            raise Died

    return watch(reached)


def test_epochs_commit_and_are_read_by_a_fresh_process(make):
    with make() as run:
        for _ in range(3):
            Flow(run).epoch()
        check_result(run, 3)
    fresh = make()
    check_result(fresh, 3)
    assert leftovers(fresh) == []


def test_files_of_the_ledger_that_were_folded_are_not_asked_about_one_by_one(make, s3, monkeypatch):
    """They stay for an hour, and how old they are is in the listing."""
    monkeypatch.setattr("dagster_operators.transactions.ledger_files.FOLD_COUNT", 6)
    with make() as run:
        for _ in range(12):
            Flow(run).epoch()
    assert not [line for line in s3.requests() if line.startswith("HEAD") and "/ledger/r" in line]
    check_result(make(), 12)


def test_records_that_were_read_when_the_ledger_was_opened_are_not_read_again_at_once(make, s3, monkeypatch):
    monkeypatch.setattr("dagster_operators.transactions.ledger_files.FOLD_COUNT", 6)
    monkeypatch.setattr("dagster_operators.transactions.ledger._RECENT_SECONDS", 600.0)
    with make() as run:
        for _ in range(6):
            Flow(run).epoch()
    fresh = make()
    s3.requests()
    assert len(fresh.history()) == 6
    read = [line for line in s3.requests() if line.startswith("GET") and "/ledger/r" in line]
    assert len(read) == len({*read}) == len(fresh._ledger._now().files) > 5
    monkeypatch.setattr(fresh._ledger, "_opened_until", 0.0)
    s3.requests()
    assert [entry.seq for entry in fresh._ledger.scan({"complete", "format"})][:1] == [1]
    again = [line for line in s3.requests() if line.startswith("GET") and "/ledger/r" in line]
    assert sorted(again) == sorted(read), "what became of it meanwhile is to be noticed"


def test_a_lost_record_that_no_epoch_needs_is_told_by_who_reads_it(make):
    with make() as run:
        for _ in range(4):
            Flow(run).epoch()
        files = run._ledger._now().files
    lost = files[-6]
    run.root.delete_file(f"ledger/{lost.path}")
    fresh = make()
    assert fresh.view().last_epoch == 4, "though it was asked for beside those that are needed"
    with pytest.raises(DamagedLedgerError, match="a file of records is missing") as told:
        fresh.history()
    assert lost.path in told.value.file
    with make() as run:
        assert Flow(run).epoch(Owner.of_process("second")).epoch == 5


def test_manifests_are_asked_for_at_the_same_time(make, monkeypatch):
    owner = Owner.of_dagster_run("A")
    with make() as run:
        flow = Flow(run)
        run.open(owner)
        handle = run.begin(flow.plan, flow.choose)
        for stage in flow.plan.stages:
            run.prepare(handle, stage.name, flow.work)
    all_asked, read, asked = threading.Barrier(len(flow.plan.stages), timeout=60), Root.read, list[str]()

    def together(root, path):
        if path.startswith("manifests/"):
            asked.append(path)
            all_asked.wait()
        return read(root, path)

    with make() as fresh:
        assert fresh.resume(handle.begin_id, owner) == handle
        monkeypatch.setattr(Root, "read", together)
        fresh.commit(handle)
        monkeypatch.undo()
        assert len({*asked}) == len(asked) == len(flow.plan.stages) > 1
        check_result(fresh, 1)


def test_the_heartbeat_of_a_run_that_was_taken_over_from_is_deleted(make):
    for name in ("first", "second", "third"):
        with make() as run:
            Flow(run).epoch(Owner.of_process(name))
    assert run.root.children("owners") == ["g3"]


def test_a_takeover_reads_the_logs_of_tables_beside_and_sees_what_is_written_meanwhile(make):
    with make() as run:
        Flow(run).epoch()
        version = run.view().versions["tables/clean"]
    fresh, path = make(), f"tables/clean/_delta_log/{version + 1:020d}.json"
    look = fresh._tables.statuses

    def then_written(*args, **options):
        found = look(*args, **options)
        fresh.root.create(path, THEIRS.encode())
        return found

    with fresh, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh._tables, "statuses", then_written)
        fresh.open(Owner.of_process("second"))
        for _ in range(200):
            if fresh.root.exists(path):
                break
            time.sleep(0.02)
        patch.undo()
        assert fresh._tables._known["tables/clean"].status.version == version, "as it was read beside"
        with pytest.raises(ForeignWriteError, match="written by someone else"):
            Flow(fresh).epoch(Owner.of_process("second"))


def test_small_files_are_joined(make):
    with make() as run:
        while Flow(run, last=3).epoch():
            pass
        run.open(Owner.of_process("second"))
        assert compact(run).tables["clean"].into == 1
        assert Flow(run, last=4).epoch().epoch == 5
    fresh = make()
    complete = fresh.versions()
    assert len(fresh.files("tables/clean", complete.versions["tables/clean"])) == 2
    assert read_numbers(fresh, "tables/clean", complete.versions["tables/clean"])[-4:] == [32, 40, 41, 42]
    assert leftovers(fresh) == []


@pytest.mark.parametrize("place", ["after:write_manifest", "after:append_decision", "after:commit_table:2"])
def test_another_run_takes_over_what_one_left(make, place):
    with make() as dead:
        Flow(dead).epoch()
        with until(place), pytest.raises(Died):
            Flow(dead).epoch()
    with make() as run:
        owner = Owner.of_process("second")
        assert [Flow(run, last=2).epoch(owner) for _ in range(2)][-1] is None
        assert run.view().generation == 2
        check_result(run, 2)
        assert leftovers(run) == []


def test_a_run_at_work_is_left_alone_and_one_that_is_silent_taken_over(make):
    with make(lease_seconds=0.5) as first, make() as patient, make(lease_seconds=0.5) as second:
        first.open(Owner.of_process("first"))
        with pytest.raises(PipelineBusyError):
            patient.open(Owner.of_process("second"))
        first._lease.pause()
        assert second.open(Owner.of_process("second"), wait_seconds=20) == 2


@pytest.mark.parametrize("nth", [0, 1, 3, 5])
def test_a_lost_answer_to_an_entry_that_took_effect(make, s3, nth):
    """Of an epoch: the ledger's begin, a prepared stage, the decision, a table; each is done once."""
    with make() as run:
        Flow(run).epoch()
        s3.behave(lose=r"PUT .*/_delta_log/\d+\.json", after=nth)
        Flow(run).epoch()
        check_result(run, 2)


@pytest.mark.parametrize("nth", [0, 2])
def test_a_lost_answer_to_the_creation_of_a_table(make, s3, nth):
    """Of the ledger, and of a table: it is made once, where it was made again as its second version."""
    with make() as run:
        s3.behave(lose=r"PUT .*/_delta_log/0{20}[.]json", after=nth)
        Flow(run).epoch()
        check_result(run, 1)
        Flow(run).epoch()
        check_result(run, 2)


def test_a_busy_store(make, s3):
    with make() as run:
        Flow(run).epoch()
        s3.behave(throttle=4)
        Flow(run).epoch()
        check_result(run, 2)


def test_while_a_stage_is_at_work_the_ledger_is_not_asked_for(make, s3):
    with make() as run:
        Flow(run).epoch()
        seen = run.view()
        other = make()
        other._ledger.append(seen.entries[-1].record, other.view().version)
        s3.requests()
        with run.steady():
            assert run.view() is seen
            assert s3.requests() == []
            found = run._ledger.append(seen.entries[-1].record, seen.version)
        assert isinstance(found, Conflict)
        assert found.view == run.view() != seen


def test_what_was_looked_at_just_now_is_not_looked_at_again(make, s3, monkeypatch):
    """A look is a request; what others wrote meanwhile is found when something is recorded, and by the next look."""
    with make() as run, make() as other:
        Flow(run).epoch()
        monkeypatch.setattr("dagster_operators.transactions.ledger._FRESH_SECONDS", 600.0)
        run._ledger._fresh_until = 0.0
        seen = run.view()
        s3.requests()
        assert run.view() is seen
        assert s3.requests() == []
        other._ledger.append(seen.entries[-1].record, other.view().version)
        assert isinstance(run._ledger.append(seen.entries[-1].record, seen.version), Conflict)
        assert run.look() == run.view() == other.look()
        run._ledger._fresh_until = 0.0
        s3.requests()
        assert run.view().version == seen.version + 1
        assert len(s3.requests()) == 1


def test_a_writer_without_conditions_is_noticed_and_settled(make):
    """delta-spark writes its entry over ours when it loses the race (fault script d2)."""
    with make() as run:
        Flow(run).epoch()
        Flow(run).epoch()
        entry = "tables/clean/_delta_log/00000000000000000002.json"
        run.root.write(entry, THEIRS.encode())
        with pytest.raises(RestoredTableError, match="by delta-spark"):
            Flow(run).epoch()
        assert run.repair("tables/clean", "ours")
        Flow(run).epoch()
        assert read_numbers(run, "tables/clean", run.versions().versions["tables/clean"]) == [10, 11, 12, 20, 21, 22, 30, 31, 32]


def test_a_record_is_not_there_before_its_manifest(make, s3, monkeypatch):
    """They are written beside each other."""
    write = Root.write

    def slow(root, path, content, **how):
        if path.startswith("manifests/"):
            time.sleep(0.3)
        write(root, path, content, **how)

    monkeypatch.setattr(Root, "write", slow)
    with make() as run:
        s3.requests()
        Flow(run).epoch()
        check_result(run, 1)
    puts = [line for line in s3.requests() if line.startswith("PUT") and ("/manifests/" in line or "/ledger/_delta_log/" in line)]
    kinds = ["manifest" if "/manifests/" in line else "ledger" for line in puts]
    prepared = [place for place, kind in enumerate(kinds) if kind == "manifest"]
    assert len(prepared) == 2
    assert all(kinds[place + 1] == "ledger" and kinds[place - 1] == "ledger" for place in prepared)


def test_a_manifest_that_cannot_be_written_is_told_and_nothing_goes_by_it(make, monkeypatch):
    write = Root.write

    def broken(root, path, content, **how):
        if path.startswith("manifests/"):
            raise StorageError("a file cannot be written: no space left")
        write(root, path, content, **how)

    with make() as run:
        Flow(run).epoch()
        with monkeypatch.context() as patch:
            patch.setattr(Root, "write", broken)
            with pytest.raises(StorageError, match="no space left"):
                Flow(run).epoch()
        assert run.view().prepared == {}
        Flow(run).epoch()
        check_result(run, 2)
        Flow(run).epoch()
        assert run._world._writing == {}, "nobody hears any more of what failed in an epoch before"


def test_what_was_begun_beside_a_commit_that_fails_is_waited_for_and_its_error_told(make, monkeypatch, caplog):
    commit, asked = Tables.commit, list[str]()

    def broken(tables, effect):
        asked.append(effect.dataset)
        if effect.beside:
            raise StorageError("the first cannot be written")
        time.sleep(0.2)
        if len(asked) == len(TABLES):
            raise StorageError("another cannot be written")
        return commit(tables, effect)

    with make() as run:
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "commit", broken)
            with pytest.raises(StorageError, match="the first cannot be written"):
                Flow(run).epoch()
        assert sorted(asked) == sorted(TABLES)
        assert run._world._committing == {}
        assert caplog.text.count("failed, too: another cannot be written") >= 1
        assert run.view().decision is not None
        Flow(run, last=1).epoch()
        check_result(run, 1)


def test_no_commit_to_a_table_begins_before_the_failpoint_before_it(make, monkeypatch):
    commit, reached, asked = Tables.commit, list[str](), list[int]()

    def told(tables, effect):
        assert f"before:commit_table:{effect.index}" in reached
        asked.append(effect.index)
        return commit(tables, effect)

    monkeypatch.setattr(Tables, "commit", told)
    with make() as run, watch(reached.append):
        Flow(run).epoch()
        check_result(run, 1)
    assert sorted(asked) == [1, 2, 3]
    assert sorted(name for name in reached if name.startswith("before:commit_table:")) == [
        f"before:commit_table:{number}" for number in (1, 2, 3)
    ], "each once"


@pytest.mark.parametrize("nth", [0, 1])
def test_what_somebody_else_writes_behind_the_decision_is_not_written_over(make, nth):
    """The tables are not looked at again behind it: the entry is refused, and then they are."""
    with make() as run:
        Flow(run).epoch()
        table = sorted(run.view().versions)[nth]
        before = run.versions().versions[table]
        entry = f"{table}/_delta_log/{before + 1:020d}.json"

        def write(name):
            if name == "after:append_decision":
                assert run.root.create(entry, THEIRS.encode())

        with watch(write), pytest.raises(ForeignWriteError, match="delta-spark"):
            Flow(run).epoch()
        assert run.root.read(entry) == THEIRS.encode()
        assert run.repair(table, "ours")
        while Flow(run, last=2).epoch():
            pass
        assert read_numbers(run, "tables/clean", run.versions().versions["tables/clean"]) == [10, 11, 12, 20, 21, 22]
        assert run.wrong_tables() == []


@pytest.fixture
def forgetful(monkeypatch):
    """A ledger keeps little of its past."""
    for name, value in {"ledger_files.FOLD_COUNT": 6, "ledger._KEPT_SECONDS": -10.0, "ledger._KEPT_VERSIONS": 10}.items():
        monkeypatch.setattr(f"dagster_operators.transactions.{name}", value)


@pytest.mark.usefixtures("forgetful")
def test_old_records_are_deleted_in_few_requests_and_old_entries_in_their_order(make, s3, monkeypatch):
    entries, delete = list[str](), Root.delete_file

    def told(root, path):
        entries.extend([path] if path.startswith("ledger/_delta_log/") else [])
        delete(root, path)

    monkeypatch.setattr(Root, "delete_file", told)
    with make() as run:
        for _ in range(16):
            Flow(run).epoch()
        check_result(run, 16)
        assert len([name for name in run.root.children("ledger") if name.endswith(".parquet")]) < 16 * 5 / 2
        assert f"{20:020d}.json" not in run.root.children("ledger/_delta_log")
    assert len(entries) > 20
    assert entries == sorted(set(entries)), "from the oldest on, each by a request of its own"
    deleted = [line for line in s3.requests() if "?delete" in line or line.startswith("DELETE")]
    assert len(deleted) - len(entries) <= 16 * 3 + 2, "three of each epoch's own, and one of each fold of folds"
    check_result(make(), 16)


@pytest.mark.usefixtures("forgetful")
def test_a_cleaning_that_ends_anywhere_leaves_a_whole_log(make, s3):
    with make() as run:
        for _ in range(5):
            Flow(run).epoch()
        run._ledger._log._checkpoint(run._ledger.look().version)
        last, delete, left = run._ledger.look().version, Root.delete_file, 3

        def some(root, path):
            nonlocal left
            if not left:
                raise Died
            left -= 1
            delete(root, path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Root, "delete_file", some)
            with pytest.raises(Died):
                run._ledger._log.clean(last, time.time() + 60)
    assert versions_of(run.root, "ledger") == list(range(3, last + 1))
    assert damage(run.root, "ledger") == ""
    check_result(make(), 5)


@pytest.mark.parametrize("dataset", ["ledger", "tables/clean"])
def test_what_another_writer_builds_on_an_entry_before_its_writer_looks_back_stands(make, monkeypatch, dataset):
    """A take-over, a decision from the command line, or anybody else who commits to the table."""
    with make() as run:
        Flow(run).epoch()
        base = versions_of(run.root, dataset)[-1]
        ours, theirs, link = TableLog(run.root, dataset), TableLog(run.root, dataset), TableLog._link

        def linked(log, version, entry):
            stamp = link(log, version, entry)
            if log is ours:
                assert theirs.append(version + 1, stamp, LogEntry(()))
            return stamp

        monkeypatch.setattr(TableLog, "_link", linked)
        stamp = ours.append(base, ours.stamp(base), LogEntry(()))
        assert stamp == ours.stamp(base + 1) != GONE
        assert versions_of(run.root, dataset) == list(range(base + 3))
        assert damage(run.root, dataset) == ""


def test_a_record_on_which_another_run_built_before_its_writer_looked_back_stands(make, monkeypatch):
    with make() as run, make() as other:
        Flow(run).epoch()
        seen, link = run.look(), TableLog._link
        record, mine = seen.entries[-1].record, run._ledger._log
        mine._seen = None  # it stood still

        def linked(log, version, entry):
            stamp = link(log, version, entry)
            if log is mine:
                assert not isinstance(other._ledger.append(record, other.look().version), Conflict)
            return stamp

        monkeypatch.setattr(TableLog, "_link", linked)
        assert not isinstance(run._ledger.append(record, seen.version), Conflict)
        assert run.look() == make().view() == other.look()
        assert run.look().version == seen.version + 2


def test_a_run_that_slept_finds_that_its_next_entry_is_free_because_it_was_cleaned_out(make):
    with make() as run:
        for _ in range(2):
            Flow(run).epoch()
        log, base = TableLog(run.root, "ledger"), 4
        stamp = log.stamp(base)
        for version in range(base + 2):
            run.root.delete_file(f"ledger/_delta_log/{version:020d}.json")
        assert log.append(base, stamp, LogEntry(())) is None
        assert versions_of(run.root, "ledger")[0] == base + 2, "what it wrote is gone again"


@pytest.mark.parametrize("built_on", [False, True])
def test_an_entry_behind_a_version_that_was_written_over_is_deleted_unless_others_built_on_it(make, monkeypatch, built_on):
    with make() as run:
        Flow(run).epoch()
        table, log, link = "tables/clean", TableLog(run.root, "tables/clean"), TableLog._link
        base = versions_of(run.root, table)[-1]

        def linked(log, version, entry):
            stamp = link(log, version, entry)
            run.root.write(f"{table}/_delta_log/{version:020d}.json", THEIRS.encode())
            if built_on:
                assert run.root.create(f"{table}/_delta_log/{version + 2:020d}.json", THEIRS.encode())
            return stamp

        monkeypatch.setattr(TableLog, "_link", linked)
        assert log.append(base, log.stamp(base), LogEntry(())) is None
        assert versions_of(run.root, table) == list(range(base + 3 if built_on else base + 1))
