"""Local copies of state files: lost, damaged, shared, evicted; whatever happens to them, the answer is the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dagster_operators import KeyedState
from dagster_operators.state import local_copies
from dagster_operators.state.local_copies import LocalCopies
from dagster_operators.storage.mapped_file import read_mapped, write_mapped
from tests.state.world import World

ROWS = [{"k": k, "s": f"row {k}"} for k in range(1000)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table of a thousand rows in one file."""
    world = World(tmp_path, KeyedState("k long, s string", key="k"))
    world.begin(1)
    world.stores[0]["t"].put(world.rows(ROWS))
    world.commit()
    local_copies._OPEN.clear()
    return world


def copies(world: World) -> list[Path]:
    return sorted(Path(str(world.cache)).rglob("*.arrow"))


def check(world: World) -> None:
    world.begin(1)
    assert world.stores[0]["t"].get(world.rows(ROWS, ["k"]).append_column("x", [[0] * 1000])).to_pylist() == ROWS


def zero_the_middle(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(100) + content[len(content) // 2 + 100 :])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500])


DAMAGES: list[Callable[[Path], object]] = [zero_the_middle, cut, Path.unlink, lambda path: path.write_bytes(b"")]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_or_damaged_copy_is_made_again(world: World, damage: Callable[[Path], object]) -> None:
    (copy,) = copies(world)
    damage(copy)
    check(world)
    assert copies(world) == [copy]
    local_copies._OPEN.clear()
    (world.folder / "state" / "op.t" / world.files[0].path).unlink()
    check(world)


def test_a_copy_is_mapped_once_in_a_process(world: World) -> None:
    check(world)
    (copy,) = copies(world)
    opened = local_copies._OPEN[str(copy)]
    check(world)
    assert local_copies._OPEN[str(copy)] is opened
    address = opened.column("k").buffers()[1].address
    assert any(low <= address < high for low, high in _mapped(copy)), "the rows are the file's own pages"


def _mapped(path: Path) -> list[tuple[int, int]]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs Linux")
    ranges = [line.split()[0].split("-") for line in maps.read_text().splitlines() if line.endswith(str(path))]
    return [(int(low, 16), int(high, 16)) for low, high in ranges]


def test_copies_of_merged_files_go_and_those_of_newer_epochs_stay(tmp_path: Path) -> None:
    folder = LocalCopies(str(tmp_path))
    batch = pa.record_batch({"a": [1]})
    for name in ("e1-1.x.parquet", "e2-2.x.parquet", "e3-3.x.parquet"):
        folder.write(name, batch)
    assert folder.read("e1-1.x.parquet") == batch
    folder.evict({"e2-2.x.parquet"}, 3, 10**9)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["e2-2.x.parquet.arrow", "e3-3.x.parquet.arrow"]
    assert folder.read("e1-1.x.parquet") is None
    folder.evict({"e2-2.x.parquet"}, 3, 1)
    assert list(tmp_path.iterdir()) == []


def test_an_evicted_copy_can_still_be_read_by_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_mapped(path, pa.record_batch({"a": list(range(100_000))}))
    batch = read_mapped(path)
    path.unlink()
    assert batch.column("a").to_pylist() == list(range(100_000))


def test_a_folder_that_cannot_be_written_only_costs_speed(world: World) -> None:
    world.cache = str(world.folder / "state" / "op.t" / world.files[0].path)  # a file where a folder should be
    check(world)
    world.commit()
    check(world)


def test_a_copy_that_somebody_else_has_put_there_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy,) = copies(world)
    write_mapped(copy, pa.record_batch({"k": [1], "s": ["forged"]}))
    mine = copy.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: mine + 1)
    check(world)
    assert copy.parent.stat().st_mode & 0o077 == 0, "others may not even look"


def test_a_copy_of_another_file_and_a_folder_of_others_are_not_used(world: World) -> None:
    (copy,) = copies(world)
    assert copy.stat().st_mode & 0o777 == 0o600
    write_mapped(other := copy.with_name("other"), pa.record_batch({"k": [1], "s": ["forged"]}), "another file")
    other.replace(copy)
    local_copies._OPEN.clear()
    check(world)
    copy.parent.chmod(0o777)
    local_copies._OPEN.clear()
    assert LocalCopies(str(copy.parent)).read(copy.name.removesuffix(".arrow")) is None


def test_copies_that_nobody_uses_go(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pipelines that were not run for days, and those of before the machine was started; what is in use stays."""
    (copy,) = copies(world)
    cache = Path(str(world.cache))
    day = 86_400
    for folder, age in (("gone", 8 * day), ("resting", 6 * day)):
        made = cache.parent / folder / "boot" / "op.t"
        made.mkdir(parents=True)
        (made / "e1-1.arrow").write_text("")
        for path in (made, made.parent, made.parent.parent):
            os.utime(path, (time.time() - age,) * 2)
    (cache / "last-boot" / "op.t").mkdir(parents=True)
    monkeypatch.setattr(local_copies, "_TIDIED", set())
    world.begin(1)
    world.stores[0]["t"].put(world.rows(ROWS[:1]))
    world.commit()
    assert not (cache.parent / "gone").exists()
    assert (cache.parent / "resting" / "boot" / "op.t" / "e1-1.arrow").exists()
    assert [folder.name for folder in cache.iterdir()] == [local_copies.boot_id()]
    assert copy.exists()
