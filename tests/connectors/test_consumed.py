"""Files that a source has read, remembered by one process for the next: the same as all that the ledger says, or not used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors import slicing
from dagster_operators.connectors.consumed import Consumed
from dagster_operators.connectors.slicing import SeenFiles, position_behind
from dagster_operators.errors import LedgerError
from dagster_operators.storage.location import SourceFile
from dagster_operators.storage.root import Root
from tests.end_to_end.landing import put
from tests.engines import SAIL


class Ledger:
    """The slices of a source, and how many of them somebody read."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.slices: list[list[SourceFile]] = []
        self.read = 0

    def add(self, *sizes: int) -> None:
        number = sum(map(len, self.slices))
        self.slices.append([SourceFile(1000 + size, f"{number + place}.csv", size) for place, size in enumerate(sizes)])

    @property
    def position(self) -> Any:
        at: dict[str, Any] = {"files": 0, "digest": ""}
        for files in self.slices:
            at = position_behind(at, files)
        return at if self.slices else None

    def since(self, mark: int) -> Iterator[Any]:
        for files in self.slices[mark:]:
            self.read += 1
            yield [file.to_json() for file in files]

    @property
    def consumed(self) -> Consumed:
        return Consumed(lambda: self.since(0), self.since, lambda: len(self.slices), self.root, "rows")

    def seen_by_new_process(self) -> SeenFiles:
        self.read, seen = 0, SeenFiles()
        seen.move_to(self.position, self.consumed)
        expected = {file.path: file for files in self.slices for file in files}
        assert dict(seen.without(())) == expected
        asked = [*list(expected)[::2], "never.csv"]
        assert {path: file for path, file in seen.among(asked, ()).items() if path in asked} == {
            path: expected[path] for path in asked if path in expected
        }
        assert seen.among(asked, ["0.csv"]).keys() == seen.without(["0.csv"]).keys()
        assert seen.position_after([])["files"] == len(expected)
        return seen


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr(slicing, "REMEMBERED_SLICES", 4)
    return Ledger(Root(str(tmp_path), None))


def test_a_new_process_reads_what_came_since(ledger: Ledger) -> None:
    for number in range(30):
        ledger.add(number)
        ledger.seen_by_new_process()
        assert ledger.read <= 4
    assert [path.name for path in (Path(ledger.root.uri) / "seen").iterdir()] == ["rows.files"]


@pytest.mark.parametrize("harm", ["torn", "empty", "gone", "another table", "another history"])
def test_what_does_not_fit_is_not_used(ledger: Ledger, harm: str) -> None:
    for number in range(6):
        ledger.add(number, number)
    ledger.seen_by_new_process()
    file = Path(ledger.root.uri) / "seen/rows.files"
    if harm == "torn":
        file.write_bytes(file.read_bytes()[:-20])
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "gone":
        file.unlink()
    elif harm == "another table":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"x": [1]}), file)
    else:  # as after a rollback, behind which other files came
        ledger.slices[3:] = []
        ledger.add(99)
    ledger.seen_by_new_process()
    assert ledger.read >= len(ledger.slices)


def test_a_flipped_bit_anywhere_is_seen(ledger: Ledger) -> None:
    for number in range(6):
        ledger.add(number, number)
    ledger.seen_by_new_process()
    file = Path(ledger.root.uri) / "seen/rows.files"
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        ledger.seen_by_new_process()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.lists(st.integers(0, 9), max_size=3), st.integers(0, 8)), max_size=12))
def test_any_history_is_seen_as_it_is(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """Slices come, or the source is put back behind an earlier one."""
    ledger = Ledger(Root(str(tmp_path_factory.mktemp("root")), None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "REMEMBERED_SLICES", 2)
        for step in steps:
            if isinstance(step, list):
                ledger.add(*step)
            else:
                del ledger.slices[step:]
            ledger.seen_by_new_process()


def test_slices_that_do_not_lead_to_the_position(ledger: Ledger) -> None:
    ledger.add(1)
    with pytest.raises(LedgerError, match="do not add up"):
        SeenFiles().move_to({"files": 1, "digest": "of another"}, ledger.consumed)


def test_a_pipeline_of_many_processes(sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch is of a process of its own; also behind a rollback and a reset each file is read once."""
    monkeypatch.setattr(slicing, "REMEMBERED_SLICES", 2)

    def pipeline() -> do.Pipeline:
        made = do.Pipeline("many", root=str(tmp_path / "root"), engine=SAIL)
        made.source("rows", do.FileSource(str(tmp_path / "in/*.csv"), schema="v long")).filter("v >= 0").to_table("all")
        return made

    def rows() -> list[int]:
        return sorted(do.StoredPipeline(str(tmp_path / "root")).to_arrow("all")["v"].to_pylist())

    def arrive(number: int) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        put(tmp_path / f"in/{number:02d}.csv", f"v\n{number}\n", number)
        pipeline().run_epoch()

    for number in range(1, 6):
        arrive(number)
    pipeline().rollback(to=3)
    arrive(6)
    assert rows() == [1, 2, 3, 4, 5, 6]
    pipeline().reset("rows", to=2, tables="restart")
    arrive(7)
    arrive(8)
    assert rows() == [3, 4, 5, 6, 7, 8]


@pytest.mark.sail
def test_epochs_that_had_nothing_of_a_source_are_passed_over(tmp_path: Path) -> None:
    def build() -> do.Pipeline:
        pipeline = do.Pipeline("two", root=str(tmp_path / "root"), engine=SAIL)
        for name in ("left", "right"):
            files = do.FileSource(str(tmp_path / name / "*.json"), schema="v long")
            pipeline.source(name, files).to_table(f"of_{name}")
        return pipeline

    for side in ("left", "right"):
        (tmp_path / side).mkdir()
    for number, sides in enumerate([("left", "right"), ("left",), ("left", "right"), ("right",), ("left", "right")]):
        for side in sides:
            put(tmp_path / side / f"{number}.json", f'{{"v": {number}}}\n', number)
        assert set(build().epochs.has_news()) == set(sides)
        build().run_epoch()
    for table, expected in {"of_left": [0, 1, 2, 4], "of_right": [0, 2, 3, 4]}.items():
        assert sorted(do.StoredPipeline(str(tmp_path / "root")).to_arrow(table)["v"].to_pylist()) == expected
    rebuilt = build()
    rebuilt.rebuild("of_right")
    assert sorted(do.StoredPipeline(str(tmp_path / "root")).to_arrow("of_right")["v"].to_pylist()) == [0, 2, 3, 4]
    assert not build().epochs.has_news()
