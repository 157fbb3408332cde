"""Keeps the queries of TPC-H up to date: ``python -m jobs.tpch.run --scale 0.1 --steps 20 --check q3 q18``.

Makes the changes, takes them through the queries in epochs, a line for each, and compares each epoch's answers with DuckDB's if
it is told to. A second call on the same folder goes on where the first one stopped, however it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.nexmark.reference import difference, rows_of_delta
from jobs.tpch.generator import Tpch
from jobs.tpch.job import build
from jobs.tpch.queries import QUERIES
from jobs.tpch.reference import answers


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 unless an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m jobs.tpch.run", description="Keeps queries of TPC-H up to date.")
    parser.add_argument("queries", nargs="*", metavar="query", help=f"which ({', '.join(QUERIES)}); all unless given")
    parser.add_argument("--folder", type=Path, default=Path("data/tpch"), help="where changes and answers lie (data/tpch)")
    parser.add_argument("--scale", type=float, default=0.01, help="TPC-H's scale: 1 is 1.5 million orders (0.01)")
    parser.add_argument("--steps", type=int, default=10, help="in how many steps the tables change (10)")
    parser.add_argument("--steps-per-epoch", type=int, default=1, metavar="STEPS", help="how many an epoch takes (1)")
    parser.add_argument("--large", type=int, default=300, metavar="QUANTITY", help="beyond which orders are large to q18 (300)")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other changes (1)")
    parser.add_argument("--check", action="store_true", help="compare every epoch's answers with DuckDB's")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.queries} - {*QUERIES}):
        parser.error(f"there is no query {', '.join(unknown)}; there are: {', '.join(QUERIES)}")

    folder: Path = options.folder.absolute()
    tables = Tpch(folder / "base", options.scale, options.steps, options.seed).make()
    tables.write(folder / "changes")
    steps: int = options.steps_per_epoch
    pipeline = build(folder, options.queries or None, steps_per_epoch=steps, large=options.large)
    wrong = 0
    while not (result := pipeline.run_epoch()).empty:
        print(f"{result}  ({sum(result.seconds.values()):.2f} s)", flush=True)
        if not options.check:
            continue
        expected = answers(tables, min(result.epoch * steps, options.steps), large=options.large)
        snapshot = pipeline.snapshot()
        for query in pipeline.tables:
            rows = rows_of_delta(snapshot.uri(query))
            told = difference(rows, expected[query])
            wrong += bool(told)
            print(f"{query}: {rows.num_rows} rows, {told or 'as DuckDB has them'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
