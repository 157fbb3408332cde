"""Exchanges in Spark's own plans of an epoch, beside an older checkout: of the flights job, of Nexmark and of TPC-H.

``python -m benchmarks.exchanges --against FOLDER``. Each side runs in a process of its own; it counts in the plans that ran, as
adaptive execution left them. Counted are shuffles (``Exchange``) and broadcasts (``BroadcastExchange``) of the first epoch, as of
a table that is computed anew, and of the last. Few rows (below 4 MB) stay in one task and are not moved; ``--as-large`` counts as
if there were none such.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import workplace
from benchmarks.side import OURS

PIPELINES = ("flights", "nexmark.q4", "nexmark.q5", "nexmark.q11", "nexmark.q12", "tpch.q3", "tpch.q13", "tpch.q18")


def counts(checkout: Path, pipelines: Sequence[str], options: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The exchanges of each pipeline, by the code of a checkout."""
    command = [sys.executable, str(Path(__file__).with_name("exchange_counts.py"))]
    environment = {**os.environ, "PYTHONPATH": str(checkout.absolute()), "DAGSTER_OPERATORS_ENGINE": "spark"}
    with workplace() as place:
        ran = subprocess.run(  # noqa: S603 - our own script
            [*command, str(place), *pipelines, *options],
            env=environment,
            cwd=place,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    yield from map(json.loads, ran.stdout.splitlines())


def main() -> None:
    """Count on both sides, and write a line of JSON for each pipeline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipelines", nargs="*", help=f"by default {', '.join(PIPELINES)}")
    parser.add_argument("--against", type=Path, help="a checkout of the code to compare with")
    arguments, options = parser.parse_known_args()
    pipelines = arguments.pipelines or PIPELINES
    sides = {"new": OURS, **({"before": arguments.against} if arguments.against else {})}
    found = {side: {one.pop("pipeline"): one for one in counts(checkout, pipelines, options)} for side, checkout in sides.items()}
    for name in pipelines:
        print(json.dumps({"pipeline": name, **{side: told[name] for side, told in found.items()}}), flush=True)


if __name__ == "__main__":
    main()
