"""Random histories of one storage root: epochs, transitions, repairs and cleaning, each of which may die or be told a lie.

Beside the root goes what it must hold, worked out by hand. Whatever is done and however it ends, the root then holds what it did
before or what it should after, never anything else; and in the end every epoch that can be read is as it was.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from deltalake import write_deltalake

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.runtime.compacting import TARGET_SIZE, compact, groups_of
from dagster_operators.runtime.resetting import Resetting
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.rollback import roll_back
from tests.transactions.flow import TABLES, Flow, leftovers, numbers_in

CLEAN: Final = "tables/clean"
KINDS: Final = (
    *["epoch"] * 3, *["rollback"] * 2, *["older"] * 2, "reset", "clean", "compact", "fold", "foreign", "ours", "theirs", "clock",
)  # fmt: skip
"""What may be done; some of it more often."""


class DiedError(BaseException):
    """A process that is killed: nothing behind this is done by it."""


@dataclass(frozen=True)
class Content:
    """What an epoch holds: the numbers, their sum as the table has it, all that the state adds up to, and where the source is."""

    numbers: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    state: int = 0
    position: int = 0

    def after_epoch(self) -> Content:
        new = [10 * (self.position + 1) + step for step in range(3)]
        numbers = tuple(sorted((*self.numbers, *new)))
        return Content(numbers, (sum(self.sums) + sum(new),), self.state + sum(new), self.position + 1)


@dataclass(frozen=True)
class Model:
    """What must be in the root.

    Attributes:
        epochs: The content of each epoch, from the first.
        horizon: The first of them that can be read.
        foreign: The numbers that somebody else has written to the table and nobody has settled.
        accepted: Those that were settled as theirs, and are in the next epoch.
        shown: What the last epoch holds since a table was put back to what it was with those.
    """

    epochs: tuple[Content, ...] = ()
    horizon: int = 1
    foreign: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    shown: Content | None = None

    @property
    def last(self) -> Content:
        if self.shown is not None:
            return self.shown
        return self.epochs[-1] if self.epochs else Content()

    @property
    def now(self) -> Content:
        """What the next epoch builds on."""
        return replace(self.last, numbers=tuple(sorted((*self.last.numbers, *self.accepted))))

    def then(self, content: Content) -> Model:
        return Model((*self.epochs, content), self.horizon)


@dataclass(frozen=True)
class Step:
    """Something done to the root.

    Attributes:
        kind: What.
        place: Which epoch it is about, as a part of those there are; for ``older``, which of the kept ledgers; for ``clock``,
            how far the process's clock is put forward or back, up to ten days.
        fault: The failpoint at which the process dies, counted from 1; with a minus sign, after which the effect is told to have
            failed; 0 for none.
    """

    kind: str
    place: float = 0.0
    fault: int = 0


@dataclass
class History:
    """A root, and what must be in it."""

    root: Path
    model: Model = field(default_factory=Model)
    steps: int = 0
    kept: list[tuple[Path, Model]] = field(default_factory=list)
    clock: float = 0.0
    older: bool = False

    def run(self, steps: list[Step]) -> None:
        """Do all steps, then bring it to an end."""
        for step in steps:
            self.step(step)
        if self.model.foreign:
            self.step(Step("ours"))
        for _ in range(2):
            self.step(Step("epoch"))
        with self.opened() as run:
            run.open(owner())
            run.settle()
            for number, content in enumerate(self.model.epochs, start=1):
                if number >= self.model.horizon:
                    assert self.content(run, number) == content, f"epoch {number} cannot be read as it was"
            if self.older:  # what epochs wrote that this ledger does not know goes with what their tables no longer need
                run.clean(len(self.model.epochs))
            left = [name for name in leftovers(run) if not (self.older and self._is_ahead(name))]
            assert left == [], "files of no epoch are left"

    def _is_ahead(self, name: str) -> bool:
        """Whether a manifest is of an epoch that an older ledger has not come to again; it goes with that epoch."""
        folder, _, epoch = name.partition("/e")
        return folder == "manifests" and int(epoch) > len(self.model.epochs)

    def step(self, step: Step) -> None:
        """Do one step, and look what came of it; the clock of the process stands where the last ``clock`` put it."""
        self.steps += 1
        if step.kind == "clock":
            self.clock = (2 * step.place - 1) * 10 * 86_400
        with patch("time.time", _clock(self.clock)):
            if step.kind == "older":
                self._put_older_ledger(step)
            elif step.kind != "clock":
                self._do(step)
            self._keep_ledger()

    def _do(self, step: Step) -> None:
        before, epoch = self.model, self._epoch(step)
        after = self._compacted() if step.kind == "compact" else _AFTER[step.kind](before, epoch)
        if step.kind == "foreign":
            self._write_foreign()
            self.model = after or before
            return
        told: BaseException | None = None
        with self.opened() as run, _faulty(step.fault):
            try:
                _DONE[step.kind](run, epoch)
            except (DiedError, OperatorsError) as error:
                told = error
        found, last = self.found()
        ended = after is not None and (found, last) == (after.last, len(after.epochs))
        if told is None:
            assert after is not None, f"{step} was not refused"
            assert ended, f"{step}: {found} instead of {after.last}"
        else:
            refused = after is None or before.foreign or step.fault or not before.epochs
            assert refused, f"{step} failed: {told!r}"
        if after is not None and ended and (told is None or len(after.epochs) > len(before.epochs) or self._settled(step)):
            self.model = after
        else:
            assert (found, last) == (before.last, len(before.epochs)), f"{step}: {found} instead of {before.last}"

    def _keep_ledger(self) -> None:
        """Keep a copy of the ledger, as a backup does, with what it stands for."""
        if self.model.epochs and not self.model.foreign:
            copy = self.root.parent / f"ledger{len(self.kept)}"
            shutil.copytree(self.root / "ledger", copy)
            self.kept.append((copy, self.model))

    def _put_older_ledger(self, step: Step) -> None:
        """Put an earlier copy of the ledger in its place, and follow the error to its end.

        Either the tables are put back to what that ledger knows, or, where files of then are gone, the newer one comes back.
        """
        if not self.kept or self.model.foreign:
            return
        copy, then = self.kept[int(step.place * len(self.kept))]
        newer, now = self.root.parent / "newer", self.model
        shutil.move(self.root / "ledger", newer)
        shutil.copytree(copy, self.root / "ledger")
        if self._repaired(step.fault) or self._repaired(0):
            self.model, self.older = then, True
        else:
            shutil.rmtree(self.root / "ledger")
            shutil.copytree(newer, self.root / "ledger")
            assert self._repaired(0), "neither the older ledger nor the newer one can be gone on with"
            self.model = now
        shutil.rmtree(newer)
        with self.opened() as run:
            horizon = max(run.view().horizon, now.horizon, then.horizon)
        self.model = replace(self.model, horizon=horizon)
        found, last = self.found()
        if found != self.model.last:  # the table was put back, with what was accepted before
            self.model = replace(self.model, accepted=(), shown=self.model.now)
        assert (found, last) == (self.model.last, len(self.model.epochs)), f"{step}: {found} instead of {self.model.last}"

    def _repaired(self, fault: int) -> bool:
        """Whether all tables are as the ledger says, or can be put back so; no epoch runs until they are."""
        with self.opened() as run, _faulty(fault):
            try:
                run.open(owner())
                run.settle()
                if not run.wrong_tables():
                    return True
            except (DiedError, OperatorsError):
                pass
        with self.opened() as run:
            if run.wrong_tables():
                try:
                    Flow(run).epoch(owner())
                except OperatorsError:
                    pass
                else:
                    raise AssertionError("an epoch ran although tables are not as the ledger says")
        with self.opened() as run, _faulty(fault):
            try:
                run.open(owner())
                run.repair_all("ours")
                run.settle()
            except (DiedError, OperatorsError):
                return False
            return not run.wrong_tables()

    def _settled(self, step: Step) -> bool:
        """Whether a repair or cleaning that failed had taken place."""
        with self.opened() as run:
            if step.kind == "clean":
                return run.view().horizon > self.model.horizon
            return step.kind in ("ours", "theirs") and not run.wrong_tables()

    def _compacted(self) -> Model | None:
        """What comes of a compaction: the same once more, if there are files to be joined and no epoch is begun."""
        with self.opened() as run:
            view, last = run.view(), run.last_complete()
            if view.open_begin is not None and view.open_begin.transition is None:
                return None
            if last is None:
                return self.model
            tables = [run.files(name, version) for name, version in last.versions.items() if name.startswith("tables/")]
            if not any(list(groups_of(files, TARGET_SIZE)) for files in tables):
                return self.model  # nothing is written, whatever others wrote
            return None if self.model.foreign else self.model.then(self.model.now)

    def _epoch(self, step: Step) -> int:
        """The epoch that a step is about."""
        return 1 + int(step.place * len(self.model.epochs)) if self.model.epochs else 0

    def found(self) -> tuple[Content, int]:
        """What is there, once what was decided is carried out, and in which epoch."""
        with self.opened() as run:
            if not self.model.foreign:
                run.open(owner())
                run.settle()
                assert run.wrong_tables() == [], "a table is called wrong that nobody has written to"
            return self.content(run) if run.last_complete() else Content(), run.view().last_epoch

    def content(self, run: Coordinator, epoch: int | None = None) -> Content:
        complete = run.versions(epoch)
        clean, sums, state = (numbers_in(run, table, run.content(complete, table)[1]) for table in TABLES)
        return Content(tuple(clean), tuple(sums), sum(state), int(complete.offsets.get("numbers") or 0))  # type: ignore[call-overload]

    @contextmanager
    def opened(self) -> Iterator[Coordinator]:
        """What a process of its own sees."""
        run = Coordinator("numbers", str(self.root), is_run_alive=lambda _: False)
        try:
            yield run
        finally:
            run._lease.pause()

    def _write_foreign(self) -> None:
        if self.model.epochs:
            write_deltalake(self.root / CLEAN, pa.table({"n": pa.array([7], pa.int64())}), mode="append")


def _clock(ahead: float) -> Callable[[], float]:
    """What ``time.time`` is by a clock that is this many seconds ahead."""
    real = time.time
    return lambda: real() + ahead


@contextmanager
def _faulty(fault: int) -> Iterator[None]:
    left = abs(fault)

    def reached(name: str) -> None:
        nonlocal left
        if fault >= 0 or name.startswith("after:"):
            left -= 1
            if left == 0:
                raise DiedError if fault > 0 else StorageError(f"the answer was lost at {name}")

    with watch(reached):
        yield


def owner() -> Owner:
    """A run that nobody finds alive any more once it is over."""
    return Owner("dagster", uuid.uuid4().hex, "host", "boot", 1, 1.0)


def _run_epoch(run: Coordinator, _epoch: int) -> None:
    Flow(run).epoch(owner())


def _own(run: Coordinator) -> Coordinator:
    run.open(owner())
    return run


def _fold(run: Coordinator, _epoch: int) -> None:
    run._ledger.fold()


_DONE: dict[str, Callable[[Coordinator, int], Any]] = {
    "epoch": _run_epoch,
    "rollback": lambda run, epoch: roll_back(_own(run), epoch),
    "reset": lambda run, epoch: Resetting(_own(run)).reset(["numbers"], epoch, "keep"),
    "clean": lambda run, epoch: _own(run).clean(epoch),
    "compact": lambda run, _: compact(_own(run)),
    "fold": _fold,
    "ours": lambda run, _: _own(run).repair(CLEAN, "ours"),
    "theirs": lambda run, _: _own(run).repair(CLEAN, "theirs"),
}


def _rolled_back(model: Model, epoch: int) -> Model | None:
    if epoch < model.horizon or epoch == len(model.epochs) or model.foreign:
        return None
    return model.then(model.epochs[epoch - 1])


def _reset(model: Model, epoch: int) -> Model | None:
    position = model.epochs[epoch - 1].position if epoch else 0
    if not epoch or model.foreign or position == model.last.position:
        return None
    return model.then(replace(model.now, position=position))


def _cleaned(model: Model, epoch: int) -> Model | None:
    return replace(model, horizon=epoch) if epoch >= model.horizon else None


def _accepted(model: Model, _epoch: int) -> Model | None:
    return replace(model, foreign=(), accepted=(*model.accepted, *model.foreign))


def _put_back(model: Model, _epoch: int) -> Model:
    return replace(model, foreign=(), accepted=(), shown=model.now) if model.foreign else model


def _wrote(model: Model, _epoch: int) -> Model:
    return replace(model, foreign=(*model.foreign, 7)) if model.epochs else model


_AFTER: dict[str, Callable[[Model, int], Model | None]] = {
    "epoch": lambda model, _: None if model.foreign else model.then(model.now.after_epoch()),
    "rollback": _rolled_back,
    "reset": _reset,
    "clean": _cleaned,
    "fold": lambda model, _: model,
    "foreign": _wrote,
    "ours": _put_back,
    "theirs": _accepted,
}
