"""A row whose event time is ahead of the clock does not make all others late unseen."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError
from tests.engines import SAIL

PAST, FAR = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
SCHEMA = "v long, t timestamp"


def hourly(root: Path, source: Any, ahead: str | None = "1 day") -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = pipeline.source("rows", source, event_time="t", event_time_ahead=ahead)
    rows.to_table("all_rows")
    rows.window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="hourly").to_table("hours")
    return pipeline


def values(pipeline: do.Pipeline) -> list[int]:
    return sorted(row.v for row in pipeline.read("all_rows").collect())


@pytest.mark.sail
def test_a_row_too_far_ahead_fails_the_epoch_and_may_be_allowed(tmp_path: Path) -> None:
    source = do.MemorySource([[(1, PAST), (2, FAR)]], schema=SCHEMA)
    with pytest.raises(BadInputError, match=r"2999-01-01T00:00:00Z, more than 1 day ahead of the clock") as refused:
        hourly(tmp_path, source).run_epoch()
    assert "event_time_ahead=" in refused.value.remedy
    allowed = hourly(tmp_path, source, ahead="400000 days")
    allowed.run_epoch()
    assert values(allowed) == [1, 2]


@pytest.mark.sail
def test_what_a_footer_tells_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"v": [1, 2], "t": [PAST, FAR]}), tmp_path / "in/0.parquet")
    with pytest.raises(BadInputError, match="ahead of the clock"):
        hourly(tmp_path / "root", do.FileSource(str(tmp_path / "in/*.parquet"))).run_epoch()


@pytest.mark.sail
def test_it_is_set_aside_where_corrupt_records_are(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.csv").write_text("v,t\n1,2024-01-01 12:00:00\nx,2024-01-01 12:00:00\n2,2999-01-01 00:00:00\n")
    pipeline = hourly(tmp_path / "root", do.FileSource(str(tmp_path / "in/*.csv"), schema=SCHEMA, corrupt="reject"))
    assert pipeline.run_epoch().rejected_rows == {"rows": 2}
    (tmp_path / "in/1.csv").write_text("v,t\n3,2024-01-01 13:30:00\n")
    assert pipeline.run_epoch().late_rows.get("hourly", 0) == 0
    assert values(pipeline) == [1, 3]
    (early,) = (row for row in pipeline.read("rows_rejects").collect() if row.file is None)
    assert early.reason == "the event time is more than 1 day ahead of the clock"
    assert '"v":2' in early.record.replace(" ", "")


@pytest.mark.sail
def test_it_is_told_where_nothing_is_said_about_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = do.MemorySource([[(1, PAST)], [(2, FAR)], [(3, FAR)]], schema=SCHEMA)
    with caplog.at_level(logging.WARNING):
        hourly(tmp_path, source, ahead=None).run_until_caught_up()
    told = [record.getMessage() for record in caplog.records if "ahead of the clock" in record.getMessage()]
    assert len(told) == 1
    assert "2999-01-01T00:00:00Z" in told[0]


@pytest.mark.parametrize(
    ("ahead", "message"), [("soon", "the event_time_ahead: "), ("-1 day", "is no duration"), (60, "no unit")]
)
def test_mistakes(ahead: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        hourly(Path("unused"), do.MemorySource([], schema=SCHEMA), ahead=ahead)


def test_a_source_without_event_time_has_none_ahead() -> None:
    with pytest.raises(PipelineError, match="no row of it is ever ahead"):
        do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA), event_time_ahead="1 day")
