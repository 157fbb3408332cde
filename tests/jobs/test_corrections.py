"""The corrections of flights: every table after each day, against a plain computation over the flights as known by then."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

import pytest

from jobs.corrections import build, drop_corrections, main
from jobs.feed import drop_days
from tests.crash.killed import run_and_kill

FIRST = date(2013, 1, 1)
DAYS = 4


def known(folder):
    """The flights by key, the highest revision of each."""
    found = {}
    for file in [*sorted((folder / "landing").glob("*.csv")), *sorted((folder / "corrections").glob("*.csv"))]:
        for row in csv.DictReader(file.open(encoding="utf-8")):
            key = (datetime.fromisoformat(row["sched_dep"]), row["carrier"], int(row["flight"]))
            found[key] = int(row["dep_delay"]) if row["dep_delay"] else None
    return found


def check(folder, pipeline):
    flights = known(folder)
    flying = {key: delay for key, delay in flights.items() if delay is not None}
    days, groups, carriers = defaultdict(list), defaultdict(list), defaultdict(list)
    for key, delay in flights.items():
        carriers[key[1]].append(delay is None)
    for key, delay in flying.items():
        day = (key[0] - timedelta(hours=5)).date()
        days[day].append((-delay, *key))
        groups[key[1], day].append(delay)

    def rows(table):
        return pipeline.read(table).collect()

    def key_of(row):
        return (row.sched_dep.replace(tzinfo=UTC), row.carrier, row.flight)

    assert {key_of(row): row.dep_delay for row in rows("current_flights")} == flying
    assert {(row.carrier, row.day): (row.departures, row.late_departures) for row in rows("carrier_delays")} == {
        group: (len(delays), sum(delay > 15 for delay in delays)) for group, delays in groups.items()
    }
    means = {(row.carrier, row.day): row.mean_delay for row in rows("carrier_delays")}
    assert means == pytest.approx({group: sum(delays) / len(delays) for group, delays in groups.items()})
    assert {(row.day, row.place): (-row.dep_delay, *key_of(row)) for row in rows("worst_flights")} == {
        (day, place): flight for day, all_of in days.items() for place, flight in enumerate(sorted(all_of)[:10], 1)
    }
    assert {row.carrier: (row.flights, row.cancelled) for row in rows("cancellations")} == {
        carrier: (len(all_of), sum(all_of)) for carrier, all_of in carriers.items()
    }


def follows(folder, days=DAYS):
    landing, corrections = folder / "landing", folder / "corrections"
    corrections.mkdir()
    corrected = 0
    for day in (FIRST + timedelta(days=offset) for offset in range(days)):
        drop_days(landing, day, 1)
        before = known(folder)
        assert len(drop_corrections(landing, corrections, day, 1)) == (day >= FIRST + timedelta(days=2))
        after = known(folder)
        assert before.keys() == after.keys()
        corrected += sum(before[key] != after[key] for key in after)
        if day == FIRST + timedelta(days=2):  # the first corrections: a process dies between the commits of two tables
            call = f"build(module.Path({str(folder)!r})).run_until_caught_up()"
            run_and_kill("jobs.corrections", [call], ["before:commit_table:2"], folder)
            assert len(build(folder).history()) == 2
        pipeline = build(folder)  # anew each day, as after a restart
        pipeline.run_until_caught_up()
        check(folder, pipeline)
    assert corrected > 40 * (days - 2)


def test_tables_follow_corrections_days_later(tmp_path, monkeypatch, sail):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    follows(tmp_path)


def test_from_the_command_line_it_makes_its_input_and_runs(tmp_path, monkeypatch, sail, capsys):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    main(["--folder", str(tmp_path), "--days", "1"])
    check(tmp_path, build(tmp_path))
    assert "UA: 0 of 165 flights cancelled" in capsys.readouterr().out


def test_a_correction_counts_whenever_it_comes(tmp_path, monkeypatch, sail):
    """Before its flight, with it, and twice."""
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    landing, corrections = tmp_path / "landing", tmp_path / "corrections"
    drop_days(tmp_path / "all", FIRST, 1)
    landing.mkdir()
    (file,) = drop_corrections(tmp_path / "all", corrections, FIRST + timedelta(days=2), 1)
    pipeline = build(tmp_path)
    pipeline.run_until_caught_up()
    (corrections / "again.csv").write_bytes(file.read_bytes())
    drop_days(landing, FIRST, 1)
    pipeline.run_until_caught_up()
    check(tmp_path, pipeline)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.spark
def test_tables_follow_on_spark(tmp_path, monkeypatch, spark):
    """To the first day with corrections; a day takes ten seconds."""
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "local[2]")
    follows(tmp_path, days=3)
