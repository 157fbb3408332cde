"""The flights job's epoch (900 flights into nine tables), its stages side by side, beside one after another or an older checkout.

``python -m benchmarks.flights_epoch`` compares this code with itself running one stage at a time;
``--against FOLDER`` with the code of another checkout. Each side runs in a process of its own; the two take turns, a day of
flights each, and in the end all tables of both are compared row for row. Besides the seconds of an epoch, Spark's jobs and the
seconds of processor time are counted: those depend less on what else the machine does, and ``processor_ratio`` compares them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable

from benchmarks.harness import Claim, Spread, at_most, medians, workplace
from benchmarks.side import OURS, Side

if TYPE_CHECKING:
    import pyarrow as pa

WARM_UP: Final = {"spark": 14, "sail": 6}
REPEATS: Final = {"spark": 16, "sail": 30}
GOAL: Final = {"spark": 0.6, "sail": 1.0}
_JOB: Final = "flights"


def measure(against: Path | None = None, engines: Sequence[str] = ("spark", "sail")) -> list[Claim]:
    """A claim for each engine."""
    return [_measure(engine, against) for engine in engines]


def _measure(engine: str, against: Path | None) -> Claim:
    warm_up, days = WARM_UP[engine], WARM_UP[engine] + REPEATS[engine]
    with workplace() as place, ExitStack() as sides:
        ours = sides.enter_context(Side(OURS, place / "ours", engine, "--days", str(days)))
        one_by_one = () if against else ("--concurrent-stages", "1")
        other = sides.enter_context(Side(against or OURS, place / "other", engine, "--days", str(days), *one_by_one))
        for _ in range(days):
            ours.run_epoch(_JOB)
            other.run_epoch(_JOB)
        same = _same(ours.folder, other.folder)
    return at_most(
        f"flights_epoch_on_{engine}{'' if against else '_side_by_side'}",
        ours.of(_JOB, "seconds", warm_up), other.of(_JOB, "seconds", warm_up), goal=GOAL[engine],
        details={
            "same_results": same,
            "processor_ratio": round(ours.median(_JOB, "processor", warm_up) / other.median(_JOB, "processor", warm_up), 3),
            "ours": _about(ours, warm_up), "other": _about(other, warm_up),
        },
    )  # fmt: skip


def _about(side: Side, warm_up: int) -> dict[str, Any]:
    return {
        **{name: Spread.of(side.of(_JOB, name, warm_up)).__dict__ for name in ("seconds", "processor")},
        "jobs": side.median(_JOB, "jobs", warm_up),
        "rows": side.median(_JOB, "rows", warm_up),
        "stages": medians([epoch["stages"] for epoch in side.epochs[_JOB][warm_up:]]),
    }


def _same(one: Path, other: Path) -> bool:
    """Whether all tables of both hold the same rows."""
    names, others = ({path.name for path in (folder / "flights/tables").iterdir()} for folder in (one, other))
    return names == others and all(
        _rows(one / "flights/tables" / name) == _rows(other / "flights/tables" / name) for name in names
    )


def _rows(table: Path) -> list[str]:
    """A table's rows; of fractions twelve digits, since the last ones are those of the order in which they were added up."""
    rows: pa.Table = DeltaTable(str(table)).to_pyarrow_table()
    return sorted(str([_told(row[name]) for name in sorted(row)]) for row in rows.to_pylist())


def _told(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else repr(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="a checkout of the code to compare with")
    parser.add_argument("--engine", choices=("spark", "sail"), action="append", help="by default both")
    parser.add_argument("--warm-up", type=int, help="epochs of each side that are not measured")
    parser.add_argument("--repeats", type=int, help="epochs of each side that are")
    arguments = parser.parse_args()
    for figure, given in ((WARM_UP, arguments.warm_up), (REPEATS, arguments.repeats)):
        figure.update(dict.fromkeys(figure, given) if given else {})
    for claim in measure(arguments.against, arguments.engine or ("spark", "sail")):
        claim.report()
