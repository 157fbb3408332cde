"""With ``durable`` a power cut takes nothing that was recorded: without what was not flushed the next runs are right at once."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL
from tests.transactions.flow import Flow, check_result

LAST = 4


class DiedError(Exception):
    """The power goes."""


class Disk:
    """Knows what was flushed: the size of each file by its inode, and the names in each folder with their inodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[int, int] = {}
        self.names: dict[Path, dict[str, int]] = {}
        plain = os.fsync

        def fsync(descriptor: int) -> None:
            plain(descriptor)
            about, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
            if path.is_dir():
                self.names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
            else:
                self.sizes[about.st_ino] = about.st_size

        monkeypatch.setattr(os, "fsync", fsync)

    def cut(self, root: Path) -> int:
        """Take away whatever was not flushed; how many files that were."""
        lost = 0
        for path in [path for path in root.rglob("*") if path.is_file()]:
            named = self.names.get(path.parent, {}).get(path.name) == path.stat().st_ino
            if not named:
                path.unlink()
            elif self.sizes.get(path.stat().st_ino) != path.stat().st_size:
                path.write_bytes(b"")
            else:
                continue
            lost += 1
        return lost


def run_to(root: Path, last: int, place: str = "", *, durable: bool = True) -> None:
    run = Coordinator("numbers", str(root), durable=durable)

    def reached(name: str) -> None:
        if name == place and run.view().last_epoch >= 1:
            raise DiedError

    try:
        with watch(reached), suppress(DiedError):
            while Flow(run, last=last).epoch() is not None:
                pass
    finally:
        run.close()


EFFECTS = (
    "append_begin", "write_manifest", "append_prepared", "append_decision", "commit_table:1", "commit_table:3", "append_complete",
)  # fmt: skip
PLACES = [f"{when}:{name}" for name in EFFECTS for when in ("before", "after")]


@pytest.mark.parametrize("place", ["end", *PLACES])
def test_the_next_run_is_right_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    disk = Disk(monkeypatch)
    run_to(tmp_path, 2 if place == "end" else LAST, place)
    disk.cut(tmp_path)
    with Coordinator("numbers", str(tmp_path), durable=True) as run:
        flow = Flow(run, last=LAST)
        while flow.epoch() is not None:
            pass
        check_result(run, LAST)


def test_without_it_nothing_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    run_to(tmp_path, 2, durable=False)
    assert disk.sizes == {}
    assert disk.cut(tmp_path) > 10


def test_a_checkpoint_is_flushed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    run_to(tmp_path, 21)
    disk.cut(tmp_path)
    assert list((tmp_path / "tables/clean/_delta_log").glob("*.checkpoint.parquet"))
    assert (tmp_path / "tables/clean/_delta_log/_last_checkpoint").stat().st_size
    run = Coordinator("numbers", str(tmp_path))
    check_result(run, 21)


def test_what_an_engine_wrote_is_flushed_too(sail: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    def build() -> Pipeline:
        pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL, durable=True)
        rows = pipeline.source("rows", MemorySource([[{"k": n}] for n in range(3)], schema="k long"))
        rows.to_table("rows")
        rows.key_by("k").aggregate(n="count(*)").to_table("counts")
        return pipeline

    build().run_epoch()
    build().run_epoch()
    disk.cut(tmp_path)
    assert len(build().run_until_caught_up()) == 1
    assert sorted(row.k for row in build().read("rows").collect()) == [0, 1, 2]
    assert sorted((row.k, row.n) for row in build().read("counts").collect()) == [(0, 1), (1, 1), (2, 1)]
