"""A file of a state table: what it holds, all of it told by its name, so that Delta's log is enough to know it again.

A name reads ``e12-15.r2.L1.s0.v1.d.h<low>-<high>.t<low>-<high>.<id>.parquet``: the epochs whose changes it holds, the round of
a loop in the last of them (left out where it is 0), how often they were merged, the subtask that wrote it, the version of the
declaration, whether some of its rows only say that something is gone, the bounds of hash and time, and an id that no other file
has. Numbers with a sign are written as 16 hexadecimal digits counted from the smallest one. Statistics in Delta's log would not
do: they round times, and not every log has them.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dagster_operators.errors import StorageError
from dagster_operators.graph.state_tables import HASH

BASE: Final = 9
"""The level of the files that hold everything from the first epoch on."""

_SHIFT = 2**63
_NAME = re.compile(
    r"e(?P<first_epoch>\d+)-(?P<last_epoch>\d+)(\.r(?P<round>\d+))?\.L(?P<level>\d+)\.s(?P<subtask>\d+)\.v(?P<version>\d+)(?P<deletes>\.d)?"
    r"\.h(?P<low_hash>[0-9a-f]{16})-(?P<high_hash>[0-9a-f]{16})"
    r"(\.t(?P<low_time>[0-9a-f]{16})-(?P<high_time>[0-9a-f]{16}))?\.[0-9a-f]{32}\.parquet"
)


@dataclass(frozen=True)
class StateFile:
    """One file of a state table. Files with the same epochs are one run; later runs win over earlier ones.

    Attributes:
        path: Relative to the table's folder.
        rows: How many rows it has, those included that only say that something is gone.
        size: In bytes.
        first_epoch: The first epoch whose changes it holds.
        last_epoch: The last one.
        level: 0 for the run of one epoch, one more for each merge, :data:`BASE` for what holds all from the first epoch on.
        subtask: The subtask that wrote it.
        version: Of the declaration it was written for.
        deletes: Whether some of its rows only say that something is gone.
        low_hash: The smallest hash in it.
        high_hash: The largest hash in it.
        low_time: The earliest time of its rows, if the state has a time.
        high_time: The latest time of its rows.
        round: The last round of the last epoch whose changes it holds, for an operator in a loop; else 0.

    >>> file = new_file("e12-g3-0a", 10, 400, epochs=(12, 15), level=1, hashes=(-5, 7), times=(0, 60))
    >>> StateFile.of(file.path, file.rows, file.size) == file
    True
    """

    path: str
    rows: int
    size: int
    first_epoch: int
    last_epoch: int
    level: int
    subtask: int
    version: int
    deletes: bool
    low_hash: int
    high_hash: int
    low_time: int | None = None
    high_time: int | None = None
    round: int = 0

    @classmethod
    def of(cls, path: str, rows: int, size: int) -> StateFile:
        """The file that Delta's log or a manifest tells of.

        Raises:
            StorageError: No state file has such a name.
        """
        found = _NAME.fullmatch(path.rpartition("/")[2])
        if found is None:
            raise StorageError(
                "a file of a state table has a name that this package never gives", file=path,
                remedy="pipeline.repair_all(keep='ours') puts the content of the last epoch back",
            )  # fmt: skip
        plain = {name: int(found[name]) for name in ("first_epoch", "last_epoch", "level", "subtask", "version")}
        bounds = {name: int(found[name], 16) - _SHIFT for name in ("low_hash", "high_hash")}
        times = {name: int(found[name], 16) - _SHIFT for name in ("low_time", "high_time") if found[name]}
        return cls(path, rows, size, deletes=bool(found["deletes"]), round=int(found["round"] or 0), **plain, **bounds, **times)

    @property
    def name(self) -> str:
        """The last part of the path, which no other file shares."""
        return self.path.rpartition("/")[2]

    @property
    def epochs(self) -> tuple[int, int]:
        """The first and the last epoch."""
        return self.first_epoch, self.last_epoch

    @property
    def run(self) -> tuple[int, int, int]:
        """What files of one run have in common, in the order of runs: the epochs, and the round of the last one."""
        return self.first_epoch, self.last_epoch, self.round

    @property
    def stats(self) -> str:
        """The statistics JSON for Delta's log: rows, and the bounds of the hash."""
        return json.dumps({
            "numRecords": self.rows,
            "minValues": {HASH: self.low_hash},
            "maxValues": {HASH: self.high_hash},
            "nullCount": {HASH: 0},
        })  # fmt: skip


def new_file(
    directory: str,
    rows: int,
    size: int = 0,
    *,
    epochs: tuple[int, int],
    level: int = 0,
    subtask: int = 0,
    version: int = 1,
    deletes: bool = False,
    hashes: tuple[int, int],
    times: tuple[int, int] | None = None,
    round: int = 0,  # noqa: A002 - what it is called everywhere
) -> StateFile:
    """A file with a new name in a folder."""
    low, high = hashes
    time = f".t{times[0] + _SHIFT:016x}-{times[1] + _SHIFT:016x}" if times else ""
    name = (
        f"e{epochs[0]}-{epochs[1]}{f'.r{round}' if round else ''}.L{level}.s{subtask}.v{version}{'.d' if deletes else ''}"
        f".h{low + _SHIFT:016x}-{high + _SHIFT:016x}{time}.{uuid.uuid4().hex}.parquet"
    )
    path = f"{directory}/{name}" if directory else name
    low_time, high_time = times or (None, None)
    return StateFile(path, rows, size, *epochs, level, subtask, version, deletes, low, high, low_time, high_time, round)


def newest_first(files: Iterable[StateFile]) -> list[StateFile]:
    """Files in the order in which a key is looked up: later epochs and rounds first, and of one the lower subtasks first."""
    return sorted(files, key=lambda file: (-file.last_epoch, -file.round, file.subtask, file.low_hash, file.name))
