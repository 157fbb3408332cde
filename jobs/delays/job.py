"""The dataflow over the feed of the flights, as a pipeline.

``python -m jobs.delays.job --folder data --days 3`` drops some days of flights and runs it; the messages that the display in C
sends are printed at the end.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import dagster_operators as do
from jobs.feed import FLIGHTS_SCHEMA, drop_days

HERE = Path(__file__).parent
FILES = ("dataflow.yml", "level.py", "alarm.py")


def build(folder: Path, *, files_per_epoch: int | None = 1) -> do.Pipeline:
    """The pipeline below a folder: input in ``landing``, the dataflow with its library in ``dataflow``, tables in ``delays``.

    Args:
        folder: Where everything lies.
        files_per_epoch: How many daily files an epoch takes; None for all there are.
    """
    dataflow = folder / "dataflow"
    dataflow.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(HERE / name, dataflow / name)
    build_display(dataflow / "libdisplay.so")
    landing = do.FileSource(str(folder / "landing"), format="csv", schema=FLIGHTS_SCHEMA, max_files=files_per_epoch)
    sources = do.Sources()
    sources.add("landed_flights", landing, event_time="sched_dep", lateness="1 hour")
    return do.Pipeline.from_yaml(dataflow / "dataflow.yml", name="delays", root=str(folder / "delays"), sources=sources)


def build_display(library: Path) -> None:
    """Build the operator in C, unless it was built; its compiler is the machine's."""
    if not library.exists():
        sources = [str(HERE / name) for name in ("display.c", "operator_api.c")]
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), *sources], check=True)  # noqa: S603, S607 - the compiler, wherever it is


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job over some days."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("data"))
    parser.add_argument("--days", type=int, default=3)
    given = parser.parse_args(arguments)
    drop_days(given.folder / "landing", date(2013, 1, 1), given.days)
    pipeline = build(given.folder)
    pipeline.run_until_caught_up()
    for row in pipeline.read("display/shown").collect():
        print(row.time, bytes(row.value).decode())


if __name__ == "__main__":
    main()
