"""A soak's storage root, what arrives for it, and what must hold of it after every action and in the end."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from dagster_operators.errors import EpochUnderWayError, OperatorsError
from tests.disk import Disk
from tests.end_to_end.drawn_parts import Part
from tests.end_to_end.landing import put
from tests.soak.families import KEPT_OUTSIDE, WHOLE, Place, Program, content_of, rebuilt_with, tables_with
from tests.soak.oracles import LOOKED_UP, expected

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
ROWS: Final = 6


@dataclass
class World:
    """A program with its root, while actions are done to it.

    Attributes:
        folder: Below it everything is written.
        program: As it is now.
        engine: Where it runs.
        unsure: The parts whose tables an action may have changed from what a computation anew gives, until they are rebuilt.
        arrived: How many batches have arrived.
        roots: How many places the root has been at.
        disk: What the root is on, if it can be filled.
        parts: The number of the last part's table.
        edited: The parts that were ever edited.
        removed: The parts that the program has no more.
        ran: The program of each epoch, where it is known.
    """

    folder: Path
    program: Program
    engine: Any
    unsure: set[str] = field(default_factory=set)
    arrived: int = 0
    roots: int = 1
    disk: Disk | None = None
    parts: int = 100
    edited: set[str] = field(default_factory=set)
    removed: list[Part] = field(default_factory=list)
    ran: dict[int, Program | None] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        base = self.disk.place if self.disk else self.folder
        return Place(self.folder / "landing", base / f"root{self.roots}", base / "sinks")

    @property
    def sinks(self) -> set[str]:
        return {part.table for part in (*self.program.parts, *self.removed) if part.kind == "sink"}

    def present(self) -> list[Part]:
        """The parts of which all tables are there."""
        tables = self.place.root / "tables"
        return [part for part in self.program.parts if all((tables / table).exists() for table in tables_with(part))]

    def pipeline(self, *, finished: bool = False) -> do.Pipeline:
        return self.program.build(self.place, self.engine, finished=finished)

    def between_epochs(self, command: Callable[[do.Pipeline], Any]) -> Any:
        """What a command gives; where its error says to run an epoch first, that is done."""
        try:
            return command(self.pipeline())
        except OperatorsError as error:
            if not isinstance(error, EpochUnderWayError) and "run an epoch first" not in error.remedy:
                raise
            self.pipeline().run_epoch()
            return command(self.pipeline())

    def arrive(self, chance: random.Random) -> None:
        """A batch of rows and of change events lands; each row has a time of its own, and most are later than those before."""
        if not self.arrived:
            self.place.landing.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"k": [*LOOKED_UP], "w": [*LOOKED_UP.values()]}), self.place.lookup)
        self.arrived += 1
        lines = ["k,v,at"]
        for number in range(ROWS):
            at = START + timedelta(hours=4 * self.arrived + chance.randrange(6), minutes=number, seconds=self.arrived)
            lines.append(f"{chance.choice('abc')},{chance.randrange(60)},{at:%Y-%m-%dT%H:%M:%SZ}")
        self._land("rows", "csv", lines)
        self._land("events", "json", [self._event(chance, number) for number in range(3)])

    def _event(self, chance: random.Random, number: int) -> str:
        key, place = chance.randrange(4), chance.choice((0, 1000)) + 10 * self.arrived + number  # some are in another order
        after = None if chance.random() < 0.3 else {"id": key, "v": chance.randrange(9)}
        before = {"id": key, "v": 0} if after is None else None
        event = {"op": "u" if after else "d", "before": before, "after": after, "source": {"lsn": place}}
        return json.dumps({"value": json.dumps(event)})

    def _land(self, folder: str, ending: str, lines: list[str]) -> None:
        place = self.place.landing / folder
        place.mkdir(parents=True, exist_ok=True)
        put(place / f"{self.arrived:04d}.{ending}", "\n".join(lines) + "\n", self.arrived)

    def check(self) -> None:
        """What holds after every action: the doctor has no error, and of every epoch the numbers agree."""
        stored = do.StoredPipeline(str(self.place.root))
        errors = [str(finding) for finding in stored.examine() if finding.verdict == "error"]
        assert not errors, errors
        epochs = [epoch.epoch for epoch in stored.history()]
        assert epochs == list(range(epochs[0], epochs[0] + len(epochs))) if epochs else True, epochs
        self.note_epochs(self.program)
        self._check_accumulators(stored)

    def _check_accumulators(self, stored: do.StoredPipeline) -> None:
        """What accumulators counted in an epoch are the rows that it wrote."""
        for epoch in stored.history():
            for part in self.program.parts:
                seen = epoch.metrics.get(f"noted_{part.table}.accumulator seen")
                if seen is not None:
                    by_key = [
                        value for name, value in epoch.metrics.items() if name.startswith(f"noted_{part.table}.accumulator keys")
                    ]
                    assert seen == sum(by_key) == epoch.rows.get(part.table, 0), (part, epoch)

    def note_epochs(self, program: Program | None) -> None:
        """The epochs that are new ran a program; None if that is not known."""
        epochs = [epoch.epoch for epoch in do.StoredPipeline(str(self.place.root)).history()]
        self.ran = dict.fromkeys(epochs, program) | self.ran

    def check_end(self) -> None:
        """The tables and sinks are those of the same program in a root of its own, which reads everything in one epoch."""
        if wholes := [part for part in self.program.parts if part.kind in WHOLE]:
            self._compute_again(wholes)
        self.pipeline(finished=True).run_until_caught_up()
        last = self.pipeline(finished=True)
        unsure = [table for part in self.program.parts if part.table in self.unsure for table in rebuilt_with(part)]
        if unsure:
            last.rebuild(unsure)
        whole_place = Place(self.place.landing, self.folder / "whole", self.folder / "whole_sinks")
        whole = self.program.build(whole_place, self.engine, finished=True)
        whole.run_until_caught_up()
        parts = [part for part in self.program.parts if part.table not in self.unsure or part.kind not in KEPT_OUTSIDE]
        content, wanted = content_of(last, parts, self.place), content_of(whole, parts, whole_place)
        for part in parts:
            assert content[part.table] == wanted[part.table], difference(part, content[part.table], wanted[part.table])
            if (computed := expected(part, self.place.landing)) is not None:
                assert computed == wanted[part.table], f"in Python: {difference(part, wanted[part.table], computed)}"
        self.check()

    def _compute_again(self, wholes: list[Part]) -> None:
        """An epoch behind the rebuild of each table that is read whole: only then what is computed of it is that of its rows."""
        self.pipeline().run_until_caught_up()
        for part in wholes:
            if part.table in self.unsure:
                self.pipeline().rebuild(list(rebuilt_with(part)))
                self.unsure.discard(part.table)
        self.arrive(random.Random(self.arrived))  # noqa: S311 - no secrets

    def copy_root(self) -> None:
        """Go on with a copy of the root at another place; the one before is gone."""
        before = self.place.root
        self.roots += 1
        shutil.copytree(before, self.place.root)
        shutil.rmtree(before)


def difference(part: Any, content: Any, wanted: Any) -> str:
    """The rows that a table has too many and too few of."""
    return f"{part}: too many {dict(content - wanted)}, too few {dict(wanted - content)}"
