"""Programs of data sets that are large or full of joins, put together and optimised, without running.

Three programs: 1,000 operators in one chain, every third a group by another key; 20 joins in a chain; and all joins among five
data sets, ten, joined in turn (a clique). The promise is five seconds each, of processor time, since nothing in it waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import dagster_operators as do
from benchmarks.harness import Claim, Spread

SECONDS, REPEATS = 5.0, 5
SCHEMA = "k long, j long, v long"


def program_of(count: int) -> tuple[Any, list[Any]]:
    """A program with so many data sets to begin with, of different sizes."""
    program = do.data_sets.LocalProgram(parallelism=8)
    return program, [
        program.rows([], schema=SCHEMA, count=10_000 * number, size=1_000_000 * number).name(f"set {number}")
        for number in range(1, count + 1)
    ]


def thousand_operators() -> int:
    """One chain; gives the number of steps of its plan."""
    program, (rows,) = program_of(1)
    for number in range(1_000):
        rows = rows.group_by("kj"[number % 2]).sum("v") if number % 3 == 0 else rows.filter(lambda row: row.v > 0)
    return len(list(program.plan(rows)))


def joined(left: Any, right: Any) -> Any:
    """The rows of two data sets with equal keys, with the columns of the first."""
    return left.join(right).where("k").equal_to("k").project_first("k", "j", "v").data_set()


def chain_of_joins() -> int:
    """Each data set joined with the result so far."""
    program, sets = program_of(21)
    rows = sets[0]
    for other in sets[1:]:
        rows = joined(rows, other)
    return len(list(program.plan(rows)))


def clique_of_joins() -> int:
    """All pairs of five data sets."""
    program, sets = program_of(5)
    pairs = [joined(one, other) for place, one in enumerate(sets) for other in sets[:place]]
    rows = pairs[0]
    for pair in pairs[1:]:
        rows = joined(rows, pair)
    return len(list(program.plan(rows)))


def measure() -> list[Claim]:
    """A claim for each program: its seconds beside the limit."""
    return [_measured(build) for build in (thousand_operators, chain_of_joins, clique_of_joins)]


def _measured(build: Callable[[], int]) -> Claim:
    seconds, steps = [], 0
    for _ in range(REPEATS):
        began = time.process_time()
        steps = build()
        seconds.append(time.process_time() - began)
    found = Spread.of(seconds)
    ratios = Spread.of([value / SECONDS for value in seconds])
    details = {"steps": steps, "seconds": asdict(found), "limit": SECONDS}
    return Claim(f"data_set_planning_{build.__name__}", ratios.median, 1.0, False, ratios, details)  # noqa: FBT003


if __name__ == "__main__":
    for claim in measure():
        claim.report()
