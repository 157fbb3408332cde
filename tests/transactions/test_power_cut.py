"""Files that a power cut left empty, cut short or not there: the next runs are right, or refuse with a way out that works.

A pipeline's process ends somewhere; of the files that it wrote last, one, or all from one on, are damaged. Then runs go on. What
an error says to do is done, by its text. In the end every row is in every table, once.

Stands for the fault scripts a6 and a6_min.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_operators.errors import OperatorsError
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.lost import PUT_BACK, lost_error
from tests.in_memory import folder_in_memory
from tests.transactions.flow import Flow, read_numbers

PLACES = (
    "after:append_begin", "after:write_manifest", "after:append_prepared", "after:append_decision", "after:commit_table:1",
    "after:commit_table:2", "after:append_complete", "end",
)  # fmt: skip
DAMAGES = ("empty", "cut short", "gone")
EPOCHS = (1, 3)
AFTER = 2
"""So many epochs are run after the power cut's; the ledger's small files are folded in one of them, or were just before."""

FILES = 24
"""So many files that were written last may be damaged."""

WAYS: Final = int(os.environ.get("DAGSTER_OPERATORS_DAMAGES", "1"))
"""In so many of the ways each placement is damaged, of three in turn; ``make soak`` tries all three."""

KEEP = re.compile(r'pipeline\.repair\("([^"]+)", keep="ours"\)')
GO_BACK = re.compile(r"pipeline\.repair_ledger\((?:last_epoch=(\d+))?\)")


class DiedError(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class Cut:
    """A power cut: where the process was in which epoch, which of the last files are damaged, and how."""

    place: str
    epoch: int
    how: str
    first: int
    alone: bool


def run_to(root: Path, last: int, place: str = "", epoch: int = 0) -> None:
    run = Coordinator("numbers", str(root))

    def reached(name: str) -> None:
        if name == place and run.view().last_epoch == (epoch if place == "after:append_complete" else epoch - 1):
            raise DiedError

    flow = Flow(run, last=last)
    try:
        with watch(reached), suppress(DiedError):
            if flow.epoch() is not None:
                require_files(run)
                while flow.epoch() is not None:
                    pass
    except (FileNotFoundError, pa.ArrowInvalid):
        require_files(run)
        raise
    finally:
        with suppress(OperatorsError):
            run.close()


def written(root: Path) -> list[Path]:
    """The files that a run wrote, those last that it wrote last; a heartbeat is read by nobody after a power cut."""
    files = [path for path in root.rglob("*") if path.is_file() and "owners" not in path.parts]
    return sorted(files, key=lambda path: (path.stat().st_mtime_ns, str(path)))


@pytest.fixture(scope="module")
def roots() -> Iterator[dict[tuple[str, int], Path]]:
    """A root for every place and epoch, as the process left it."""
    with folder_in_memory() as base:
        made = {}
        for place in PLACES:
            for epoch in EPOCHS:
                made[place, epoch] = root = base / f"{place.replace(':', '-')}-{epoch}"
                run_to(root, epoch, place, epoch)
        yield made


def damage_of(source: Path, cut: Cut) -> dict[str, bytes | None]:
    """What becomes of files, those left out that stay what they are; None is gone."""
    last = written(source)[-FILES:]
    first = cut.first % len(last)
    found: dict[str, bytes | None] = {}
    for path in last[first : first + 1] if cut.alone else last[first:]:
        now = path.read_bytes()
        then = {"gone": None, "empty": b"", "cut short": now[: len(now) // 2]}[cut.how]
        if then != now:
            found[str(path.relative_to(source))] = then
    return found


def damaged(source: Path, damage: Mapping[str, bytes | None], root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root, copy_function=shutil.copy2)
    for name, then in damage.items():
        if then is None:
            (root / name).unlink()
        else:
            (root / name).write_bytes(then)
    return root


def settle(root: Path, error: OperatorsError) -> None:
    """Do what an error says."""
    run = Coordinator("numbers", str(root))
    if 'pipeline.repair_all(keep="ours")' in error.remedy:
        run.repair_all("ours")
    elif found := KEEP.search(error.remedy):
        run.repair(found[1] if "/" in found[1] else f"tables/{found[1]}", "ours")
    elif found := GO_BACK.search(error.remedy):
        for heartbeat in (root / "owners").iterdir():
            os.utime(heartbeat, (0, 0))  # of a process that is dead; time goes by until somebody repairs
        run.repair_ledger(None if found[1] is None else int(found[1]))
    elif "choose another storage root" in error.remedy:
        shutil.rmtree(root)
    elif "run again" not in error.remedy:
        raise AssertionError(f"no way out: {error!r} {error}") from error


def goes_on(root: Path, last: int) -> list[str]:
    """Run all epochs up to the last, doing what errors say; these errors."""
    told: list[str] = []
    error: OperatorsError | None = None
    for _ in range(12):
        try:
            if error is not None:
                settle(root, error)
            run_to(root, last)
            check(root, last)
        except OperatorsError as refused:
            error = refused
            told.append(str(refused))
        else:
            return told
    raise AssertionError("the ways out go round: " + "\n".join(told))


def check(root: Path, last: int) -> None:
    run = Coordinator("numbers", str(root))
    wanted = [10 * epoch + step for epoch in range(1, last + 1) for step in range(3)]
    require_files(run)
    complete = run.versions()
    assert complete.epoch == last
    assert read_numbers(run, "tables/clean", complete.versions["tables/clean"]) == wanted
    assert read_numbers(run, "tables/sums", complete.versions["tables/sums"]) == [sum(wanted)]
    assert sum(read_numbers(run, "state/sums.totals", complete.versions["state/sums.totals"])) == sum(wanted)


def require_files(run: Coordinator) -> None:
    """What is done with every list of files before an engine reads it; here once, as nothing is lost later."""
    complete = run.last_complete()
    for dataset, version in complete.versions.items() if complete else ():
        if dataset in run.view().versions and run.view().versions[dataset] == version:
            sizes = {f"{dataset}/{file.path}": file.size for file in run.files(dataset, version)}
            if lost := lost_files(run.root, sizes):
                raise lost_error(lost, "rows cannot be read", PUT_BACK)


def try_cut(roots: dict[tuple[str, int], Path], cut: Cut, root: Path) -> list[str]:
    source = roots[cut.place, cut.epoch]
    return goes_on(damaged(source, damage_of(source, cut), root), cut.epoch + AFTER)


CUTS = st.builds(
    Cut, st.sampled_from(PLACES), st.sampled_from(EPOCHS), st.sampled_from(DAMAGES), st.integers(0, FILES - 1), st.booleans()
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=CUTS)
def test_right_or_refused_with_a_way_out(roots: dict[tuple[str, int], Path], cut: Cut) -> None:
    with folder_in_memory() as place:
        try_cut(roots, cut, place / "root")


def every_cut(place: str) -> list[Cut]:
    return [
        Cut(place, epoch, how, first, alone)
        for epoch in EPOCHS for how in DAMAGES for first in range(FILES) for alone in (True, False)
    ]  # fmt: skip


def test_there_are_a_thousand_placements() -> None:
    assert sum(len(every_cut(place)) for place in PLACES) > 1_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", PLACES)
def test_every_placement(roots: dict[tuple[str, int], Path], place: str) -> None:
    """A file that is there at several places is damaged in another way at each."""
    tried: list[tuple[int, dict[str, bytes | None]]] = []
    with folder_in_memory() as folder:
        for cut in every_cut(place):
            source = roots[cut.place, cut.epoch]
            before = max(len(written(source)) - FILES, 0)
            turn = before + cut.first + cut.alone + PLACES.index(place)
            damage = damage_of(source, cut)
            if (DAMAGES.index(cut.how) - turn) % len(DAMAGES) < WAYS and (cut.epoch, damage) not in tried:
                tried.append((cut.epoch, damage))  # of a single file left, "alone" and "from there on" are one
                goes_on(damaged(source, damage, folder / "root"), cut.epoch + AFTER)
