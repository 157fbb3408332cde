"""One run at a time has the folder in which tables are computed anew."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_operators.errors import FencedError, PipelineBusyError
from dagster_operators.runtime.rebuild_folder import _TURNS, RUNS, RebuildFolder
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner, process_started
from tests.storage.s3_server import S3Server

WHAT = {"id": "a"}


def folder(root: Path) -> RebuildFolder:
    return RebuildFolder(Root(str(root)), Coordinator("again", str(root / RUNS)))


def test_another_run_is_refused_until_it_is_over(tmp_path: Path) -> None:
    first, second = folder(tmp_path), folder(tmp_path)
    with first.taken(Owner.of_process("one")):
        first.tell(WHAT)
        with pytest.raises(PipelineBusyError, match=r"another rebuild is at work: run one .*wait for it to end"):
            second.taken(Owner.of_process("two")).__enter__()
        assert first.told == WHAT
    with second.taken(Owner.of_process("two")):
        assert second.told == WHAT, "it goes on"
        second.delete()
        assert not (tmp_path / "rebuild").exists()


def test_a_link_in_its_place_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine" / "tables").mkdir(parents=True)
    Root(str(tmp_path / "mine")).write("what.json", b'{"id": "a"}')
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "rebuild").symlink_to(tmp_path / "mine", target_is_directory=True)
    with folder(tmp_path / "root").taken(Owner.of_process("one")):
        assert not (tmp_path / "root" / "rebuild").exists()
    assert (tmp_path / "mine" / "tables").is_dir()


def test_a_run_of_dagster_that_fails_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), folder(tmp_path).taken(Owner.of_dagster_run("one")):
        raise ZeroDivisionError
    with folder(tmp_path).taken(Owner.of_process("two")):
        pass


def gone() -> Owner:
    """The owner of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = replace(Owner.of_process("dead"), pid=process.pid, pid_started=process_started(process.pid) or 0.0)
    process.communicate(b"\n")
    return owner


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say which processes there are")
def test_who_died_is_taken_over_from_and_deletes_nothing_any_more(tmp_path: Path) -> None:
    first = folder(tmp_path)
    left = first.taken(gone())
    left.__enter__()
    first.tell(WHAT)
    second = folder(tmp_path)
    with second.taken(Owner.of_process("two")):
        assert second.told == WHAT
        with pytest.raises(FencedError, match="another rebuild took over"):
            first.delete()
        assert second.told == WHAT
    left.__exit__(None, None, None)


def test_two_threads_of_one_run_are_two(tmp_path: Path) -> None:
    """They are one owner to the ledger."""
    owner, found = Owner.of_process("one"), list[BaseException]()

    def other() -> None:
        try:
            with folder(tmp_path).taken(owner, 0.05):
                pass
        except PipelineBusyError as error:
            found.append(error)

    with folder(tmp_path).taken(owner):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "a thread of this process" in str(found[0])
    with folder(tmp_path).taken(owner):
        pass


def test_who_hangs_while_it_deletes_takes_nothing_of_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = folder(tmp_path), folder(tmp_path)
    left = first.taken(gone())
    left.__enter__()
    first.tell(WHAT)
    delete, hung = Root.delete_folder, list[str]()
    monkeypatch.setattr(Root, "delete_folder", lambda _, path: hung.append(path))
    first.delete()  # as if it had stopped before the first file went
    left.__exit__(None, None, None)
    monkeypatch.setattr(Root, "delete_folder", delete)
    with later.taken(Owner.of_process("two")):
        assert later.told == {}, "what was to go is not taken up"
        later.tell({"id": "b"})
        delete(Root(str(tmp_path)), hung[0])  # it wakes
        assert later.told == {"id": "b"}
        assert sorted(path.name for path in tmp_path.glob("rebuild*")) == ["rebuild", "rebuild_runs"]


def test_who_hangs_before_it_puts_the_folder_aside_gives_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = folder(tmp_path), folder(tmp_path)
    left, taken = first.taken(gone()), later.taken(Owner.of_process("two"))
    left.__enter__()
    first.tell(WHAT)
    put_aside = Root.put_aside

    def hung(root: Root, path: str, name: str) -> str:
        monkeypatch.setattr(Root, "put_aside", put_aside)
        taken.__enter__()
        later.tell({"id": "b"})
        return put_aside(root, path, name)

    monkeypatch.setattr(Root, "put_aside", hung)
    with pytest.raises(FencedError, match="another rebuild took over"):
        first.delete()
    assert later.told == {"id": "b"}
    assert sorted(path.name for path in tmp_path.glob("rebuild*")) == ["rebuild", "rebuild_runs"]
    taken.__exit__(None, None, None)
    left.__exit__(None, None, None)


def test_who_was_taken_over_from_just_now_is_told_on_an_object_store(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of the ledger counts for a moment; for files that are deleted that is too long."""

    uri, options = f"{s3.bucket()}/again", s3.options()

    def there() -> RebuildFolder:
        return RebuildFolder(Root(uri, options), Coordinator("again", f"{uri}/{RUNS}", storage_options=options))

    monkeypatch.setattr("dagster_operators.transactions.ledger._FRESH_SECONDS", 600.0)
    first, later = there(), there()
    left, taken = first.taken(gone()), later.taken(Owner.of_process("two"))
    left.__enter__()
    taken.__enter__()
    with pytest.raises(FencedError, match="another rebuild took over"):
        first.delete()
    taken.__exit__(None, None, None)
    left.__exit__(None, None, None)


def test_no_lock_is_left_behind(tmp_path: Path) -> None:
    for run in ("one", "two"):
        with folder(tmp_path).taken(Owner.of_process(run)):
            assert len(_TURNS) > 0
    assert not [key for key in _TURNS if str(tmp_path) in key[0]]


def test_what_was_not_written_to_the_end_is_scraps(tmp_path: Path) -> None:
    (tmp_path / "rebuild/tables").mkdir(parents=True)
    (tmp_path / "rebuild/what.json").write_text('{"id": "ab')
    one = folder(tmp_path)
    with one.taken(Owner.of_process()):
        assert one.told == {}
        assert not (tmp_path / "rebuild").exists()
