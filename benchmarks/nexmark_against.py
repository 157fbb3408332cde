"""The Nexmark queries that this checkout and an older one both have: an epoch of one, then of the other, in one run.

``python -m benchmarks.nexmark_against FOLDER [query ...]``; FOLDER is a checkout of the code to compare with. What counts is the
processor time of an epoch (the processes of each side, user and system), as that hardly depends on what else the machine does;
the seconds that passed are told beside it. In the end both tables are compared row for row.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness import Claim, Spread, at_most, workplace
from benchmarks.side import OURS, Side
from jobs.nexmark.generator import Nexmark
from jobs.nexmark.queries import QUERIES
from jobs.nexmark.reference import difference, rows_of_delta

RATE: Final = 10_000
EVENTS: Final = 100_000
"""In an epoch."""

WARM_UP: Final = 3
REPEATS: Final = 12
NOISE: Final = 1.05
"""Up to this ratio of processor time nothing is called slower."""


def shared(checkout: Path) -> list[str]:
    """The queries that both checkouts have."""
    theirs = re.findall(r"^def (q\d+)\(", (checkout / "jobs/nexmark/queries.py").read_text(), re.MULTILINE)
    return [query for query in QUERIES if query in theirs]


def measure(against: Path, queries: Sequence[str] = (), engine: str = "sail", repeats: int = REPEATS) -> Iterator[Claim]:
    """A claim for each query."""
    with workplace() as place:
        Nexmark(EVENTS * (WARM_UP + repeats), rate=RATE).write(place / "events", WARM_UP + repeats)
        events = ("--events", str(place / "events"))
        with Side(OURS, place / "ours", engine, *events) as ours, Side(against, place / "other", engine, *events) as other:
            for query in queries or shared(against):
                for epoch in range(WARM_UP + repeats):
                    for side in (ours, other)[:: 1 if epoch % 2 else -1]:
                        side.run_epoch(query)
                yield _claim(query, ours, other)


def _claim(query: str, ours: Side, other: Side) -> Claim:
    mine, theirs = (side.of(query, "seconds", WARM_UP) for side in (ours, other))
    wall = at_most(query, mine, theirs, goal=NOISE, details={})
    tables = (rows_of_delta(side.folder / query / "tables" / query) for side in (ours, other))
    return at_most(
        f"nexmark_{query}_against",
        ours.of(query, "processor", WARM_UP), other.of(query, "processor", WARM_UP), goal=NOISE,
        details={
            "same_results": not difference(*tables),
            "rows": (ours.median(query, "rows", WARM_UP), other.median(query, "rows", WARM_UP)),
            "processor": tuple(Spread.of(side.of(query, "processor", WARM_UP)).__dict__ for side in (ours, other)),
            "seconds": tuple(Spread.of(side.of(query, "seconds", WARM_UP)).__dict__ for side in (ours, other)),
            "seconds_ratio": round(wall.ratio, 3),
        },
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark_against", description=__doc__.splitlines()[0])
    parser.add_argument("against", type=Path, metavar="FOLDER", help="a checkout of the code to compare with")
    parser.add_argument("queries", nargs="*", metavar="query", help="which; all that both have unless given")
    parser.add_argument("--engine", choices=("spark", "sail"), default="sail")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"epochs that are measured ({REPEATS})")
    options = parser.parse_args()
    for claim in measure(options.against, options.queries, options.engine, options.repeats):
        claim.report()
