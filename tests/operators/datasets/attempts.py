"""Attempts at a program in one folder, without an engine: each may be cut off, and the next one goes on, as those of a stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow.fs import LocalFileSystem

from dagster_operators.errors import StorageError
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder
from dagster_operators.operators.datasets.running.execution import Execution
from dagster_operators.operators.datasets.running.files_of_streams import RowsAtHand
from dagster_operators.operators.datasets.running.fragment_runs import Results
from dagster_operators.operators.datasets.running.fragment_task import run_part
from dagster_operators.operators.datasets.running.supersteps import Supersteps
from dagster_operators.optimizer.planning import OptimizedPlan
from tests.operators.datasets.in_files import Lists


class CutOffError(Exception):
    """The attempt has come to where it is cut off: nothing of it runs any more."""


@dataclass
class Folders:
    """The folders of the attempts, as a stage has them.

    Attributes:
        place: The folder that they are in.
        attempt: The attempt at work; earlier ones are of earlier owners.
        reached: Called with each place that the work comes to, and the superstep.
        identity: A digest of the work.
    """

    place: Path
    attempt: int
    reached: Callable[[str, int], None]
    identity: str = "the same"
    files: LocalFileSystem = field(default_factory=LocalFileSystem)
    shipped: LocalFileSystem = field(default_factory=LocalFileSystem)
    parallelism: int = 2

    @property
    def own(self) -> Path:
        return self.place / str(self.attempt)

    @property
    def path(self) -> str:
        return str(self.own)

    def make(self) -> None:
        self.own.mkdir(parents=True, exist_ok=True)

    def keep(self, record: bytes) -> None:
        (self.own / "superstep.json").write_bytes(record)

    def kept(self) -> Iterator[tuple[str, bytes]]:
        for folder in sorted(self.place.iterdir()):
            if folder != self.own and (folder / "superstep.json").exists():
                yield folder.name, (folder / "superstep.json").read_bytes()

    def take_over(self, attempt: str, names: Collection[str]) -> None:
        for name in names:
            if not (self.place / attempt / name).exists():
                raise StorageError(f"{name} is not there", remedy="run again")
            if not (self.own / name).exists():
                os.link(self.place / attempt / name, self.own / name)

    def forget_earlier(self) -> None:
        for folder in self.place.iterdir():
            if int(folder.name) < self.attempt:
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()

    def end(self) -> None:
        (self.own / "ended").touch()

    def forget_all_but(self, names: Collection[str]) -> None:
        for path in self.own.iterdir():
            if not names or path.name not in {*names, "superstep.json"}:
                path.unlink()

    def read(self, files: Iterable[tuple[str, int, int]], schema_json: str) -> None:
        raise NotImplementedError


class Attempts:
    """Attempts at a program.

    Args:
        place: An empty folder.
        sources: The rows of each source, by its name.
        plan: Makes the plan.
        before: How many attempts there were.
    """

    def __init__(
        self, place: Path, sources: Mapping[str, Sequence[Row]], plan: Callable[[], OptimizedPlan], before: int = 0
    ) -> None:
        self.place = place
        self._sources = sources
        self._plan = plan
        self._count = before
        self.results = Results()
        self.places: list[tuple[str, int]] = []
        """The places that the last attempt came to."""

    def next(self) -> Attempts:
        """Attempts of newer owners than that of the next attempt of these."""
        return Attempts(self.place, self._sources, self._plan, self._count + 1)

    def run(
        self,
        cut_off: Callable[[str, int], bool] = lambda _place, _superstep: False,
        plan: Callable[[], OptimizedPlan] | None = None,
        identity: str = "the same",
    ) -> dict[str, list[Row]] | None:
        """The rows of each sink; None if the attempt was cut off.

        Args:
            cut_off: Whether it is, at a place in a superstep.
            plan: Makes another plan.
            identity: A digest of the work.
        """
        self._count += 1
        self.places = []

        def reached(place: str, superstep: int) -> None:
            self.places.append((place, superstep))
            if cut_off(place, superstep):
                raise CutOffError

        folders = Folders(self.place, self._count, reached, identity)
        folder = ExchangeFolder(LocalFileSystem(), folders.path)
        folders.make()
        supersteps = Supersteps(folders, folder, "program")
        try:
            taken = supersteps.last()
            execution = Execution(
                (plan or self._plan)(), folder, lambda job: [run_part(job, *task) for task in job.tasks],
                {name: RowsAtHand(list(rows)) for name, rows in self._sources.items()},
                {sink.node.name: Lists(sink.node.name) for sink in self._plan().sinks},
                keep=supersteps.keep, reached=reached,
            )  # fmt: skip
            if taken is not None and taken.plan != execution.digest:
                taken = None
            self.results = execution.run(taken)
        except CutOffError:
            return None
        return {name: list(folder.read(chunks)) for name, chunks in self.results.sinks.items()}
