"""Previews show no column because its name was misspelt among those that are to be hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from tests.orchestration import demo


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"masked_columns": ["totl"]},
            r"masked_columns names the column 'totl', which is not there. To do: did you mean 'total'",
        ),
        ({"masked_columns": ["hourly.total"]}, "'hourly.total', which is not there. To do: did you mean .*'totals.total'"),
        ({"masked_columns": ["nothing.k"]}, "'nothing.k', which is not there"),
        ({"masked_columns": ["clean._change"]}, "'clean._change', which is not there"),
        (
            {"preview_rows": {"xx": 5}},
            r"preview_rows names the table 'xx', which is not there. To do: there are: clean, demo.clean",
        ),
        ({"preview_rows": {"other.clean": 5}}, "'other.clean', which is not there. To do: did you mean 'demo.clean'"),
    ],
)
def test_what_is_not_there_is_refused(folder: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        do.build_definitions(demo.pipeline(folder), **settings)


def test_what_is_there_or_only_the_data_tell_is_taken(folder: Path, tmp_path: Path) -> None:
    other = do.Pipeline("other", root=str(tmp_path / "other"))
    rows = other.source("lines", do.FileSource("in", format="json", schema="email string", corrupt="reject"))
    rows.to_table("people")
    masked = ["total", "totals.k", "window_start", "email", "people.email", "lines_rejects.record"]
    do.build_definitions(demo.pipeline(folder), other, masked_columns=masked, preview_rows={"demo.clean": 1, "lines_rejects": 0})
    other.source("unknown", do.FileSource("more", format="parquet")).to_table("loaded")
    do.build_definitions(other, masked_columns=["loaded.phone", "phone"])
    with pytest.raises(PipelineError, match=r"did you mean 'people.email'"):
        do.build_definitions(other, masked_columns=["people.emial"])
