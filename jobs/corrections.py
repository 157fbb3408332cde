"""What the airlines correct: delays that are revised and flights that are cancelled two days later, and tables that follow.

The data do not say what was corrected, so it is made up from their rows (:func:`drop_corrections`): of a day's flights every
eleventh number has its delays revised and every 53rd is cancelled after all. A correction is a row with the flight's key and a
higher ``revision``, so it counts whether it comes with its flight or days later, and coming twice it counts once.
``current_flights``, ``carrier_delays``, ``worst_flights`` and ``cancellations`` are after every epoch what a full computation
over the flights as they are known then would give.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import dagster_operators as do
from jobs.feed import FLIGHTS_SCHEMA, drop_days

LATER = timedelta(days=2)
"""How long after its day a flight is corrected."""

PLACES = 10
"""How many of a day's flights are in ``worst_flights``."""

KEY = ("sched_dep", "carrier", "flight")
CORRECTIONS_SCHEMA = (
    "sched_dep TIMESTAMP, carrier STRING, flight INT, origin STRING, dest STRING, dep_delay INT, arr_delay INT, "
    "cancelled BOOLEAN, revision INT"
)


def drop_corrections(landing: Path, corrections: Path, first: date, days: int) -> list[Path]:
    """Drops the corrections that come on some days, one file a day, made from the flights of two days before.

    Args:
        landing: Where :func:`jobs.feed.drop_days` put the flights; a day that is not there has no corrections.
        corrections: The folder that gets them; made if it is not there.
        first: The first day on which corrections come.
        days: How many days from then on.

    Returns:
        The files written now, in order; one that is already there is left alone.
    """
    corrections.mkdir(parents=True, exist_ok=True)
    written = []
    for day in (first + timedelta(days=offset) for offset in range(days)):
        flights, file = landing / f"flights-{day - LATER}.csv", corrections / f"corrections-{day}.csv"
        if flights.exists() and not file.exists():
            hidden = file.with_name(f".{file.name}.tmp")
            _write(flights, hidden)
            modified = datetime(day.year, day.month, day.day).timestamp()  # noqa: DTZ001 - only their order matters
            os.utime(hidden, (modified, modified))
            hidden.replace(file)
            written.append(file)
    return written


def _write(flights: Path, file: Path) -> None:
    columns = [column.split()[0] for column in CORRECTIONS_SCHEMA.split(", ")]
    with flights.open(encoding="utf-8", newline="") as opened, file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in csv.DictReader(opened):
            number = int(row["flight"])
            if row["dep_delay"] and number % 53 == 0:
                writer.writerow({**row, "dep_delay": "", "arr_delay": "", "cancelled": "true", "revision": 1})
            elif row["dep_delay"] and number % 11 == 0:
                more = number % 7 * 20 - 30
                revised = {name: int(row[name]) + more for name in ("dep_delay", "arr_delay") if row[name]}
                writer.writerow({**row, **revised, "cancelled": "false", "revision": 1})


def build(folder: Path, *, files_per_epoch: int | None = 1) -> do.Pipeline:
    """The corrections pipeline below a folder: input in ``landing`` and ``corrections``, tables in ``flight_corrections``.

    Args:
        folder: Where everything lies; the flights are those of :func:`jobs.flights.build`.
        files_per_epoch: How many files of each input an epoch takes; None for all there are.
    """
    pipeline = do.Pipeline("flight_corrections", root=str(folder / "flight_corrections"))
    columns = [column.split()[0] for column in CORRECTIONS_SCHEMA.split(", ")]
    landing = do.FileSource(str(folder / "landing"), format="csv", schema=FLIGHTS_SCHEMA, max_files=files_per_epoch)
    files = do.FileSource(str(folder / "corrections"), format="csv", schema=CORRECTIONS_SCHEMA, max_files=files_per_epoch)
    first = pipeline.source("flights_as_landed", landing).select(
        *columns[:-2], "dep_delay IS NULL AS cancelled", "0 AS revision", name="first_known"
    )
    known = (
        first.union(pipeline.source("corrections", files).select(*columns, name="corrected"), name="told")
        .to_changes(*KEY, order_by="revision", name="known")
        .with_columns(day="CAST(sched_dep - INTERVAL 5 HOURS AS DATE)", name="by_day")
    )
    flying = known.filter("NOT cancelled", name="not_cancelled")
    flying.latest(*KEY).to_table("current_flights", description="Flights that left, as they are known now")
    flying.key_by("carrier", "day").aggregate(
        departures="count(*)", mean_delay="avg(dep_delay)", late_departures="count_if(dep_delay > 15)", name="per_carrier"
    ).to_table("carrier_delays", description="Departures and delays per carrier and day, as they are known now")
    flying.key_by("day").top(PLACES, by=["dep_delay DESC", *KEY], rank="place", name="worst").to_table(
        "worst_flights", description=f"The {PLACES} longest departure delays of every day, as they are known now"
    )
    known.key_by("carrier").aggregate(flights="count(*)", cancelled="count_if(cancelled)", name="cancelled_flights").to_table(
        "cancellations", description="How many of a carrier's flights were cancelled, also days later"
    )
    return pipeline


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the flights and corrections of some days, those that are not there, and run the pipeline over them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("data"), help="where input and tables lie")
    parser.add_argument("--days", type=int, default=4, help="how many days of 2013, from 1 January")
    given = parser.parse_args(arguments)
    first = date(2013, 1, 1)
    drop_days(given.folder / "landing", first, given.days)
    drop_corrections(given.folder / "landing", given.folder / "corrections", first, given.days)
    pipeline = build(given.folder)
    pipeline.run_until_caught_up()
    for row in sorted(pipeline.read("cancellations").collect()):
        print(f"{row.carrier}: {row.cancelled} of {row.flights} flights cancelled")


if __name__ == "__main__":
    main()
