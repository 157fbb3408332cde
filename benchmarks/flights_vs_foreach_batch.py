"""The flights job's epoch (900 flights into nine tables) beside the same by hand: ``foreachBatch``, nine writes and MERGEs.

The job on embedded Spark, the job on Sail and the peer on embedded Spark (``flights_foreach_batch.py``, with the session and
settings of ours) are processes of their own; the three take turns, a day of flights each. In the end all tables are compared, row
for row, but for what the peer has of windows that are still open. Processor time is counted too: it depends less on what else the
machine does.
"""

from __future__ import annotations

import argparse
import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
from deltalake import DeltaTable

import dagster_operators as do
from benchmarks.harness import Claim, Spread, at_least, medians, workplace
from benchmarks.side import OURS, Side

WARM_UP, REPEATS = 10, 12
GOAL: Final = {"spark": 3.0, "sail": 15.0}
_PEER: Final = "flights_by_hand"
_KEYS: Final = {
    "clean_flights": ("sched_dep", "carrier", "flight"),
    "flights_weather": ("sched_dep", "carrier", "flight"),
    "late_aircraft": ("sched_dep", "carrier", "flight"),
    "late_weather": ("sched_dep", "carrier", "flight", "reported"),
    "hourly_delays": ("origin", "window_start"),
    "daily_delays_sliding": ("origin", "window_start"),
    "routes": ("origin", "dest"),
    "worst_delays": ("day", "place"),
    "aircraft_stretches": ("tailnum", "window_start"),
}
_ENDS: Final = {
    "hourly_delays": "window_end",
    "daily_delays_sliding": "window_end",
    "aircraft_stretches": "window_end",
    "worst_delays": "day",
    "late_aircraft": "sched_dep",
    "late_weather": "reported",
}
"""The time by which the job's watermark closes a row; of ``worst_delays`` the day's begin."""
_ESTIMATED: Final = "aircraft"
"""An estimate, which each engine makes in its own way."""


def measure(warm_up: int = WARM_UP, repeats: int = REPEATS) -> list[Claim]:
    """A claim for each engine."""
    days = warm_up + repeats
    with workplace() as place, ExitStack() as opened:
        ours = {name: opened.enter_context(Side(OURS, place / name, name, "--days", str(days))) for name in GOAL}
        peer = opened.enter_context(Side(OURS, place / "peer", "spark"))
        for _ in range(days):
            peer.run_epoch(_PEER)
            for side in ours.values():
                side.run_epoch("flights")
        wrong = {name: differences(side.folder, peer.folder) for name, side in ours.items()}
    return [
        at_least(
            f"flights_vs_foreach_batch_on_{name}",
            peer.of(_PEER, "seconds", warm_up), side.of("flights", "seconds", warm_up), goal=GOAL[name],
            details={
                "same_results": not wrong[name], "differences": wrong[name],
                "processor_ratio": round(
                    peer.median(_PEER, "processor", warm_up) / side.median("flights", "processor", warm_up), 3
                ),
                "ours": _about(side, "flights", warm_up), "peer": _about(peer, _PEER, warm_up),
            },
        )
        for name, side in ours.items()
    ]  # fmt: skip


def _about(side: Side, name: str, warm_up: int) -> dict[str, Any]:
    return {
        **{figure: Spread.of(side.of(name, figure, warm_up)).__dict__ for figure in ("seconds", "processor")},
        "jobs": side.median(name, "jobs", warm_up),
        "stages": medians([epoch["stages"] for epoch in side.epochs[name][warm_up:]]),
    }


def differences(ours: Path, peer: Path) -> list[str]:
    """The tables that differ in what the job's watermark has closed, each with how it differs."""
    closed = min(
        time for source, time in do.StoredPipeline(str(ours / "flights")).history()[-1].watermarks.items()
        if source in {"landed_flights", "weather_reports"}
    )  # fmt: skip
    return [
        f"{table}: {wrong}" for table in _KEYS if (wrong := _difference(_rows(ours, table, closed), _rows(peer, table, closed)))
    ]


def _difference(ours: dict[Any, dict[str, Any]], peer: dict[Any, dict[str, Any]]) -> str:
    if not ours:
        return "no rows"
    if ours.keys() != peer.keys():
        return f"{len(ours.keys() - peer.keys())} keys of ours only, {len(peer.keys() - ours.keys())} of the peer only"
    unlike = [key for key, row in ours.items() if not _alike(row, peer[key])]
    return f"{len(unlike)} rows differ, as {ours[unlike[0]]} beside {peer[unlike[0]]}" if unlike else ""


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_same(name, value, other[name]) for name, value in one.items())


def _same(name: str, one: Any, other: Any) -> bool:
    if name == _ESTIMATED:
        return abs(one - other) <= max(2, 0.2 * one)  # each of the two is out by 5 % in the mean, and there are hundreds
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)  # the last digits are those of the order of adding up
    return bool(one == other)


def _rows(folder: Path, table: str, closed: int) -> dict[Any, dict[str, Any]]:
    """A table's rows by key; of those that the watermark closes, the closed ones."""
    rows = DeltaTable(str(folder / "flights/tables" / table)).to_pyarrow_table()
    if table in _ENDS:
        last = closed - 86_400_000_000 if table == "worst_delays" else closed
        rows = rows.filter(pc.less(pc.cast(rows[_ENDS[table]], "int64"), last))
    found = {tuple(row[name] for name in _KEYS[table]): row for row in rows.to_pylist()}
    if len(found) != rows.num_rows:
        raise ValueError(f"{table} has a key twice")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="epochs of each side that are not measured")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="epochs of each side that are")
    arguments = parser.parse_args()
    for claim in measure(arguments.warm_up, arguments.repeats):
        claim.report()
