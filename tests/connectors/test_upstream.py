"""Another pipeline's ledger as those see it who read its tables: missing, damaged, removed, cleaned, or made meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_operators.connectors.pipeline_source import PipelineSource
from dagster_operators.errors import BadInputError, DamagedLedgerError, LedgerError, MissingInputError, SourceError
from dagster_operators.runtime.cuts import one_cut
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from tests.commands import commands_in
from tests.transactions.flow import Flow


def nothing() -> Iterator[Any]:
    return iter(())


def epochs(root: Path, count: int, *, keep: int | None = None) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run)
        for _ in range(count):
            flow.epoch()
        if keep is not None:
            run.open(Owner.of_process())
            run.clean(keep)


def source(root: Path, **options: Any) -> PipelineSource:
    return PipelineSource(str(root), "clean", **options)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


@pytest.mark.parametrize("made", [False, True], ids=["no root", "no record"])
def test_where_no_pipeline_has_run_there_is_nothing_new_and_nothing_is_made(tmp_path: Path, *, made: bool) -> None:
    root = tmp_path / "up"
    if made:
        epochs(root, 1)
        for file in (root / "ledger").glob("*.parquet"):
            file.unlink()
        for entry in sorted((root / "ledger/_delta_log").glob("*.json"))[1:]:
            entry.unlink()
    before = sorted(tmp_path.rglob("*"))
    assert source(root).choose(None, nothing) is None
    assert source(root).pipeline_name is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "harm",
    [
        lambda ledger: [cut_short(file) for file in ledger.glob("*.parquet")],
        lambda ledger: min(ledger.glob("*.parquet")).unlink(),
        lambda ledger: cut_short(min((ledger / "_delta_log").glob("*.json"))),
        lambda ledger: shutil.rmtree(ledger / "_delta_log"),
    ],
    ids=["records cut short", "first record gone", "log cut short", "log gone"],
)
def test_a_damaged_ledger_is_told(tmp_path: Path, harm: Any) -> None:
    epochs(tmp_path, 1)
    harm(tmp_path / "ledger")
    with pytest.raises(DamagedLedgerError):
        source(tmp_path).choose(None, nothing)


def entry(root: Path, version: int) -> Path:
    return root / f"tables/clean/_delta_log/{version:020d}.json"


def without_its_files(file: Path) -> None:
    file.write_bytes(b"\n".join(line for line in file.read_bytes().splitlines() if b'"add"' not in line))


@pytest.mark.parametrize("version", [0, 2, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    "harm", [Path.unlink, cut_short, lambda file: file.write_bytes(b""), without_its_files],
    ids=["gone", "cut short", "empty", "without its files"],
)  # fmt: skip
def test_a_table_whose_log_is_damaged_is_refused_with_the_command_that_puts_it_in_order(
    tmp_path: Path, harm: Any, version: int
) -> None:
    if harm is without_its_files and not version:
        return  # it has none
    epochs(tmp_path, 3)
    harm(entry(tmp_path, version))
    for changes in (False, True):
        reading = source(tmp_path, changes=changes)
        with pytest.raises(SourceError) as caught:
            reading.read(None, reading.choose(None, nothing).slice.items, reading.infer_schema(None))
        (command,) = commands_in(caught.value.remedy)
        assert command in (["repair", str(tmp_path), "clean", "--keep", "ours"], ["doctor", str(tmp_path)])
    assert Coordinator("numbers", str(tmp_path)).repair("tables/clean", "ours")
    chosen = source(tmp_path).choose(None, nothing)
    assert len(source(tmp_path)._files(chosen.slice.items)) == 3


@pytest.mark.parametrize("cut", [False, True], ids=["longer", "cut short"])
def test_a_data_file_of_another_size_is_refused(tmp_path: Path, cut: bool) -> None:  # noqa: FBT001
    epochs(tmp_path, 3)
    reading = source(tmp_path)
    items = reading.choose(None, nothing).slice.items
    (file,) = (tmp_path / "tables/clean").glob("e2-*/*.parquet")
    file.write_bytes(file.read_bytes()[: -9 if cut else None] + b"" * cut + b"more" * (not cut))
    for read in (items, {"versions": [2, 3]}):
        with pytest.raises(BadInputError, match=r"has \d+ bytes(, and \d+ by the table's log| instead of \d+)") as caught:
            reading.read(None, read, reading.infer_schema(None))
        assert caught.value.remedy.startswith(f"`dagster-operators doctor {tmp_path}`")


def test_a_root_that_is_gone_is_told_and_stays_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "up"
    epochs(root, 1)
    reading = source(root)
    assert reading.choose(None, nothing)
    shutil.move(root, tmp_path / "aside")
    with pytest.raises(LedgerError, match="removed or replaced while in use"):
        reading.choose(None, nothing)
    assert not root.exists()
    shutil.move(tmp_path / "aside", root)
    assert reading.choose(None, nothing), "as when a disk is there again"


def test_a_root_that_was_read_and_is_gone_is_told_to_a_new_process_too(tmp_path: Path) -> None:
    root = tmp_path / "up"
    epochs(root, 1)
    start = source(root).choose(None, nothing).slice.end
    shutil.move(root, tmp_path / "aside")
    with pytest.raises(MissingInputError, match="its epoch 1 was read") as gone:
        source(root).choose(start, nothing)
    assert 'reset(source, 0, tables="restart")' in gone.value.remedy
    shutil.move(tmp_path / "aside", root)
    assert source(root).choose(start, nothing).slice.end == start


def test_a_limit_goes_on_behind_epochs_that_were_cleaned_away(tmp_path: Path) -> None:
    epochs(tmp_path, 1)
    start = source(tmp_path, max_epochs=1).choose(None, nothing).slice.end
    epochs(tmp_path, 4, keep=5)
    chosen = source(tmp_path, max_epochs=1).choose(start, nothing)
    assert chosen == source(tmp_path).choose(start, nothing), "all rows since, as without a limit"
    assert chosen.slice.items == {"versions": [2, 5]}
    assert len(source(tmp_path)._files(chosen.slice.items)) == 4


def test_a_limit_holds_as_long_as_it_can(tmp_path: Path) -> None:
    epochs(tmp_path, 1)
    start = source(tmp_path).choose(None, nothing).slice.end
    epochs(tmp_path, 4, keep=3)
    ends = []
    while (chosen := source(tmp_path, max_epochs=1).choose(start, nothing)).slice.items:
        ends.append((start := chosen.slice.end)["epoch"])
    assert ends == [3, 4, 5]


def test_tables_without_a_common_epoch_are_not_read_if_one_is_complete_meanwhile(tmp_path: Path) -> None:
    both = {"clean": source(tmp_path), "sums": PipelineSource(str(tmp_path), "sums", changes=True)}
    planning: Any = SimpleNamespace(connector=both.get)
    cuts: Any = one_cut(planning, both, {})
    epochs(tmp_path, 1)
    assert set(cuts) == set(both)
    assert [(each.choose(None, nothing), each.time()) for each in cuts.values()] == [(None, None), (None, None)]
    with pytest.raises(MissingInputError):
        cuts["clean"].pin()
    later: Any = one_cut(planning, both, {})
    ends = [each.choose(None, nothing).slice.end["epoch"] for each in later.values()]
    assert ends == [1, 1]
