"""Run benchmarks: all of them, or those named (``python -m benchmarks commit_three_tables``); one JSON line for each claim.

Each runs in a process of its own, so that none finds a session that another has warmed.
"""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "epoch_vs_structured_streaming",
    "commit_three_tables",
    "epoch_500_vs_10",
    "begin_100000_vs_100",
    "large_epoch",
    "dagster_overhead",
    "dagster_run",
    "flights_vs_foreach_batch",
    "cold_start",
    "nexmark",
    "nexmark_out_of_order",
    "batch_operators",
    "frontier_operators",
    "event_operators",
    "keyed_state",
    "join_changes",
    "forgetting_keys",
    "large_graph",
    "data_set_planning",
    "kept_components",
    "rebuild_flights",
    "object_store_epoch",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks. Returns how many of them failed."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    ended = [subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False) for name in names or BENCHMARKS]  # noqa: S603
    return sum(run.returncode != 0 for run in ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
