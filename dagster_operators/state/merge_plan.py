"""Which runs of a state table to merge, and which files hold nothing any more: pure functions of the table's files.

The policy is universal (size-tiered) compaction, as RocksDB and Apache Paimon know it: eight neighbouring runs of a level
become one of the next, and when the runs above the oldest one, the base, hold a quarter of its rows, all become a new base. So
a row is rewritten once a level, and a key is looked up in few runs. A merge takes all files of neighbouring epochs, whichever
subtask wrote them, so the order of runs stays that of their epochs; each subtask does its own share of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.state_file import BASE, StateFile
from dagster_operators.time.watermark import MIN_WATERMARK

TIER_LENGTH: Final = 8
"""How many runs of a level are merged into one of the next."""

FOLD_SHARE: Final = 0.25
"""The share of the base's rows at which the runs above it are folded into it."""


@dataclass(frozen=True)
class Merge:
    """Runs of neighbouring epochs that become one.

    Attributes:
        files: All files of these runs; they are gone when all subtasks have done their share.
        first_epoch: The first epoch whose changes they hold.
        last_epoch: The last one.
        round: The last round of it, for an operator in a loop.
        level: Of the run they become.
        oldest: Whether no run is older, so that nothing need be kept for what it hides.
    """

    files: tuple[StateFile, ...]
    first_epoch: int
    last_epoch: int
    level: int
    oldest: bool
    round: int = 0


def plan_merges(declaration: StateTable, files: Iterable[StateFile]) -> list[Merge]:
    """The merges that are due.

    Args:
        declaration: What the operator declared.
        files: All files of the table as of the previous epoch, without those that are to be removed.

    >>> from dagster_operators import KeyedState
    >>> from dagster_operators.state.state_file import new_file
    >>> files = [new_file("", 10, epochs=(epoch, epoch), hashes=(0, 9)) for epoch in range(1, 9)]
    >>> [(merge.first_epoch, merge.last_epoch, merge.level == BASE) for merge in plan_merges(KeyedState("k int", "k"), files)]
    [(1, 8, True)]
    """
    runs = [list(run) for _, run in groupby(sorted(files, key=lambda file: file.run), key=lambda file: file.run)]
    tier = _full_tier(runs)
    if tier is None:
        return []
    if declaration.kind != "time":  # whose old runs leave when their rows expire, so a base would only be rewritten
        base, above = runs[0], runs[1:]
        if sum(map(_rows, above)) >= FOLD_SHARE * _rows(base):
            return [_merge(runs, BASE, oldest=True)]
        tier = _full_tier(above)
        return [_merge(above[slice(*tier)], above[tier[0]][0].level + 1, oldest=False)] if tier else []
    return [_merge(runs[slice(*tier)], runs[tier[0]][0].level + 1, oldest=tier[0] == 0)]


def _full_tier(runs: list[list[StateFile]]) -> tuple[int, int] | None:
    """The first run of the lowest level that has enough neighbouring runs, and the run after its last."""
    found = []
    start = 0
    for level, tier in groupby(runs, key=lambda run: run[0].level):
        end = start + len(list(tier))
        if level < BASE and end - start >= TIER_LENGTH:
            found.append((level, start, end))
        start = end
    return min(found)[1:] if found else None


def _rows(run: list[StateFile]) -> int:
    return sum(file.rows for file in run)


def _merge(runs: list[list[StateFile]], level: int, *, oldest: bool) -> Merge:
    files = tuple(file for run in runs for file in run)
    return Merge(files, files[0].first_epoch, files[-1].last_epoch, min(level, BASE), oldest, files[-1].round)


def expired_files(declaration: StateTable, files: Iterable[StateFile], watermark: int) -> list[StateFile]:
    """The files whose rows are all expired and that can be removed unread.

    Where rows hide older ones of their key, a file is kept until nothing is older that overlaps it.

    Args:
        declaration: What the operator declared.
        files: All files of the table as of the previous epoch.
        watermark: The operator's, in microseconds.

    >>> from dagster_operators import TimeState
    >>> from dagster_operators.state.state_file import new_file
    >>> files = [new_file("", 1, epochs=(1, 1), hashes=(0, 0), times=(time, time)) for time in (3, 5)]
    >>> [file.high_time for file in expired_files(TimeState("t bigint", "t", retention=2), files, 7)]
    [3]
    """
    if declaration.retention is None or watermark == MIN_WATERMARK:
        return []
    cutoff = watermark - declaration.retention
    kept: list[StateFile] = []
    gone = []
    for file in sorted(files, key=lambda file: (file.last_epoch, file.round)):
        hides = declaration.kind in ("keyed", "global") or (declaration.kind == "list" and file.deletes)
        older = [other for other in kept if _is_older(other, file) or declaration.kind == "global"]
        needed = hides and any(file.low_hash <= other.high_hash and other.low_hash <= file.high_hash for other in older)
        if file.high_time is None or file.high_time >= cutoff or needed:
            kept.append(file)
        else:
            gone.append(file)
    return gone


def _is_older(other: StateFile, file: StateFile) -> bool:
    """Whether what a file holds was written before what another one does: in an earlier epoch, or an earlier round of one."""
    if other.last_epoch == file.first_epoch:
        return (other.last_epoch, other.round) < (file.last_epoch, file.round)
    return other.last_epoch < file.first_epoch
