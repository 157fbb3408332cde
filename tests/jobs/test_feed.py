from __future__ import annotations

import csv
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from jobs import feed

if TYPE_CHECKING:
    from pathlib import Path


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def columns(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    feed.write_reference(folder)
    return folder


def test_a_day_is_one_file_with_the_columns_of_the_schema(tmp_path: Path) -> None:
    assert feed.drop_days(tmp_path / "landing", date(2013, 1, 1), 2) == [
        tmp_path / "landing" / "flights-2013-01-01.csv",
        tmp_path / "landing" / "flights-2013-01-02.csv",
    ]
    flights = rows(tmp_path / "landing" / "flights-2013-01-01.csv")
    assert len(flights) == 842
    assert list(flights[0]) == columns(feed.FLIGHTS_SCHEMA)
    assert flights[0]["sched_dep"] == "2013-01-01T10:15:00Z"
    assert (flights[0]["carrier"], flights[0]["flight"], flights[0]["dep_delay"]) == ("UA", "1545", "2")


def test_every_observation_is_reported_once_and_every_29th_of_an_airport_late(tmp_path: Path, reference: Path) -> None:
    files = feed.drop_weather(tmp_path, date(2013, 1, 1), 365)
    assert feed.drop_weather(tmp_path, date(2013, 1, 1), 365) == []
    assert [file.stat().st_mtime for file in files] == sorted(file.stat().st_mtime for file in files)
    found = [row for file in files for row in rows(file)]
    assert list(found[0]) == columns(feed.REPORTS_SCHEMA)
    moments = [row["reported"] for row in found]
    assert moments == sorted(moments), "reports come in the order in which they were made"
    observed = pq.read_table(reference / "weather.parquet", columns=["origin", "time_hour"])
    hours = [f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in observed["time_hour"].to_pylist()]
    assert sorted((row["origin"], row["time_hour"]) for row in found) == sorted(
        zip(observed["origin"].to_pylist(), hours, strict=True)
    )
    late = [row for row in found if row["reported"] != row["time_hour"]]
    assert len(late) == pytest.approx(len(found) / 29, rel=0.05)


def test_a_day_already_there_is_not_written_again(tmp_path: Path) -> None:
    (file,) = feed.drop_days(tmp_path, date(2013, 1, 1), 1)
    before = file.stat()
    assert feed.drop_days(tmp_path, date(2013, 1, 1), 2) == [tmp_path / "flights-2013-01-02.csv"]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_files_do_not_depend_on_when_they_are_dropped_and_are_in_order(tmp_path: Path) -> None:
    feed.drop_days(tmp_path / "a", date(2013, 1, 9), 3)
    for day in (11, 10, 9):
        feed.drop_days(tmp_path / "b", date(2013, 1, day), 1)
    files = sorted((tmp_path / "a").iterdir())
    assert [file.stat().st_mtime for file in files] == sorted({file.stat().st_mtime for file in files})
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
        assert file.stat().st_mtime == (tmp_path / "b" / file.name).stat().st_mtime


def test_missing_values_are_empty(tmp_path: Path) -> None:
    feed.drop_days(tmp_path, date(2013, 1, 1), 7)
    flights = [row for file in sorted(tmp_path.iterdir()) for row in rows(file)]
    assert not any(value == "NA" for row in flights for value in row.values())
    assert any(row["dep_time"] == "" == row["tailnum"] for row in flights)
    assert all(row["sched_dep"] for row in flights)


def test_an_unfinished_day_is_not_to_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_full(*_: object) -> str:
        assert [file.name[0] for file in tmp_path.iterdir()] == ["."]
        raise OSError("no space left on device")

    monkeypatch.setattr(feed, "_scheduled_departure", disk_full)
    with pytest.raises(OSError, match="no space left"):
        feed.drop_days(tmp_path, date(2013, 1, 1), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("day", "hours_behind"), [(9, 5), (10, 4)])
def test_event_times_follow_the_clock_change(tmp_path: Path, day: int, hours_behind: int) -> None:
    (file,) = feed.drop_days(tmp_path, date(2013, 3, day), 1)
    for row in rows(file):
        local = datetime(2013, 3, day, int(row["hour"]), int(row["minute"]), tzinfo=UTC)
        assert (datetime.fromisoformat(row["sched_dep"]) - local).total_seconds() == hours_behind * 3600


def test_the_whole_year(tmp_path: Path) -> None:
    feed.drop_days(tmp_path, date(2013, 1, 1), 365)
    count, last, keys = 0, "", set()
    for file in sorted(tmp_path.iterdir()):
        flights = rows(file)
        times = [row["sched_dep"] for row in flights]
        assert min(times) > last, "no day reaches into the next"
        assert all(row["sched_dep"][:13] == row["time_hour"][:13] for row in flights), (
            "our event time and the package's hour agree"
        )
        keys.update((row["sched_dep"], row["carrier"], row["flight"]) for row in flights)
        count, last = count + len(flights), max(times)
    assert count == len(keys) == 336_776


def test_days_outside_2013_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no flights of 2014-01-01"):
        feed.drop_days(tmp_path, date(2013, 12, 31), 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "schema", "key", "count"),
    [
        ("planes", feed.PLANES_SCHEMA, "tailnum", 3_322),
        ("airlines", feed.AIRLINES_SCHEMA, "carrier", 16),
        ("airports", feed.AIRPORTS_SCHEMA, "faa", 1_458),
    ],
)
def test_reference_tables(reference: Path, table: str, schema: str, key: str, count: int) -> None:
    found = rows(reference / f"{table}.csv")
    assert list(found[0]) == columns(schema)
    assert len(found) == len({row[key] for row in found}) == count
    assert not any(value == "NA" for row in found for value in row.values())


def test_weather_is_keyed_by_airport_and_hour(reference: Path) -> None:
    weather = pq.read_table(reference / "weather.parquet")
    assert weather.column_names == columns(feed.WEATHER_SCHEMA)
    assert str(weather.schema.field("time_hour").type) == "timestamp[us, tz=UTC]"
    assert weather.num_rows == weather.group_by(["origin", "time_hour"]).aggregate([]).num_rows == 26_115
    assert weather.group_by(["origin", "year", "month", "day", "hour"]).aggregate([]).num_rows == 26_112, "the clock change"
    assert weather["wind_gust"].null_count == 20_778


def test_reference_already_there_is_left_alone(reference: Path) -> None:
    assert feed.write_reference(reference) == []


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed.main(["--landing", str(tmp_path / "l"), "--reference", str(tmp_path / "r"), "--from", "2013-02-27", "--days", "3"])
    names = ["flights-2013-02-27.csv", "flights-2013-02-28.csv", "flights-2013-03-01.csv"]
    assert capsys.readouterr().out.split() == [str(tmp_path / "l" / name) for name in names]
    assert sorted(file.name for file in (tmp_path / "r").iterdir()) == [
        "airlines.csv",
        "airports.csv",
        "planes.csv",
        "weather.parquet",
    ]
