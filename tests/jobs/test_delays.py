"""The dataflow over the flights: its operators, and what it says of a day, against a plain computation."""

from __future__ import annotations

import csv
import shutil
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

import pytest

from jobs.delays.job import HERE, build, build_display
from jobs.feed import drop_days

pytest.importorskip("cffi")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def moment(text):
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def alarms(file):
    """The alarms of a daily file: levels every quarter of an hour from the first flight on."""
    with file.open() as lines:
        rows = [(moment(row["sched_dep"]), row["origin"], row["dep_delay"]) for row in csv.DictReader(lines)]
    flights = defaultdict(list)
    for time, origin, delay in rows:
        if delay:
            flights[origin].append((time, int(delay)))
    # Rows of the last hour wait for the next day's: so late may rows of the job's source be.
    first, last = min(row[0] for row in rows), max(row[0] for row in rows) - timedelta(hours=1)
    on, found, tick = set(), [], first + timedelta(minutes=15)
    while tick <= last:
        for origin in sorted(flights):
            recent = [delay for time, delay in flights[origin] if tick - timedelta(hours=1) < time < tick]
            mean = sum(recent) / len(recent) if recent else None
            if mean is not None and ((origin not in on and mean > 30 and len(recent) >= 5) or (origin in on and mean < 15)):
                found.append(f"{origin} {'off' if origin in on else 'on'} {mean:.0f}")
                on ^= {origin}
        tick += timedelta(minutes=15)
    return found


@needs_compiler
def test_the_file_is_right(tmp_path):
    for name in ("dataflow.yml", "level.py", "alarm.py"):
        shutil.copy(HERE / name, tmp_path / name)
    build_display(tmp_path / "libdisplay.so")
    pipeline = build(tmp_path)
    assert list(pipeline.tables) == [
        "events", "monitor__level__level", "monitor__alarm__alarm", "monitor__alarm__line", "display__shown"
    ]  # fmt: skip


@needs_compiler
@pytest.mark.slow
def test_a_day_has_the_alarms_of_a_plain_computation(sail, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    (file,) = drop_days(tmp_path / "landing", date(2013, 1, 2), 1)
    pipeline = build(tmp_path)
    pipeline.run_until_caught_up()
    found = [row.value[0] for row in pipeline.read("monitor/alarm/alarm").collect()]
    assert found == alarms(file)
    assert len(found) > 1
    shown = [bytes(row.value).decode() for row in pipeline.read("display/shown").collect()]
    assert shown == [f"{number} {text} *{sum(text.encode()) % 256:02X}" for number, text in enumerate(found, 1)]
