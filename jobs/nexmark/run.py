"""Runs Nexmark queries: ``python -m jobs.nexmark.run --events 1000000 --epochs 10 --check q5 q8``.

Makes the events, takes them through the queries in epochs, a line for each, and shows or checks what came of it. A second call on
the same folder goes on where the first one stopped, however it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from jobs.nexmark.generator import Nexmark
from jobs.nexmark.job import build
from jobs.nexmark.queries import QUERIES
from jobs.nexmark.reference import answer, difference, rows_of_delta


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 unless an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m jobs.nexmark.run", description="Runs Nexmark queries in epochs.")
    parser.add_argument("queries", nargs="*", metavar="query", help=f"which ({', '.join(QUERIES)}); all unless given")
    parser.add_argument("--folder", type=Path, default=Path("data/nexmark"), help="where events and tables lie (data/nexmark)")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many events (1000000)")
    parser.add_argument("--epochs", type=int, default=10, help="in how many epochs (10)")
    parser.add_argument("--rate", type=float, default=10_000, help="events per second of event time (10000)")
    parser.add_argument(
        "--start", type=datetime.fromisoformat, default=Nexmark.start, help="time of the first event (2015-07-15)"
    )
    parser.add_argument(
        "--out-of-order", type=int, default=1, metavar="EVENTS", help="shuffle groups of so many events (1: none)"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other events (1)")
    parser.add_argument("--check", action="store_true", help="compare every table with DuckDB's answer over all events")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.queries} - {*QUERIES}):
        parser.error(f"there is no query {', '.join(unknown)}; there are: {', '.join(QUERIES)}")

    start = options.start if options.start.tzinfo else options.start.replace(tzinfo=UTC)
    events = Nexmark(options.events, seed=options.seed, start=start, rate=options.rate, out_of_order=options.out_of_order)
    folder: Path = options.folder.absolute()
    events.write(folder / "events", options.epochs)
    pipeline = build(folder, options.queries or None, finished=True)
    while not (result := pipeline.run_epoch()).empty:
        print(f"{result}  ({sum(result.seconds.values()):.2f} s)", flush=True)
    snapshot = pipeline.snapshot()
    wrong = 0
    for query in pipeline.tables:
        rows = rows_of_delta(snapshot.uri(query))
        told = difference(rows, answer(query, folder / "events")) if options.check else ""
        wrong += bool(told)
        print(f"{query}: {rows.num_rows} rows{', ' + (told or 'as DuckDB has them') if options.check else ''}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
